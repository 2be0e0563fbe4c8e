"""The broker binder of a world in memory; messages are not simulated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from speck.binder import BrokerBinder, OwnedSession
from speck.core.split import control_topic
from speck.errors import OutcomeUnknown, SessionOfAnother
from testbed.doubles.world import BrokerState, RunningJob, World

MESSAGE_BYTES = 100  # of each message that waits in a session of the double


@dataclass
class InMemoryFeed:
    """A subscription at a broker double."""

    world: World
    address: str
    topics: Sequence[str]
    waiting: list[tuple[str, bytes]] = field(default_factory=list)
    ended: bool = False

    def receive(self) -> list[tuple[str, bytes]]:
        with self.world.call("receive", self.address, "", broker=True):
            if self.ended:
                raise OutcomeUnknown(f"{self.address} closed the connection", address=self.address)
            found, self.waiting = self.waiting, []
            return found

    def close(self) -> None:
        with self.world.lock:
            feeds = self.world.broker(self.address).feeds
            if self in feeds:
                feeds.remove(self)


class InMemoryBroker(BrokerBinder):
    """The broker binder of one address of a world."""

    def __init__(self, world: World, address: str) -> None:
        self.world, self.address = world, address
        self._owner = ""

    def take_owner(self, owner: str) -> None:
        self._owner = owner

    def check(self) -> None:
        with self._call("check", ""):
            pass

    def packet_bytes(self) -> int | None:
        with self._call("packet_bytes", ""):
            return self._state.packet_bytes

    def warnings(self) -> list[str]:
        with self._call("warnings", ""):
            return list(self._state.warnings)

    def ensure_session(self, session: str, topic: str) -> None:
        with self._call("ensure_session", session):
            self._adopt(session)
            self._state.sessions[session] = topic
            self.world.take_over(self.address, session)

    def restore_session(self, session: str, topic: str) -> None:
        is_new = session not in self._state.sessions
        self.ensure_session(session, topic)
        if is_new:
            self._state.refilled.append(topic)

    def session_exists(self, session: str) -> bool:
        with self._call("session_exists", session):
            return session in self._state.sessions

    def has_lost(self, session: str, topic: str) -> bool:
        with self._call("has_lost", session):
            self._reject_foreign(session)
            return session not in self._state.sessions and session not in self._state.tombstones

    def delete_session(self, session: str) -> None:
        with self._call("delete_session", session):
            self._reject_foreign(session)
            known = self._state.sessions.pop(session, None)
            self._state.owners.pop(session, None)
            self._state.backlog.pop(session, None)
            self._state.writers.pop(session, None)
            fence = self._state.fences.pop(session, None)
            if known is not None or fence is not None:
                self._state.tombstones[session] = (fence or 0) + 1

    def name_writers(self, session: str, writers: Sequence[str]) -> None:
        with self._call("name_writers", session):
            self._reject_foreign(session)
            self._state.writers[session] = list(writers)

    def fence(self, session: str, attempt: int) -> None:
        with self._call("fence", session):
            self._reject_foreign(session)
            named = self._named(session)
            self._state.tombstones.pop(session, None)
            self._state.fences[session] = max(attempt, named)

    def claim_session(self, session: str, topic: str) -> None:
        with self._call("claim_session", session):
            self._reject_foreign(session)
            if session not in self._state.tombstones:
                self._adopt(session)

    def fenced(self, session: str) -> int:
        with self._call("fenced", session):
            self._reject_foreign(session)
            return self._named(session)

    def foreign_sessions(self) -> list[OwnedSession]:
        with self._call("foreign_sessions", ""):
            return [
                OwnedSession(session, owner, (self._state.sessions.get(session, ""),))
                for session, owner in sorted(self._state.owners.items())
                if self._owner and owner != self._owner
            ]

    def owned_sessions(self) -> list[OwnedSession]:
        with self._call("owned_sessions", ""):
            return [
                OwnedSession(session, owner, (self._state.sessions.get(session, ""),), self._named(session))
                for session, owner in sorted(self._state.owners.items())
            ]

    def adopt_session(self, session: str, former: str) -> None:
        with self._call("adopt_session", session):
            if self._state.owners.get(session) != former:
                self._reject_foreign(session)
            if session in self._state.owners:
                self._state.owners[session] = self._owner

    def drained(self, session: str, marker: str, seconds: float) -> bool | None:
        with self._call("drained", session):
            if self._state.deaf or not self._is_read(session):
                return None
            return not self._state.backlog.get(session)

    def readers(self, sessions: Sequence[str]) -> dict[str, int]:
        with self._call("readers", ""):
            return {
                each.attempt.session: each.attempt.number
                for session in sessions
                if session not in self._state.unread
                for each in self._running_readers(session)
            }

    def waiting(self, session: str) -> int:
        with self._call("waiting", session):
            self._reject_foreign(session)
            return self._state.backlog.get(session, 0)

    def unsaved(self, session: str, topic: str) -> int | None:
        with self._call("unsaved", session):
            self._reject_foreign(session)
            return self._state.unsaved.get(topic, 0)

    def stranded(self) -> int | None:
        with self._call("stranded", ""):
            return self._state.stranded

    def subscribe(self, topics: Sequence[str]) -> InMemoryFeed:
        with self._call("subscribe", ""):
            feed = InMemoryFeed(self.world, self.address, topics)
            self._state.feeds.append(feed)
            return feed

    def send_control(self, session: str, message: bytes, seconds: float) -> None:
        with self._call("send_control", session):
            self._state.controls.append((session, message))
            self.world.publish(self.address, control_topic(session), message)

    def send_probe(self, topic: str) -> None:
        with self._call("send_probe", ""):
            self.world.publish(self.address, topic, b"")
            passed_on = self.world.bridges.get(self.address, []) + self.world.doubles.get(self.address, [])
            for target in passed_on:
                self.world.publish(target, topic, b"")

    def leave_client(self, client: str) -> None:
        with self._call("leave_client", ""):
            for address in (self.address, *self.world.doubles.get(self.address, ())):
                self.world.broker(address).clients.add(client)

    def forget_client(self, client: str) -> bool:
        with self._call("forget_client", ""):
            known = client in self._state.clients
            self._state.clients.discard(client)
            return known

    def stored(self) -> int | None:
        with self._call("stored", ""):
            return sum(self._state.backlog.values())

    def stored_bytes(self) -> int | None:
        with self._call("stored_bytes", ""):
            return sum(self._state.backlog.values()) * MESSAGE_BYTES

    def dropped(self) -> int | None:
        with self._call("dropped", ""):
            return self._state.dropped

    def close(self) -> None:
        """Nothing is held."""

    def _named(self, session: str) -> int:
        state = self._state
        return max(state.fences.get(session, 0), state.tombstones.get(session, 0))

    def _adopt(self, session: str) -> None:
        self._reject_foreign(session)
        if self._owner:
            self._state.owners[session] = self._owner

    def _reject_foreign(self, session: str) -> None:
        owner = self._state.owners.get(session, self._owner)
        if self._owner and owner != self._owner:
            message = (
                f"session {session!r} at broker {self.address} belongs to another SpecK, with store {owner}"
            )
            raise SessionOfAnother(f"{message} (this one has store {self._owner})", address=self.address)

    def _is_read(self, session: str) -> bool:
        return bool(self._running_readers(session))

    def _running_readers(self, session: str) -> list[RunningJob]:
        copies = self.world.readers.get((self.address, session), ())
        return [each for each in copies if self.world.runs(each)]

    @property
    def _state(self) -> BrokerState:
        return self.world.broker(self.address)

    @contextmanager
    def _call(self, method: str, session: str) -> Iterator[None]:
        with self.world.call(method, self.address, session, broker=True):
            yield
