"""``python -m benchmarks.promises SECTION [--json] ...``: one module of this package a section."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

_HERE = Path(__file__).parent


def sections() -> list[str]:
    """The modules that are a section: those with a ``main``."""
    return sorted(path.stem for path in _HERE.glob("*.py") if "\ndef main(arguments" in path.read_text())


def main() -> int:
    """Run the section that is named first."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in sections():
        print(f"python -m benchmarks.promises SECTION [--json], one of: {', '.join(sections())}")
        return 2
    result: int = importlib.import_module(f"benchmarks.promises.{name}").main(sys.argv[2:])
    return result


if __name__ == "__main__":
    raise SystemExit(main())
