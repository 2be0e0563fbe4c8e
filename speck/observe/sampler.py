"""Asks the engines what their jobs do, again and again, for as long as somebody wants to know.

An engine is asked for all of its jobs by one thread at a time, and is left alone for a multiple of the time
that it took.  So asking takes a small share of an engine's work, however many jobs it runs, and who is slow
holds up nobody else.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial

from speck.binder import BatchMetrics, CountsStored, EngineBinder
from speck.binder.pool import BinderPool
from speck.core.runtime import Handle, JobMetrics
from speck.errors import BinderError, OutcomeUnknown, SpeckError, Unreachable
from speck.observe.rates import Rates, Track, rates_of
from speck.store.deployments import Deployment, Deployments, EngineKey, by_engine

_log = logging.getLogger(__name__)

PERIOD = 5.0  # s between two questions to an engine, at least
BROKER_PERIOD = 30.0  # s, likewise to a broker
SHARE = 5  # an engine that took a second to answer is asked again after so many seconds
ATTENTION = 60.0  # s, for which who looked once is taken to look on
THREADS = 16  # engines that are asked at a time

Told = Mapping[str, JobMetrics | SpeckError]  # by the engine's id of the job

NOTHING = SpeckError("its engine's binder told nothing of it")


@dataclass(frozen=True, slots=True)
class Reading:
    """What is known of a job's work: its rates (``None``: never told), and why there are no newer ones."""

    engine_id: str
    rates: Rates | None
    error: str = ""


NO_READING = Reading("", None)


@dataclass
class _Asking:
    """An engine that was asked at ``begun`` (monotonic time, s) and, when done, took ``took`` seconds."""

    begun: float
    answer: Future[float]

    def is_due(self, now: float, period: float) -> bool:
        if not self.answer.done():
            return False
        return now - self.begun >= max(period, SHARE * self.answer.result())


@dataclass
class Sampler:
    """``period`` is the time between two looks, ``attention`` how long one look keeps it going, s."""

    deployments: Deployments
    pool: BinderPool
    period: float = PERIOD
    attention: float = ATTENTION
    now: Callable[[], float] = time.monotonic
    _stored: dict[str, tuple[float, int]] = field(default_factory=dict, init=False)
    _tracks: dict[str, Track] = field(default_factory=dict, init=False)
    _errors: dict[str, tuple[str, str]] = field(default_factory=dict, init=False)
    _asked: dict[EngineKey, _Asking] = field(default_factory=dict, init=False)
    _threads: ThreadPoolExecutor | None = field(default=None, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)
    _looked: float = field(default=0.0, init=False)
    _stop: threading.Event = field(default_factory=threading.Event, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    # --- what others ask

    def readings(self) -> dict[str, Reading]:
        """What is known by job name; has the engines asked from now on."""
        self._attend()
        with self._lock:
            names = self._tracks.keys() | self._errors.keys()
            return {name: self._reading(name) for name in names}

    def stored(self) -> dict[str, int]:
        """How many messages the brokers keep, by address, of those that say so and did lately."""
        oldest = self.now() - 3 * BROKER_PERIOD
        with self._lock:
            return {address: count for address, (when, count) in self._stored.items() if when >= oldest}

    def _reading(self, name: str) -> Reading:
        track, (engine_id, error) = self._tracks.get(name), self._errors.get(name, ("", ""))
        if track is None or (error and track.engine_id != engine_id):
            return Reading(engine_id, None, error)
        return Reading(track.engine_id, rates_of(track), error)

    def close(self) -> None:
        """Ask no more; what is asked is waited for."""
        self._stop.set()
        with self._lock:
            thread, threads = self._thread, self._threads
        if thread is not None:
            thread.join()
        if threads is not None:
            threads.shutdown(cancel_futures=True)

    # --- the thread

    def _attend(self) -> None:
        with self._lock:
            self._looked = self.now()
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while self._goes_on():
            begun = self.now()
            try:
                self.turn()
            except Exception:
                _log.exception("the jobs' rates could not be asked for")
            self._stop.wait(max(0.0, self.period - (self.now() - begun)))

    def _goes_on(self) -> bool:
        with self._lock:
            if self._stop.is_set() or self.now() - self._looked > self.attention:
                self._thread = None
                self._stored.clear()
                self._tracks.clear()  # too old for who looks next
                self._errors.clear()
                return False
            return True

    # --- asking

    def turn(self) -> None:
        """Have each engine asked that is not being asked, and was left alone for long enough."""
        snapshots = self.deployments.snapshots()
        deployed = [each for snapshot in snapshots for each in snapshot.deployed()]
        self._keep({job.job_name: handle.engine_id for job, handle in deployed})
        grouped = by_engine(deployed)
        brokers = {("", form.source_broker) for each in snapshots for form in each.forms.values()}
        asked = self._asked.items()
        known = grouped.keys() | brokers
        self._asked = {key: each for key, each in asked if key in known or not each.answer.done()}
        for key, jobs in grouped.items():
            self._begin(key, self.period, partial(self._ask, key, jobs))
        for key in brokers:
            self._begin(key, BROKER_PERIOD, partial(self._ask_broker, key[1]))

    def settle(self) -> None:
        """Wait until all who were asked have answered."""
        wait([each.answer for each in self._asked.values()])

    def _begin(self, key: EngineKey, period: float, ask: Callable[[], float]) -> None:
        now = self.now()
        if key not in self._asked or self._asked[key].is_due(now, period):
            self._asked[key] = _Asking(now, self._workers().submit(ask))

    def _workers(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="telemetry")
            return self._threads

    def _keep(self, copies: Mapping[str, str]) -> None:
        """Forget what was told of copies that run no more."""
        with self._lock:
            for name, track in list(self._tracks.items()):
                if copies.get(name) != track.engine_id:
                    del self._tracks[name]
            for name, (engine_id, _) in list(self._errors.items()):
                if copies.get(name) != engine_id:
                    del self._errors[name]

    def _ask(self, key: EngineKey, jobs: Sequence[Deployment]) -> float:
        """Ask an engine for its jobs; answers how long that took, s."""
        begun = self.now()
        try:
            told, fault = _told(self.pool.engine_at(*key), [handle for _, handle in jobs]), NOTHING
        except SpeckError as error:
            told, fault = {}, error
        except Exception as error:
            _log.exception("%s could not be asked for the rates of its jobs", key[1])
            told, fault = {}, SpeckError(f"internal error: {error!r}")
        with self._lock:
            for job, handle in jobs:
                self._note(job.job_name, handle.engine_id, told.get(handle.engine_id, fault))
        return self.now() - begun

    def _ask_broker(self, address: str) -> float:
        """Ask a broker how much it keeps; answers how long that took, s."""
        begun = self.now()
        try:
            broker = self.pool.broker(address)
            count = broker.stored() if isinstance(broker, CountsStored) else None
        except SpeckError:
            count = None
        except Exception:
            _log.exception("%s could not be asked how much it keeps", address)
            count = None
        if count is not None:
            with self._lock:
                self._stored[address] = (self.now(), count)
        return self.now() - begun

    def _note(self, name: str, engine_id: str, told: JobMetrics | SpeckError) -> None:
        if isinstance(told, SpeckError):
            self._errors[name] = (engine_id, _one_line(told))
            return
        self._errors.pop(name, None)
        track = self._tracks.get(name)
        if track is None or track.engine_id != engine_id:
            self._tracks[name] = Track.of(engine_id, told)
        else:
            self._tracks[name] = track.with_next(told)


def _told(binder: EngineBinder, handles: Iterable[Handle]) -> Told:
    asked = list(handles)
    if isinstance(binder, BatchMetrics):
        return binder.measure(asked)
    return _one_by_one(binder, asked)


def _one_by_one(binder: EngineBinder, handles: Iterable[Handle]) -> Told:
    """An engine that does not answer costs one question."""
    found: dict[str, JobMetrics | SpeckError] = {}
    silent: SpeckError | None = None
    for handle in handles:
        if silent is None:
            try:
                found[handle.engine_id] = binder.metrics(handle)
                continue
            except (Unreachable, OutcomeUnknown) as error:
                silent = error
            except BinderError as error:
                found[handle.engine_id] = error
                continue
        found[handle.engine_id] = silent
    return found


def _one_line(error: SpeckError) -> str:
    return " ".join(str(error).split())
