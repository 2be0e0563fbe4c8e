"""SpecK beside light pipelines: what each loses and repeats under harm, and the memory of a site.

``python -m benchmarks.rivals [--json] [--only NAME ...] [--command COMMAND] [--kills N] [--power N]
[--uplink N] [--away SECONDS] [--messages N] [--jobs N] [--resume FILE] [--minutes M]``.  Each passes the
messages of one topic on to another at 200 messages/s (:mod:`testbed.rivals`), in rounds of three kinds: the
pipeline is killed; the power of its site is cut, broker included; its uplink is away.  The brokers are
Mosquitto, or those that the name of a pipeline says.  One that cannot be installed is left out with the
reason.  ``--command`` adds a program of the caller's own; ``--tools`` is the folder to which Node-RED, NATS
and Flink's connector for Kafka are installed.  With ``--resume`` the sums are kept in a file after each
round, and another run continues with them.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from benchmarks.micro import stock
from testbed.results import add_output_options, published
from testbed.rivals.bare_flink import BareFlink
from testbed.rivals.brokers import Brokers, KafkaBrokers, MosquittoBrokers, NatsBrokers
from testbed.rivals.hops import End, Hop
from testbed.rivals.pipelines import NodeRed, PahoRelay, Program, SpeckJobs, filled, install_node_red
from testbed.rivals.progress import Progress
from testbed.rivals.trial import tried
from testbed.rivals.trials import Killed, PowerCut, Trial, UplinkAway
from testbed.servers.base import NotInstalled, RealServer
from testbed.servers.nats import install_nats
from testbed.termination import run

Making = Callable[[Path, Sequence[Hop]], RealServer]
_REST = 10.0  # s before the memory is read
_ROUNDS_A_SITE = 10  # with the same brokers and pipeline


@dataclass(frozen=True)
class Rival:
    """A pipeline and its kind of broker; ``make`` makes it in a folder, with its hops.

    Both raise :class:`~testbed.servers.base.NotInstalled`.
    """

    make: Making
    brokers: Callable[[], Brokers] = MosquittoBrokers


def rivals(tools: Path, command: str = "") -> dict[str, Rival]:
    """All that are compared, by name."""

    def node_red(best: bool) -> Rival:
        return Rival(lambda folder, hops: NodeRed(folder, hops, install_node_red(tools), best=best))

    def over_nats(best: bool) -> Rival:
        return Rival(
            lambda folder, hops: PahoRelay(folder, hops, best=best, mqtt=3),
            lambda: NatsBrokers(install_nats(tools / "nats"), best=best),
        )

    def bare_flink(best: bool) -> Rival:
        return Rival(
            lambda folder, hops: BareFlink(folder, hops, _flink_jar(tools), best=best),
            lambda: KafkaBrokers(committed=best),
        )

    found = {
        "speck": Rival(SpeckJobs),
        "paho relay": Rival(PahoRelay),
        "paho relay, best": Rival(lambda folder, hops: PahoRelay(folder, hops, best=True)),
        "node-red": node_red(False),
        "node-red, best": node_red(True),
        "paho relay over NATS": over_nats(False),
        "paho relay over NATS, best": over_nats(True),
        "speck over Kafka": Rival(SpeckJobs, KafkaBrokers),
        "bare Flink over Kafka": bare_flink(False),
        "bare Flink over Kafka, best": bare_flink(True),
    }
    if command:
        found["command"] = Rival(lambda folder, hops: Program(folder, hops, command))
    return found


@cache
def _flink_jar(tools: Path) -> Path:
    jar, fault = stock.flink_jar(tools)
    if fault:
        raise NotInstalled(fault)
    return jar


@dataclass(frozen=True)
class Options:
    """``rounds`` by kind of harm; messages of a round, and of the look at memory; when to begin no more."""

    rounds: dict[str, int]
    messages: int
    away: float
    jobs: int
    deadline: float  # of the monotonic clock


def measure(name: str, rival: Rival, options: Options, progress: Progress) -> None:
    """Add all rounds that are missing, until the deadline."""
    brokers = rival.brokers()
    making: dict[str, Callable[[Path], Trial]] = {
        "kills": lambda folder: Killed(folder, brokers=brokers),
        "power": lambda folder: PowerCut(folder, brokers),
        "uplink": lambda folder: UplinkAway(folder, options.away, brokers),
    }
    for kind, trial in making.items():
        while (done := int(progress.of(name, kind).get("rounds", 0))) < options.rounds[kind]:
            if time.monotonic() > options.deadline:
                return
            _rounds(
                name,
                kind,
                rival.make,
                trial,
                min(options.rounds[kind], done + _ROUNDS_A_SITE),
                options,
                progress,
            )
    for number in sorted({1, options.jobs} if options.jobs else ()):
        if time.monotonic() < options.deadline and not progress.of(name, f"memory_{number}"):
            progress.add(name, f"memory_{number}", memory(rival, number, options.messages))


def _rounds(
    name: str,
    kind: str,
    make: Making,
    making: Callable[[Path], Trial],
    until: int,
    options: Options,
    progress: Progress,
) -> None:
    with tempfile.TemporaryDirectory(prefix="speck-rivals-") as directory:
        folder = Path(directory)
        with making(folder) as trial, make(folder / "pipeline", trial.hops) as pipeline:
            while (done := int(progress.of(name, kind).get("rounds", 0))) < until:
                if time.monotonic() > options.deadline:
                    return
                moment = random.Random(f"{kind} {done}")
                found = tried(trial, pipeline, messages=options.messages, moment=moment)
                print(f"{name}, {kind} {done + 1}: {found}", file=sys.stderr, flush=True)
                progress.add(name, kind, found)


def memory(rival: Rival, jobs: int, messages: int) -> dict[str, float]:
    """Proportional memory (MB) with this many hops: ``mb`` of the pipeline, ``broker_mb`` of the broker."""
    with tempfile.TemporaryDirectory(prefix="speck-rivals-") as directory:
        folder = Path(directory)
        with (
            Killed(folder, jobs, rival.brokers()) as trial,
            rival.make(folder / "pipeline", trial.hops) as pipeline,
        ):
            tried(trial, pipeline, messages=messages)
            time.sleep(_REST)
            return {"mb": _megabytes(pipeline.pids), "broker_mb": _megabytes(trial.first.pids)}


def _megabytes(pids: Iterable[int]) -> float:
    """Of these processes and their children, proc(5), smaps_rollup: Pss."""
    processes = [psutil.Process(pid) for pid in pids]
    everyone = {each for top in processes for each in (top, *top.children(recursive=True))}
    return round(sum(each.memory_full_info().pss for each in everyone) / 1e6, 1)


def row(name: str, kinds: Sequence[str], jobs: int, progress: Progress) -> dict[str, Any]:
    """The figures of a pipeline: sums by kind of harm, and the memory by number of hops."""
    found: dict[str, Any] = {kind: sums for kind in kinds if (sums := progress.of(name, kind))}
    for number in sorted({1, jobs} if jobs else ()):
        if seen := progress.of(name, f"memory_{number}"):
            found[f"memory_mb_{number}_jobs"] = seen["mb"]
            if "broker_mb" in seen:  # not in files of earlier versions
                found[f"broker_mb_{number}_jobs"] = seen["broker_mb"]
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    add_output_options(parser)
    add = parser.add_argument
    add("--only", action="append", metavar="NAME", help="by default each")
    add("--command", default="", metavar="COMMAND", help="a program to try as well, for each hop")
    add("--kills", type=int, default=50, metavar="N", help="of the pipeline")
    add("--power", type=int, default=10, metavar="N", help="cuts of the power of its site")
    add("--uplink", type=int, default=1, metavar="N", help="times without the uplink")
    add("--away", type=float, default=60.0, metavar="SECONDS", help="of the uplink, each time")
    add("--messages", type=int, default=1000, metavar="N", help="of a round, at least")
    add("--jobs", type=int, default=8, metavar="N", help="of the second look at memory; 0: no look")
    add("--resume", type=Path, metavar="FILE", help="keep the sums there, and continue with them")
    add("--minutes", type=float, default=float("inf"), metavar="M", help="then begin no round")
    add("--tools", type=Path, default=Path(tempfile.gettempdir()) / "speck-rivals-tools")
    return parser


def main() -> None:
    """Measure, and print lines or one JSON object."""
    parser = _parser()
    given = parser.parse_args()
    known = rivals(given.tools, given.command)
    if unknown := sorted({*(given.only or ())} - {*known}):
        parser.error(f"--only {unknown[0]!r} is no pipeline (expected one of {', '.join(known)})")
    try:
        progress = Progress(given.resume)
        if given.command:
            filled(given.command, Hop(End("tcp://h:1", "a"), End("tcp://h:1", "b")), 0)
    except ValueError as error:
        parser.error(str(error))
    rounds = {"kills": given.kills, "power": given.power, "uplink": given.uplink}
    deadline = time.monotonic() + 60 * given.minutes
    options = Options(rounds, given.messages, given.away, given.jobs, deadline)
    rows: dict[str, dict[str, Any]] = {}
    for name in given.only or known:
        try:
            measure(name, known[name], options, progress)
            rows[name] = row(name, [*rounds], given.jobs, progress)
        except NotInstalled as error:
            rows[name] = {"skipped": str(error)}
    if published(given, "rivals", {"pipelines": rows}):
        return
    for name, figures in rows.items():
        print(f"{name}: {', '.join(f'{key} {value}' for key, value in figures.items())}")


if __name__ == "__main__":
    run(main)
