"""A server of a pair until it is the primary: it follows the other one, and takes over after its death."""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import speck
from speck.core.settings import PairSettings
from speck.errors import Fault, InvalidInput, SpeckError
from speck.server.pair.app import create_pair_app
from speck.server.signals import print_error
from speck.server.tls import Certificate
from speck.server.tokens import read_token
from speck.server.wsgi import WebServer
from speck.standby.follower import Follower
from speck.standby.lease import Lease
from speck.standby.messages import Handler, NoAnswer, Refused, Timing
from speck.standby.node import Node, node_of, with_claim, with_epoch
from speck.standby.primary import Identity, Primary, Wires
from speck.standby.wire import HttpWire, context_of, url_fault
from speck.standby.witness import Vote, vote_in
from speck.store.leveldb.database import Database
from speck.store.opening import writes_of

_log = logging.getLogger(__name__)

_LOOK = 0.5  # s between two requests to the witness
DEPOSED = 1  # the exit code of a primary that another server may have replaced


@dataclass(frozen=True)
class Pair:
    """The other server and the witness, as :class:`~speck.core.settings.PairSettings` names them.

    ``url`` is this server's own.  Raises :class:`~speck.errors.InvalidInput` for settings that cannot be
    used.
    """

    settings: PairSettings
    directory: Path
    url: str
    timing: Timing = field(default_factory=Timing)

    def __post_init__(self) -> None:
        named = (
            ("--standby", self.settings.standby),
            ("--standby-of", self.settings.standby_of),
            ("--witness", self.settings.witness),
        )
        faults = [Fault(each) for option, url in named if url and (each := url_fault(option, url))]
        if faults:
            raise InvalidInput(faults, "standby")

    @property
    def token(self) -> str:
        """The token that the servers of the pair share.  Raises :class:`~speck.errors.InvalidInput`."""
        assert self.settings.token is not None  # noqa: S101 - PairSettings demands it
        return pair_token(self.settings.token)

    def wires(self) -> Wires:
        """Connections to the other server and the witness, each opened with its first request."""
        token, context = self.token, context_of(self.settings.authority)
        peer, witness = self.settings.peer or "", self.settings.witness or ""
        make = partial(HttpWire, token=token, context=context, seconds=self.timing.answer)
        copies = HttpWire(peer, token, context, self.timing.transfer)
        return Wires(make(peer), make(peer), copies, make(witness))


def pair_token(path: Path) -> str:
    """The token of a pair.  Raises :class:`~speck.errors.InvalidInput`."""
    token = read_token(path)
    if len(token) < _SHORTEST:
        text = f"the token in {str(path)!r} is too short (expected {_SHORTEST} characters or more)"
        raise InvalidInput([Fault(f"{text}; make one with: openssl rand -hex 32")], "standby")
    return token


_SHORTEST = 16  # characters


class Standby:
    """Follows the primary, and asks the witness for the next epoch when that is silent, or has been this one.

    A server that was the primary at the last epoch resumes at once, unless the ``peer`` has later writes; one
    with ``--standby`` begins if there has been no primary yet.  ``check`` raises a
    :class:`~speck.errors.SpeckError` if this server could not serve from the standby's database: it asks for
    no epoch then, after which the former primary would be refused.
    """

    def __init__(
        self,
        pair: Pair,
        node: Node,
        witness: Handler,
        follower: Follower,
        lease: Lease,
        check: Callable[[Database], object] = lambda database: None,
        peer: Handler | None = None,
    ) -> None:
        self._pair, self._node, self._witness = pair, node, witness
        self._follower, self._lease, self._check, self._peer = follower, lease, check, peer
        self._behind: tuple[int, int] | None = None  # the last writes here and at the peer, if it has more
        self.is_checked = False
        self._reason = "it has not asked the witness yet"

    def state(self) -> dict[str, Any]:
        """The state, for whoever asks this server for anything else."""
        primary = self._follower.primary
        at = f"the primary is at {primary}" if primary else "it knows of no primary yet"
        version = self._follower.primary_version
        if version and version != speck.__version__:
            at += (
                f", of version {version} (this server has {speck.__version__}: upgrade the older of the two)"
            )
        detail = f"this server is a standby; {at}" + (f" ({self._reason})" if self._reason else "")
        return {"detail": detail, "role": "standby", "primary": primary, "epoch": self._follower.epoch}

    def look(self) -> int | None:
        """Take over if that is due; returns the epoch in which this server is the primary, or ``None``."""
        try:
            granted = self._granted(vote_in(self._witness("status", {}, b"")))
        except (NoAnswer, Refused) as error:
            self._note(str(error))
            return None
        self._note("")
        return granted

    def _granted(self, vote: Vote) -> int | None:
        """The epoch that it got, if it was to ask for one.

        Raises :class:`~speck.standby.messages.Refused` with the reason why it does not ask.
        """
        self.is_checked = False
        if vote.in_sync and vote.holder == self._node.identifier:
            self._demand_newest()
        if self._resumes(vote) or self._begins(vote):
            self._node = with_claim(self._pair.directory, self._node)
            return self._follower.take_over(lambda: self._claim(vote), if_silent=False)
        if vote.epoch and self._follower.is_silent:
            self._demand_all(vote)
            self._demand_readiness()
            return self._follower.take_over(lambda: self._claim(vote))
        return None

    def _resumes(self, vote: Vote) -> bool:
        """True if it was the primary, and no other server has been since, nor could be."""
        own = vote.holder == self._node.identifier and vote.epoch == self._node.epoch
        return vote.epoch > 0 and own and not vote.former

    def _demand_newest(self) -> None:
        """Raise :class:`~speck.standby.messages.Refused` if the standby has later writes of this primary.

        As after this machine was set back to a snapshot.  The standby takes over then, also if it has a write
        alone that was never confirmed.
        """
        if self._peer is None:
            return
        with suppress(NoAnswer):  # it has ended, or is of an earlier version
            theirs = writes_of(str(self._peer("position", {}, b"").get("position", "")).encode())
            mine = self._follower.writes
            self._behind = (mine, theirs) if 0 < mine < theirs else None
        if self._behind is not None:
            mine, theirs = self._behind
            raise Refused(
                f"the store here ends with write {mine}, and that of {self._pair.settings.peer} with write "
                f"{theirs}, which takes over (was this machine set back to a snapshot?)"
            )

    def _begins(self, vote: Vote) -> bool:
        """True if it is the first primary of its pair."""
        if vote.epoch:
            return False
        if self._node.epoch or self._follower.epoch:
            raise Refused("the witness has lost its record (docs/standby.md, The witness)")
        return self._pair.settings.standby is not None

    def _demand_all(self, vote: Vote) -> None:
        """Raise :class:`~speck.standby.messages.Refused` if the store has not all of the last primary's."""
        own = vote.holder == self._node.identifier
        # A store has no position before its first write as a primary's, and after a repair.
        if not self._follower.is_complete and not (own and self._node.claims):
            raise Refused("the store here is no complete copy of the primary's")
        if not (own or vote.in_sync or vote.former == self._node.identifier):
            raise Refused(f"the store here lacks changes of the last primary, {vote.url}")

    def _demand_readiness(self) -> None:
        """Raise :class:`~speck.standby.messages.Refused` if this server could not serve."""
        try:
            self._follower.check(self._check)
        except SpeckError as error:
            raise Refused(f"this server cannot take over: {error}") from error
        self.is_checked = True

    def _claim(self, vote: Vote) -> int:
        sent = self._lease.clock()
        header = {
            "epoch": max(self._node.epoch, self._follower.claimed_from),
            "holder": self._node.identifier,
            "url": self._pair.url,
            "first": not vote.epoch,
        }
        granted = int(self._witness("claim", header, b"")["epoch"])
        with_epoch(self._pair.directory, self._node, granted)
        self._lease.renewed(sent)
        return granted

    def _note(self, reason: str) -> None:
        if reason and reason != self._reason:
            _log.warning("standby: %s", reason)
        self._reason = reason


@dataclass
class Waiting:
    """A standby in this process, which serves refusals until it is the primary or is ended.

    ``check`` is as in :class:`Standby`.  ``is_checked`` is true if all records were read before a take-over.
    """

    pair: Pair
    listener: socket.socket
    certificate: Certificate | None
    check: Callable[[Database], object]
    is_checked: bool = field(default=False, init=False)
    _ended: threading.Event = field(default_factory=threading.Event, init=False)

    def end(self) -> None:
        """End without a take-over.  May be called from any thread."""
        self._ended.set()

    @property
    def is_ended(self) -> bool:
        """True after :meth:`end`."""
        return self._ended.is_set()

    def wait(self) -> Primary | None:
        """Return when this server is the primary; ``None`` if it was ended before.

        Raises :class:`~speck.errors.SpeckError` if it cannot follow.
        """
        node, wires = node_of(self.pair.directory), self.pair.wires()
        lease = Lease(self.pair.timing)
        follower = Follower(self.pair.directory, self.pair.timing)
        standby = Standby(self.pair, node, wires.witness, follower, lease, self.check, wires.renewals)
        app = create_pair_app(follower.handle, self.pair.token, standby.state)
        server = WebServer(app, self.listener.dup(), certificate=self.certificate)
        serving = threading.Thread(target=server.run, name="standby", daemon=True)
        serving.start()
        try:
            epoch = self._awaited(standby)
        finally:
            follower.close()
            server.end()
            serving.join()
        if epoch is None:
            return None
        self.is_checked = standby.is_checked
        identity = Identity(node.identifier, self.pair.url, epoch)
        return Primary(identity, self.pair.directory, wires, lease, end_at_once)

    def _awaited(self, standby: Standby) -> int | None:
        print_error(f"standby at {self.pair.url}: follows {self.pair.settings.peer}")
        while not self._ended.is_set():
            if (epoch := standby.look()) is not None:
                print_error(f"{self.pair.url} is the primary, epoch {epoch}")
                return epoch
            self._ended.wait(_LOOK)
        return None


def end_at_once(reason: str) -> None:
    """End this process before it does anything more; started again, it is a standby."""
    print_error(f"error: {reason}; the server exits (after a restart it is a standby)")
    sys.stdout.flush()
    os._exit(DEPOSED)
