"""The standby's end: a store that has each write of the primary's, and is ready to be served from.

A write names the position that it follows and the one that it makes, an id of its own: so two stores at one
position have the same records.  Only a write at the store's position is taken; otherwise the primary sends
all records again.  Those that differ are gathered, and written at the end in one batch: until then the store
is the former one.  Only a first copy is written as it comes, in a format that no server opens.
"""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import speck
from speck.core.durable_files import put_in_place, sync_directory, sync_file
from speck.errors import StoreError
from speck.standby.files import SECRET, copied_files, is_copied
from speck.standby.lease import steady
from speck.standby.messages import (
    Answer,
    BadRequest,
    Header,
    NoAnswer,
    Refused,
    Timing,
    flag_in,
    number_in,
    text_in,
    unpack,
)
from speck.store.artifacts import SCRATCH, clear_scratch, hash_of
from speck.store.codec import FORMAT_KEY, IDENTITY_KEY, INCOMPLETE, POSITION_KEY
from speck.store.leveldb.database import Database
from speck.store.opening import check, claimed_from, epoch_of, writes_of
from speck.store.served_files import BEGINNINGS
from speck.store.transaction import Write

_AT_ONCE = 1000  # records in one write

_Done = Callable[[], Answer]  # what is left to do once the next request may be answered


class Follower:
    """Takes writes into the store in ``directory``; ``clock`` is steady, s.  Safe to use from several
    threads.

    Raises :class:`~speck.errors.StoreError` for a store that cannot be opened.
    """

    def __init__(
        self, directory: Path, timing: Timing | None = None, clock: Callable[[], float] = steady
    ) -> None:
        self._directory, self._timing, self._clock = directory, timing or Timing(), clock
        self._database = Database(directory)
        clear_scratch(directory)  # pieces of files that a former process has received
        (directory / BEGINNINGS).unlink(missing_ok=True)  # another server offers the files from now on
        self.epoch = epoch_of(self._position())  # the highest known of this pair
        self.primary = self.primary_version = ""  # its URL and its version, if it has named that
        self._heard = clock()
        self._copy = ""  # the id of the copy that is being received
        # Its differences to the store so far; None for a copy that is written as it comes.
        self._differences: dict[bytes, bytes | None] | None = None
        self._checked: bytes | None = None  # the position at which all records could be read
        self._process = secrets.token_hex(8)
        self._latest = 0, 0  # of the requests about files: epoch and number of the last one
        self._guard = threading.Lock()
        self._asking = False
        self._operations: dict[str, Callable[[Header, bytes], Answer | _Done]] = {
            "renew": self._renew,
            "write": self._write,
            "files": self._files,
            "begin": self._begin,
            "records": self._records,
            "file": self._file,
            "delete": self._delete,
            "end": self._end,
        }

    def _position(self) -> bytes | None:
        return self._database.get(POSITION_KEY)

    @property
    def claimed_from(self) -> int:
        """The epoch above which this server claims one, with those of an earlier pair or a restored store."""
        return max(self.epoch, claimed_from(self._database))

    @property
    def writes(self) -> int:
        """The number of writes up to the store's position; 0 if it is not known."""
        return writes_of(self._position())

    @property
    def is_complete(self) -> bool:
        """True if the store has been a whole copy, or the primary's own."""
        return self._position() is not None

    @property
    def is_silent(self) -> bool:
        """True if the primary has been silent for longer than its lease."""
        return self._clock() - self._heard > self._timing.silence

    def check(self, further: Callable[[Database], object]) -> None:
        """Check that the store can be served from: all records can be read, and ``further`` does not raise.

        Raises :class:`~speck.errors.StoreError`, and what ``further`` raises.
        """
        position = self._position()
        further(self._database)
        if position is None or position != self._checked:
            check(self._database)
            self._checked = position

    def close(self) -> None:
        """Let go of the store."""
        with self._guard:
            self._asking = True
            self._database.close()

    def take_over(self, claim: Callable[[], int], *, if_silent: bool = True) -> int | None:
        """Ask for the next epoch by ``claim``; from the request on, nothing of the primary is taken.

        Returns ``None``, and follows again, if it is not answered, or (``if_silent``) if the primary has
        called.  A grant whose answer was lost is of no effect: the next request gets a higher one.  Raises
        what ``claim`` raises.
        """
        with self._guard:
            if if_silent and not self.is_silent:
                return None
            self._asking = True
        granted: int | None = None
        try:
            granted = claim()
        except NoAnswer:
            return None
        finally:
            with self._guard:
                self._asking = granted is not None
        self.close()
        return granted

    # --- requests of the primary

    def handle(self, operation: str, header: Header, payload: bytes) -> Answer:
        """Answer a request of the primary.

        Raises :class:`~speck.standby.messages.Refused`, ``BadRequest`` and
        :class:`~speck.errors.StoreError`.
        """
        answer = self._operations.get(operation)
        if operation == "position":  # a server asks that is no primary yet
            return self._answered_position()
        if answer is None:
            raise BadRequest(f"{operation!r} is no operation of a standby")
        epoch, url = number_in(header, "epoch"), text_in(header, "url")
        with self._guard:
            if self._asking:
                raise Refused("this server asks to be the primary", self.epoch)
            if epoch < self.epoch:
                raise Refused(f"epoch {epoch} is over (epoch {self.epoch})", self.epoch)
            self.epoch, self.primary, self._heard = epoch, url, self._clock()
            found = answer(header, payload)
        return found() if callable(found) else found

    def _answered_position(self) -> Answer:
        """The position of a whole store; empty without one."""
        with self._guard:
            if self._asking:
                raise Refused("this server asks to be the primary", self.epoch)
            return {"position": (self._position() or b"").decode()}

    def _renew(self, header: Header, payload: bytes) -> Answer:
        """Confirm a call by which the primary shows that it is alive."""
        self.primary_version = str(header.get("version", ""))
        return {"position": (self._position() or b"").decode(), "version": speck.__version__}

    def _write(self, header: Header, payload: bytes) -> Answer:
        """Write what the primary is about to write."""
        before, after = text_in(header, "before").encode(), text_in(header, "after").encode()
        position = self._position()
        if position == after:  # it came twice
            return {}
        if self._copy or position is None or position != before:
            raise Refused("this standby is not in step")
        self._database.write([*unpack(payload), (POSITION_KEY, after)])
        return {}

    def _files(self, header: Header, payload: bytes) -> Answer:
        """Name the files that are here.  A copy that was not ended is over."""
        self._check_identity(header)
        self._latest = max(self._latest, _order(header))
        self._copy, self._differences = "", None
        names = sorted(copied_files(self._directory))
        return {"files": names, "process": self._process, "deletes": True}

    def _begin(self, header: Header, payload: bytes) -> Answer:
        """Take all records again, until :meth:`_end`: those that do not come are to be deleted."""
        self._check_identity(header)
        self._copy = text_in(header, "copy")
        gone: dict[bytes, bytes | None] = dict.fromkeys(self._database.keys(b""))
        if self._database.get(FORMAT_KEY) not in (None, INCOMPLETE.encode()):
            self._differences = gone
            return {}
        self._differences = None
        self._database.write([(FORMAT_KEY, INCOMPLETE.encode())])
        self._write_all([(key, None) for key in gone if key not in (FORMAT_KEY, IDENTITY_KEY)])
        return {}

    def _records(self, header: Header, payload: bytes) -> Answer:
        """Take a part of all records."""
        self._check_copy(header)
        records = [each for each in unpack(payload) if each[0] not in (FORMAT_KEY, POSITION_KEY)]
        if self._differences is None:
            self._write_all(records)
            return {}
        for key, value in records:
            if self._database.get(key) == value:
                self._differences.pop(key, None)
            else:
                self._differences[key] = value
        return {}

    def _end(self, header: Header, payload: bytes) -> Answer:
        """Take the end of all records."""
        self._check_copy(header)
        position, form = text_in(header, "position"), text_in(header, "format")
        changes = list((self._differences or {}).items())
        self._database.write([*changes, (FORMAT_KEY, form.encode()), (POSITION_KEY, position.encode())])
        self._copy, self._differences = "", None
        return {}

    def _check_identity(self, header: Header) -> None:
        mine, theirs = self._database.get(IDENTITY_KEY), text_in(header, "identity")
        if mine is not None and mine.decode() != theirs:
            raise BadRequest(
                f"the standby's store {str(self._directory)!r} is another one than the primary's "
                f"({mine.decode()}, not {theirs}): give the standby an empty --data-dir"
            )

    def _check_copy(self, header: Header) -> None:
        if not self._copy or text_in(header, "copy") != self._copy:
            raise Refused("this copy was abandoned")

    def _write_all(self, changes: Sequence[Write]) -> None:
        for start in range(0, len(changes), _AT_ONCE):
            self._database.write(changes[start : start + _AT_ONCE])

    def _file(self, header: Header, payload: bytes) -> _Done:
        """Take a piece of a file.  Writes and renewals do not wait until it is on the disk."""
        name, offset = text_in(header, "name"), number_in(header, "offset")
        if not is_copied(name):
            raise BadRequest(f"{name!r} is no file of a store")
        self._latest = max(self._latest, _order(header))
        path = self._directory / name
        scratch = path.with_name(f"{SCRATCH}{hashlib.sha256(path.name.encode()).hexdigest()[:16]}")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with scratch.open("ab" if offset else "wb") as file:
                if file.tell() != offset:
                    raise Refused(f"{name} has {file.tell()} bytes here, not {offset}")
                scratch.chmod(0o600)
                file.write(payload)
            if not flag_in(header, "last"):
                return partial(_synced, scratch)
            # Under a name of its own: a second try of the sender would begin it again.
            whole = path.with_name(f"{SCRATCH}{secrets.token_hex(8)}")
            scratch.rename(whole)
        except OSError as error:
            raise _unwritten(path, error) from error
        return partial(self._kept, whole, path, text_in(header, "sha256"))

    def _kept(self, scratch: Path, path: Path, sha256: str) -> Answer:
        try:
            if hash_of(scratch) != sha256:
                scratch.unlink()
                raise Refused(f"{path.name} is not what was sent")
            put_in_place(scratch, path)
            sync_directory(path.parent.parent)  # the name of the folder
        except OSError as error:
            raise _unwritten(path, error) from error
        return {"process": self._process}

    def _delete(self, header: Header, payload: bytes) -> Answer:
        """Delete files that the primary no longer has."""
        if _order(header) < self._latest:
            raise Refused("a later request about files has come before")
        names = header.get("names")
        for name in names if isinstance(names, list) else ():
            if not isinstance(name, str) or not is_copied(name) or name == SECRET:
                raise BadRequest(f"{name!r} is no file that may be deleted")
            path = self._directory / name
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise StoreError(f"{path} cannot be deleted: {error.strerror or error}") from error
            with contextlib.suppress(OSError):  # it has another file, or a piece of one
                path.parent.rmdir()
        return {}


def _order(header: Header) -> tuple[int, int]:
    """The place of a request among those about files; a primary of an earlier version has no numbers."""
    return number_in(header, "epoch"), number_in({"number": 0, **header}, "number")


def _synced(scratch: Path) -> Answer:
    """Have a piece on the disk, which would otherwise be written with the records of a later write."""
    try:
        with contextlib.suppress(FileNotFoundError):  # the sender has begun again
            sync_file(scratch)
    except OSError as error:
        raise _unwritten(scratch, error) from error
    return {}


def _unwritten(path: Path, error: OSError) -> StoreError:
    return StoreError(f"{path} cannot be written: {error.strerror or error}")
