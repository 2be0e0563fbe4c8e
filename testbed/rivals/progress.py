"""The sums of a long measurement, kept in a file, so that it can be continued."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

_LONGEST = "longest_s"


class Progress:
    """Sums by the name of a row and of a part; without a path they are kept in memory only."""

    def __init__(self, path: Path | None = None) -> None:
        """Read the file, if it is there.  Raises :class:`ValueError` for one of another kind."""
        self._path = path
        self._sums: dict[str, dict[str, dict[str, float]]] = {}
        if path is None or not path.exists():
            return
        try:
            read = json.loads(path.read_text(encoding="utf-8"))
            self._sums = {
                row: {part: {name: value + 0 for name, value in sums.items()} for part, sums in parts.items()}
                for row, parts in read.items()
            }
        except (ValueError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is not the progress of a measurement: {error}") from error

    def of(self, row: str, part: str) -> dict[str, float]:
        """The sums so far; empty at the beginning."""
        return dict(self._sums.get(row, {}).get(part, {}))

    def rounds(self, row: str, part: str) -> int:
        """The number of rounds so far."""
        return int(self.of(row, part).get("rounds", 0))

    def add(self, row: str, part: str, figures: Mapping[str, float]) -> None:
        """Add the figures of a round, and count it (``rounds``); of ``longest_s`` the greatest is kept."""
        sums = self._sums.setdefault(row, {}).setdefault(part, {"rounds": 0})
        sums["rounds"] += 1
        for name, value in figures.items():
            known = sums.get(name, 0)
            sums[name] = max(known, value) if name == _LONGEST else known + value
        if self._path is not None:
            new = self._path.with_suffix(".new")
            new.write_text(json.dumps(self._sums, indent=1) + "\n", encoding="utf-8")
            new.replace(self._path)
