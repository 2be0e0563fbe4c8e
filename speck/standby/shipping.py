"""The files of a primary at its standby: sent before a write names them, deleted once they are gone here.

A file is sent *before* it gets its name here, by the thread that makes it, while others write.  So the write
that follows does not wait for it.  The files are compared at each write nevertheless: one that came here in
another way is sent with the write, which is confirmed after that.

What is gone here is deleted there, unless it is about to come again.  A deletion may be carried out late,
when its sender has given up: each request has a number, and the standby refuses a deletion after a later
request about files.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Protocol

from speck.standby.files import SECRET, NewFiles, copied_files
from speck.standby.messages import Answer, Handler, NoAnswer
from speck.store.artifacts import hash_of

_PIECE = 256 << 10  # bytes of a file in one request: small writes on the same line wait for no more
_AT_ONCE = 1000  # names in one request


class Ask(Protocol):
    """A request of the primary's."""

    def __call__(self, wire: Handler, operation: str, payload: bytes = b"", /, **header: object) -> Answer:
        """Raises :class:`~speck.standby.messages.NoAnswer` and ``Refused``."""
        ...


class Shipping:
    """The files in a store's ``directory``.  Safe to use from several threads, except for :meth:`send_new`,
    which one uses at a time."""

    def __init__(self, directory: Path, ask: Ask) -> None:
        self._directory, self._ask = directory, ask
        self._new, self._gone = NewFiles(directory), NewFiles(directory)
        self._there: set[str] = set()  # at the standby, in the process that has listed them
        self._process = ""
        # Those that came there since it was last asked, by its process: its list may not have them yet.
        self._sent: dict[str, str] = {}
        self._undeleted: set[str] = set()  # may be there, as their deletion was not confirmed
        self._can_delete = False  # the standby is of a version that deletes files
        self._in_step = False
        self._begun = 0  # how often the standby was asked for its files
        self._placing: Counter[str] = Counter()  # get their names here, and so stay there
        self._busy: set[str] = set()  # being sent or deleted
        self._number = 0
        self._changed = threading.Condition()

    def begin(self, wire: Handler, identity: str) -> None:
        """Ask which files the standby has.  Raises ``NoAnswer`` and ``Refused``."""
        with self._changed:
            self._in_step, self._sent = False, {}
            self._begun += 1
            number = self._next()
        answer = self._ask(wire, "files", identity=identity, number=number)
        with self._changed:
            self._process = str(answer.get("process", ""))
            since = {name for name, process in self._sent.items() if process == self._process}
            self._there, self._undeleted = {*answer.get("files", ()), *since}, set()
            self._can_delete = answer.get("deletes") is True
        self._new.forget()
        self._gone.forget()

    def note(self, *, in_step: bool) -> None:
        """Note if the standby has all records of this server: its own may name what is gone here."""
        with self._changed:
            self._in_step = in_step

    def lacks(self) -> str:
        """A file that is about to get its name here and is not sent before; empty if there is none."""
        with self._changed:
            others = self._placing.keys() - self._there - self._busy
            return min(others - copied_files(self._directory), default="")

    def _next(self) -> int:
        with self._changed:
            self._number += 1
            return self._number

    @contextmanager
    def placing(self, name: str) -> Iterator[None]:
        """In the block a file gets its name here: it is not deleted at the standby."""
        with self._changed:
            self._placing[name] += 1
        try:
            yield
        finally:
            with self._changed:
                self._placing -= Counter([name])
            self._gone.forget()  # it may have been sent, and not have come here

    def send(self, wire: Handler, name: str, opened: Callable[[], IO[bytes]], sha256: str) -> bool:
        """Send a file if the standby lacks it; return false if the hash of its content is not ``sha256``.

        Raises ``NoAnswer``, ``Refused``, and what ``opened`` and reading raise.
        """
        with self._changed:
            self._changed.wait_for(lambda: name not in self._busy)
            if name in self._there:
                return True
            self._busy.add(name)
            self._undeleted.discard(name)
            number = self._next()
        process = None
        try:
            with opened() as file:
                process = self._send(wire, name, file, sha256, number)
        finally:
            with self._changed:
                self._busy.discard(name)
                if process is not None:
                    self._sent[name] = process
                if process == self._process:
                    self._there.add(name)
                self._changed.notify_all()
        return process is not None

    def _send(self, wire: Handler, name: str, file: IO[bytes], sha256: str, number: int) -> str | None:
        """The process at the standby that has the file now; ``None`` for another content than expected."""
        digest, offset, piece = hashlib.sha256(), 0, file.read(_PIECE)
        while True:
            digest.update(piece)
            following = file.read(_PIECE)
            last = not following
            if last and digest.hexdigest() != sha256:
                return None
            header = {"name": name, "offset": offset, "last": last, "sha256": sha256 if last else ""}
            answer = self._ask(wire, "file", piece, **header, number=number)
            if last:
                return str(answer.get("process", ""))
            offset, piece = offset + len(piece), following

    def send_new(self, wire: Handler) -> None:
        """Send the files here that the standby does not have.  Raises ``NoAnswer`` and ``Refused``."""
        if not self._new.may_differ():
            return
        try:
            for name in sorted(copied_files(self._directory) - self._there):
                path = self._directory / name
                with contextlib.suppress(FileNotFoundError):  # deleted meanwhile: nothing names it any more
                    if not self.send(wire, name, partial(_opened, path), hash_of(path) or ""):
                        raise NoAnswer(f"{name} was changed while it was sent")
        except OSError as error:
            self._new.forget()
            raise NoAnswer(f"a file cannot be read: {error}") from error
        except BaseException:
            self._new.forget()
            raise

    def delete_gone(self, wire: Handler, named: Callable[[], Collection[str]]) -> None:
        """Delete at the standby what is no longer here, while that is in step.

        ``named`` gives the hashes of the code that the records name, which stays there even if it is lost
        here.  Raises ``NoAnswer`` and ``Refused``, after which it is tried again, and what ``named`` raises.
        """
        if not self._in_step or not self._can_delete or not self._gone.may_differ():
            return
        try:
            self._delete(wire, named)
        except BaseException:
            self._gone.forget()
            raise

    def _delete(self, wire: Handler, named: Callable[[], Collection[str]]) -> None:
        with self._changed:
            begun, surplus = self._begun, self._surplus()
        if not surplus:
            return
        hashes = named()
        with self._changed:
            if begun != self._begun or not self._in_step:
                return
            # What a write names that came since is here by now, or is about to be.
            found = sorted(each for each in surplus & self._surplus() if _hash_in(each) not in hashes)
            gone = set(found[:_AT_ONCE])
            self._there -= gone
            self._busy |= gone
            self._sent = {name: process for name, process in self._sent.items() if name not in gone}
            number = self._next()
        if len(found) > len(gone):
            self._gone.forget()
        confirmed = False
        try:
            if gone:
                self._ask(wire, "delete", names=sorted(gone), number=number)
            confirmed = True
        finally:
            with self._changed:
                self._busy -= gone
                self._undeleted = self._undeleted - gone if confirmed else self._undeleted | gone
                self._changed.notify_all()

    def _surplus(self) -> set[str]:
        surplus = (self._there | self._undeleted) - copied_files(self._directory)
        return surplus - self._placing.keys() - self._busy - {SECRET}


def _opened(path: Path) -> IO[bytes]:
    return path.open("rb")


def _hash_in(name: str) -> str:
    return name.split("/")[1]
