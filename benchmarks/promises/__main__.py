"""``python -m benchmarks.promises [SECTION] [--json] ...``: one module of :mod:`testbed.faults` a section.

Without a section: all of them (:mod:`testbed.faults.whole`).
"""

from __future__ import annotations

import importlib
import sys

from testbed import ROOT
from testbed.termination import run

_SECTIONS = ROOT / "testbed" / "faults"


def sections() -> list[str]:
    """The modules that are a section: those with a ``main``."""
    return sorted(path.stem for path in _SECTIONS.glob("*.py") if "\ndef main(arguments" in path.read_text())


def main() -> int:
    """Run the section that is named first, or all."""
    named, arguments = sys.argv[1:2], sys.argv[1:]
    name = "whole" if not named or named[0].startswith("-") else named[0]
    if name not in sections():
        print(f"there is no section {name!r} (one of: {', '.join(sections())}; none: all of them)")
        return 2
    if arguments and arguments[0] == name:
        del arguments[0]
    result: int = importlib.import_module(f"testbed.faults.{name}").main(arguments)
    return result


if __name__ == "__main__":
    run(main)
