"""The sizes of a store's files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from speck.store.maintenance.integrity import artifacts_directory


def sizes(directory: Path) -> dict[str, int]:
    """Bytes of a store's ``records`` and of the ``code`` that is kept beside them."""
    return {
        "records": _total(directory.glob("*")),
        "code": _total(_files_below(artifacts_directory(directory))),
    }


def _files_below(directory: Path) -> Iterable[Path]:
    """All files; a directory that is deleted meanwhile has none."""
    for folder, _, names in os.walk(directory):
        yield from (Path(folder, name) for name in names)


def _total(paths: Iterable[Path]) -> int:
    total = 0
    for path in paths:
        with suppress(OSError):  # it was deleted since
            total += path.stat().st_size if path.is_file() else 0
    return total
