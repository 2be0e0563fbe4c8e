"""The files of a primary at its standby: sent before a write names them.

A file is sent *before* it gets its name here, by the thread that makes it, while others write.  So the write
that follows finds that the standby has it, and has nothing to wait for.  It compares all the same: whatever
came here in another way is sent with the write, which is not confirmed before.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Protocol

from speck.standby.files import NewFiles, copied_files
from speck.standby.messages import Answer, Handler, NoAnswer
from speck.store.artifacts import hash_of

_PIECE = 256 << 10  # bytes of a file in one request: small writes on the same line wait for no more


class Ask(Protocol):
    """A request of the primary's."""

    def __call__(self, wire: Handler, operation: str, payload: bytes = b"", /, **header: object) -> Answer:
        """Raises :class:`~speck.standby.messages.NoAnswer` and ``Refused``."""
        ...


class Shipping:
    """The files in a store's ``directory``.  Safe to use from several threads, but for :meth:`send_new`,
    which one uses at a time."""

    def __init__(self, directory: Path, ask: Ask) -> None:
        self._directory, self._ask = directory, ask
        self._new = NewFiles(directory)
        self._there: set[str] = set()  # at the standby, in the process that has listed them
        self._process = ""
        # Those that came there since it was last asked, by its process: its list may not have them yet.
        self._sent: dict[str, str] = {}
        self._placing: Counter[str] = Counter()  # get their names here
        self._busy: set[str] = set()  # being sent
        self._changed = threading.Condition()

    def begin(self, wire: Handler, identity: str) -> None:
        """Ask which files the standby has.  Raises ``NoAnswer`` and ``Refused``."""
        with self._changed:
            self._sent = {}
        answer = self._ask(wire, "files", identity=identity)
        with self._changed:
            self._process = str(answer.get("process", ""))
            since = {name for name, process in self._sent.items() if process == self._process}
            self._there = {*answer.get("files", ()), *since}
        self._new.forget()

    def lacks(self) -> str:
        """A file that is about to get its name here and is not sent before; empty if there is none."""
        with self._changed:
            others = self._placing.keys() - self._there - self._busy
            return min(others - copied_files(self._directory), default="")

    @contextmanager
    def placing(self, name: str) -> Iterator[None]:
        """In the block a file gets its name here."""
        with self._changed:
            self._placing[name] += 1
        try:
            yield
        finally:
            with self._changed:
                self._placing -= Counter([name])

    def send(self, wire: Handler, name: str, opened: Callable[[], IO[bytes]], sha256: str) -> bool:
        """Send a file, unless the standby has it; false if its content has another hash than ``sha256``.

        Raises ``NoAnswer``, ``Refused``, and what ``opened`` and reading raise.
        """
        with self._changed:
            self._changed.wait_for(lambda: name not in self._busy)
            if name in self._there:
                return True
            self._busy.add(name)
        process = None
        try:
            with opened() as file:
                process = self._send(wire, name, file, sha256)
        finally:
            with self._changed:
                self._busy.discard(name)
                if process is not None:
                    self._sent[name] = process
                if process == self._process:
                    self._there.add(name)
                self._changed.notify_all()
        return process is not None

    def _send(self, wire: Handler, name: str, file: IO[bytes], sha256: str) -> str | None:
        """The process at the standby that has the file now; ``None`` for another content than expected."""
        digest, offset, piece = hashlib.sha256(), 0, file.read(_PIECE)
        while True:
            digest.update(piece)
            following = file.read(_PIECE)
            last = not following
            if last and digest.hexdigest() != sha256:
                return None
            header = {"name": name, "offset": offset, "last": last, "sha256": sha256 if last else ""}
            answer = self._ask(wire, "file", piece, **header)
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


def _opened(path: Path) -> IO[bytes]:
    return path.open("rb")
