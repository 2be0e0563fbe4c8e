"""Time to deploy, to modify and to delete a chain of pass-through jobs, side by side in one run."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.common import Figure
from benchmarks.deploy import picture
from benchmarks.deploy.chain import Chain, Place
from benchmarks.deploy.kinds import KINDS, Kind
from benchmarks.deploy.sites import Sites, sites_up
from benchmarks.deploy.ways import Way, seconds, speck_server
from testbed.results import add_output_options, published
from testbed.termination import run

ROUND_TRIPS = (0.0, 18.6)  # ms; the second is the paper's


@dataclass(frozen=True)
class Options:
    """``sizes`` of chains; ``modified`` numbers of jobs of the longest; ``runs`` of everything."""

    sizes: Sequence[int]
    modified: Sequence[int]
    runs: int
    sites: int
    heap: str


@dataclass
class Times:
    """Seconds of each run, by what was done: ``(way, action, jobs)``."""

    runs: dict[tuple[str, str, int], list[float]] = field(default_factory=dict)

    def add(self, way: str, action: str, jobs: int, taken: float) -> None:
        """Take down one run."""
        self.runs.setdefault((way, action, jobs), []).append(taken)
        print(f"{way} {action} {jobs}: {taken:.2f} s", file=sys.stderr, flush=True)

    def figure(self, way: str, action: str, jobs: int) -> Figure:
        """The median of the runs."""
        return Figure.of(self.runs[way, action, jobs])

    def ratio(self, over: tuple[str, str, int], under: tuple[str, str, int]) -> Figure:
        """Ratio of the two durations, round by round."""
        return Figure.of(a / b for a, b in zip(self.runs[over], self.runs[under], strict=True))


@dataclass(frozen=True)
class Bench:
    """One kind of engine at its sites, reached through one kind of link.

    ``engines`` are the addresses of the engines themselves, without the link.
    """

    kind: Kind
    places: Sequence[Place]
    engines: Sequence[str]
    options: Options
    times: Times

    def chain(self, length: int, modified: int = 0, version: int = 0) -> Chain:
        """A chain of this length."""
        return Chain(self.kind.program, self.places, length, modified, version)

    def quiet(self, jobs: int) -> None:
        """Wait until this number of jobs run, and nothing else is in progress."""
        self.kind.await_quiet(self.engines, jobs)

    def round(self, name: str, way: Way, length: int) -> None:
        """Deploy a chain, modify it when it is the longest, and delete it."""
        chain = self.chain(length)
        self.changed(name, "deploy", length, lambda: way.deploy(chain), length)
        if length == max(self.options.sizes):
            for version, count in enumerate(self.options.modified, 1):
                changed = self.chain(length, count, version)
                self.changed(name, "modify", count, lambda form=changed: way.modify(form), length)  # type: ignore[misc]
        self.times.add(name, "delete", length, seconds(lambda: self.gone(way, chain)))

    def changed(self, name: str, action: str, count: int, work: Callable[[], None], jobs: int) -> None:
        """Note how long it takes until the engines have accepted a change, and until all jobs run."""
        accepted = seconds(work)
        running = accepted + seconds(lambda: self.quiet(jobs))
        self.times.add(name, action, count, running)
        self.times.add(name, f"{action} (accepted)", count, accepted)

    def gone(self, way: Way, chain: Chain) -> None:
        """Delete a chain, and wait until the engines run none of its jobs: not every way does so itself."""
        way.delete(chain)
        self.quiet(0)

    def up(self, way: Way, chain: Chain) -> None:
        """Deploy a chain, and wait until all of its jobs run."""
        way.deploy(chain)
        self.quiet(chain.length)

    def warm_up(self, way: Way) -> None:
        """Once before what counts: Java loads its classes, and compiles what is used often."""
        chain = self.chain(max(self.options.sizes))
        self.up(way, chain)
        self.gone(way, chain)

    @contextlib.contextmanager
    def best_floor(self) -> Iterator[Way]:
        """The floor with the concurrency that deploys the longest chain the quickest."""
        taken = {}
        for concurrency in self.kind.concurrencies:
            with contextlib.closing(self.kind.floor(concurrency, self.places)) as floor:
                chain = self.chain(max(self.options.sizes))
                taken[concurrency] = seconds(lambda way=floor, form=chain: self.up(way, form))  # type: ignore[misc]
                self.gone(floor, chain)
        best = min(taken, key=lambda each: taken[each])
        shown = ", ".join(f"{each}: {took:.2f} s" for each, took in taken.items())
        print(f"floor by concurrency {shown}", file=sys.stderr, flush=True)
        with contextlib.closing(self.kind.floor(best, self.places)) as floor:
            yield floor


def measure(kind: Kind, sites: Sites, options: Options, round_trip: float, directory: Path) -> Times:
    """All runs over links with this round trip (ms)."""
    times = Times()
    with contextlib.ExitStack() as stack:
        places = stack.enter_context(sites.linked(round_trip))
        bench = Bench(kind, places, sites.engines(), options, times)
        speck = stack.enter_context(
            speck_server(sites.inventory(places), directory / f"speck-{round_trip:g}")
        )
        ways: list[tuple[str, Way]] = [("speck", speck)]
        ways += [
            (name, stack.enter_context(contextlib.closing(make(places)))) for name, make in kind.paper.items()
        ]
        for _, way in ways:
            bench.warm_up(way)
        ways.append(("floor", stack.enter_context(bench.best_floor())))
        for number in range(options.runs):
            for length in options.sizes:
                for name, way in ways[number % len(ways) :] + ways[: number % len(ways)]:
                    bench.round(name, way, length)
    return times


def figures(times: dict[float, Times], options: Options) -> dict[str, float]:
    """The ratios by name, each with its least and greatest."""
    longest = max(options.sizes)
    found: dict[str, Figure] = {}
    for round_trip, each in times.items():
        suffix = "_wan" if round_trip else ""
        deployed = ("speck", "deploy", longest)
        found[f"deploy_ratio_paper{suffix}"] = each.ratio(("paper", "deploy", longest), deployed)
        if ("complete", "deploy", longest) in each.runs:
            found[f"deploy_ratio_complete{suffix}"] = each.ratio(("complete", "deploy", longest), deployed)
        found[f"deploy_ratio_floor{suffix}"] = each.ratio(deployed, ("floor", "deploy", longest))
        accepted = "deploy (accepted)"
        found[f"accepted_ratio_floor{suffix}"] = each.ratio(
            ("speck", accepted, longest), ("floor", accepted, longest)
        )
        for count in options.modified:
            found[f"modify_{count}_of_{longest}_ratio{suffix}"] = each.ratio(
                ("speck", "modify", count), deployed
            )
        gone = ("speck", "delete", longest)
        found[f"delete_ratio_paper{suffix}"] = each.ratio(("paper", "delete", longest), gone)
        found[f"delete_ratio_floor{suffix}"] = each.ratio(gone, ("floor", "delete", longest))
    return {key: round(value, 3) for name, each in found.items() for key, value in each.named(name)}


def shown(times: Times, title: str) -> Table:
    """Seconds of everything that was done."""
    ways = tuple(dict.fromkeys(way for way, _, _ in times.runs))
    table = Table("what", "jobs", *(f"{way} (s)" for way in ways), title=title)
    for action, jobs in dict.fromkeys((action, jobs) for _, action, jobs in times.runs):
        row = [str(times.figure(way, action, jobs)) for way in ways]
        table.add_row(action, str(jobs), *row)
    return table


def compared(name: str, given: argparse.Namespace, console: Console) -> dict[str, float]:
    """Compare one kind of engine; tables go to the console, and the picture where it was asked for."""
    kind = KINDS[name]
    sizes, modified = given.sizes or kind.sizes, given.modify or kind.modified
    options = Options(sizes, modified, given.runs, given.sites, kind.heap)
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sites = stack.enter_context(sites_up(kind.server, options.sites, options.heap, directory))
        times = {each: measure(kind, sites, options, each, directory) for each in given.round_trips}
    for round_trip, each in times.items():
        console.print(shown(each, f"{name}, round trip {round_trip:g} ms"))
    if given.picture is not None:
        path = given.picture.with_stem(f"{given.picture.stem}-{name}")
        picture.draw({link: deployed(each, sizes) for link, each in times.items()}, path, name)
    return figures(times, options)


def deployed(times: Times, sizes: Sequence[int]) -> dict[str, dict[int, Figure]]:
    """Seconds to deploy, by way and length."""
    return {
        way: {size: times.figure(way, "deploy", size) for size in sizes}
        for way in dict.fromkeys(way for way, _, _ in times.runs)
    }


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.deploy", description=__doc__)
    parser.add_argument("--engine", choices=[*KINDS, "all"], default="flink")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--sites", type=int, default=6)
    parser.add_argument("--sizes", type=int, nargs="+", help="lengths of chains")
    parser.add_argument("--modify", type=int, nargs="+", help="how many jobs of the longest to modify")
    parser.add_argument("--round-trips", type=float, nargs="+", default=list(ROUND_TRIPS), metavar="MS")
    parser.add_argument("--picture", type=Path, help="an SVG or PNG file to draw, ENGINE put into its name")
    add_output_options(parser)
    given = parser.parse_args()
    console = Console(stderr=given.json)
    names = list(KINDS) if given.engine == "all" else [given.engine]
    found = {name: compared(name, given, console) for name in names}
    if not published(given, f"deploy-{given.engine}", found):
        console.print_json(json.dumps(found))


if __name__ == "__main__":
    run(main)
