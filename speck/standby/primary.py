"""The primary's end: each write goes to the standby first, and the lease is renewed at standby and witness.

While the standby is *in step*, a write is confirmed by it alone.  When it does not answer, the witness must
store that it is not in step before the primary continues without it; so it cannot take over with less than
was acknowledged.  Without an answer of either, nothing is written.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import speck
from speck.errors import StoreError, Unreachable
from speck.standby.files import is_copied
from speck.standby.lease import Lease
from speck.standby.messages import Answer, Handler, Header, NoAnswer, Refused, chunks, pack
from speck.standby.shipping import Shipping
from speck.store.codec import EPOCH_KEY, FORMAT_KEY, IDENTITY_KEY, POSITION_KEY
from speck.store.jobfile import BadFile
from speck.store.leveldb.database import Database
from speck.store.opening import epoch_of, writes_of
from speck.store.transaction import Write

_log = logging.getLogger(__name__)

EARLIER = "an earlier one"  # the version of a standby that does not name it

_PIECE = 256 << 10  # bytes of records in one request

_FEW = 5  # writes that others may wait for at the end of a copy
_ROUNDS = 20  # in which those that came meanwhile are sent; the primary may write faster than both servers

_Tail = list[tuple[bytes, bytes, Sequence[Write]]]  # position before, position after, changes


@dataclass(frozen=True)
class Wires:
    """Requests to the standby, each kind over a connection of its own, and to the witness.

    Those of ``copies`` hold up no write, and may take longer.
    """

    writes: Handler
    renewals: Handler
    copies: Handler
    witness: Handler


@dataclass(frozen=True, slots=True)
class Identity:
    """This server as a primary: its id, its URL, its epoch."""

    holder: str
    url: str
    epoch: int


class Primary:
    """The copy of a database at the standby (:class:`speck.store.leveldb.database.Copy`), with its files
    (:class:`speck.store.artifacts.FileCopy`), and the lease.

    ``deposed`` is called when another server is the primary, or may be.  It ends this process, which must not
    do anything more.  Safe to use from several threads.
    """

    def __init__(
        self,
        identity: Identity,
        directory: Path,
        wires: Wires,
        lease: Lease,
        deposed: Callable[[str], None],
    ) -> None:
        self.identity, self.lease = identity, lease
        self._wires, self._deposed = wires, deposed
        self._in_sync = False
        self._since = time.time()
        self._trouble = "it has not answered yet"
        self._version: str | None = None  # of the standby, once it has answered
        # The record of the witness may be of the time before this process.
        self._promised = True
        self._opening = True  # nothing was written or called yet
        self._number = 0
        self._asking_witness = threading.Lock()
        self._tail: _Tail | None = None
        self._last_sent = b""  # the position after the last write that was sent in step
        self._joins = False  # the standby is being brought in step
        self._files = Shipping(directory, self._ask_with)

    # --- the state, for people

    def status(self) -> dict[str, Any]:
        """The state as plain data; ``since`` is Unix time, s."""
        return {
            "epoch": self.identity.epoch,
            "in_sync": self._in_sync,
            "since": self._since,
            "reason": "" if self._in_sync else self._trouble,
            "other_version": self._other_version(),
        }

    def _other_version(self) -> str:
        """The standby's version if it is not this server's; empty if it is, or before it has answered."""
        if self._version in (None, speck.__version__):
            return ""
        return self._version or EARLIER

    def permit(self, address: str) -> None:
        """Raise :class:`~speck.errors.Unreachable` unless this server, and no other, can be the primary."""
        if self._opening or not self.lease.held():
            text = f"{address} is not called: this server may no longer be the primary (epoch "
            raise Unreachable(f"{text}{self.identity.epoch})", address=address)

    # --- writes

    def confirm(self, changes: Sequence[Write], position: bytes | None) -> Sequence[Write]:
        """See :class:`speck.store.leveldb.database.Copy`."""
        if not self.lease.held():
            raise StoreError(f"the store cannot be written: {self._unconfirmed()}")
        self._opening = False
        if epoch_of(position) != self.identity.epoch:  # the first write of the epoch
            changes = [*changes, (EPOCH_KEY, str(self.identity.epoch).encode())]
        before = position or b""
        after = f"{self.identity.epoch}.{writes_of(position) + 1}.{secrets.token_hex(8)}".encode()
        if self._in_sync:
            self._ship(before, after, changes)
        if not self._in_sync:
            self._continue_alone()
        if self._tail is not None:
            self._tail.append((before, after, changes))
        return [*changes, (POSITION_KEY, after)]

    def _unconfirmed(self) -> str:
        seconds = self.lease.timing.lease
        return (
            f"neither the standby nor the witness has confirmed for {seconds:g} s that this server is the "
            "primary"
        )

    def _ship(self, before: bytes, after: bytes, changes: Sequence[Write]) -> None:
        self._last_sent = after
        try:
            self._files.send_new(self._wires.writes)  # none, unless one came without :meth:`placing`
            self._send_write(self._wires.writes, before, after, changes)
        except (NoAnswer, Refused) as error:
            self._note_apart(str(error))

    @contextmanager
    def placing(self, name: str, opened: Callable[[], IO[bytes]], sha256: str) -> Iterator[None]:
        """See :class:`speck.store.artifacts.FileCopy`.

        If it cannot be sent, the standby is not in step: the next write does not try to send it again.
        """
        if not is_copied(name):
            yield
            return
        with self._files.placing(name):
            try:
                if self._in_sync or self._joins:
                    self._files.send(self._wires.copies, name, opened, sha256)
            except (NoAnswer, Refused) as error:
                self._note_apart(str(error))
            except (OSError, BadFile):
                pass  # whoever stores it here has the same error
            yield

    def delete_gone(self, named: Callable[[], Collection[str]]) -> None:
        """Delete the files at the standby that are no longer here, while it is in step.

        ``named`` gives the hashes of the code that the records name.  Raises ``NoAnswer``, ``Refused``, and
        what ``named`` raises.
        """
        self._files.delete_gone(self._wires.copies, named)

    def _send_write(self, wire: Handler, before: bytes, after: bytes, changes: Sequence[Write]) -> None:
        header = self._header(before=before.decode(), after=after.decode())
        self._ask(wire, "write", header, pack(changes))

    def _continue_alone(self) -> None:
        """Let the witness store that the standby is not in step."""
        with self._asking_witness:
            if not self._promised:
                return
            try:
                self._ask_witness(in_sync=False)
            except (NoAnswer, Refused) as error:
                raise StoreError(
                    f"the store cannot be written: the standby is not in step ({self._trouble}), and the "
                    f"witness has not confirmed that it knows ({error})"
                ) from error

    def _note_apart(self, trouble: str) -> None:
        if self._in_sync or self._trouble != trouble:
            _log.warning("the standby is not in step: %s", trouble)
        if self._in_sync:
            self._since = time.time()
        self._trouble, self._in_sync = trouble, False
        self._files.note(in_step=False)

    # --- renewals

    def renew_at_standby(self) -> bytes:
        """Renew the lease at the standby once; returns its position.

        Raises :class:`~speck.standby.messages.NoAnswer` and ``Refused``.
        """
        sent = self.lease.clock()
        answer = self._ask(self._wires.renewals, "renew", self._header(version=speck.__version__))
        self.lease.renewed(sent)
        self._version = str(answer.get("version", ""))
        return str(answer.get("position", "")).encode()

    def renew_at_witness(self) -> None:
        """Renew the lease at the witness once.  Raises ``NoAnswer`` and ``Refused``."""
        with self._asking_witness:
            self._ask_witness(in_sync=self._in_sync)

    def announce(self) -> None:
        """Let the witness store that this server serves from now on: the former primary cannot replace it.

        Raises :class:`~speck.errors.StoreError` if the witness does not confirm.
        """
        with self._asking_witness:
            self._opening = False
            try:
                self._ask_witness(in_sync=self._in_sync)
            except (NoAnswer, Refused) as error:
                raise StoreError(
                    f"the witness has not confirmed that this server is the primary ({error})"
                ) from error

    def _ask_witness(self, *, in_sync: bool) -> None:
        """Let the witness store if the standby is in step; one request at a time, each with a number.

        While this server opens its store, it only renews the lease.
        """
        self._number += 1
        opening, self._promised = self._opening, self._promised or in_sync
        sent = self.lease.clock()
        header = self._header(
            number=self._number, in_sync=in_sync, opening=opening, holder=self.identity.holder
        )
        self._ask(self._wires.witness, "renew", header)
        self.lease.renewed(sent)
        if not opening:
            self._promised = in_sync

    def look(self) -> None:
        """End this process if the lease has ended."""
        if not self.lease.held():
            self._deposed(self._unconfirmed())

    def _ask(self, wire: Handler, operation: str, header: Header, payload: bytes = b"") -> Answer:
        try:
            return wire(operation, header, payload)
        except Refused as error:
            if error.epoch > self.identity.epoch or (
                error.epoch == self.identity.epoch and error.holder not in ("", self.identity.holder)
            ):
                self._deposed(f"another server is the primary: {error}")
            raise

    def _ask_with(self, wire: Handler, operation: str, payload: bytes = b"", /, **header: object) -> Answer:
        return self._ask(wire, operation, self._header(**header), payload)

    def _header(self, **more: Any) -> dict[str, Any]:
        return {"epoch": self.identity.epoch, "url": self.identity.url, **more}

    # --- copies

    def keep_in_step(self, database: Database) -> None:
        """Renew the lease at the standby, and bring its store to this one's position, once.

        Raises :class:`~speck.standby.messages.NoAnswer` and ``Refused``, after which it is not in step.
        """
        try:
            former = self._positions(database)
            position = self.renew_at_standby()
            if self._in_sync and not position:
                self._note_apart("its store is no longer a copy")
            # As after its machine was set back to a snapshot: the next write would be refused, and until then
            # it could take over.
            if self._in_sync and position not in former and former == self._positions(database):
                self._note_apart("its store is at another position")
                with suppress(NoAnswer, Refused):  # the next renewal reports it otherwise
                    self.renew_at_witness()
            if not self._in_sync:
                self._bring_in_step(database, position)
        except (NoAnswer, Refused) as error:
            if not self._in_sync:
                self._note_apart(str(error))
            raise

    def _positions(self, database: Database) -> tuple[bytes, bytes]:
        """Those at which a standby in step may be, unless something is written meanwhile."""
        return database.get(POSITION_KEY) or b"", self._last_sent

    def _bring_in_step(self, database: Database, position: bytes) -> None:
        wire = self._wires.copies
        identity = (database.get(IDENTITY_KEY) or b"").decode()
        self._files.begin(wire, identity)
        try:
            self._joins = True
            self._files.send_new(wire)
            if not self._joined(database, position):
                self._copy(database, wire, identity)
        finally:
            self._joins = False

    def _joined(self, database: Database, position: bytes) -> bool:
        """True if the standby is at the database's position, and so in step from now on."""
        with database.paused():
            if not position or database.get(POSITION_KEY) != position:
                return False
            self._note_in_step()
        return True

    def _note_in_step(self) -> None:
        """Note that the standby is in step, unless a file is about to come of which it was not sent a copy.

        Raises :class:`~speck.standby.messages.NoAnswer`, after which that is sent before the next try: the
        next write would wait for it otherwise.
        """
        if name := self._files.lacks():
            raise NoAnswer(f"{name} is being stored, and was not sent yet")
        self._in_sync, self._since, self._trouble = True, time.time(), ""
        self._files.note(in_step=True)
        _log.warning("the standby is in step (epoch %d)", self.identity.epoch)

    def _copy(self, database: Database, wire: Handler, identity: str) -> None:
        """Send all records, and then what was written meanwhile."""
        copy = secrets.token_hex(8)
        form = (database.get(FORMAT_KEY) or b"").decode()
        self._ask(wire, "begin", self._header(copy=copy, identity=identity))
        try:
            with ExitStack() as scan:
                with database.paused():
                    tail: _Tail = []
                    self._tail = tail
                    records = scan.enter_context(database.scan())
                    position = database.get(POSITION_KEY) or b""
                # To the end before any is sent: the database cannot be closed or recovered amid a scan.
                pieces = list(chunks(records, _PIECE))
            for piece in pieces:
                self._ask(wire, "records", self._header(copy=copy), piece)
            self._files.send_new(wire)
            self._ask(wire, "end", self._header(copy=copy, position=position.decode(), format=form))
            for _ in range(_ROUNDS):
                if len(tail) <= _FEW:
                    break
                position = self._send_tail(wire, tail, position)
            with database.paused():
                position = self._send_tail(self._wires.writes, tail, position)  # no write waits for long
                if position and database.get(POSITION_KEY) == position:
                    self._note_in_step()
        finally:
            self._tail = None

    def _send_tail(self, wire: Handler, tail: _Tail, position: bytes) -> bytes:
        """Send what was written since the standby's position, with its files; returns the one after it."""
        count = len(tail)
        self._files.send_new(wire)
        for before, after, changes in tail[:count]:
            self._send_write(wire, before, after, changes)
            position = after
        del tail[:count]
        return position
