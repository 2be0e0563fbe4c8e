"""One hop of an engine against a plain relay: ``python -m benchmarks.hop [--json] [--runs 5]``.

With ``--broker kafka``: :mod:`benchmarks.micro.kafka_hop`.

A hop is MQTT in, MQTT out, with nothing done in between.  In one run, on the same Mosquitto, with QoS 1 and
messages of 100 bytes: an engine's job started by SpecK's own binder, and relays written with paho in Python
(:mod:`benchmarks.micro.paho_relay`).  They, and the broker without a hop, alternate.  What is measured, and
what came out where, stands in ``benchmarks/README.md``.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.common import Figure
from benchmarks.load.generator import Generator, generator
from benchmarks.load.hops import HEAP, PROGRAMS, Engine, Hop, engine_up, relay
from benchmarks.load.processes import Running, server
from binders.mqtt.local import MOSQUITTO
from speck.core.runtime import Handle
from speck.core.trigger import parse_trigger
from testbed.jdk import tool
from testbed.results import add_output_options, published
from testbed.termination import run

DIRECT = "direct/in"  # the topic of the runs without a hop

PLAIN_RELAY_MOST = 50_000  # messages: beyond 65,535 under way it loses some
RATE = 1000  # messages/s of the latency runs
LATENCY_WARMUP = 5  # s
COOL_DOWN = 5.0  # s, after work, before the idle server is looked at
TOUCH = 200  # messages through each job before it counts as idle

MIB = 1 << 20

Rounds = dict[str, list[dict[str, float]]]


@dataclass(frozen=True)
class Options:
    """Sizes of the runs: messages for throughput, seconds for latency and idling, idle jobs.

    ``optimised`` is true for engines with Java's optimising compiler.  ``hops`` has the names of the hops
    over Kafka to run; all if it is empty.  ``beside`` is an engine whose hop takes turns with it, or empty.
    """

    runs: int
    messages: int
    latency_seconds: int
    idle_seconds: int
    idle_jobs: int
    optimised: bool = False
    hops: Sequence[str] = ()
    beside: str = ""


# --- throughput and latency -----------------------------------------------------------------------


class Bench:
    """The parts that all measurements share: a broker, a load generator, and the progress output."""

    def __init__(self, broker: Running, load: Generator) -> None:
        """Measure with this broker and this generator."""
        self.broker = broker
        self.load = load

    def throughput(self, hops: list[Hop], options: Options) -> Rounds:
        """Flood each in turn, ``runs`` times, after one warm-up."""
        floods = {hop.name: partial(self.flooded, hop, options.messages) for hop in hops}
        return in_turn(floods, options.runs, "messages/s")

    def latency(self, hops: list[Hop], options: Options) -> Rounds:
        """The same at a fixed rate; the warm-up is part of each run."""
        paced = {hop.name: partial(self.paced, hop, options.latency_seconds) for hop in hops}
        return in_turn(paced, options.runs, "latency")

    def touch(self, hop: Hop) -> None:
        """A few messages through it."""
        self.load.flood(hop.out, hop.back, TOUCH)

    def flooded(self, hop: Hop, messages: int) -> dict[str, float]:
        """Throughput of a flood, and processor time for a message of each process."""
        processes = {"broker": self.broker, "generator": self.load.process}
        if hop.process is not None:
            processes["hop"] = hop.process
        before = {name: process.cpu_seconds() for name, process in processes.items()}
        messages = min(messages, PLAIN_RELAY_MOST) if hop.name == "plain_relay" else messages
        result = self.load.flood(hop.out, hop.back, messages)
        for name, process in processes.items():
            used = process.cpu_seconds() - before[name]
            result[f"{name}_cpu_us_per_message"] = round(used / messages * 1e6, 2)
        return result | {"messages_per_s": messages / result["seconds"]}

    def paced(self, hop: Hop, seconds: int) -> dict[str, float]:
        """Percentiles of the latency at a fixed rate."""
        warm_up = min(LATENCY_WARMUP, seconds)
        return self.load.paced(hop.out, hop.back, rate=RATE, seconds=seconds, warmup=warm_up)


def in_turn(measurements: Mapping[str, Callable[[], dict[str, float]]], runs: int, what: str) -> Rounds:
    """Take each measurement ``runs`` times, in rounds, after one round to warm up."""
    rounds: Rounds = {name: [] for name in measurements}
    for number in range(runs + 1):
        names = list(measurements)
        # Of two hops on Flink the earlier one in a round was slower, whichever it was (11 to 35%, measured).
        for name in names if number % 2 else reversed(names):
            say(f"{what}, {f'run {number} of {runs}' if number else 'warm-up'}, {name} ...")
            result = measurements[name]()
            say("    " + ", ".join(f"{key} {value:g}" for key, value in result.items()))
            if number:
                rounds[name].append(result)
    return rounds


def traffic_figures(throughput: Rounds, latency: Rounds, engine: str, beside: str = "") -> dict[str, Figure]:
    """The figures of the runs that alternated; those of one round are compared with each other."""
    figures = {
        "throughput_ratio": ratio(throughput, engine, "relay"),
        "throughput_ratio_to_plain_relay": ratio(throughput, engine, "plain_relay"),
    }
    if beside:
        figures[f"throughput_ratio_to_{beside}"] = ratio(throughput, engine, beside)
        figures[f"added_latency_ms_p50_{beside}"] = added(latency, beside, "p50")
    for percentile in ("p50", "p99"):
        figures[f"added_latency_ms_{percentile}"] = added(latency, engine, percentile)
        figures[f"relay_added_latency_ms_{percentile}"] = added(latency, "relay", percentile)
        figures[f"direct_latency_ms_{percentile}"] = figure(latency["ceiling"], f"{percentile}_ms")
    for name, rounds in throughput.items():
        for measured in sorted({key for each in rounds for key in each}):
            if measured == "messages_per_s" or "_cpu_" in measured:
                figures[f"{name}_{measured}"] = figure(rounds, measured)
    return figures


def ratio(throughput: Rounds, ours: str, theirs: str) -> Figure:
    """Ratio of the throughputs (messages/s) of the same round."""
    key = "messages_per_s"
    pairs = zip(throughput[ours], throughput[theirs], strict=True)
    return Figure.of(mine[key] / other[key] for mine, other in pairs)


def added(latency: Rounds, name: str, percentile: str, ceiling: str = "ceiling") -> Figure:
    """Latency that the hop adds to a percentile: with it minus without it, of the same round."""
    key = f"{percentile}_ms"
    return Figure.of(
        hop[key] - direct[key] for hop, direct in zip(latency[name], latency[ceiling], strict=True)
    )


def figure(rounds: list[dict[str, float]], name: str) -> Figure:
    """One measured quantity of all rounds."""
    return Figure.of(each[name] for each in rounds)


# --- where the time goes --------------------------------------------------------------------------


def profile(engine: Engine, handle: Handle, work: Callable[[], object]) -> dict[str, float]:
    """The medians of the parts of a micro-batch (ms) and of its rows, as reported during ``work``.

    The progress is asked for every 20 ms, so this is a run of its own, and no other figure comes from it.
    """
    seen: dict[int, dict[str, Any]] = {}
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            report = engine.progress(handle)
            if report["batch"] is not None:
                seen[report["batch"]] = report

    first = engine.progress(handle)["batch"]
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        work()
    finally:
        done.set()
        watcher.join()
    seen.pop(first, None)
    return batch_medians([each for each in seen.values() if each.get("batch_rows")])


def batch_medians(batches: list[dict[str, Any]]) -> dict[str, float]:
    """The median of each part of these batches."""
    parts = sorted({name for each in batches for name in each if name.startswith("duration_ms.")})
    medians = {"batches_seen": float(len(batches))}
    for name in ["batch_rows", *parts] if batches else []:
        medians[name.removeprefix("duration_ms.")] = statistics.median(each.get(name, 0) for each in batches)
    return medians


# --- idle jobs ------------------------------------------------------------------------------------


def idle_figures(bench: Bench, start: Callable[[], Any], options: Options) -> dict[str, Figure]:
    """Cost of one more idle job for a site, each time on a new server: memory and processor time."""
    rounds = []
    for number in range(options.runs):
        say(f"idle jobs, run {number + 1} of {options.runs} ...")
        with start() as engine:
            rounds.append(idle_round(bench, engine, options))
        say("    " + ", ".join(f"{name} {value:.4g}" for name, value in rounds[-1].items()))
    return {name: figure(rounds, name) for name in rounds[0]}


def idle_round(bench: Bench, engine: Engine, options: Options) -> dict[str, float]:
    """A server with one job, then with ``idle_jobs`` more; each has done some work before it is idle."""
    jobs = [("idle-0", start_idle(bench, engine, "idle-0"))]
    memory, processor = at_rest(engine.process, options.idle_seconds)
    for number in range(1, options.idle_jobs + 1):
        jobs.append((f"idle-{number}", start_idle(bench, engine, f"idle-{number}")))
    memory_all, processor_all = at_rest(engine.process, options.idle_seconds)
    for name, handle in jobs:
        engine.stop(name, handle)
    return {
        "rss_mb_per_job": (memory_all - memory) / options.idle_jobs / MIB,
        "idle_cpu_percent_per_job": (processor_all - processor) / options.idle_jobs * 100,
        "server_mb_with_1_job": memory / MIB,
        f"server_mb_with_{options.idle_jobs + 1}_jobs": memory_all / MIB,
        "server_idle_cpu_percent_with_1_job": processor * 100,
    }


def start_idle(bench: Bench, engine: Engine, name: str) -> Handle:
    """A job that has worked a little."""
    hop, handle = engine.start(name)
    bench.touch(hop)
    return handle


def at_rest(process: Running, seconds: int) -> tuple[int, float]:
    """Bytes (PSS, after a garbage collection) and share of a core of a server that has nothing to do."""
    time.sleep(COOL_DOWN)
    before, began = process.cpu_seconds(), time.monotonic()
    time.sleep(seconds)
    share = (process.cpu_seconds() - before) / (time.monotonic() - began)
    for _ in range(2):  # what a first collection frees may have kept other things
        for pid in process.java_pids():
            subprocess.run([tool("jcmd"), str(pid), "GC.run"], check=True, stdout=subprocess.DEVNULL)
    time.sleep(1)
    return process.proportional_memory(), share


# --- the whole ------------------------------------------------------------------------------------


def measure(
    options: Options, engine_name: str, directory: Path, trigger: str | None = None
) -> dict[str, Any]:
    """All figures, by name; everything that is started ends before this returns or raises."""
    with contextlib.ExitStack() as stack:
        broker, ports = stack.enter_context(server("mosquitto", MOSQUITTO, directory / "broker", HEAP))
        (port,) = ports
        bench = Bench(broker, stack.enter_context(generator(port, directory)))

        def start(name: str) -> contextlib.AbstractContextManager[Engine]:
            home = directory / f"{name}-{uuid.uuid4().hex[:6]}"
            program = replace(PROGRAMS[name], trigger=trigger, optimised=options.optimised)
            return engine_up(program, home, MOSQUITTO.address(ports))

        figures, where = traffic(bench, start, directory, port, options, engine_name)
        figures |= idle_figures(bench, lambda: start(engine_name), options)
    result: dict[str, Any] = {}
    for name, each in figures.items():
        result |= {key: round(value, 3) for key, value in each.named(name)}
    return {**result, **described(options), "profile": where}


def described(options: Options) -> dict[str, Any]:
    """The options of a run, as fields of its result."""
    return {"runs": options.runs, "messages": options.messages, "optimised": options.optimised}


def traffic(
    bench: Bench,
    start: Callable[[str], contextlib.AbstractContextManager[Engine]],
    directory: Path,
    port: int,
    options: Options,
    engine_name: str,
) -> tuple[dict[str, Figure], dict[str, dict[str, float]]]:
    """The figures of throughput and latency, and the parts of a micro-batch under either load."""
    with contextlib.ExitStack() as stack:
        engine = stack.enter_context(start(engine_name))
        sound, plain = (stack.enter_context(relay(directory, port, each)) for each in (2, 1))
        hop, handle = engine.start("hop")
        hops = [hop, sound, Hop("ceiling", DIRECT, DIRECT, None)]
        if options.beside:
            hops.append(stack.enter_context(start(options.beside)).start("beside")[0])
        throughput = bench.throughput([*hops, plain], options)
        latency = bench.latency(hops, options)
        say("where the time goes ...")
        where = {
            "flood": profile(engine, handle, lambda: bench.load.flood(hop.out, hop.back, options.messages)),
            f"{RATE}_messages_per_s": profile(
                engine,
                handle,
                lambda: bench.load.paced(hop.out, hop.back, rate=RATE, seconds=10, warmup=1),
            ),
        }
        engine.stop("hop", handle)
    return traffic_figures(throughput, latency, engine_name, options.beside), where


def table(result: dict[str, Any]) -> Table:
    """The figures for people: median, least and greatest."""
    shown = Table("figure", "median", "min", "max", title=f"One hop, {result['runs']} runs")
    for name, value in result.items():
        if f"{name}_min" in result:
            spread = (value, result[f"{name}_min"], result[f"{name}_max"])
            shown.add_row(name, *(f"{each:g}" for each in spread))
    for load, parts in result["profile"].items():
        for part, value in parts.items():
            shown.add_row(f"micro-batch, {load}: {part}", f"{value:g}", "", "")
    return shown


def say(text: str) -> None:
    """Tell of progress."""
    print(text, file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.hop", description=(__doc__ or "").split("\n")[0]
    )
    add_output_options(parser)
    parser.add_argument("--engine", choices=sorted(PROGRAMS), default="spark")
    parser.add_argument(
        "--beside", choices=sorted(PROGRAMS), default="", help="another engine whose hop takes turns with it"
    )
    parser.add_argument("--broker", choices=("mqtt", "kafka"), default="mqtt")
    parser.add_argument("--trigger", help="of Spark's jobs: an interval, or real-time", type=parse_trigger)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--messages", type=int, default=200_000, help="of one throughput run")
    parser.add_argument("--latency-seconds", type=int, default=20)
    parser.add_argument("--idle-seconds", type=int, default=30)
    parser.add_argument("--idle-jobs", type=int, default=8)
    parser.add_argument(
        "--optimised", action="store_true", help="engines with Java's optimising compiler, unlike local ones"
    )
    parser.add_argument(
        "--with",
        dest="hops",
        nargs="+",
        default=(),
        metavar="HOP",
        help="compare speck_kafka with these hops over Kafka only, such as stock_at_least_once",
    )
    given = parser.parse_args()
    if given.beside and (given.broker == "kafka" or given.beside == given.engine):
        parser.error("--beside needs --broker mqtt and another engine than --engine")
    if given.hops:
        given.hops = _with(given.hops, given.broker, parser)
    return given


def _with(names: list[str], broker: str, parser: argparse.ArgumentParser) -> list[str]:
    """The hops to run: SpecK's own and these; exits with an error if there is no such hop."""
    from benchmarks.micro import kafka_hop

    if broker != "kafka":
        parser.error("--with needs --broker kafka")
    if unknown := [name for name in names if name not in kafka_hop.HOPS]:
        parser.error(f"--with: no hop {', '.join(unknown)} (expected: {', '.join(kafka_hop.HOPS)})")
    return [kafka_hop.OURS, *names]


def chosen(broker: str) -> Callable[[Options, str, Path, str | None], dict[str, Any]]:
    """The measurement at a kind of broker."""
    from benchmarks.micro import kafka_hop

    return kafka_hop.measure if broker == "kafka" else measure


def main() -> None:
    """Measure, and show the figures."""
    given = arguments()
    sizes = Options(*(getattr(given, each.name) for each in fields(Options)))
    with tempfile.TemporaryDirectory(prefix="speck-hop-") as directory:
        result = chosen(given.broker)(sizes, given.engine, Path(directory), given.trigger)
    kind = "" if given.broker == "mqtt" else given.broker
    parts = ["hop", kind, given.engine, given.beside, *(given.trigger or "").split()]
    name = "-".join(filter(None, parts))
    if not published(given, name, result):
        Console().print(table(result))


if __name__ == "__main__":
    run(main)
