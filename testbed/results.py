"""The results of a measurement: printed as JSON (``--json``), and recorded in a file (``--record``)."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from testbed import ROOT

RESULTS = ROOT / "benchmarks" / "results"

# Of the whole process: measurements begin as soon as this is imported.
_LOAD_AT_START = os.getloadavg()


def add_output_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--json`` and ``--record`` to the options of a measurement."""
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.add_argument("--record", action="store_true", help="write the result to benchmarks/results, too")


def published(options: argparse.Namespace, name: str, figures: Mapping[str, Any]) -> bool:
    """Record and print a result as far as the options ask for it; true if it was printed.

    ``name`` is the file below :data:`RESULTS`, without ``.json``.
    """
    if options.record:
        write(RESULTS / f"{name}.json", name, figures)
    if options.json:
        print(json.dumps(figures))
    return bool(options.json)


def write(path: Path, name: str, figures: Mapping[str, Any]) -> None:
    """Write a result with its circumstances: command, date, commit, machine and load.

    ``load`` has the load averages of 1, 5 and 15 minutes before and after the measurement.
    """
    given = [each for each in sys.argv[1:] if each not in ("--json", "--record")]
    record = {
        "benchmark": name,
        "arguments": given,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": _commit(),
        "machine": {
            "processor": _processor(),
            "cores": os.cpu_count(),
            "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
            "system": f"{platform.system()} {platform.release()}",
            "python": platform.python_version(),
        },
        "load": {"before": _LOAD_AT_START, "after": os.getloadavg()},
        "figures": figures,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _commit() -> str:
    """The commit of the code, with ``+`` if files differ from it; empty outside of a clone."""
    try:
        commit = _git("rev-parse", "--short=8", "HEAD")
        return commit + ("+" if _git("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.CalledProcessError):
        return ""


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


def _processor() -> str:
    """The model of the processor, as Linux names it."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())
