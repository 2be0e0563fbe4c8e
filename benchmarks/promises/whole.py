"""All sections, one after the other, and their figures in one object; hours, unless ``--short``."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

_EDGE = "edge_"  # what is lost at the edges of a composition is measured, and not promised

_SECTIONS: Mapping[str, tuple[str, Sequence[str]]] = {
    "kills": ("benchmarks.promises kills", ("--every", "20", "--random", "10")),
    "lost": ("benchmarks.promises lost", ("--rounds", "5")),
    "moves": ("benchmarks.promises moves", ("--rounds", "1", "--floor-rounds", "2")),
    "faults": ("benchmarks.promises faults", ("--rounds", "1", "--messages", "1500")),
    "reconcile": ("benchmarks.reconcile", ("--rounds", "2", "--deaths", "3")),
}


def _figures(section: str, short: bool) -> dict[str, Any]:
    """What a section prints; it says what it does on standard error.

    Raises :class:`RuntimeError` when it ends without figures.
    """
    module, options = _SECTIONS[section]
    command = [sys.executable, "-m", *module.split(), "--json", *(options if short else ())]
    print(" ".join(command[1:]), file=sys.stderr, flush=True)
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    try:
        return dict(json.loads(ended.stdout.splitlines()[-1]))
    except (ValueError, IndexError) as error:
        raise RuntimeError(f"{section} ended with {ended.returncode} and no figures") from error


def summary(found: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The figures by which the promises are judged, of all sections."""
    kept = {name: value for name, value in found["faults"].items() if not name.startswith(_EDGE)}
    moves: Sequence[Mapping[str, Any]] = found["moves"]["moves"]

    def total(figure: str) -> int:
        return sum(int(each[figure]) for each in moves) + sum(
            int(value) for name, value in kept.items() if name.endswith(f"_{figure}")
        )

    return {
        "kills": found["kills"]["kills"],
        "wrong_after_restart": found["kills"]["wrong_after_restart"],
        "troubles": found["lost"]["troubles"],
        "wrong_after_trouble": found["lost"]["wrong_after_trouble"],
        **{figure: total(figure) for figure in ("messages", "lost", "doubled")},
        "move_gap_ratio": {each["pair"]: each["move_gap_ratio"] for each in moves},
        "detection_seconds": found["reconcile"]["reconcile"]["detection_seconds"],
        "cpu_percent_of_a_core": found["reconcile"]["reconcile"]["cpu_percent_of_a_core"],
        "edge": {name: value for name, value in found["faults"].items() if name.startswith(_EDGE)},
    }


def main(arguments: Sequence[str]) -> int:
    """Run all; the result is 1 when a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.promises", description=__doc__)
    parser.add_argument("--short", action="store_true", help="few rounds of each, some 15 minutes")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    result = summary({section: _figures(section, options.short) for section in _SECTIONS})
    if options.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name:>24}  {value}")
    broken = ("wrong_after_restart", "wrong_after_trouble", "lost", "doubled")
    return 1 if any(result[each] for each in broken) else 0
