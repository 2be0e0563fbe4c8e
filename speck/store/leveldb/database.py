"""LevelDB with its troubles translated, and kept from harm after a write that failed.

LevelDB goes on after a failed write as if nothing were, and appends to a log whose last entry is torn: what
it then says is on disk may be gone at the next opening.  So writes here go one after the other (those that
wait together are written together), and after one that failed the database is closed and opened again,
which drops the torn entry, before anything else is written.  Reads go on meanwhile from what is open.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Protocol

import plyvel

from speck.errors import StoreDamaged, StoreError, StoreFull, StoreLocked
from speck.store.codec import POSITION_KEY
from speck.store.leveldb import manifest
from speck.store.leveldb.resident import ResidentRecords
from speck.store.transaction import Record, Write

_OWNER_FILE = "OWNER"  # beside LevelDB's own files: the process id of whoever has the store open
_BUFFER = 256 * 1024  # bytes; the store of a coordinator is small, and its memory is a Raspberry Pi's
_PROBE = 4 * _BUFFER  # bytes that must fit before the database is opened again: its log, and a table of it
_CUT_TABLE = re.compile(r"\d+\.(ldb|sst)\b.*Invalid argument")  # LevelDB's words for one that ends too early
_LOCKED = re.compile(r"lock \S*LOCK: (already held|Resource temporarily unavailable)")
_FULL = ("No space left on device", "Disk quota exceeded", "File too large")


class Copy(Protocol):
    """A second copy of the database, which has each write before it is made."""

    def confirm(self, changes: Sequence[Write], position: bytes | None) -> Sequence[Write]:
        """The changes with the new position, once they may be written.

        ``position`` is that of the database, ``None`` without one.  Called by one thread at a time.  Raises
        :class:`~speck.errors.StoreError` if they may not.
        """
        ...


@dataclass
class _Waiting:
    """A caller's changes on their way to disk."""

    changes: Sequence[Write]
    written: bool = False
    error: StoreError | None = None


class _NotConfirmed(Exception):
    """The copy does not confirm a write, which was not tried: the database itself is well."""

    def __init__(self, error: StoreError) -> None:
        self.error = error
        super().__init__(str(error))


@dataclass
class _Gate:
    """Lets many read, or one exchange what is read.  A reader may enter again."""

    _readers: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition)

    @contextmanager
    def shared(self) -> Iterator[None]:
        with self._changed:
            self._readers += 1
        try:
            yield
        finally:
            with self._changed:
                self._readers -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: self._readers == 0)
            yield


class Database:
    """One open LevelDB.  Safe to use from several threads.

    With a ``copy``, each write is confirmed by that first.  A database without one loses its position, as it
    is no longer what the copy has.  ``resident`` has its records in memory, from the opening on.

    Raises :class:`~speck.errors.StoreLocked` when a process has it open already,
    :class:`~speck.errors.StoreDamaged` when it cannot be read as it lies there,
    :class:`~speck.errors.StoreFull` when there is no room to write, and
    :class:`~speck.errors.StoreError` for any other trouble.
    """

    def __init__(
        self, directory: Path, copy: Copy | None = None, resident: ResidentRecords | None = None
    ) -> None:
        self.directory = directory
        self.resident = ResidentRecords() if resident is None else resident
        self._copy = copy
        self._gate = _Gate()
        self._queue: SimpleQueue[_Waiting] = SimpleQueue()
        # Its holder writes the queue of all who wait, in one batch with one sync.
        self._writing = threading.Lock()
        self._failure: StoreError | None = None
        self._closed = False
        with self._troubles("cannot be opened"):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)  # code and arguments are private
        self._db = self._open()

    def _open(self) -> Any:
        owner = self.directory / _OWNER_FILE
        with self._troubles("cannot be opened"):
            trouble = manifest.missing_or_cut(self.directory)
        if trouble:
            raise StoreDamaged(self._damage(trouble))
        with self._troubles("cannot be opened"):
            manifest.unseal(self.directory)  # before LevelDB changes its files: a crash may come in between
        try:
            db = plyvel.DB(
                str(self.directory), create_if_missing=True, paranoid_checks=True, write_buffer_size=_BUFFER
            )
        except plyvel.Error as error:
            if _LOCKED.search(str(error)):
                raise locked(self.directory) from error
            raise self._translated(error, "cannot be opened") from error
        try:
            with self._troubles("cannot be opened"):
                owner.write_text(str(os.getpid()), encoding="ascii")
                self._load(db)
        except BaseException:  # LevelDB's lock is held until the process ends otherwise
            db.close()
            raise
        return db

    def _load(self, db: Any) -> None:
        """Read the resident records."""
        with ExitStack() as scans:
            options = [{"prefix": each, "verify_checksums": True} for each in self.resident.prefixes]
            found = [scans.enter_context(db.iterator(**each)) for each in options]
            self.resident.load(chain.from_iterable(found))

    # --- reading

    def check_open(self) -> None:
        """Raise :class:`~speck.errors.StoreError` if the database was closed."""
        if self._closed:
            raise StoreError(f"store {str(self.directory)!r} is closed")

    def get(self, key: bytes) -> bytes | None:
        """The value of a key, if there is one."""
        with self._reading():
            value: bytes | None = self._db.get(key, verify_checksums=True)
            return value

    @contextmanager
    def scan(self, prefix: bytes = b"", *, reverse: bool = False) -> Iterator[Iterator[Record]]:
        """All keys that begin with a prefix, in order, with their values, as they are together now."""
        options = {"prefix": prefix, "reverse": reverse, "verify_checksums": True}
        with self._reading(), self._db.iterator(**options) as found:
            yield found

    def all(self) -> list[Record]:
        """Everything there is."""
        with self.scan() as found:
            return list(found)

    def keys(self, prefix: bytes) -> list[bytes]:
        """All keys that begin with a prefix, in order."""
        options = {"prefix": prefix, "include_value": False, "verify_checksums": True}
        with self._reading(), self._db.iterator(**options) as found:
            return list(found)

    # --- writing

    def write(self, changes: Sequence[Write]) -> None:
        """Write all of these changes; they are on disk then, or none of them is.

        When it raises because the disk did not confirm, they may be there after the next opening.
        """
        if not changes:
            return
        mine = _Waiting(changes)
        self._queue.put(mine)
        with self._writing:
            if not mine.written:
                self._write_queue()
        if mine.error is not None:
            raise type(mine.error)(str(mine.error)) from mine.error

    def _write_queue(self) -> None:
        group = [self._queue.get() for _ in range(self._queue.qsize())]
        error: StoreError | None = None
        try:
            self._recover()
            changes = self._confirmed([change for each in group for change in each.changes])
            self._write_batch(changes)
        except _NotConfirmed as trouble:
            error = trouble.error
        except StoreError as trouble:
            error = self._failure = trouble
        except BaseException as trouble:  # whoever waits for this write must not take it for done
            text = f"a write broke off ({type(trouble).__name__}: {trouble})"
            error = self._failure = StoreError(f"store {str(self.directory)!r}: {text}")
            if not isinstance(trouble, Exception):
                raise
        finally:
            for each in group:
                each.written, each.error = True, error

    def _confirmed(self, changes: Sequence[Write]) -> Sequence[Write]:
        """The changes with the position after them.  Raises :class:`_NotConfirmed`."""
        if self._copy is None:
            return [(POSITION_KEY, None), *changes]
        position = self.get(POSITION_KEY)
        try:
            return self._copy.confirm(changes, position)
        except StoreError as error:
            raise _NotConfirmed(error) from error
        except Exception as error:  # whoever waits for this write must not take it for done
            text = f"the copy of a write failed ({type(error).__name__}: {error})"
            raise _NotConfirmed(StoreError(text)) from error

    def _write_batch(self, changes: Sequence[Write]) -> None:
        # As a transaction, so that nothing is written if the block breaks off.
        with self._reading(), self._db.write_batch(transaction=True, sync=True) as batch:
            for key, value in changes:
                batch.delete(key) if value is None else batch.put(key, value)
        self.resident.apply(changes)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Block writes within the block."""
        with self._writing:
            yield

    def _recover(self) -> None:
        """Open the database again after a failed write, once there is room."""
        if self._failure is None or self._closed:
            return
        with self._troubles(), tempfile.TemporaryFile(dir=self.directory) as probe:
            probe.write(bytes(_PROBE))
            probe.flush()
            os.fsync(probe.fileno())
        with self._gate.alone():
            self._db.close()
            self._db = self._open()
        self._failure = None

    def retry(self) -> None:
        """After a write that failed, see whether there is room again."""
        with self._writing, contextlib.suppress(StoreError):
            self._recover()

    @property
    def failure(self) -> StoreError | None:
        """The error of the last write, until one succeeds."""
        return self._failure

    def compact(self) -> None:
        """Give back the space of what was overwritten or deleted."""
        with self._reading():
            self._db.compact_range()

    # --- ending

    def close(self) -> None:
        """Close the files and release the lock."""
        with self._writing, self._gate.alone():
            if self._closed:
                return
            self._closed = True
            self._db.close()
            # Both files are optional: nothing depends on them.
            with contextlib.suppress(OSError):
                (self.directory / _OWNER_FILE).unlink(missing_ok=True)
                manifest.seal(self.directory)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        with self._gate.shared(), self._troubles():
            self.check_open()
            if self._db.closed:
                raise self._failure or StoreError(f"store {str(self.directory)!r} is closed")
            yield

    @contextmanager
    def _troubles(self, what: str = "cannot be used") -> Iterator[None]:
        try:
            yield
        except (plyvel.Error, OSError) as error:
            raise self._translated(error, what) from error

    def _translated(self, error: Exception, what: str) -> StoreError:
        text = str(error)
        if any(words in text for words in _FULL):
            message = f"store {str(self.directory)!r} cannot be written: the disk is full ({_words(error)})"
            return StoreFull(f"{message}; free some space, and try again")
        if isinstance(error, plyvel.CorruptionError) or _CUT_TABLE.search(text):
            return StoreDamaged(self._damage(_words(error)))
        return StoreError(f"store {str(self.directory)!r} {what}: {_words(error)}")

    def _damage(self, trouble: str) -> str:
        return (
            f"store {str(self.directory)!r} is damaged: {trouble} "
            "(restore a backup: `speck store restore`; or save what can be read: `speck store repair`)"
        )


def _words(error: Exception) -> str:
    text = str(error)
    found = text.strip("b'\"") if text.startswith(("b'", 'b"')) else text
    return " ".join(found.split())


def locked(directory: Path) -> StoreLocked:
    """The error for a store that another process has open."""
    try:
        holder = f"process {(directory / _OWNER_FILE).read_text(encoding='ascii').strip()}"
    except (OSError, ValueError):
        holder = "another process"
    return StoreLocked(
        f"store {str(directory)!r} is held by {holder}; "
        "one server at a time may open it (stop that one, or use its address)"
    )
