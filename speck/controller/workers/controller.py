"""The controller of workers: asks the engines for their workers, packs the jobs, and calls the hooks.

Of the engines of pools it measures the jobs; those with a hook are started and stopped as workers are.

A loop of its own beside the reconciler, with a thread for each engine at most and one for each hook: an
engine that is silent, or a hook that hangs, delays nothing else.  It starts, stops and moves no job: one that
has no room waits for its engine as before, and starts when a worker has come.  While workers of an engine are
stopped no job is started there, since the engine might choose one of them; nor at an engine that is stopped.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from speck.apply.operations import Operations
from speck.binder import Capability, EngineBinder, engine_of
from speck.binder.asking import CLOSING, begin
from speck.binder.pool import BinderPool
from speck.controller.backoff import Backoff, exponential
from speck.controller.workers.group import WorkerGroup
from speck.controller.workers.hooked import Hooked, Note
from speck.controller.workers.hooks import BOUND, HookCall, WorkerRequest
from speck.controller.workers.loads import JobLoad, job_load, loop_shares
from speck.controller.workers.pool import EnginePool
from speck.controller.workers.pool_engine import PoolEngine
from speck.core.clocks import Clock, steady_beside
from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.core.runtime import Worker
from speck.errors import SpeckError, one_line
from speck.loop import Loop
from speck.observe.measures import Measures
from speck.observe.metrics import Metrics
from speck.observe.sampler import Sampler
from speck.store import Event
from speck.store.deployments import Deployments

_log = logging.getLogger(__name__)

PERIOD = 2.0  # s between two rounds
MEASURING = 10.0  # s between two readings of the jobs' loads
COUNTED = 120.0  # s, for which a count of waiting messages holds: of a job that has died none comes after it


@dataclass
class WorkerController:
    """Starts and stops workers by the hooks of their engines, as the jobs need them.

    ``clock`` gives Unix time, s; ``delay`` the time to wait after a number of failed calls, s; ``bound`` is
    the time that a call may take, s.
    """

    deployments: Deployments
    operations: Operations
    pool: BinderPool
    inventory: Inventory
    sampler: Sampler
    measures: Measures
    metrics: Metrics
    report: Callable[[Iterable[Event]], None]
    clock: Callable[[], float] = time.time
    delay: Callable[[int], float] = exponential
    bound: float = BOUND
    steady: Clock = field(init=False)
    groups: dict[str, WorkerGroup] = field(default_factory=dict, init=False)
    pools: list[EnginePool] = field(default_factory=list, init=False)
    _calls: dict[str, HookCall] = field(default_factory=dict, init=False)
    _reconciling: dict[str, Future[None]] = field(default_factory=dict, init=False)
    _loads: dict[str, JobLoad] = field(default_factory=dict, init=False)
    _loaded_at: float = field(default=float("-inf"), init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    loop: Loop = field(init=False)

    def __post_init__(self) -> None:
        self.steady = steady_beside(self.clock)
        self.loop = Loop("workers", "a round of the workers", self._timed_round)
        self.pools = [EnginePool(each, self.delay) for each in self.inventory.pools]
        for site in self.inventory.sites.values():
            for engine in site.engines:
                if engine.scale is not None:
                    group = WorkerGroup(site.name, engine, engine.scale, Backoff(self.delay))
                    self.groups.setdefault(engine.spe_address, group)

    # --- the thread

    def start(self) -> None:
        """Begin, if the inventory has pools, or an engine whose workers come and go."""
        if self.groups or self.pools:
            self.loop.start()

    def close(self) -> None:
        """Call no further hooks, and end the commands that run."""
        self.loop.close()
        wait(self._reconciling.values(), CLOSING)
        for call in list(self._calls.values()):
            call.cancel()
        for address in self._calls.keys() | self.groups.keys():
            self.pool.resume(address)

    def _timed_round(self) -> float:
        self.round()
        return PERIOD

    # --- a round

    def round(self) -> None:
        """Reconcile each engine whose last round has ended."""
        generations = self.operations.generations()
        loads = self._read_loads()
        for address, group in self.groups.items():
            before = self._reconciling.get(address)
            if before is None or before.done():
                jobs = [each for each in loads if each.job.spe_address == address]
                self._reconciling[address] = begin(
                    partial(self._reconcile, group, jobs, generations), "scale"
                )
        snapshots = self.deployments.snapshots() if self.pools else []
        in_use = {address for each in snapshots for address in each.engine_addresses()}
        for pool in self.pools:
            self._observe_pool(pool, loads, in_use, generations)

    def _observe_pool(
        self, pool: EnginePool, loads: Sequence[JobLoad], in_use: Set[str], generations: Mapping[str, int]
    ) -> None:
        addresses = {each.spe_address for each in pool.pool.engines}
        with self._lock:
            pool.learn(each for each in loads if each.job.spe_address in addresses)
            pool.decide(in_use)
        for address in addresses:
            before = self._reconciling.get(address)
            if before is None or before.done():
                self._reconciling[address] = begin(
                    partial(self._observe, pool, address, generations), "scale"
                )

    def await_rounds(self) -> None:
        """Wait for the engines whose calls are running."""
        wait(list(self._reconciling.values()))

    def _engine_at(self, address: str) -> EngineBinder:
        return self.pool.engine_for(address)

    def _workers_at(self, address: str) -> Sequence[Worker]:
        """The workers of an engine of a pool; one that lists none is its own."""
        engine = self._engine_at(address)
        if Capability.WORKERS in engine.capabilities:
            return engine.workers()
        room = engine.capacity()
        free = not engine.running() if room.slots is None else room.slots == room.slots_free
        return [
            Worker(id=address, free=free, slots=room.slots, slots_free=room.slots_free, memory=room.memory)
        ]

    def _observe(self, pool: EnginePool, address: str, generations: Mapping[str, int]) -> None:
        try:
            workers = self._workers_at(address)
            with self._lock:
                pool.observe(address, workers, self.steady())
        except SpeckError as error:
            with self._lock:
                pool.fail(address, one_line(error), self.steady())
        except Exception as error:
            _log.exception("the workers of %s could not be listed", address)
            with self._lock:
                pool.fail(address, f"internal error: {error!r}", self.steady())
        if (engine := pool.hooked.get(address)) is not None:
            self._switch(engine, generations)

    def _switch(self, engine: PoolEngine, generations: Mapping[str, int]) -> None:
        """Start or stop an engine of a pool by its hook, if that is due."""
        try:
            with self._lock:
                self._report(self._follow_hook(engine))
                self._act(engine, generations)
        except SpeckError as error:
            _log.warning("the hook of %s was not called: %s", engine.address, error)
        except Exception:
            _log.exception("the hook of %s could not be called", engine.address)
        finally:
            if not engine.is_stopping(self.steady()):
                self.pool.resume(engine.address)

    def _reconcile(
        self, group: WorkerGroup, loads: Sequence[JobLoad], generations: Mapping[str, int]
    ) -> None:
        was_silent = bool(group.silent)
        try:
            engine = self._engine_at(group.address)
            if Capability.WORKERS not in engine.capabilities:
                raise SpeckError(f"{group.address} is of a kind of engine without workers")
            workers = engine.workers()
            with self._lock:
                group.observe(workers, self.steady())
                self._report(self._follow_hook(group))
                if was_silent and group.is_stopping(self.steady()):
                    self._pause(group)  # it was resumed when the engine fell silent
                self._decide(group, loads, generations)
        except SpeckError as error:
            with self._lock:
                group.silent = one_line(error)
        except Exception as error:
            _log.exception("the workers of %s could not be reconciled", group.address)
            with self._lock:
                group.silent = f"internal error: {error!r}"
        finally:
            if not group.is_stopping(self.steady()):
                self.pool.resume(group.address)

    def _follow_hook(self, group: Hooked) -> list[Note]:
        now, call, notes = self.steady(), self._calls.get(group.address), list[Note | None]()
        if call is not None and call.is_done():
            del self._calls[group.address]
            self.metrics.hook_ended(bool(call.fault))
            notes.append(group.hook_ended(call.fault, now))
        notes.append(group.check_arrival(now))
        return [each for each in notes if each is not None]

    def _decide(self, group: WorkerGroup, loads: Sequence[JobLoad], generations: Mapping[str, int]) -> None:
        group.learn(loads)
        group.decide(loads)
        self._act(group, generations)

    def _act(self, group: Hooked, generations: Mapping[str, int]) -> None:
        """Call the hook, if a request is due."""
        now = self.steady()
        ended = group.note_state(now)
        if ended is not None:
            self._report([ended])
        request = None if self.loop.is_closed else group.request(now)
        if request is None or group.address in self._calls:
            return
        if not request.stop:
            self._send(group, request, now)
            return
        with self.operations.frozen():
            # A job may have been placed on a worker since it was seen as free.
            if self._is_undisturbed(group, generations):
                self.pool.permit(group.address)  # another server may have taken over
                self._pause(group)
                self._send(group, request, now)

    def _pause(self, group: Hooked) -> None:
        """Start no job at an engine while its workers are stopped."""
        # Longer than the hook and the departure of the workers take, in case no round follows.
        longest = 2 * self.bound + group.departure
        self.pool.pause(engine_of(group.address), group.address, longest)

    def _is_undisturbed(self, group: Hooked, generations: Mapping[str, int]) -> bool:
        """True if no operation ran on the compositions of an engine since they had these generations."""
        using = [
            snapshot.head.name
            for snapshot in self.deployments.snapshots()
            if group.address in snapshot.engine_addresses() | snapshot.addresses()
        ]
        idle = all(self.operations.is_idle_since(each, generations.get(each, 0)) for each in using)
        return idle and group.may_stop(using)

    def _send(self, group: Hooked, request: WorkerRequest, now: float) -> None:
        note = group.send(request, now)
        # The intent is in the audit log before the effect.
        recorded = self._report([note] if note is not None else [])
        if request.stop and not recorded:
            group.withdraw()
            return
        call = self._calls[group.address] = HookCall(group.hook, request, self.bound)
        call.start()

    def _report(self, notes: Sequence[Note]) -> bool:
        """Write events; false if that failed."""
        if not notes:
            return True
        events = [Event(self.clock(), kind, message, automatic=True) for kind, message in notes]
        try:
            self.report(events)
        except SpeckError as error:
            _log.error("%s could not be recorded: %s", events[0].message, error)
            return False
        return True

    # --- the jobs

    def _read_loads(self) -> list[JobLoad]:
        """The jobs of engines with workers: those that are desired there, and those that run there."""
        jobs: dict[str, Job] = {}
        for snapshot in self.deployments.snapshots():
            running = {job.job_name: job for job, _ in snapshot.deployed()}
            for name, job in {**running, **snapshot.desired}.items():
                if self._site_of(job) is not None:
                    jobs[name] = job
        if jobs:
            self.sampler.measure()
        if self.steady() - self._loaded_at >= MEASURING:
            self._loaded_at = self.steady()
            self._loads = self._measured(jobs)
        loads = {name: self._loads.get(name, JobLoad(job)) for name, job in jobs.items()}
        return [replace(load, job=jobs[name]) for name, load in loads.items()]

    def _site_of(self, job: Job) -> str | None:
        """The site of a job at an engine with workers that come and go, or in a pool."""
        group, pool = self.groups.get(job.spe_address), self.inventory.pool_of(job.spe_address)
        return group.site if group is not None else pool.site if pool is not None else None

    def _measured(self, jobs: Mapping[str, Job]) -> dict[str, JobLoad]:
        if not jobs:
            return {}
        found, sites = self.measures.jobs(jobs.values()), self.measures.sites()
        readings, loops = self.sampler.readings(), loop_shares(jobs, found)
        loads = {}
        for name, job in jobs.items():
            site = sites.get(self._site_of(job) or "")
            speed = site.speed.value if site is not None and site.speed is not None else 1.0
            load = job_load(job, found[name], speed, loops.get(job.spe_address, 0.0))
            rates = readings[name].rates if name in readings else None
            observed = None if rates is None else rates.observed
            if rates is not None and observed is not None and self.clock() - observed <= COUNTED:
                load = replace(load, waiting=rates.waiting, counted=observed)
            loads[name] = load
        return loads

    # --- queries

    def data(self, site: str | None = None) -> list[dict[str, Any]]:
        """The engines with workers, then the pools, of one site or of all, as plain data."""
        now = self.steady()
        offset = self.clock() - now
        found: list[WorkerGroup | EnginePool] = [*self.groups.values(), *self.pools]
        with self._lock:
            return [each.data(now, offset) for each in found if site in (None, each.site)]

    def stopped_engines(self) -> set[str]:
        """The engines of pools that were stopped, as no job needs them."""
        with self._lock:
            return {at for each in self.pools for at, engine in each.hooked.items() if engine.is_stopped}

    def startable_engines(self) -> set[str]:
        """The engines of pools that are started as soon as they have a job."""
        with self._lock:
            return {at for each in self.pools for at, engine in each.hooked.items() if engine.can_start}

    def leaving_engines(self) -> set[str]:
        """The engines of pools that are being stopped; some answer still."""
        with self._lock:
            hooked = [each for pool in self.pools for each in pool.hooked.values()]
            return {each.address for each in hooked if each.is_stopping(self.steady())}

    def cores_of(self, job: Job) -> float | None:
        """The measured cores of an instance of a job in a pool; ``None``: not measured, or in no pool."""
        with self._lock:
            return next((each.cores_of(job) for each in self.pools if each.has(job.spe_address)), None)
