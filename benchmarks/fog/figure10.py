"""Figure 10 of the paper: road traffic in the fog or in the cloud, by the rate of the sensors.

D = 100 (F - C) / F, where F and C are the readings that a job counts a second in the fog (cleaning,
forwarding and local statistics at the edges) and in the cloud (everything at D): ``d3`` of the local
statistics, ``d4`` of the global ones.  The graph is :data:`benchmarks.placement.graphs.ROAD_TRAFFIC`.
``chosen`` is the better of both by the cost model, from what SpecK measured at that rate in the cloud over
100 Mbit/s, and ``speck`` the placement that the policy finds (a site for each job).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.common import Figure
from benchmarks.placement.gates import (
    CALIBRATED,
    MEASURED,
    PREDICTED_PROFILES,
    Bench,
    Run,
    bench,
    predicted_objective,
)
from benchmarks.placement.graphs import CLOUD, EDGES, ROAD_TRAFFIC
from benchmarks.wan.servers import Place

FOG, ALL_CLOUD = "AAABBBD", "DDDDDDD"
RATES = (100, 500, 2000)  # messages/s a site
EDGE_CORES, CLOUD_CORES = 0.5, 1.0
SAME = 3.0  # percent, within which fog and cloud count as equally good
_FILLING = 5.0  # s, from a change of rate and links to a measurement
_BACKLOG, _FRESH = 60.0, 1.0  # s: the longest wait for results to be so young

Row = dict[str, Any]


def difference(fog: float, cloud: float) -> float:
    """D = 100 (F - C) / F, in percent."""
    return 100 * (fog - cloud) / fog if fog else float("nan")


def better(fog: Run, cloud: Run) -> str:
    """The better of two measured runs: by the readings counted, or, if these are equal, by their age."""
    found = difference(fog["measured"]["rate"], cloud["measured"]["rate"])
    if abs(found) > SAME:
        return "fog" if found > 0 else "cloud"
    return "fog" if fog["measured"]["age"] <= cloud["measured"]["age"] else "cloud"


def measure(
    runs: int, seconds: float, rates: Sequence[float] = RATES, profiles: Sequence[str] = PREDICTED_PROFILES
) -> Iterator[Row]:
    """All rows, one for each rate and profile."""
    places = {site: Place(cores=EDGE_CORES) for site in EDGES}
    places[CLOUD] = Place(cores=CLOUD_CORES, tier="cloud")
    with bench(ROAD_TRAFFIC, places) as running:
        for rate in rates:
            _deploy(running, ALL_CLOUD, CALIBRATED)
            running.set_rate(rate)
            running.inputs = running.platform.profile(MEASURED)
            for profile in profiles:
                yield _cell(running, rate, profile, runs, seconds)


def _cell(bench: Bench, rate: float, profile: str, runs: int, seconds: float) -> Row:
    pairs = [
        (_run(bench, FOG, rate, profile, seconds), _run(bench, ALL_CLOUD, rate, profile, seconds))
        for _ in range(runs)
    ]
    fog, cloud = pairs[-1]
    objective = {"fog": predicted_objective(fog, cloud), "cloud": predicted_objective(cloud, cloud)}
    own = bench.platform.placed(bench.composition, {}, bench.inputs)
    row: Row = {
        "figure": 10,
        "profile": profile,
        "rate": rate,
        "chosen": min(objective, key=lambda each: objective[each]),
        "better": [better(*pair) for pair in pairs],
        "speck": "".join(own.model.sites(own.advice.placement)[job] for job in ROAD_TRAFFIC.jobs),
        "objective": objective | {"speck": own.advice.after.objective},
        "runs": [{"fog": one["measured"], "cloud": other["measured"]} for one, other in pairs],
    }
    for name, results in (("d3", ROAD_TRAFFIC.results[:-1]), ("d4", ROAD_TRAFFIC.results[-1:])):
        found = (difference(_counted(one, results), _counted(other, results)) for one, other in pairs)
        row |= dict(Figure.of(found).named(name))
    return row


def _run(bench: Bench, placement: str, rate: float, profile: str, seconds: float) -> Run:
    """A run at a rate and over links that may leave a backlog, which no move would drain."""
    _deploy(bench, placement, profile)
    bench.set_rate(rate)
    bench.set_links(profile)
    time.sleep(_FILLING)
    placed = bench.platform.placed(bench.composition, bench.graph.sites(placement), bench.inputs)
    return bench.measured(placed, 0.0, placement, profile, seconds)


def _deploy(bench: Bench, placement: str, profile: str) -> None:
    """Move the jobs at the least rate over good links, once the backlog of the former run is worked off.

    The brokers of the topics between them are those that the policy chooses for the links of ``profile``.
    """
    bench.set_rate(RATES[0])
    bench.set_links(CALIBRATED)
    deadline = time.monotonic() + _BACKLOG
    while time.monotonic() < deadline:
        bench.reader.taken()
        time.sleep(2)
        found = [each["p50"] for each in bench.reader.taken().values() if each["messages"]]
        if len(found) == len(bench.graph.results) and max(found) < _FRESH:
            break
    bench.deploy(placement, CALIBRATED, chosen_for=profile)


def _counted(run: Run, results: Sequence[str]) -> float:
    rates: Mapping[str, float] = run["measured"]["rates"]
    return sum(rates.get(topic, 0.0) for topic in results)
