"""The graphs of the held-out runs, over edges A and B and a cloud D.

The model was mended by the runs of a chain, a fan-in and road traffic (FITTED).

::

    chain         sensors/1 (A) -> clean -> mark -> keep -> out (D)
    fan-in        sensors/1 (A) -> clean-a -+
                                            +-> join -> keep -> out (D)
                  sensors/1 (B) -> clean-b -+
    road traffic  sensors/1 (A) -> clean-a -> local-a -> stats/a (D)
                                          `-> forward-a -+
                                          (the same at B)+-> global -> stats/all (D)

Those of the others (UNSEEN) say what it is worth elsewhere::

    fan-out       sensors/1 (A) -> clean -+-> stats -> stats (D)
                                          +-> pass -> out (D)
                                          +-> copy -> out (D)
    long chain    sensors/1 (B) -> clean -> first -> second -> third -> out (D)
    two stages    sensors/1 (A) -> clean-a -> sums-a (A's statistics) -> stats/a (D)
                                         `-+
                  sensors/1 (B) -> clean-b +-> join -> global -> stats/all (D)

All programs are those of ``jars_and_apps/flink``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

EDGES, CLOUD = ("A", "B"), "D"
SITES = (*EDGES, CLOUD)
_JAR = "jars_and_apps/flink/speck-flink-jobs.jar"


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """A graph: its ``jobs`` in the order in which a placement names their sites, and what it is fed.

    ``placements`` are strings with a site for each job.  ``rate`` is messages/s of each source, ``malformed``
    the share that the first jobs drop.
    """

    name: str
    jobs: Mapping[str, str]
    sources: Sequence[str]
    results: Sequence[str]
    placements: Sequence[str]
    rate: float
    malformed: float

    @property
    def text(self) -> str:
        """The composition file."""
        return "jobs:\n" + "".join(f"- {{job_name: {name}, {rest}}}\n" for name, rest in self.jobs.items())

    def sites(self, placement: str) -> dict[str, str]:
        """The site of each job."""
        return dict(zip(self.jobs, placement, strict=True))


def _job(program: str, source: str, sink: str, arguments: str = "") -> str:
    """A movable job; ``source`` and ``sink`` are topics, with a site before them where that is fixed."""
    found = f"site: any, engine: flink, job_path: {_JAR}, entry_class: io.speck.flink.jobs.{program}"
    for end, (site, topic) in (("source", _end(source)), ("sink", _end(sink))):
        found += f", {end}_topic: '{topic}'" + (f", {end}_broker: {site}" if site else "")
    return found + (f", arguments: {{{arguments}}}" if arguments else "")


def _end(written: str) -> tuple[str, str]:
    site, found, topic = written.partition(":")
    return (site, topic) if found else ("", written)


CHAIN = Graph(
    name="chain",
    jobs={
        "clean": _job("Clean", "A:sensors/1", "chain/cleaned"),
        "mark": _job("Forward", "chain/cleaned", "chain/marked", "site: A"),
        "keep": _job("Forward", "chain/marked", "D:chain/out"),
    },
    sources=["A"],
    results=["chain/out"],
    placements=["DDD", "ADD", "DAD", "BDD", "ABD", "BAD"],
    rate=400.0,
    malformed=0.5,
)

FAN_IN = Graph(
    name="fan-in",
    jobs={
        "clean-a": _job("Clean", "A:sensors/1", "fan/cleaned/a"),
        "clean-b": _job("Clean", "B:sensors/1", "fan/cleaned/b"),
        "join": _job("Forward", "fan/cleaned/+", "fan/joined"),
        "keep": _job("Forward", "fan/joined", "D:fan/out"),
    },
    sources=["A", "B"],
    results=["fan/out"],
    placements=["DDDD", "ABDD", "ADDD", "DDAD", "BADD", "ABAD"],
    rate=300.0,
    malformed=0.3,
)

_STATS = "lateness: 36500 days"

ROAD_TRAFFIC = Graph(
    name="road-traffic",
    jobs={
        name: job
        for edge in EDGES
        for name, job in {
            f"clean-{edge.lower()}": _job("Clean", f"{edge}:sensors/1", f"road/clean/{edge.lower()}"),
            f"local-{edge.lower()}": _job(
                "LocalStats",
                f"road/clean/{edge.lower()}",
                f"D:road/stats/{edge.lower()}",
                f"site: {edge}, {_STATS}",
            ),
            f"forward-{edge.lower()}": _job(
                "Forward", f"road/clean/{edge.lower()}", "road/readings", f"site: {edge}"
            ),
        }.items()
    }
    | {"global": _job("GlobalStats", "road/readings", "D:road/stats/all", _STATS)},
    sources=["A", "B"],
    results=["road/stats/a", "road/stats/b", "road/stats/all"],
    placements=["DDDDDDD", "AAABBBD", "AAADDDD", "ABADDDD", "BBBAAAD", "AAABBBA"],
    rate=300.0,
    malformed=0.02,
)

FAN_OUT = Graph(
    name="fan-out",
    jobs={
        "clean": _job("Clean", "A:sensors/1", "spread/cleaned"),
        "stats": _job("LocalStats", "spread/cleaned", "D:spread/stats", f"site: A, {_STATS}"),
        "pass": _job("Forward", "spread/cleaned", "D:spread/passed"),
        "copy": _job("Forward", "spread/cleaned", "D:spread/copied", "site: A"),
    },
    sources=["A"],
    results=["spread/stats", "spread/passed", "spread/copied"],
    placements=["DDDD", "ADDD", "AADD", "ABBD", "BDDB", "AABA"],
    rate=350.0,
    malformed=0.2,
)

LONG_CHAIN = Graph(
    name="long-chain",
    jobs={
        "clean": _job("Clean", "B:sensors/1", "long/cleaned"),
        "first": _job("Forward", "long/cleaned", "long/first", "site: B"),
        "second": _job("Forward", "long/first", "long/second"),
        "third": _job("Forward", "long/second", "D:long/out"),
    },
    sources=["B"],
    results=["long/out"],
    placements=["DDDD", "BBBB", "BBAD", "BDAD", "AADD", "BDDD"],
    rate=250.0,
    malformed=0.4,
)

TWO_STAGES = Graph(
    name="two-stages",
    jobs={
        "clean-a": _job("Clean", "A:sensors/1", "stages/clean/a"),
        "clean-b": _job("Clean", "B:sensors/1", "stages/clean/b"),
        "sums-a": _job("LocalStats", "stages/clean/a", "D:stages/stats/a", f"site: A, {_STATS}"),
        "join": _job("Forward", "stages/clean/+", "stages/joined"),
        "global": _job("GlobalStats", "stages/joined", "D:stages/stats/all", _STATS),
    },
    sources=["A", "B"],
    results=["stages/stats/a", "stages/stats/all"],
    placements=["DDDDD", "ABADD", "ABABD", "BADDD", "ABDAD", "ABAAB"],
    rate=200.0,
    malformed=0.1,
)

FITTED = {each.name: each for each in (CHAIN, FAN_IN, ROAD_TRAFFIC)}
UNSEEN = {each.name: each for each in (FAN_OUT, LONG_CHAIN, TWO_STAGES)}
GRAPHS = FITTED | UNSEEN
