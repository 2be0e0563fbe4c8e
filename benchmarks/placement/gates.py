"""``python -m benchmarks.placement gates``: the cost model against real runs over the wide area rig.

Six graphs (:mod:`benchmarks.placement.graphs`) run on Flink at two edges of 0.3 cores and a cloud of one,
over three profiles of the edges' links, in several placements each.  The model was mended by the runs of
three of them (``--graphs fitted``); the others (``--graphs unseen``) show what it is worth elsewhere.

The jobs are measured by SpecK in the cloud at 100 Mbit/s, at two rates; from that the model predicts the
other runs: ``rate`` (messages/s that the results count), ``wan`` (bytes/s), ``p95`` (age of results, s),
``utilisation`` of each site that uses a tenth of its cores or more, and ``gap``, the standstill of a move
(s).  ``qerror_*`` are medians, with ``_p90``; ``spearman`` (median) and ``top1_loss`` (greatest) are of the
objective over the placements of a graph and profile.  Runs are appended to ``--out`` as JSON lines; those
that stand there are not repeated.

``failed`` are the scores beyond their bounds.  ``not_judged`` are those that runs of this size cannot show:
with one placement of each graph and profile there is no order and no move, and the figures of runs under 10 s
are of too few messages.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.placement.graphs import CLOUD, EDGES, FITTED, GRAPHS, SITES, UNSEEN, Graph
from benchmarks.placement.scores import q_error, quantile, spearman, top_loss
from benchmarks.wan.__main__ import PROFILES
from benchmarks.wan.platform import Feed, Platform, Read, feed, read
from benchmarks.wan.servers import Place
from binders.flink.metrics.collector import FETCHED
from speck.coordinator.placing.placer import PlacementResult
from speck.core.job import Composition
from speck.local.wan.network import EmulatedLink, unavailable
from speck.observe.pace import FRESH, LEAST
from speck.placement.cost import PENALTY
from speck.placement.problem import Weights
from speck.placement.profile import Inputs
from speck_baselines.learned.records import described
from testbed.results import add_output_options, published

EDGE_CORES, CLOUD_CORES = 0.3, 1.0
PREDICTED_PROFILES = ("2 Mbit/160 ms", "25 Mbit/80 ms", "100 Mbit/20 ms")
CALIBRATED = "100 Mbit/20 ms"
QUANTITIES = ("rate", "wan", "p95", "utilisation", "gap")
# The greatest median, and the greatest 90th percentile (section "Validation gates" of the design).
BOUNDS = {
    "rate": (1.2, 1.5),
    "wan": (1.2, 1.5),
    "p95": (1.5, None),
    "utilisation": (1.25, 1.5),
    "gap": (1.5, None),
}
LEAST_SPEARMAN, MOST_LOSS = 0.9, 0.1
LEAST_SECONDS = 10.0  # s, of a run that is judged
COMPARED = ("qerror_gap", "spearman", "top1_loss")  # scores that need several placements of a cell
_BUSY = 0.1  # share of a site's cores, below which its utilisation is not judged
_LEAST_WAN = 1000.0  # bytes/s, below which traffic is not judged: heartbeats
# Time, s, for which jobs are measured at a rate.  The measured rate is the mean over the last FRESH seconds
# of the newest sample, which is up to LEAST + FETCHED seconds old.
MEASURED = FRESH + LEAST + FETCHED + 5.0
_SLOW = 35.0  # s, for which they are measured at half of the rate before
_WARMING = 4.0  # s at each site
_STEADY = 20.0  # s, the longest wait for a backlog to be worked off
_WINDOW = 3  # of the day, in which all readings fall

_SETS = {"all": GRAPHS, "fitted": FITTED, "unseen": UNSEEN}

Run = dict[str, Any]


def links(profile: str) -> dict[str, EmulatedLink]:
    """The links of the sites: bounded at the edges, and the delay of the profile between each two."""
    bandwidth, round_trip = PROFILES[profile]
    return {site: EmulatedLink.of(None if site == CLOUD else bandwidth, round_trip) for site in SITES}


def places() -> dict[str, Place]:
    """The sites' cores and engines."""
    return {site: Place(cores=EDGE_CORES) for site in EDGES} | {CLOUD: Place(cores=CLOUD_CORES, tier="cloud")}


# --- running


@dataclass
class Bench:
    """A platform with one graph deployed and fed."""

    platform: Platform
    graph: Graph
    composition: Composition
    feeds: Sequence[Feed]
    reader: Read
    idle: Mapping[str, float]  # cores of each site without jobs
    inputs: Inputs | None = None

    def calibrate(self) -> None:
        """Have SpecK measure the jobs in the cloud, at half of the rate and at the rate.

        Raises :class:`RuntimeError` for jobs without a measured cost.
        """
        self.deploy(self.graph.placements[0], CALIBRATED)
        self.set_rate(0.5 * self.graph.rate)
        self.platform.profile(_SLOW)
        self.set_rate(self.graph.rate)
        self.inputs = self.platform.profile(MEASURED)
        if missing := self.platform.unmeasured():
            raise RuntimeError(f"jobs without a measured cost: {missing}")

    def deploy(self, placement: str, profile: str, chosen_for: str = "") -> tuple[PlacementResult, float]:
        """Move the jobs; returns the placement with its prediction, and the gap in the results, s.

        The brokers of the topics are chosen for the links of a profile, ``chosen_for``, or of ``profile``.
        """
        self.set_links(chosen_for or profile)
        placed = self.platform.placed(self.composition, self.graph.sites(placement), self.inputs)
        self.set_links(profile)
        self.reader.taken()
        self.platform.apply(placed.composition)
        self.composition = placed.composition
        return placed, self._await_steady()

    def run(self, placement: str, profile: str, seconds: float) -> Run:
        """One run: its prediction beside its measurement."""
        placed, gap = self.deploy(placement, profile)
        return self.measured(placed, gap, placement, profile, seconds)

    def measured(
        self, placed: PlacementResult, gap: float, placement: str, profile: str, seconds: float
    ) -> Run:
        """The run of a placement that is deployed."""
        before = self.platform.counters()
        self.reader.taken()
        time.sleep(seconds)
        results, counted = self.reader.taken(), self.platform.counters().since(before)
        return {
            "graph": self.graph.name,
            "profile": profile,
            "placement": placement,
            "seconds": seconds,
            "homes": placed.model.homes_by_name(placed.advice.placement.homes),
            "moved": placed.advice.cost.jobs,
            "predicted": predicted(placed),
            "measured": measured(results, counted, self.graph, self.platform.servers.places)
            | {"gap": gap, "idle": dict(self.idle)},
            **described(placed.model.problem, placed.advice.placement),
        }

    def set_links(self, profile: str) -> None:
        """Give all links the quality of a profile."""
        for site, link in links(profile).items():
            self.platform.network.set_link(site, link)

    def set_rate(self, rate: float) -> None:
        """Change the rate of each source, messages/s."""
        for each in self.feeds:
            each.set_rate("sensors/1", rate)

    def _await_steady(self) -> float:
        """Wait until the results are as old in one second as in the one before; returns the longest gap."""
        gap, former, deadline = 0.0, 0.0, time.monotonic() + _STEADY
        time.sleep(2)
        while time.monotonic() < deadline:
            time.sleep(1)
            found = self.reader.taken()
            gap = max([gap, *(each["gap"] for each in found.values())])
            complete = [found[topic] for topic in self.graph.results if "p50" in found.get(topic, {})]
            age = sum(each["p50"] for each in complete)
            if len(complete) == len(self.graph.results) and q_error(age, former) < 1.2:
                break
            former = age
        return gap


def predicted(placed: PlacementResult) -> dict[str, Any]:
    """The figures of a placement that a run is compared with."""
    problem, figures = placed.model.problem, placed.advice.after
    sinks = [job.output is None or not problem.readers[job.output] for job in problem.jobs]
    rate = sum(into for into, sink in zip(problem.rates.into, sinks, strict=True) if sink)
    return {
        "rate": rate * min(1.0, figures.multiplier),
        "wan": figures.wan,
        "age": figures.age,
        "p95": figures.age_p95,
        "cores": {site.name: each.cores for site, each in zip(problem.sites, figures.sites, strict=True)},
        "gap": placed.advice.cost.standstill,
        "priced": figures.cores,
        "over": figures.over,
        "multiplier": min(figures.multiplier, 1e9),
    }


def measured(
    results: Mapping[str, Mapping[str, float]],
    counted: Mapping[str, Any],
    graph: Graph,
    sites: Mapping[str, Place],
) -> dict[str, Any]:
    """The same figures as they were."""
    found = [results.get(topic, {}) for topic in graph.results]
    ages = [each for each in found if "p95" in each]
    rates = {topic: each["readings"] / each["seconds"] for topic, each in results.items()}
    return {
        "rate": sum(rates.values()),
        "rates": rates,
        "wan": counted["wan"],
        "age": statistics.fmean(each["mean"] for each in ages) if ages else 0.0,
        "p50": max((each["p50"] for each in ages), default=0.0),
        "p95": max((each["p95"] for each in ages), default=0.0),
        "cores": {site: used / sites[site].cores for site, used in counted["cores"].items()},
        "brokers": counted["brokers"],
        "managers": counted["managers"],
        "up": counted["up"],
        "down": counted["down"],
    }


@contextmanager
def bench(graph: Graph, sites: Mapping[str, Place]) -> Iterator[Bench]:
    """A platform with a graph in the cloud, which is fed, and with engines that have run all of its jobs."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="speck-gates-")))
        platform = stack.enter_context(Platform(links(CALIBRATED), sites, folder))
        idle = idle_cores(platform)
        platform.servers.without_bounds()
        composition = platform.composition(graph.text, graph.name)
        composition = platform.placed(composition, graph.sites(graph.placements[0])).composition
        platform.apply(composition)
        # From here on: the first reading of a stream must be counted, since the later ones have differences.
        rates = {"sensors/1": graph.rate}
        feeds = [
            stack.enter_context(feed(platform.network, site, _WINDOW, graph.malformed, rates))
            for site in graph.sources
        ]
        reader = stack.enter_context(
            read(platform.network, CLOUD, _WINDOW, len(graph.sources), graph.results)
        )
        composition = _warm_up(platform, graph, composition)
        platform.servers.bound()
        yield Bench(platform, graph, composition, feeds, reader, idle)


def _warm_up(platform: Platform, graph: Graph, composition: Composition) -> Composition:
    """Run the graph at each site in turn, so that all classes are loaded and compiled."""
    for site in (*EDGES, CLOUD):
        composition = platform.placed(composition, dict.fromkeys(graph.jobs, site)).composition
        platform.apply(composition)
        time.sleep(_WARMING)
    return composition


def idle_cores(platform: Platform, seconds: float = 5.0) -> dict[str, float]:
    """The cores that the sites use without any job."""
    before = platform.counters()
    time.sleep(seconds)
    cores: dict[str, float] = platform.counters().since(before)["cores"]
    return cores


def runs_of(
    graph: Graph, profiles: Sequence[str], seconds: float, most: int, done: set[str]
) -> Iterator[Run]:
    """All runs of a graph that are not done, on a platform of its own."""
    chosen = graph.placements[:most]
    remaining = [
        (profile, each)
        for profile in profiles
        for each in chosen
        if key(graph.name, profile, each) not in done
    ]
    if not remaining:
        return
    with bench(graph, places()) as running:
        running.calibrate()
        for profile, placement in remaining:
            yield running.run(placement, profile, seconds)


# --- judging


def key(graph: str, profile: str, placement: str) -> str:
    """The identity of a run."""
    return f"{graph} {profile} {placement}"


def judge(runs: Sequence[Run]) -> dict[str, Any]:
    """The scores of all runs, those beyond their bounds, and those that these runs cannot show."""
    errors = {quantity: [each for run in runs for each in _errors(run, quantity)] for quantity in QUANTITIES}
    found: dict[str, Any] = {"runs": len(runs)}
    for quantity, values in errors.items():
        found[f"qerror_{quantity}"] = quantile(values, 0.5) if values else None
        found[f"qerror_{quantity}_p90"] = quantile(values, 0.9) if values else None
    cells = [_cell(each) for each in _by_cell(runs) if len(each) > 1]
    found["spearman"] = statistics.median(each[0] for each in cells) if cells else None
    found["spearman_least"] = min((each[0] for each in cells), default=None)
    found["top1_loss"] = max((each[1] for each in cells), default=None)
    unjudged = not_judged(runs)
    return found | {
        "failed": [each for each in failed(found) if each not in unjudged],
        "not_judged": unjudged,
    }


def not_judged(runs: Sequence[Run]) -> list[str]:
    """The names of the scores that runs of this number and length cannot show; none without runs."""
    if any(run.get("seconds", LEAST_SECONDS) < LEAST_SECONDS for run in runs):
        return [*_bounds(), "spearman"]
    alone = bool(runs) and all(len(each) == 1 for each in _by_cell(runs))
    return list(COMPARED) if alone else []


def failed(scores: Mapping[str, Any]) -> list[str]:
    """The names of the scores that are beyond their bounds, or missing."""
    beyond = [name for name, bound in _bounds().items() if scores[name] is None or scores[name] > bound]
    low = scores["spearman"] is None or scores["spearman"] < LEAST_SPEARMAN
    return [*beyond, *(["spearman"] if low else [])]


def _bounds() -> dict[str, float]:
    """The greatest value of each score but Spearman's coefficient, which has a least one."""
    bounds = {f"qerror_{name}": median for name, (median, _) in BOUNDS.items()}
    bounds |= {f"qerror_{name}_p90": p90 for name, (_, p90) in BOUNDS.items() if p90 is not None}
    return bounds | {"top1_loss": MOST_LOSS}


def _errors(run: Run, quantity: str) -> Iterator[float]:
    one, other = run["predicted"], run["measured"]
    if quantity == "utilisation":
        for site, used in other["cores"].items():
            if used >= _BUSY:
                yield q_error(one["cores"][site], used)
    elif quantity == "gap":
        if run["moved"]:
            yield q_error(one["gap"], other["gap"])
    elif quantity != "wan" or max(one["wan"], other["wan"]) > _LEAST_WAN:
        yield q_error(one[quantity], other[quantity])


def _by_cell(runs: Iterable[Run]) -> list[list[Run]]:
    found: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        found.setdefault((run["graph"], run["profile"]), []).append(run)
    return list(found.values())


def _cell(runs: Sequence[Run]) -> tuple[float, float]:
    """Spearman's coefficient and the loss of the best by prediction, over the placements of one cell."""
    reference = next((run for run in runs if set(run["placement"]) == {CLOUD}), runs[0])
    real = {run["placement"]: objective(run, reference) for run in runs}
    model = {run["placement"]: predicted_objective(run, reference) for run in runs}
    names = list(real)
    return spearman([model[each] for each in names], [real[each] for each in names]), top_loss(model, real)


def predicted_objective(run: Run, reference: Run) -> float:
    """The objective of a run by the cost model, relative to the prediction for another run."""
    now, base = run["predicted"], reference["predicted"]
    return _combined(now, base, now["priced"] / base["priced"], now["over"])


def objective(run: Run, reference: Run) -> float:
    """The same of measured figures.

    Cores are without those of the idle engines, as no placement saves them.
    """
    now = run["measured"]
    over: float = sum(max(0.0, used / 0.7 - 1) for used in now["cores"].values())
    bandwidth = PROFILES[run["profile"]][0]
    if bandwidth is not None:
        ends = (now[way][site] for way in ("up", "down") for site in EDGES)
        over += sum(max(0.0, 8 * each / (0.8 * bandwidth) - 1) for each in ends)
    return _combined(now, reference["measured"], _cores(run) / _cores(reference), over)


def _combined(now: Mapping[str, Any], base: Mapping[str, Any], cores: float, over: float) -> float:
    age, wan, weights = now["age"] / base["age"], now["wan"] / base["wan"], Weights()
    found: float = weights.latency * age + weights.wan * wan + weights.cores * cores + PENALTY * over
    return found


def _cores(run: Run) -> float:
    cores = {site: place.cores for site, place in places().items()}
    found = run["measured"]
    used: float = sum(share * cores[site] - found["idle"][site] for site, share in found["cores"].items())
    return max(0.01, used)


# --- the command


def load(path: Path) -> list[Run]:
    """The runs in a file; none if it does not exist."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def main(arguments: Sequence[str]) -> int:
    """Run and judge; 1 if a gate fails."""
    parser = argparse.ArgumentParser(prog="benchmarks.placement gates", description=__doc__)
    parser.add_argument("--only", choices=list(GRAPHS), action="append", help="a graph (all of --graphs)")
    parser.add_argument("--graphs", choices=list(_SETS), default="all", help="a set of graphs (all)")
    parser.add_argument(
        "--profile", choices=PREDICTED_PROFILES, action="append", help="a profile of links (all three)"
    )
    parser.add_argument(
        "--runs", type=int, default=6, help="placements of each graph and profile (default: 6)"
    )
    parser.add_argument("--seconds", type=float, default=12.0, help="length of a run, s (default: 12)")
    parser.add_argument("--out", type=Path, default=Path("gates.jsonl"), help="file of runs (gates.jsonl)")
    parser.add_argument("--judge", action="store_true", help="judge the runs in the file; run nothing")
    add_output_options(parser)
    options = parser.parse_args(arguments)
    if not options.judge and (reason := unavailable()):
        print(json.dumps({"skipped": reason}) if options.json else f"skipped: {reason}")
        return 0
    if not options.judge:
        _run(options)
    result = judge(load(options.out))
    if not published(options, "placement-gates", result):
        for name, value in result.items():
            print(f"{name}: {value}")
    return 1 if result["failed"] else 0


def _run(options: argparse.Namespace) -> None:
    done = {key(run["graph"], run["profile"], run["placement"]) for run in load(options.out)}
    for name in options.only or _SETS[options.graphs]:
        profiles = options.profile or PREDICTED_PROFILES
        for run in runs_of(GRAPHS[name], profiles, options.seconds, options.runs, done):
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(run) + "\n")
            print(_line(run), file=sys.stderr, flush=True)


def _line(run: Run) -> str:
    one, other = run["predicted"], run["measured"]
    pairs = ", ".join(
        f"{name} {one[name]:.4g} / {other[name]:.4g}" for name in ("rate", "wan", "age", "p95", "gap")
    )
    cores = ", ".join(
        f"{site} {one['cores'][site]:.2f} / {used:.2f}" for site, used in other["cores"].items()
    )
    return f"{run['graph']} {run['profile']} {run['placement']}: {pairs}, {cores} (predicted / measured)"
