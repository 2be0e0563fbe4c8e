"""The binders in use, one for each engine and broker, and the lanes that bound the load on each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Set
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

from speck.binder import (
    ArtifactServer,
    BrokerBinder,
    BrokerKind,
    EngineBinder,
    EngineKind,
    Registry,
    engine_of,
)
from speck.binder.asking import ask
from speck.binder.instrumented import Call, Listener, Permit, always, instrumented, is_called
from speck.binder.lane import Lane
from speck.binder.start_limit import StartLimit
from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.errors import BinderError

BROKER_BOUND = 4  # calls at one broker: each has a connection of its own
WAITING_BOUND = 32  # for each user

MARGIN = 256  # addresses that may be added before those that nothing uses are forgotten
QUIET = 60.0  # s without a request for the binder of an address, before it counts as unused

_WAITING = "waiting"


def _ignore(call: Call) -> None:
    """Ignore a call."""


Remote = Callable[[EngineKind | BrokerKind, str], Any]


def _no_agent(kind: EngineKind | BrokerKind, address: str) -> None:
    """No place is reached otherwise."""


CLOSING = 20.0  # s, for which the end waits for tasks, and then for engines and brokers to disconnect


def _nothing() -> Set[str]:
    """No address."""
    return frozenset()


@dataclass
class BinderPool:
    """Binders by address, made when first needed.  A lane bounds the concurrent actions at one address.

    The users of a lane are compositions: one whose actions hang does not hold up those of another.

    ``artifacts`` is the file server for binders whose engines fetch files.  ``listener`` receives each call.
    ``owner`` is the identity of the store whose sessions the brokers keep; empty without a store.

    Plans may name any number of addresses, so those that are not ``in_use`` are forgotten from time to time:
    their binders are closed, and the listeners of ``on_forgotten`` get them.  ``clock`` is steady, s.

    ``remote(kind, address)`` is the binder of a place that is reached otherwise than by its address.
    ``permit(address)`` raises :class:`~speck.errors.Unreachable` where no call may be made now.
    """

    registry: Registry
    inventory: Inventory
    artifacts: ArtifactServer | None = None
    listener: Listener = _ignore
    owner: str = ""
    clock: Callable[[], float] = time.monotonic
    remote: Remote = field(default_factory=lambda: _no_agent, init=False)
    permit: Permit = field(default_factory=lambda: always, init=False)
    in_use: Callable[[], Set[str]] = field(default_factory=lambda: _nothing, init=False)
    on_forgotten: list[Callable[[Collection[str]], object]] = field(default_factory=list, init=False)
    _used: dict[str, float] = field(default_factory=dict, init=False)  # when each address was asked for
    _most: int = field(default=MARGIN, init=False)
    _engines: dict[tuple[str, str], EngineBinder] = field(default_factory=dict, init=False)
    _brokers: dict[str, BrokerBinder] = field(default_factory=dict, init=False)
    _lanes: dict[str, Lane] = field(default_factory=dict, init=False)
    _starts: StartLimit = field(default_factory=StartLimit, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _exclusive: dict[str, threading.Lock] = field(default_factory=dict, init=False)

    def engine_at(self, engine: str, address: str) -> EngineBinder:
        """The binder of the engine at an address."""
        kind = self.registry.engine_kind(engine, address)
        if kind is None:
            raise BinderError(f"no installed binder serves engine {engine!r} at {address!r}", address=address)
        self._note_use(address)
        with self._lock:
            if (engine, address) not in self._engines:
                binder = self.remote(kind, address) or kind.connect(address, self.inventory)
                if self.artifacts is not None:
                    binder.take_artifacts(self.artifacts)
                self._engines[engine, address] = instrumented(
                    binder, kind.name, address, self.listener, self.permit
                )
            return self._engines[engine, address]

    def engine_for(self, address: str) -> EngineBinder:
        """The binder of the engine at an address, of the kind that its scheme stands for."""
        return self.engine_at(engine_of(address), address)

    def engine(self, job: Job) -> EngineBinder:
        """The binder of a job's engine."""
        return self.engine_at(job.engine, job.spe_address)

    def broker(self, address: str) -> BrokerBinder:
        """The binder of the broker at an address."""
        kind = self.registry.broker_kind(address)
        if kind is None:
            raise BinderError(f"no installed binder serves the broker at {address!r}", address=address)
        self._note_use(address)
        with self._lock:
            if address not in self._brokers:
                binder = self.remote(kind, address) or kind.connect(address, self.inventory)
                if self.owner:
                    binder.take_owner(self.owner)
                self._brokers[address] = instrumented(binder, kind.name, address, self.listener, self.permit)
            return self._brokers[address]

    def exclusive(self, broker: str) -> threading.Lock:
        """A lock for calls that replace at a broker what another operation may have written."""
        with self._lock:
            return self._exclusive.setdefault(broker, threading.Lock())

    def startup_seconds(self, job: Job) -> float:
        """The time (s) that a new copy of a job must run before it counts as started."""
        kind = self.registry.engine_kind(job.engine, job.spe_address)
        return kind.startup_seconds if kind else 0.0

    def engine_lane(self, job: Job, user: str) -> Executor:
        """The lane of a job's engine."""
        kind = self.registry.engine_kind(job.engine, job.spe_address)
        return self._lane(job.spe_address, kind.bound if kind else 1).share(user)

    def pause(self, engine: str, address: str, seconds: float) -> None:
        """Begin no action at an engine until :meth:`resume`, or for this time at most."""
        kind = self.registry.engine_kind(engine, address)
        self._lane(address, kind.bound if kind else 1).pause(seconds)

    def resume(self, address: str) -> None:
        """Resume actions at an engine, if they were paused."""
        with self._lock:
            lane = self._lanes.get(address)
        if lane is not None:
            lane.resume()

    def broker_lane(self, address: str, user: str) -> Executor:
        """The lane of a broker."""
        return self._lane(address, BROKER_BOUND).share(user)

    def waiting_lane(self, user: str) -> Executor:
        """The lane of tasks that mostly wait."""
        return self._lane(_WAITING, WAITING_BOUND, own=WAITING_BOUND).share(user)

    def _lane(self, address: str, bound: int, own: int = 1) -> Lane:
        with self._lock:
            if address not in self._lanes:
                self._lanes[address] = Lane(address, bound, own, self._starts)
            return self._lanes[address]

    # --- addresses that nothing uses

    def _note_use(self, address: str) -> None:
        with self._lock:
            self._used[address] = self.clock()
            if len(self._used) <= self._most:
                return
            self._most = len(self._used) + MARGIN  # this thread forgets them, no other
        self.forget_unused()

    def forget_unused(self) -> None:
        """Close the binders of addresses that are not in use and quiet, and have no call under way."""
        needed = self.in_use()
        with self._lock:
            oldest = self.clock() - QUIET
            quiet = {address for address, used in self._used.items() if used < oldest}
            unused = quiet - needed - self._busy()
            closing = self._removed(unused)
            for address in unused:
                self._lanes.pop(address, None)  # who has a share of it may use it still
            self._most = len(self._used) + MARGIN
        self._end(closing, unused)

    def forget(self, addresses: Collection[str]) -> None:
        """Close the binders of some addresses, which are reached otherwise from now on."""
        with self._lock:
            closing = self._removed(addresses)
        self._end(closing, addresses)

    def _removed(self, addresses: Collection[str]) -> list[EngineBinder | BrokerBinder]:
        """Remove the binders of some addresses, and return them."""
        for address in addresses:
            self._used.pop(address, None)
        engines = [self._engines.pop(key) for key in [*self._engines] if key[1] in addresses]
        return [*engines, *(self._brokers.pop(each) for each in [*self._brokers] if each in addresses)]

    def _end(self, closing: Iterable[EngineBinder | BrokerBinder], addresses: Collection[str]) -> None:
        for binder in closing:
            binder.close()
        if addresses:
            for listener in self.on_forgotten:
                listener(addresses)

    def _busy(self) -> set[str]:
        """The addresses with a call or a task under way."""
        engines = {address for (_, address), each in self._engines.items() if is_called(each)}
        brokers = {address for address, each in self._brokers.items() if is_called(each)}
        return engines | brokers | {address for address, lane in self._lanes.items() if not lane.is_idle}

    def close(self) -> None:
        """Finish the running tasks, then close all binders; each step takes at most :data:`CLOSING` seconds.

        A task, or a binder, that takes longer ends in its daemon thread.
        """
        ask(self._lanes, lambda key: self._lanes[key].close(), CLOSING, name="close-lane")
        binders: list[EngineBinder | BrokerBinder] = [*self._engines.values(), *self._brokers.values()]
        closed = ask(range(len(binders)), lambda number: binders[number].close(), CLOSING, name="close")
        for error in closed.errors.values():
            raise error
