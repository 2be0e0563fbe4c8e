"""The binders in use, one for each engine and broker, and the lanes that bound the load on each."""

from __future__ import annotations

import threading
from concurrent.futures import Executor
from dataclasses import dataclass, field

from speck.binder import ArtifactServer, BrokerBinder, EngineBinder, Registry
from speck.binder.instrumented import Call, Listener, instrumented
from speck.binder.lane import Lane
from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.errors import BinderError

BROKER_BOUND = 4  # calls at one broker: each has a connection of its own
WAITING_BOUND = 32  # for each user


def _ignore(call: Call) -> None:
    """Ignore a call."""


@dataclass
class BinderPool:
    """Binders by address, made when first needed.  A lane bounds the concurrent actions at one address.

    The users of a lane are compositions: one whose actions hang does not hold up those of another.

    ``artifacts`` is the file server for binders whose engines fetch files.  ``listener`` receives each call.
    ``owner`` is the identity of the store whose sessions the brokers keep; empty without a store.
    """

    registry: Registry
    inventory: Inventory
    artifacts: ArtifactServer | None = None
    listener: Listener = _ignore
    owner: str = ""
    _engines: dict[tuple[str, str], EngineBinder] = field(default_factory=dict, init=False)
    _brokers: dict[str, BrokerBinder] = field(default_factory=dict, init=False)
    _lanes: dict[str, Lane] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def engine_at(self, engine: str, address: str) -> EngineBinder:
        """The binder of the engine at an address."""
        kind = self.registry.engine_kind(engine, address)
        if kind is None:
            raise BinderError(f"no installed binder serves engine {engine!r} at {address!r}", address=address)
        with self._lock:
            if (engine, address) not in self._engines:
                binder = kind.connect(address, self.inventory)
                if self.artifacts is not None:
                    binder.take_artifacts(self.artifacts)
                self._engines[engine, address] = instrumented(binder, kind.name, address, self.listener)
            return self._engines[engine, address]

    def engine(self, job: Job) -> EngineBinder:
        """The binder of a job's engine."""
        return self.engine_at(job.engine, job.spe_address)

    def broker(self, address: str) -> BrokerBinder:
        """The binder of the broker at an address."""
        kind = self.registry.broker_kind(address)
        if kind is None:
            raise BinderError(f"no installed binder serves the broker at {address!r}", address=address)
        with self._lock:
            if address not in self._brokers:
                binder = kind.connect(address, self.inventory)
                if self.owner:
                    binder.take_owner(self.owner)
                self._brokers[address] = instrumented(binder, kind.name, address, self.listener)
            return self._brokers[address]

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
        """Let actions at an engine begin again, if they were paused."""
        with self._lock:
            lane = self._lanes.get(address)
        if lane is not None:
            lane.resume()

    def broker_lane(self, address: str, user: str) -> Executor:
        """The lane of a broker."""
        return self._lane(address, BROKER_BOUND).share(user)

    def waiting_lane(self, user: str) -> Executor:
        """The lane of tasks that mostly wait."""
        return self._lane("waiting", WAITING_BOUND, own=WAITING_BOUND).share(user)

    def _lane(self, address: str, bound: int, own: int = 1) -> Lane:
        with self._lock:
            if address not in self._lanes:
                self._lanes[address] = Lane(address, bound, own)
            return self._lanes[address]

    def close(self) -> None:
        """Finish the running tasks, then close all binders."""
        for lane in self._lanes.values():
            lane.close()
        for engine in self._engines.values():
            engine.close()
        for broker in self._brokers.values():
            broker.close()
