"""The rounds of a long measurement, in a file that outlives an interruption."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class RoundLog:
    """The rounds that were made, a JSON object each; in a file, a line each."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path is not None and path.exists() else []
        self.rounds: list[dict[str, Any]] = [json.loads(line) for line in lines]

    def add(self, found: Mapping[str, Any]) -> None:
        """Note a round."""
        self.rounds.append(dict(found))
        if self._path is not None:
            with self._path.open("a") as file:
                file.write(f"{json.dumps(found)}\n")
