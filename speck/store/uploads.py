"""Code that clients send, by the hash of its content, until a composition that names it is accepted.

A file lies at ``HASH/NAME`` below the store's ``uploads``, or incomplete at ``HASH/.partial``.  What no
composition has named for an hour is deleted.  Files with the same content are the same file here, and files
with the same name are not: two clients with one path and different texts cannot be confused.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from speck.core.durable_files import put_in_place
from speck.core.names import is_sha256
from speck.errors import Conflict, Fault, InvalidInput, StoreFull
from speck.store.artifacts import hash_of, write_error
from speck.store.jobfile import LARGEST, BadFile

LIFETIME = 3600.0  # s
NOT_ACCEPTED = "this server accepts no code from clients (speck serve --sent-code)"
_PARTIAL, _COMPLETE = ".partial", ".complete"
_CHUNK = 1 << 20  # bytes
_MOST_PROVEN = 1000  # files whose hashes are remembered


@dataclass(frozen=True)
class Uploads:
    """The code that clients have sent, until it is accepted or too old.

    ``directory`` has the uploads, ``accepted`` the code of accepted jobs; ``clock`` gives Unix time, s.

    ``most_bytes`` bounds the uploads that are not accepted, together; with 0 none is received.
    """

    directory: Path
    accepted: Path
    clock: Callable[[], float]
    most_bytes: int
    _proven: dict[Path, os.stat_result] = field(default_factory=dict, repr=False)
    _sound: set[str] = field(default_factory=set, repr=False)  # the hashes of contents that were sent whole
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def received(self, sha256: str) -> tuple[int, bool]:
        """The number of bytes that are there of a content, and true if that is all of it."""
        check_hash(sha256)
        whole = self._whole(sha256)
        if whole is not None and (found := _stat_of(whole)) is not None:
            return found.st_size, True
        partial = _stat_of(self.directory / sha256 / _PARTIAL)
        return (0, False) if partial is None else (partial.st_size, False)

    def receive(self, sha256: str, content: BinaryIO, offset: int = 0, size: int | None = None) -> int:
        """Append the part of a content at ``offset``; returns the number of received bytes.

        ``size`` is that of the whole content in bytes (``None``: it ends with this part), which is then
        compared with the hash.  Raises :class:`~speck.errors.Conflict` for a part that does not follow,
        :class:`~speck.errors.InvalidInput`, and :class:`~speck.errors.StoreFull`.
        """
        check_hash(sha256)
        if not self.most_bytes:
            raise Conflict(f"{NOT_ACCEPTED} (expected a job_path under its --root)")
        if size is not None and size > LARGEST:
            raise _refused(f"has {size:,} bytes (at most {LARGEST:,} are accepted)", sha256)
        with self._lock:
            self._drop_cut(sha256)
            there, complete = self.received(sha256)
            if complete:
                return there
            if offset != there:
                raise Conflict(f"artifact {sha256[:12]} has {there} bytes here (expected offset={there})")
            self._prune(sha256, max(0, (size or 0) - there))
            try:
                return self._append(sha256, content, size)
            except OSError as error:
                raise write_error(error, f"artifact {sha256[:12]} cannot be stored: {error}") from error

    def _append(self, sha256: str, content: BinaryIO, size: int | None) -> int:
        folder = self.directory / sha256
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / _PARTIAL
        most = LARGEST if size is None else size
        with partial.open("ab") as file:
            while chunk := content.read(_CHUNK):
                if file.tell() + len(chunk) > most:
                    self._forget(sha256)
                    raise _refused(f"has more than {most:,} bytes", sha256)
                file.write(chunk)
            there = file.tell()
        if size is None or there == size:
            if hash_of(partial) != sha256:
                self._forget(sha256)
                raise _refused("is not the hash of the content that was sent (send it again)", sha256)
            put_in_place(partial, folder / _COMPLETE)
            self._sound.add(sha256)
        os.utime(folder, (self.clock(), self.clock()))
        return there

    def find(self, sha256: str, name: str) -> Path:
        """A content under the name of a job's file, which lasts for an hour from now.

        Raises :class:`~speck.store.jobfile.BadFile` if it is not there.
        """
        if not self.most_bytes:
            raise BadFile(f"was sent, and {NOT_ACCEPTED}")
        if not is_sha256(sha256):
            raise BadFile(f"has the hash {sha256[:80]!r} (expected SHA-256: 64 hexadecimal digits)")
        if not name or name.startswith("."):
            raise BadFile("is hidden (expected no name in the path to begin with a dot)")
        with self._lock:
            self._drop_cut(sha256)
            whole = self._whole(sha256)
            if whole is None:
                raise BadFile(f"has content {sha256[:12]}, which this server does not have (send it again)")
            place = self.directory / sha256 / name
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                with suppress(FileExistsError):
                    os.link(whole, place)
                os.utime(place.parent, (self.clock(), self.clock()))
            except OSError as error:
                raise BadFile(f"cannot be stored ({error.strerror})") from error
            return place

    def content(self, sha256: str, name: str) -> Path | None:
        """As :meth:`find`; ``None`` if the content is not there."""
        with suppress(BadFile):
            return self.find(sha256, name)
        return None

    def _whole(self, sha256: str) -> Path | None:
        """A file with this content, of those that were sent or accepted."""
        sent = self.directory / sha256 / _COMPLETE
        if sent.is_file() and self._is_sound(sent, sha256):
            return sent
        folders = (self.directory / sha256, self.accepted / sha256)
        files = (each for folder in folders for each in sorted(_entries(folder)))
        found = (each for each in files if not each.name.startswith(".") and each.is_file())
        return next((each for each in found if self._has_hash(each, sha256)), None)

    def _is_sound(self, sent: Path, sha256: str) -> bool:
        """True if a content is as it was sent; each is read once, since a loss of power may have cut it."""
        if sha256 in self._sound:
            return True
        if hash_of(sent) != sha256:
            return False
        if len(self._sound) >= _MOST_PROVEN:
            self._sound.clear()
        self._sound.add(sha256)
        return True

    def _drop_cut(self, sha256: str) -> None:
        """Delete a content that is not as it was sent, so that it is sent again."""
        sent = self.directory / sha256 / _COMPLETE
        if sent.is_file() and not self._is_sound(sent, sha256):
            self._forget(sha256)

    def _has_hash(self, path: Path, sha256: str) -> bool:
        """True if a file has this hash; it is computed again only when the file was changed."""
        now, before = _stat_of(path), self._proven.get(path)
        if now is not None and before is not None and _state(before) == _state(now):
            return True
        if now is None or hash_of(path) != sha256:
            return False
        if len(self._proven) >= _MOST_PROVEN:
            self._proven.clear()
        self._proven[path] = now
        return True

    def _prune(self, sha256: str, needed: int) -> None:
        """Delete files that no request has named for long, except for this content, which is being received.

        Raises :class:`~speck.errors.StoreFull` if there is no room for ``needed`` bytes more of it.
        """
        now = self.clock()
        for folder in _entries(self.directory):
            # In both directions: the clock may have been set back since.
            is_old = (found := _stat_of(folder)) is not None and abs(now - found.st_mtime) > LIFETIME
            if is_old and folder.name != sha256:
                shutil.rmtree(folder, ignore_errors=True)
        used = sum(_size(each) for each in _entries(self.directory) if not self._is_accepted(each.name))
        if used + needed > self.most_bytes:
            raise StoreFull(
                f"{used:,} bytes of code were sent to this server in the last hour and are not applied "
                f"(at most {self.most_bytes:,} are kept; try again later)"
            )

    def _is_accepted(self, sha256: str) -> bool:
        return any(not each.name.startswith(".") for each in _entries(self.accepted / sha256))

    def _forget(self, sha256: str) -> None:
        shutil.rmtree(self.directory / sha256, ignore_errors=True)


def check_hash(sha256: str) -> None:
    """Raise :class:`~speck.errors.InvalidInput` for a text that is no SHA-256 in hexadecimal."""
    if not is_sha256(sha256):
        raise _refused("is not a SHA-256 hash (expected 64 hexadecimal digits, lower case)", sha256)


def _refused(predicate: str, sha256: str) -> InvalidInput:
    return InvalidInput([Fault(f"artifact {sha256[:80]!r} {predicate}")], "artifact")


def _state(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _size(folder: Path) -> int:
    """The bytes of a folder's files; those with several names count once."""
    found = (_stat_of(each) for each in _entries(folder))
    return max((each.st_size for each in found if each is not None), default=0)


def _entries(folder: Path) -> list[Path]:
    """The entries of a folder; of one that is not there, or is deleted meanwhile, none."""
    try:
        return list(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _stat_of(path: Path) -> os.stat_result | None:
    """The state of a file; ``None`` if it is not there, or is deleted meanwhile."""
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
