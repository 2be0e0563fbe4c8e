"""All sections, one after the other, and their figures in one object: 45 to 60 minutes, ``--long`` hours.

A section that ends without figures is named under ``failed``, and the others go on.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.results import add_output_options, published
from testbed.termination import call

_EDGE = "edge_"  # what is lost at the edges of a composition is measured, and not promised


@dataclass(frozen=True)
class _Section:
    """A module to run; ``few`` are options with which it takes some minutes, ``many`` those of a long run."""

    module: str
    few: Sequence[str]
    many: Sequence[str] = ()


_SECTIONS: Mapping[str, _Section] = {
    "kills": _Section("benchmarks.promises kills", ("--every", "30", "--random", "5")),
    "lost": _Section("benchmarks.promises lost", ("--rounds", "3", "--chance", "0.05")),
    "moves": _Section("benchmarks.promises moves", ("--rounds", "2", "--floor-rounds", "3")),
    "faults": _Section(
        "benchmarks.promises faults", ("--rounds", "1", "--messages", "1500", "--share", "0.2")
    ),
    "power": _Section(
        "benchmarks.promises power", ("--rounds", "1", "--messages", "3000", "--saving", "shipped")
    ),
    "reconcile": _Section("benchmarks.reconcile", ("--rounds", "1", "--deaths", "4")),
}


def _figures(section: _Section, long: bool) -> dict[str, Any]:
    """The output of a section; its progress goes to standard error.

    Raises :class:`RuntimeError` when it ends without figures.
    """
    options = section.many if long else section.few
    command = [sys.executable, "-m", *section.module.split(), "--json", *options]
    print(" ".join(command[1:]), file=sys.stderr, flush=True)
    began = time.monotonic()
    ended = call(command, stdout=subprocess.PIPE)
    print(f"... {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    try:
        return dict(json.loads(ended.stdout.splitlines()[-1]))
    except (ValueError, IndexError) as error:
        raise RuntimeError(f"it ended with {ended.returncode} and no figures") from error


def _all_figures(long: bool) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """The output of each section, or the reason for which it has none."""
    found, failed = {}, {}
    for name, section in _SECTIONS.items():
        try:
            found[name] = _figures(section, long)
        except RuntimeError as error:
            failed[name] = str(error)
    return found, failed


def summary(found: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The figures by which the promises are judged; ``None`` where the section has none."""
    kills, lost = found.get("kills", {}), found.get("lost", {})
    faults, loop = found.get("faults", {}), found.get("reconcile", {}).get("reconcile", {})
    cells: Sequence[Mapping[str, Any]] = found.get("power", {}).get("cells", ())
    moves: Sequence[Mapping[str, Any]] = found.get("moves", {}).get("moves", ())
    kinds: Mapping[str, Mapping[str, Any]] = faults.get("faults", {})
    within = {name: each for name, each in kinds.items() if not name.startswith(_EDGE)}

    def total(figure: str) -> int:
        """The sum over moves, power cuts and faults, except for what a sentence of the guarantees admits."""
        trials = [*moves, *cells, *(each for each in within.values() if "admitted" not in each)]
        return sum(int(each[figure]) for each in trials)

    return {
        "kills": kills.get("kills"),
        "wrong_after_restart": kills.get("wrong_after_restart"),
        "troubles": sum(lost["troubles"].values()) if lost else None,
        "wrong_after_trouble": lost.get("wrong_after_trouble"),
        **{figure: total(figure) for figure in ("messages", "lost", "doubled")},
        "move_gap_ratio": {each["pair"]: each["move_gap_ratio"] for each in moves},
        "detection_seconds": loop.get("detection_seconds"),
        "cpu_percent_of_a_core": loop.get("cpu_percent_of_a_core"),
        "faults": within,
        "errors": {name: each["error"] for name, each in within.items() if "error" in each},
        "edge": {name: value for name, value in faults.items() if name.startswith(_EDGE)},
    }


def main(arguments: Sequence[str]) -> int:
    """Run all; the result is 1 when a promise was broken, or a section came to no figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.promises", description=__doc__)
    parser.add_argument("--long", action="store_true", help="all rounds of each section, hours")
    add_output_options(parser)
    options = parser.parse_args(arguments)
    found, failed = _all_figures(options.long)
    result = summary(found) | {"failed": failed}
    if not published(options, "promises", result):
        for name, value in result.items():
            print(f"{name:>24}  {value}")
    broken = ("wrong_after_restart", "wrong_after_trouble", "lost", "doubled", "errors", "failed")
    return 1 if any(result[each] for each in broken) else 0
