"""``python -m benchmarks [--quick] [--record] [NAME ...]``: all benchmarks, or those that are named.

Each runs in a process of its own, its output as it prints it.  ``--quick`` runs each at its smallest size,
which shows that it runs and gives no figures to keep: three at a time, each output when its benchmark ends.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from benchmarks.key_split.day import DATA
from testbed import ROOT
from testbed.termination import call, run


@dataclass(frozen=True)
class Benchmark:
    """A command and its options at the smallest size; ``{folder}`` in them is one for files.

    ``make test`` runs those that are ``tested``: they need neither engine, broker, browser nor network, take
    seconds, and no other test runs their code.  ``options`` are those of each run; without the folder
    ``data`` the benchmark is left out.
    """

    module: str
    quick: str
    tested: bool = False
    options: str = ""
    data: Path | None = None

    def command(self, *, quick: bool, folder: str) -> list[str]:
        """The command line."""
        options = shlex.split(f"{self.options} {self.quick if quick else ''}")
        return [sys.executable, "-m", *self.module.split(), *(each.format(folder=folder) for each in options)]


BENCHMARKS = {
    "plan": Benchmark("benchmarks.plan", "--jobs 200 --runs 1", tested=True),
    "scale": Benchmark("benchmarks.scale", "--jobs 200", tested=True),
    "store": Benchmark("benchmarks.store", "--jobs 50 --runs 1", tested=True),
    "cli": Benchmark("benchmarks.cli", "--runs 1", tested=True),
    "reconcile": Benchmark("benchmarks.reconcile", "--jobs 50 --deaths 1 --rounds 1 --period 1", tested=True),
    "scrape": Benchmark("benchmarks.scrape", "--jobs 50 --runs 1", tested=True),
    "sampling": Benchmark("benchmarks.sampling", "--jobs 50 --minutes 2", tested=True),
    "placement": Benchmark("benchmarks.placement", "--seeds 1 --policies search --placements 4"),
    "simulate": Benchmark("benchmarks.simulate", "agreement --seeds 1", tested=True),
    "irm": Benchmark("benchmarks.irm", "--instances 200 --seeds 1", tested=True),
    "adapt": Benchmark("benchmarks.adapt", "--seeds 1 --only outage", tested=True),
    "key_split-simulate": Benchmark("benchmarks.key_split simulate", "--workers 4"),
    "key_split-spark": Benchmark(
        "benchmarks.key_split spark", "--only one_job --workload 1 --partitioner balanced"
    ),
    "key_split-hot-towns": Benchmark("benchmarks.key_split hot-towns", "--limit 2000", data=DATA),
    "instances": Benchmark("benchmarks.instances", "--messages 50"),
    "agents": Benchmark("benchmarks.agents", "--agents 20 --seconds 1", tested=True),
    "memory": Benchmark("benchmarks.memory", "--engine flink --jobs 1 --messages 100 --rest 1"),
    "rivals": Benchmark(
        "benchmarks.rivals",
        "--only 'paho relay, best' --kills 1 --power 1 --uplink 0 --messages 500 --jobs 0",
    ),
    "wire": Benchmark("benchmarks.wire", "--engine flink --messages 200"),
    "start": Benchmark("benchmarks.start", "--engine flink-small --share 0 --runs 1"),
    "dashboard": Benchmark("benchmarks.dashboard", "--jobs 50 --seconds 2 --runs 1"),
    "hop": Benchmark(
        "benchmarks.hop",
        "--runs 1 --messages 2000 --latency-seconds 1 --idle-seconds 1 --idle-jobs 1",
    ),
    "hop-flink": Benchmark(
        "benchmarks.hop",
        "--runs 1 --messages 2000 --latency-seconds 1 --idle-seconds 1 --idle-jobs 1",
        options="--engine flink",
    ),
    "hop-kafka": Benchmark(
        "benchmarks.hop",
        "--runs 1 --messages 2000 --latency-seconds 1 --with relay",
        options="--broker kafka --engine flink",
    ),
    "hop-kafka-spark": Benchmark(
        "benchmarks.hop",
        "--runs 1 --messages 2000 --latency-seconds 1 --with relay",
        options="--broker kafka --engine spark",
    ),
    "real_time": Benchmark("benchmarks.real_time", "--seconds 1 --compared 1"),
    "day": Benchmark("benchmarks.day", "--limit 500"),
    "deploy": Benchmark("benchmarks.deploy", "--runs 1 --sites 1 --sizes 1 --modify 1 --round-trips 0"),
    "wan": Benchmark("benchmarks.wan", "--runs 1 --seconds 0.5"),
    "fog": Benchmark(
        "benchmarks.fog", "--figure 8 --interval 10 --runs 1 --seconds 2", options="--out {folder}/fog.jsonl"
    ),
    "placement-gates": Benchmark(
        "benchmarks.placement gates",
        "--only chain --profile '100 Mbit/20 ms' --runs 1 --seconds 2",
        options="--out {folder}/gates.jsonl",
    ),
    "nexmark": Benchmark(
        "benchmarks.nexmark",
        "--query q1 --profile '100 Mbit/20 ms' --warm 2 --measured 2 --flooded 2 --profiled 5",
        options="--out {folder}/nexmark.jsonl",
    ),
    "nexmark-sql": Benchmark(
        "benchmarks.nexmark",
        "--query q2 --way cut --warm 2 --measured 2 --flooded 3",
        options="--sql --out {folder}/nexmark-sql.jsonl",
    ),
    "fences": Benchmark(
        "benchmarks.fences", "--only core --fences 100 --positions 2000 --runs 1", tested=True
    ),
    "promises-hold": Benchmark("benchmarks.promises hold", "--hours 0.01"),
    "promises-edge": Benchmark("benchmarks.promises edge", "--messages 200"),
    "promises-kills": Benchmark("benchmarks.promises kills", "--every 120 --random 0"),
    "promises-lost": Benchmark("benchmarks.promises lost", "--rounds 1"),
    "promises-faults": Benchmark(
        "benchmarks.promises faults", "--rounds 1 --messages 500 --share 0.1 --fault broker_killed"
    ),
    "promises-power": Benchmark(
        "benchmarks.promises power", "--rounds 1 --messages 500 --engine flink --saving shipped"
    ),
    "promises-moves": Benchmark(
        "benchmarks.promises moves", "--rounds 1 --floor-rounds 1 --pair flink-flink"
    ),
    "promises-fences": Benchmark(
        "benchmarks.promises fences", "--rounds 1 --movers 20 --fences 20 --minutes 1 --cut 5"
    ),
    "promises-splits": Benchmark("benchmarks.promises splits", "--rounds 1 --pause 0.5"),
    "promises-recut": Benchmark("benchmarks.promises recut", "--rounds 1 --pause 0.5"),
    "promises-autonomy": Benchmark(
        "benchmarks.promises autonomy", "--rounds 1 --messages 4000 --cells stopped/up/flink/nothing"
    ),
    "promises-standby": Benchmark("benchmarks.promises standby", "--every 60"),
    "promises-takeovers": Benchmark("benchmarks.promises takeovers", "--rounds 1"),
    "promises-partitions": Benchmark("benchmarks.promises partitions", "--only 'witness alone' --effect 1"),
}

_AT_ONCE = 3  # most of a benchmark is waiting for engines to start


def main() -> int:
    """Run them one after the other, or three at a time; 1 if one failed, which others do not wait for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(BENCHMARKS)}")
    parser.add_argument("--quick", action="store_true", help="each at its smallest size, three at a time")
    parser.add_argument("--record", action="store_true", help="write the results to benchmarks/results")
    options = parser.parse_args()
    if unknown := sorted({*options.names} - {*BENCHMARKS}):
        parser.error(f"there is no benchmark {unknown[0]!r} (expected one of {', '.join(BENCHMARKS)})")
    if options.quick and options.record:
        parser.error("--record keeps figures, and those of --quick say nothing (expected one of the two)")
    names = []
    for name in options.names or BENCHMARKS:
        if (data := BENCHMARKS[name].data) is not None and not data.exists():
            print(f"== {name}: left out, since {data} is missing", flush=True)
        else:
            names.append(name)
    if options.quick:
        failed = list(_quick(names))
    else:
        failed = [name for name in names if not _run(name, ["--record"] if options.record else [])]
    for name in failed:
        print(f"{name} failed", file=sys.stderr)
    return 1 if failed else 0


def _run(name: str, further: Sequence[str]) -> bool:
    with tempfile.TemporaryDirectory(prefix="speck-bench-") as folder:
        command = [*BENCHMARKS[name].command(quick=False, folder=folder), *further]
        print(f"== {name}: python {' '.join(command[1:])}", flush=True)
        began = time.monotonic()
        code = call(command, cwd=ROOT).returncode
        print(f"== {name}: {time.monotonic() - began:.0f} s, exit code {code}", flush=True)
    return code == 0


class _Quick:
    """A benchmark at its smallest size, on its way; closing it ends it and removes its files."""

    def __init__(self, name: str) -> None:
        self.name = name
        with ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="speck-bench-"))
            self._command = BENCHMARKS[name].command(quick=True, folder=folder)
            self._output = stack.enter_context(tempfile.TemporaryFile("w+"))
            self._began = time.monotonic()
            self._process = subprocess.Popen(
                self._command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                text=True,
            )
            stack.callback(self._process.wait)
            stack.callback(self._process.terminate)  # nothing to a process that has ended
            self.close: Callable[[], None] = stack.pop_all().close

    @property
    def code(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._process.poll()

    def show(self) -> None:
        """Print what it printed."""
        print(f"== {self.name}: python {' '.join(self._command[1:])}")
        self._output.seek(0)
        shutil.copyfileobj(self._output, sys.stdout)
        print(f"== {self.name}: {time.monotonic() - self._began:.0f} s, exit code {self.code}", flush=True)


def _quick(names: Sequence[str]) -> Iterator[str]:
    """Run each at its smallest size; those that fail."""
    waiting, running = list(names), list[_Quick]()
    try:
        while waiting or running:
            while waiting and len(running) < _AT_ONCE:
                running.append(_Quick(waiting.pop(0)))
            time.sleep(0.1)
            for each in [each for each in running if each.code is not None]:
                running.remove(each)
                each.show()
                each.close()
                if each.code:
                    yield each.name
    finally:
        for each in running:
            each.close()


if __name__ == "__main__":
    run(main)
