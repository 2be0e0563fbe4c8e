"""A double of the brokers that store messages as logs, beside those with queues."""

from __future__ import annotations

from collections.abc import Sequence

from speck.binder import Backlog, BrokerKind, Registry
from speck.core.inventory import Inventory
from testbed.doubles.binders import InMemoryBroker, World


class InMemoryLog(InMemoryBroker):
    """A broker that stores messages as logs: topics are made, messages are counted and deleted."""

    def ensure_topic(self, topic: str) -> None:
        with self._call("ensure_topic", topic):
            pass

    def purge(self) -> None:
        with self._call("purge", ""):
            pass

    def behind(self, sessions: Sequence[str]) -> dict[str, Backlog]:
        with self._call("behind", ""):
            state = self._state
            return {
                each: Backlog(state.backlog.get(each, 0), state.deleted.get(each, 0))
                for each in sessions
                if each in state.sessions
            }


def with_logs(kinds: Registry, world: World) -> Registry:
    """The kinds, and another of brokers, ``log``."""

    def log(address: str, inventory: Inventory) -> InMemoryLog:
        return InMemoryLog(world, address)

    return Registry(kinds.engines, (*kinds.brokers, BrokerKind("log", ("log",), log)))
