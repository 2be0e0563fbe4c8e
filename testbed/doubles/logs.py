"""A double of the brokers that store messages as logs, beside those with queues."""

from __future__ import annotations

from collections.abc import Sequence

from speck.binder import Backlog, BrokerKind, CountFrom, Registry
from speck.core.inventory import Inventory
from speck.errors import Rejected
from testbed.doubles.broker import InMemoryBroker
from testbed.doubles.world import BrokerState, World


class InMemoryLog(InMemoryBroker):
    """A broker that stores messages as logs: topics are made, messages are counted and deleted."""

    def ensure_topic(self, topic: str, partitions: int | None = None) -> None:
        with self._call("ensure_topic", topic):
            number = self._state.partitions.setdefault(topic, partitions or 1)
            if partitions not in (None, number):
                raise Rejected(f"topic {topic!r} has {number} partitions (expected {partitions})")

    def topic_partitions(self, topic: str) -> int | None:
        with self._call("topic_partitions", topic):
            return self._state.partitions.get(topic)

    def purge(self) -> None:
        with self._call("purge", ""):
            pass

    def begin_session(self, session: str, topic: str, start: str) -> None:
        with self._call("begin_session", session):
            self._adopt(session)
            if session not in self._state.sessions:
                self._state.sessions[session] = topic
                self._state.backlog[session] = self._state.kept.get(topic, 0)

    def count_from(self, topic: str, start: str, session: str = "") -> CountFrom:
        with self._call("count_from", topic):
            return CountFrom(self._state.kept.get(topic, 0), self._state.skipped.get(session, 0))

    def behind(self, sessions: Sequence[str]) -> dict[str, Backlog]:
        with self._call("behind", ""):
            state = self._state
            return {each: _backlog(state, each) for each in sessions if each in state.sessions}


def _backlog(state: BrokerState, session: str) -> Backlog:
    messages = state.backlog.get(session, 0)
    seconds = state.ages.get(session) if messages else 0.0
    return Backlog(messages, state.deleted.get(session, 0), seconds)


def with_logs(kinds: Registry, world: World) -> Registry:
    """The kinds, and another of brokers, ``log``."""

    def log(address: str, inventory: Inventory) -> InMemoryLog:
        return InMemoryLog(world, address)

    return Registry(
        kinds.engines, (*kinds.brokers, BrokerKind("log", ("log",), log, replays=True, partitions=True))
    )
