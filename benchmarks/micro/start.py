"""The time from the start of an engine to its answer, as after a loss of power, on a part of one core.

``python -m benchmarks.start [--json] [--engine KIND] [--share CORES] [--runs N]``.  Each engine starts with
its settings, and with each that concerns the start undone, in turn.  Before each start the files that it
reads are dropped from the page cache, as far as no other process has them mapped.  The share is enforced by a
control group, which needs root; without one (``cores`` is ``null``), ``seconds`` are those of the whole
machine.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from benchmarks.common import Figure
from benchmarks.load.processes import server
from benchmarks.load.settings import SETTINGS, Change, Changed
from binders.common.java import java
from speck.binder import LocalServer, installed
from testbed.results import add_output_options, published
from testbed.termination import run

HEAPS = {"spark-connect": "512m", "flink": "128m", "flink-small": "128m"}
_UNDONE = ("class archive", "session extensions")  # of the settings of benchmarks/load/settings.py
_PERIOD = 100_000  # us, of the scheduler's quota
_SUFFIXES = (".jar", ".jsa")
_PATH = re.compile(r'/[^\s":=,]+')
_GROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Share:
    """A control group that has a part of a core; ``procs`` is the file that takes its processes."""

    procs: Path

    def command(self, command: Sequence[str]) -> list[str]:
        """The command line that runs another one in the group."""
        return ["/bin/sh", "-c", f'echo $$ > {self.procs}; exec "$@"', "sh", *command]


@contextlib.contextmanager
def share_of_core(cores: float) -> Iterator[Share | None]:
    """A group with this share; ``None`` for 0, or where groups cannot be made."""
    group = _group(cores) if cores else None
    try:
        yield None if group is None else Share(group / "cgroup.procs")
    finally:
        if group is not None:
            with contextlib.suppress(OSError):  # a process of it still ends
                group.rmdir()


def _group(cores: float) -> Path | None:
    quota, name = str(int(cores * _PERIOD)), f"speck-start-{os.getpid()}"
    forms = (("cpu.cfs_quota_us", _GROUPS / "cpu", quota), ("cpu.max", _GROUPS, f"{quota} {_PERIOD}"))
    for file, parent, text in forms:
        group = parent / name
        try:
            group.mkdir()
            (group / file).write_text(text)
        except OSError:
            with contextlib.suppress(OSError):
                group.rmdir()
            continue
        return group
    return None


def forget(command: Sequence[str]) -> None:
    """Drop the files that a command line names, and those of Java itself, from the page cache."""
    named = {Path(path) for word in command for path in _PATH.findall(word)}
    home = Path(java("an engine")).resolve().parent.parent
    files = {path for path in named if path.suffix in _SUFFIXES} | {
        *home.rglob("*.so"),
        *home.rglob("modules"),
    }
    for file in filter(Path.is_file, files):
        descriptor = os.open(file, os.O_RDONLY)
        try:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(descriptor)


def start(engine: str, change: Change | None, share: Share | None) -> dict[str, float]:
    """Start an engine once: ``seconds`` until it answers, and the processor time (s) until then."""
    kind = installed().local_engines()[engine]
    if change is not None:
        kind = cast(LocalServer, Changed(kind, change.applied))
    with tempfile.TemporaryDirectory(prefix="speck-start-") as place:
        forget(kind.command(range(1, kind.ports + 1), Path(place) / "unused", HEAPS[engine])[0])
        limited = kind if share is None else cast(LocalServer, Changed(kind, share.command))
        began = time.monotonic()
        with server(engine, limited, Path(place) / "engine", HEAPS[engine]) as (process, _):
            return {"seconds": time.monotonic() - began, "processor": process.cpu_seconds()}


def measure(engines: Sequence[str], runs: int, cores: float) -> list[dict[str, Any]]:
    """A row for each engine, and for each of its settings undone."""
    found: defaultdict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)
    with share_of_core(cores) as share:
        for number in range(runs):
            for engine in engines:
                settings = SETTINGS.get(engine, {})
                for undone in ("", *(name for name in settings if name in _UNDONE)):
                    change = settings.get(undone)
                    figures = start(engine, change, share)
                    print(f"{engine} {undone} {number + 1}: {figures}", file=sys.stderr, flush=True)
                    found[engine, undone].append(figures)
        limit = cores if share is not None else None
    return [_row(engine, undone, limit, figures) for (engine, undone), figures in found.items()]


def _row(engine: str, undone: str, cores: float | None, runs: list[dict[str, float]]) -> dict[str, Any]:
    row: dict[str, Any] = {"engine": engine, "undone": undone, "cores": cores}
    for name in runs[0]:
        figure = Figure.of(each[name] for each in runs)
        row |= {key: round(value, 2) for key, value in figure.named(name)}
    return row


def main() -> None:
    """Measure, and print lines or one JSON object."""
    parser = argparse.ArgumentParser(description="time from the start of an engine to its answer")
    add_output_options(parser)
    parser.add_argument("--engine", choices=sorted(HEAPS), action="append", help="by default each")
    parser.add_argument("--share", type=float, default=0.5, metavar="CORES", help="of a core (0: no limit)")
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    rows = measure(given.engine or sorted(HEAPS), given.runs, given.share)
    if not published(given, "start", {"starts": rows}):
        for row in rows:
            print("  ".join(f"{name} {value}" for name, value in row.items()))


if __name__ == "__main__":
    run(main)
