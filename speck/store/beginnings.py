"""Times before which attempts had not begun: their records have none, so looks at them are compared."""

from __future__ import annotations

import json
from collections.abc import Collection
from math import inf
from pathlib import Path
from typing import Any

from speck.core.durable_files import replace_file

_Groups = list[tuple[float, list[str]]]  # a time (Unix, s), and the ids of attempts that began after it


class Beginnings:
    """Notes which attempts there are at each look, and so the time before which none of them began.

    ``path`` is the file of what the last look has found.  To be used by one thread at a time.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def earliest(self, attempts: Collection[str], now: float) -> float:
        """A time before which none of these attempts began: infinite without any, 0 if it is not known.

        ``attempts`` are the ids of all that run or may run ``now``.  Times are Unix time, s.  Raises
        ``OSError``.
        """
        last, found = self._read()
        groups: _Groups = []
        known: set[str] = set()
        for since, ids in found:
            if alive := [each for each in ids if each in attempts]:
                groups.append((_credible(since, now), alive))
                known.update(alive)
        if new := sorted(set(attempts) - known):
            groups.append((_credible(last, now), new))
        replace_file(self._path, json.dumps({"at": now, "begun": groups}).encode())
        return min((since for since, _ in groups), default=inf)

    def _read(self) -> tuple[float, _Groups]:
        try:
            data: Any = json.loads(self._path.read_bytes())
            return float(data["at"]), [(float(since), list(map(str, ids))) for since, ids in data["begun"]]
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return 0.0, []


def _credible(at: float, now: float) -> float:
    """0 for a time of a clock that was set back since."""
    return at if at <= now else 0.0
