"""The files beside the database that a standby needs: the code of jobs, what engines fetch, the secret.

Each is complete and never changes once it has its name.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

from speck.store.artifacts import SCRATCH

_FOLDERS = ("artifacts", "served")
SECRET = "secret"  # noqa: S105 - the name of a file
_SETTLED = 1_000_000_000  # ns, many ticks
_NAME = re.compile(r"(?:artifacts|served)/[0-9a-f]{64}/(?!\.{1,2}\Z)[^/\0]{1,255}\Z")


def is_copied(name: str) -> bool:
    """True for the relative path of a file that the standby has, too."""
    return name == SECRET or bool(_NAME.match(name))


def copied_files(directory: Path) -> set[str]:
    """The relative paths of those files in a store's directory."""
    found = set(_found(directory))
    return found | {SECRET} if (directory / SECRET).is_file() else found


def _found(directory: Path) -> Iterator[str]:
    for folder in _FOLDERS:
        for path in (directory / folder).glob("*/*"):
            name = f"{folder}/{path.parent.name}/{path.name}"
            if is_copied(name) and not path.name.startswith(SCRATCH) and path.is_file():
                yield name


class NewFiles:
    """The files that appear in a store's directory; for one thread at a time, except for :meth:`forget`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._seen: tuple[int, ...] | None = None
        self._forgotten = False

    def may_differ(self) -> bool:
        """False if there are the same files as at the last call, as far as a quick look shows."""
        forgotten, self._forgotten = self._forgotten, False
        marks = tuple(self._marks())
        if marks == self._seen and not forgotten:
            return False
        # A folder that changes again within one tick of the system's clock keeps its time.
        settled = max(marks) < time.time_ns() - _SETTLED
        self._seen = marks if settled else None
        return True

    def forget(self) -> None:
        """Let the next call return true, also if one is under way."""
        self._forgotten = True

    def _marks(self) -> Iterator[int]:
        """The times of change of all folders: a file comes to a folder by a rename."""
        yield int((self._directory / SECRET).exists())
        for folder in _FOLDERS:
            for path in (self._directory / folder, *(self._directory / folder).glob("*")):
                try:
                    yield path.stat().st_mtime_ns
                except OSError:
                    yield 0
