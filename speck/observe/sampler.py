"""Samples the metrics of jobs, and the messages that brokers store, and have for each session.

While somebody reads the rates, engines are asked every :data:`PERIOD` seconds, and brokers too.  A
coordinator that reconciles has the engines asked at a slower pace at all times, so that no loss which a job
has counted stays unseen (:mod:`speck.observe.losses`).

An engine is asked for all of its jobs by one thread at a time, and then not again for a multiple of the time
that its answer took.  So sampling takes a small share of an engine's work, however many jobs it runs, and a
slow one delays no other.  The loads of jobs are sampled at an interval that keeps the processor time of the
answers within a budget (:mod:`speck.observe.pace`).

Apart from :mod:`speck.observe.observer`, which polls statuses at the pace of the reconciler: a call for
metrics may take long, and must not take the threads by which a death is detected.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import partial
from math import ceil, inf

from speck.binder import Backlog, Capability
from speck.binder.asking import CLOSING
from speck.binder.pool import BinderPool
from speck.binder.start_limit import StartLimit, limit_of_looks
from speck.core.job import Scalar
from speck.core.runtime import Handle, JobMetrics
from speck.errors import SpeckError, one_line
from speck.loop import Loop
from speck.observe.curves import Curves
from speck.observe.losses import LossRecorder, receives_qos0
from speck.observe.measures import CAPACITY_PERIOD, WRITE_PERIOD, Measures
from speck.observe.rates import Rates, Track, rates_of
from speck.store import SessionRecord
from speck.store.deployments import Deployment, Deployments, EngineKey, by_engine

_log = logging.getLogger(__name__)

PERIOD = 5.0  # s between two questions to an engine, at least
BROKER_PERIOD = 30.0  # s, likewise to a broker
SHARE = 5  # times the duration of an answer, after which the engine is asked again
ATTENTION = 60.0  # s, for which sampling goes on after the readings were read
WATCH_PERIOD = 20.0  # s between two questions to an engine while no reader is active

_Question = tuple[float, Callable[[], float]]  # its period (s), and the call, which returns its duration (s)
Measured = Mapping[str, JobMetrics | SpeckError]  # by the engine's id of the job

MISSING = SpeckError("the answer of its engine's binder does not include it")


@dataclass(frozen=True, slots=True)
class Reading:
    """The rates of a job (``None``: not known yet), and the error that kept newer ones away."""

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
    """``period`` is the time between two samples, ``attention`` how long one reading keeps it going, s.

    ``losses`` takes the metrics of all jobs, ``curves`` their rates, ``measures`` their counts while it is
    attended.
    """

    deployments: Deployments
    pool: BinderPool
    losses: LossRecorder | None = None
    measures: Measures | None = None
    curves: Curves | None = None
    period: float = PERIOD
    attention: float = ATTENTION
    watch_period: float = WATCH_PERIOD
    now: Callable[[], float] = time.monotonic
    processor: Callable[[], float] = time.thread_time  # s, of the calling thread
    _watching: bool = field(default=False, init=False)
    _stored: dict[str, tuple[float, int]] = field(default_factory=dict, init=False)
    _backlogs: dict[str, tuple[float, Mapping[str, Backlog]]] = field(default_factory=dict, init=False)
    _readers: Mapping[str, frozenset[str]] = field(default_factory=dict, init=False)  # by broker
    _copies: Mapping[str, str] = field(default_factory=dict, init=False)  # engine ids by job
    _tracks: dict[str, Track] = field(default_factory=dict, init=False)
    _errors: dict[str, tuple[str, str]] = field(default_factory=dict, init=False)
    _looks: StartLimit = field(default_factory=limit_of_looks, init=False)
    _asked: dict[EngineKey, _Asking] = field(default_factory=dict, init=False)
    _read_at: float | None = field(default=None, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    loop: Loop = field(init=False)

    def __post_init__(self) -> None:
        """Begin the next round at once when profiles are requested."""
        self.loop = Loop("sampler", "a sampling round", self._timed_round)
        if self.measures is not None:
            self.measures.on_request = self.loop.wake

    # --- readings

    def readings(self) -> dict[str, Reading]:
        """The last reading of each job by name; sampling begins, or goes on for ``attention`` seconds."""
        self._keep_sampling()
        with self._lock:
            names = self._tracks.keys() | self._errors.keys()
            return {name: self._reading(name) for name in names}

    def details(self) -> dict[str, Mapping[str, Scalar]]:
        """The further numbers of each job's last sample by name, as far as they are known now."""
        with self._lock:
            return {name: track.samples[-1].details for name, track in self._tracks.items()}

    def waiting(self) -> dict[str, int]:
        """The messages that wait for each job by name, in its last sample, as far as it has them."""
        with self._lock:
            found = {name: track.samples[-1].waiting for name, track in self._tracks.items()}
        return {name: count for name, count in found.items() if count is not None}

    def stamps(self) -> dict[str, str]:
        """The kind of each job's stamps by name, ``derived`` or ``counted``, as far as it is known now."""
        with self._lock:
            kinds = {name: track.samples[-1].details.get("stamps") for name, track in self._tracks.items()}
        return {name: str(kind) for name, kind in kinds.items() if kind}

    def qos0_rates(self) -> dict[str, float | None]:
        """The jobs that receive messages at QoS 0, with the messages/s that they receive in all."""
        with self._lock:
            found = {
                name: track
                for name, track in self._tracks.items()
                if receives_qos0(track.samples[-1].details)
            }
            return {name: rates_of(track).input_rate for name, track in found.items()}

    def connected(self, job: str) -> bool:
        """True if the reader of a job had a connection in its last sample."""
        with self._lock:
            track = self._tracks.get(job)
        return track is not None and _is_connected(track.samples[-1].details, unknown=False)

    def stored(self) -> dict[str, int]:
        """The number of messages that each broker stores, by address, where it was counted lately."""
        oldest = self.now() - 3 * BROKER_PERIOD
        with self._lock:
            return {address: count for address, (when, count) in self._stored.items() if when >= oldest}

    def backlog(self, session: SessionRecord) -> Backlog | None:
        """The backlog of a session as its broker counted it lately; ``None`` if it is not known."""
        with self._lock:
            when, found = self._backlogs.get(session.broker, (-inf, {}))
        return found.get(session.name) if when >= self.now() - 3 * BROKER_PERIOD else None

    def held(self, job: str, session: SessionRecord) -> int | None:
        """The messages that wait for a job, those at its broker included; ``None`` if these are not known.

        Kafka counts them.  Of Mosquitto the size of its whole store is known: while the reader's buffer is
        full, what waits for the job grows with that.  It may as well grow with the session of a job that does
        not read, so it counts only while all other jobs at the broker do.
        """
        backlog = self.backlog(session)
        if backlog is not None:
            return backlog.messages
        stored, details = self.stored().get(session.broker), self.details()
        others = self._readers.get(session.broker, frozenset()) - {job}
        if stored is None or not _is_full(details.get(job, {})):
            return None
        with self._lock:
            unknown = others - (details.keys() - self._errors.keys())
        if unknown or not all(_is_connected(details[each]) for each in others):
            return None
        waiting = self.waiting()
        elsewhere = sum(waiting.get(each, 0) for each in others if not _is_full(details[each]))
        return waiting.get(job, 0) + max(0, stored - elsewhere)

    def _reading(self, name: str) -> Reading:
        track, (engine_id, error) = self._tracks.get(name), self._errors.get(name, ("", ""))
        if track is None or (error and track.engine_id != engine_id):
            return Reading(engine_id, None, error)
        return Reading(track.engine_id, rates_of(track), error)

    def close(self) -> None:
        """Stop sampling, and wait a moment for running calls."""
        self.loop.close()
        if self.loop.is_started:
            self._write_profiles()
        wait([each.answer for each in self._asked.values()], CLOSING)

    # --- the thread

    def watch(self) -> None:
        """Sample from now on, even without a reader."""
        with self._lock:
            self._watching = True
        self.loop.start()
        self.loop.wake()

    def _keep_sampling(self) -> None:
        with self._lock:
            if not self._attended():
                self.loop.wake()
            self._read_at = self.now()
        self.loop.start()

    def measure(self, seconds: float = ATTENTION) -> None:
        """Sample the profiles of all jobs for the next ``seconds``."""
        with self._lock:
            if not self._attended():
                self.loop.wake()
            if self.measures is not None:
                self.measures.request(seconds)
        self.loop.start()

    def _pace(self) -> float:
        """The time between two rounds, s."""
        if self._is_read() or self.measures is None:
            return self.period if self._is_read() else self.watch_period
        interval = self.measures.pace.interval
        # Each sample begins with a round, and slower questions are not asked much later than they are due.
        rounds = ceil(interval / self.watch_period)
        return interval / rounds if self._is_measured() else self.watch_period

    def _attended(self) -> bool:
        return self._is_read() or self._is_measured()

    def _is_read(self) -> bool:
        return self._read_at is not None and self.now() - self._read_at <= self.attention

    def _is_measured(self) -> bool:
        return self.measures is not None and self.measures.is_attended()

    def _timed_round(self) -> float:
        """Sample, if there is a reader or a watch; returns the time until the next round, s."""
        begun = self.now()
        if self._is_idle():
            self._write_profiles()
            return inf
        pace = self._pace()
        self.sample()
        if self.losses is not None:
            self.losses.report()
        self.write()
        return max(0.0, pace - (self.now() - begun))

    def _write_profiles(self) -> None:
        if self.measures is not None:
            self.measures.write(at_once=True)

    def write(self) -> None:
        """Write the profiles if that is due; its processor time counts as measuring."""
        if self.measures is not None:
            used = self.processor()
            if self.measures.write():
                self.measures.pace.spend_every("store", WRITE_PERIOD, self.processor() - used)

    def _is_idle(self) -> bool:
        """True without a reader or a watch: the readings are dropped, which would be too old later."""
        with self._lock:
            if self._watching or self._attended():
                return False
            for readings in (self._stored, self._backlogs, self._tracks, self._errors):
                readings.clear()
            return True

    # --- asking

    def sample(self) -> None:
        """Begin to ask each engine (and broker) that is due and not being asked.

        The processor time of the round counts as measuring, unless somebody reads the rates.
        """
        used, period = self.processor(), self._pace()
        self._begin_due()
        if self.measures is not None and not self._is_read():
            self.measures.pace.spend_every("round", period, self.processor() - used)

    def _begin_due(self) -> None:
        snapshots = self.deployments.snapshots()
        deployed = [each for snapshot in snapshots for each in snapshot.deployed()]
        copies = {job.job_name: handle.engine_id for job, handle in deployed}
        self._forget_others(copies)
        if self.curves is not None:
            self.curves.forget_others({name for snapshot in snapshots for name in snapshot.records})
        if self.measures is not None:
            self.measures.forget_others(copies)
        grouped = by_engine(deployed)
        compositions = {name: each.head.name for each in snapshots for name in each.records}
        sources = {form.source_broker: set[str]() for each in snapshots for form in each.forms.values()}
        readers: dict[str, set[str]] = {}
        for job, session in (one for each in snapshots for one in each.current_sessions().items()):
            sources.setdefault(session.broker, set()).add(session.name)
            readers.setdefault(session.broker, set()).add(job)
        self._readers = {broker: frozenset(jobs) for broker, jobs in readers.items()}
        if self.losses is not None:
            self.losses.make_room(len(copies), len(sources))
        # Where only profiles are sampled, the rates have no reader.
        pace = self.period if self._is_read() or not self._is_measured() else self.watch_period
        questions: dict[EngineKey, _Question] = {
            key: (pace, partial(self._ask, key, jobs, compositions)) for key, jobs in grouped.items()
        }
        questions |= {
            ("", address): (BROKER_PERIOD, partial(self._ask_broker, address, sorted(sessions)))
            for address, sessions in sources.items()
        }
        if self.measures is not None and self.measures.is_attended():
            questions |= self._measuring(self.measures, grouped)
        asked = self._asked.items()
        self._asked = {key: each for key, each in asked if key in questions or not each.answer.done()}
        for key, (period, ask) in questions.items():
            self._begin(key, period, ask)

    def _measuring(
        self, measures: Measures, grouped: Mapping[EngineKey, Sequence[Deployment]]
    ) -> dict[EngineKey, _Question]:
        """The questions for the counts of jobs, and for the capacities of all engines of the inventory."""
        pace = measures.pace
        pace.forget_others(grouped)
        pace.adapt(self.now())
        period = pace.interval - self.period / 2  # rounds do not begin to the millisecond
        counts: dict[EngineKey, _Question] = {
            (f"counts of {key[0]}", key[1]): (period, partial(self._ask_counts, measures, key, jobs))
            for key, jobs in grouped.items()
        }
        return counts | {
            ("capacity", address): (CAPACITY_PERIOD, partial(self._ask_capacity, measures, address))
            for address in measures.engines()
        }

    def _ask_counts(self, measures: Measures, key: EngineKey, jobs: Sequence[Deployment]) -> float:
        """Ask an engine for the counts of its jobs; returns how long that took, s."""
        begun, used = self.now(), self.processor()
        measures.ask(key, jobs)
        measures.pace.spend(key, self.processor() - used)
        return self.now() - begun

    def _ask_capacity(self, measures: Measures, address: str) -> float:
        """Ask an engine for its capacity; returns how long that took, s."""
        begun, used = self.now(), self.processor()
        measures.ask_capacity(address)
        measures.pace.spend_every(address, CAPACITY_PERIOD, self.processor() - used)
        return self.now() - begun

    def await_answers(self) -> None:
        """Wait until the calls under way have ended."""
        wait([each.answer for each in self._asked.values()])

    def _begin(self, key: EngineKey, period: float, ask: Callable[[], float]) -> None:
        now = self.now()
        if key not in self._asked or self._asked[key].is_due(now, period):
            self._asked[key] = _Asking(now, self._looks.submit(partial(self._guarded, key, ask), "sample"))

    def _guarded(self, key: EngineKey, ask: Callable[[], float]) -> float:
        """Ask; a defect in the use of one answer must not end the rounds, which ask all others too."""
        begun = self.now()
        try:
            return ask()
        except Exception:
            _log.exception("the answer of %s could not be used", key[1])
            return self.now() - begun

    def _forget_others(self, copies: Mapping[str, str]) -> None:
        """Forget the readings of all but these ``copies``: the engine's id of each job by its name."""
        with self._lock:
            self._copies = copies
            for name, track in list(self._tracks.items()):
                if copies.get(name) != track.engine_id:
                    del self._tracks[name]
            for name, (engine_id, _) in list(self._errors.items()):
                if copies.get(name) != engine_id:
                    del self._errors[name]

    def _ask(self, key: EngineKey, jobs: Sequence[Deployment], compositions: Mapping[str, str]) -> float:
        """Ask an engine for its jobs' metrics; returns how long that took, s.

        The processor time counts as measuring, but for what somebody reads at the moment.
        """
        begun, used = self.now(), self.processor()
        measured: Measured = {}
        fault: SpeckError = MISSING
        try:
            measured = self.pool.engine_at(*key).measure([handle for _, handle in jobs])
        except SpeckError as error:
            fault = error
        except Exception as error:
            _log.exception("the request to %s for the rates of its jobs failed", key[1])
            fault = SpeckError(f"internal error: {error!r}")
        with self._lock:
            for job, handle in jobs:
                self._note(job.job_name, handle.engine_id, measured.get(handle.engine_id, fault))
        took = self.now() - begun
        for job, handle in jobs:
            self._count_losses(
                compositions[job.job_name], job.job_name, measured.get(handle.engine_id), handle
            )
        if self.measures is not None and not self._is_read():
            self.measures.pace.spend_watching(key, self.watch_period, self.processor() - used)
        return took

    def _count_losses(
        self, composition: str, job: str, measured: JobMetrics | SpeckError | None, handle: Handle
    ) -> None:
        if self.losses is None or not isinstance(measured, JobMetrics):
            return
        try:
            self.losses.record_sample(composition, job, handle.engine_id, measured.details)
        except SpeckError as error:
            _log.warning("the losses of job %r could not be recorded: %s", job, error)

    def _ask_broker(self, address: str, sessions: Sequence[str]) -> float:
        """Count what a broker stores, has dropped, and has for sessions; returns how long that took, s."""
        begun = self.now()
        try:
            broker = self.pool.broker(address)
            if (count := broker.stored()) is not None:
                with self._lock:
                    self._stored[address] = (self.now(), count)
            if Capability.BACKLOG in broker.capabilities:
                backlogs = broker.behind(sessions)
                with self._lock:
                    self._backlogs[address] = (self.now(), backlogs)
            dropped = broker.dropped()
            if dropped is not None and self.losses is not None:
                self.losses.record_dropped(address, dropped)
        except SpeckError as error:
            _log.debug("%s does not report its messages: %s", address, error)
        except Exception:
            _log.exception("the request to %s for its messages failed", address)
        return self.now() - begun

    def _note(self, name: str, engine_id: str, measured: JobMetrics | SpeckError) -> None:
        if self._copies.get(name) != engine_id:
            return  # the job was replaced while its former engine took its time to answer
        if isinstance(measured, SpeckError):
            self._errors[name] = (engine_id, one_line(measured))
            return
        self._errors.pop(name, None)
        track = self._tracks.get(name)
        if track is None or track.engine_id != engine_id:
            self._tracks[name] = Track.of(engine_id, measured)
        else:
            self._tracks[name] = track.with_next(measured)
        if self.curves is not None:
            self.curves.add(name, rates_of(self._tracks[name]))


def _is_full(details: Mapping[str, Scalar]) -> bool:
    """True if the reader of a job takes no further messages."""
    return details.get("bufferFull") in (1, True, "true")


def _is_connected(details: Mapping[str, Scalar], *, unknown: bool = True) -> bool:
    """True if the reader of a job has a connection; ``unknown`` if the job does not report it."""
    connected = details.get("connected")
    return unknown if connected is None else connected in (1, True, "true")
