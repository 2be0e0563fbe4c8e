"""A primary, a standby and their witness in memory, with a clock by hand and wires that fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from speck.errors import SpeckError
from speck.standby.follower import Follower
from speck.standby.lease import Lease
from speck.standby.messages import Answer, BadRequest, Handler, Header, NoAnswer, Timing
from speck.standby.primary import Identity, Primary, Wires
from speck.standby.witness import Witness
from speck.store import Store


@dataclass
class Clock:
    """Steady time, s."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Wire:
    """Requests that reach ``target``, or not: ``broken`` loses them, ``mute`` loses the answers."""

    target: Handler
    broken: bool = False
    mute: bool = False
    passed: Callable[[str], object] = field(default=lambda operation: None)
    sent: list[str] = field(default_factory=list)

    def __call__(self, operation: str, header: Header, payload: bytes) -> Answer:
        self.passed(f"before {operation}")
        if self.broken:
            raise NoAnswer("the wire is broken")
        self.sent.append(operation)
        try:
            answer = self.target(operation, header, payload)
        except (BadRequest, SpeckError) as error:  # as over HTTP
            raise NoAnswer(str(error)) from error
        self.passed(f"after {operation}")
        if self.mute:
            raise NoAnswer("the answer is lost")
        return answer


class InMemoryPair:
    """``primary`` has its store open, epoch 1; ``follower`` is at its side.  ``deposed`` has the reasons why
    the primary was to end."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.clock, self.timing = directory, Clock(), Timing()
        self.witness = Witness(directory / "witness.json", self.timing, self.clock)
        self.follower = Follower(directory / "standby", self.timing, self.clock)
        self.to_standby = Wire(lambda *request: self.follower.handle(*request))
        self.to_witness = Wire(lambda *request: self.witness.handle(*request))
        self.deposed: list[str] = []
        self.primary = self.begin("a", "primary")
        self.store = Store(directory / "primary", copy=self.primary)

    def begin(self, holder: str, name: str) -> Primary:
        """A server that has claimed the next epoch."""
        epoch = self.claim(holder)
        wires = Wires(self.to_standby, self.to_standby, self.to_standby, self.to_witness)
        lease = Lease(self.timing, self.clock)
        lease.renewed(self.clock())
        identity = Identity(holder, f"http://{name}", epoch)
        return Primary(identity, self.directory / name, wires, lease, self.deposed.append)

    def claim(self, holder: str) -> int:
        """The epoch that the witness grants."""
        header = {"epoch": 0, "holder": holder, "url": f"http://{holder}", "first": True}
        return int(self.witness.handle("claim", header, b"")["epoch"])

    def join(self) -> None:
        """Let the standby come in step, and the witness know."""
        self.primary.keep_in_step(self.store.database)
        self.primary.keep_in_step(self.store.database)
        self.primary.renew_at_witness()

    def take_over(self) -> Store:
        """The store from which the standby serves, once it may.  Raises what the witness refuses."""
        epoch = self.follower.take_over(lambda: self.claim("b"))
        assert epoch is not None
        return Store(self.directory / "standby")

    def close(self) -> None:
        """Close both stores."""
        self.store.close()
        self.follower.close()
