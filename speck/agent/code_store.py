"""The files of jobs at a site, by the SHA-256 of their content."""

from __future__ import annotations

import hashlib
import math
import shutil
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from speck.core.durable_files import put_in_place, sync_directory
from speck.core.names import is_sha256
from speck.errors import BinderError, Rejected

KEPT = 256  # files that no attempt needs, those used last: a job is checked before it is submitted
MOST_BYTES = 512 << 20  # of these, without those that were used recently
RECENT = 3600.0  # s

_BEGUN = ".begun"  # a content of which parts are missing


class CodeStore:
    """A directory with a folder for each content.  ``clock`` is steady, s."""

    def __init__(self, directory: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._directory, self._clock = directory, clock
        self._used: dict[str, float] = {}  # when contents were used last, since the start
        self._lock = threading.Lock()  # two engines of a site may be sent one file at a time
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def hashes(self) -> tuple[str, ...]:
        """The contents that are there."""
        found = (each.parent.name for each in self._directory.glob("*/content"))
        return tuple(sorted(filter(is_sha256, found)))

    def put(self, sha256: str, part: bytes, at: int, size: int) -> int:
        """Store a part of a content of ``size`` bytes, which begins ``at`` this place; the last one durably.

        Returns the number of bytes that are there: the next part begins at it, also if this one does not
        follow those before it.  Raises :class:`~speck.errors.BinderError`.
        """
        if not is_sha256(sha256):
            raise Rejected(f"{sha256[:12]!r} is not the hash of a job's file")
        folder = self._directory / sha256
        begun = folder / _BEGUN
        try:
            with self._lock:
                self._used[sha256] = self._clock()
                if (folder / "content").is_file():
                    return size
                folder.mkdir(mode=0o700, exist_ok=True)
                there = begun.stat().st_size if begun.exists() else 0
                if there > size:  # damaged, by a loss of power
                    begun.unlink()
                    there = 0
                if at != there:
                    return there
                with begun.open("ab") as file:
                    file.write(part)
                if there + len(part) >= size:
                    _complete(begun, sha256)
                    sync_directory(self._directory)  # the folder may be new
                return there + len(part)
        except OSError as error:
            raise BinderError(f"the agent cannot store a job's file: {error.strerror}") from error

    def path(self, sha256: str, name: str) -> Path:
        """The path of a content under a file's name.

        Raises :class:`~speck.errors.Rejected`, and :class:`~speck.errors.BinderError` for a faulty disk.
        """
        content = self._directory / sha256 / "content"
        if not is_sha256(sha256) or name != Path(name).name or name in ("", "content"):
            raise Rejected(f"{name!r} with the hash {sha256[:12]!r} is not a job's file")
        if not content.is_file():
            raise Rejected(f"the agent does not have {name!r} with the hash {sha256[:12]!r}")
        path = content.parent / name
        self._used[sha256] = self._clock()
        try:
            with suppress(FileExistsError):  # jobs of one file are submitted side by side
                path.hardlink_to(content)
            sync_directory(content.parent)  # the record of an attempt will name it
        except OSError as error:
            raise BinderError(f"the agent cannot name a job's file {name!r}: {error.strerror}") from error
        return path

    def prune(self, used: Collection[str]) -> None:
        """Delete what no path in ``used`` needs, except for what was used last.

        A clock that was set back makes a new file look old: the times of the disk count only among files that
        were not used since the start.
        """
        needed = {Path(each).parent.name for each in used}
        with self._lock:
            found = (each for each in self._directory.iterdir() if each.name not in needed)
            folders = [each for each in found if each.is_dir()]
            folders.sort(key=self._last_use, reverse=True)
            recent, held = self._clock() - RECENT, 0
            for number, folder in enumerate(folders):
                held += _size(folder)
                is_old = self._used.get(folder.name, -math.inf) < recent
                if number >= KEPT or (held > MOST_BYTES and is_old):
                    shutil.rmtree(folder, ignore_errors=True)
                    self._used.pop(folder.name, None)

    def _last_use(self, folder: Path) -> tuple[float, int]:
        return self._used.get(folder.name, -math.inf), folder.stat().st_mtime_ns


def _size(folder: Path) -> int:
    """The size of a content or of its parts, bytes; its names are links to one file."""
    return max((each.stat().st_size for each in folder.iterdir()), default=0)


def _complete(begun: Path, sha256: str) -> None:
    """Give a content its name, durably.  Raises :class:`~speck.errors.Rejected` for a damaged one."""
    with begun.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        begun.unlink()
        raise Rejected(
            f"the content of a job's file is not that of {sha256[:12]!r} (it was damaged on the way)"
        )
    put_in_place(begun, begun.with_name("content"))
