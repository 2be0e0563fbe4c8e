"""SpecK beside light pipelines: what each loses and repeats under harm, and the memory of a site.

``python -m benchmarks.rivals [--json] [--only NAME ...] [--command COMMAND] [--kills N] [--power N]
[--uplink N] [--away SECONDS] [--messages N] [--jobs N] [--site-rounds N] [--resume FILE] [--minutes M]``.
Each passes the messages of one topic on to another at 200 messages/s (:mod:`testbed.rivals`), in rounds of
three kinds: the pipeline is killed; the power of its site is cut, broker included; its uplink is away.  The
brokers are Mosquitto, or those that the name of a pipeline says.  ``--command`` adds a program of the
caller's own; ``--tools`` is the folder to which Node-RED, NATS and Flink's connector for Kafka are installed.
With ``--resume`` the sums are kept in a file after each round, and another run continues with them.  Each
part of a row is a figure, or the reason why there is none; a round that fails ends its part, and the exit
status is 1.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import psutil

from benchmarks.micro import stock
from speck.errors import SpeckError
from testbed.results import add_output_options, published
from testbed.rivals.bare_flink import BareFlink
from testbed.rivals.brokers import Brokers, KafkaBrokers, MosquittoBrokers, NatsBrokers
from testbed.rivals.hops import End, Hop
from testbed.rivals.pipelines import (
    KafkaRelay,
    NodeRed,
    PahoRelay,
    Program,
    SpeckJobs,
    filled,
    install_node_red,
)
from testbed.rivals.progress import Progress
from testbed.rivals.trial import tried
from testbed.rivals.trials import Killed, PowerCut, Trial, UplinkAway
from testbed.servers.base import NotInstalled, RealServer
from testbed.servers.nats import install_nats
from testbed.termination import run

Making = Callable[[Path, Sequence[Hop]], RealServer]
_REST = 10.0  # s before the memory is read
_NO_TIME = "no time was left (--minutes)"


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

    def kafka_relay(best: bool) -> Rival:
        return Rival(lambda folder, hops: KafkaRelay(folder, hops, best=best), KafkaBrokers)

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
        "relay over Kafka": kafka_relay(False),
        "relay over Kafka, best": kafka_relay(True),
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
    """``rounds`` by kind of fault; messages of a round and of a memory reading; when to stop."""

    rounds: dict[str, int]
    messages: int
    away: float
    jobs: int  # of the second look at memory; 0: no look
    site_rounds: int  # with the same brokers and pipeline
    deadline: float  # of the monotonic clock

    @property
    def sizes(self) -> list[int]:
        """The numbers of hops of the memory readings."""
        return sorted({1, self.jobs}) if self.jobs else []


def measure(name: str, rival: Rival, options: Options, progress: Progress) -> dict[str, str]:
    """Add what is missing, until the deadline; answers, by part, why one failed.

    Raises :class:`~testbed.servers.base.NotInstalled`.
    """
    brokers = rival.brokers()
    trials: dict[str, Callable[[Path], Trial]] = {
        "kills": lambda folder: Killed(folder, brokers=brokers),
        "power": lambda folder: PowerCut(folder, brokers),
        "uplink": lambda folder: UplinkAway(folder, options.away, brokers),
    }
    parts: dict[str, Callable[[], None]] = {
        kind: partial(_harm, name, kind, rival.make, trial, options, progress)
        for kind, trial in trials.items()
    }
    for number in options.sizes:
        parts[f"memory_{number}"] = partial(_look, name, number, rival, options, progress)
    reasons = {}
    for part, run_part in parts.items():
        try:
            run_part()
        except (OSError, RuntimeError, SpeckError) as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())
            reasons[part] = f"failed: {text[:300]}"
            print(f"{name}, {part}: {reasons[part]}", file=sys.stderr, flush=True)
    return reasons


def _harm(
    name: str,
    kind: str,
    make: Making,
    making: Callable[[Path], Trial],
    options: Options,
    progress: Progress,
) -> None:
    while (done := progress.rounds(name, kind)) < options.rounds[kind]:
        if time.monotonic() > options.deadline:
            return
        _rounds(
            name, kind, make, making, min(options.rounds[kind], done + options.site_rounds), options, progress
        )


def _look(name: str, number: int, rival: Rival, options: Options, progress: Progress) -> None:
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
            while (done := progress.rounds(name, kind)) < until:
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


def row(name: str, options: Options, progress: Progress, reasons: Mapping[str, str]) -> dict[str, Any]:
    """The figures of a pipeline: sums by kind of harm, and the memory by number of hops.

    ``reasons``, by part, are those of :func:`measure`.  ``missing`` has each part without a figure, or with
    fewer rounds than were asked for, and why.
    """
    found: dict[str, Any] = {kind: sums for kind in options.rounds if (sums := progress.of(name, kind))}
    for number in options.sizes:
        if seen := progress.of(name, f"memory_{number}"):
            found[f"memory_mb_{number}_jobs"] = seen["mb"]
            if "broker_mb" in seen:  # not in files of earlier versions
                found[f"broker_mb_{number}_jobs"] = seen["broker_mb"]
    missing = _missing(name, options, progress, reasons)
    return {**found, "missing": missing} if missing else found


def _missing(name: str, options: Options, progress: Progress, reasons: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for part, asked in _asked(options).items():
        done = progress.rounds(name, part)
        if done < asked:
            found[part] = f"{done} of {asked}: {reasons.get(part, _NO_TIME)}"
        elif not asked and not done:
            found[part] = "not asked for"
    return found


def _asked(options: Options) -> dict[str, int]:
    """The number of rounds by part."""
    sizes = {f"memory_{number}": 1 for number in options.sizes} or {"memory": 0}
    return {**options.rounds, **sizes}


def lines(name: str, figures: Mapping[str, Any]) -> list[str]:
    """A row as text, a line for each part."""
    return [f"{name}, {part}: {_text(value)}" for part, value in _parts(figures)]


def _parts(figures: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    yield from ((part, value) for part, value in figures.items() if part != "missing")
    yield from ((f"{part} missing", reason) for part, reason in figures.get("missing", {}).items())


def _text(value: Any) -> str:
    if not isinstance(value, Mapping):
        return f"{value}"
    return ", ".join(f"{name} {figure:,.15g}" for name, figure in value.items())


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
    add("--site-rounds", type=int, default=10, metavar="N", help="rounds with the same brokers and pipeline")
    add("--resume", type=Path, metavar="FILE", help="keep the sums there, and continue with them")
    add("--minutes", type=float, default=float("inf"), metavar="M", help="then begin no round")
    add("--tools", type=Path, default=Path(tempfile.gettempdir()) / "speck-rivals-tools")
    return parser


def main() -> int:
    """Measure, and print lines or one JSON object; 1 if a part failed."""
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
    if given.site_rounds < 1:
        parser.error(f"--site-rounds {given.site_rounds} (expected at least 1)")
    rounds = {"kills": given.kills, "power": given.power, "uplink": given.uplink}
    deadline = time.monotonic() + 60 * given.minutes
    options = Options(rounds, given.messages, given.away, given.jobs, given.site_rounds, deadline)
    rows: dict[str, dict[str, Any]] = {}
    failed = False
    for name in given.only or known:
        try:
            reasons = measure(name, known[name], options, progress)
        except NotInstalled as error:
            reasons = dict.fromkeys(_asked(options), f"not installed: {error}")
        else:
            failed |= bool(reasons)
        rows[name] = row(name, options, progress, reasons)
    if not published(given, "rivals", {"pipelines": rows}):
        print("\n".join(line for name, figures in rows.items() for line in lines(name, figures)))
    return int(failed)


if __name__ == "__main__":
    run(main)
