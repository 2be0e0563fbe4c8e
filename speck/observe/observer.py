"""Observes the jobs' statuses at their engines, with the time of each observation.

An engine is asked once for all of its jobs where its binder can, and once for a list of what it runs.  One
that is slow or silent delays nobody: a round goes on without it, and it is not asked again before its answer
or error is there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from speck.binder.asking import CLOSING
from speck.binder.patience import PatientCalls
from speck.binder.pool import BinderPool
from speck.binder.start_limit import StartLimit, limit_of_looks
from speck.core.clocks import Clock, steady_beside
from speck.core.runtime import Found, JobState, JobStatus
from speck.errors import SpeckError
from speck.store.deployments import Deployment, EngineKey, by_engine

_log = logging.getLogger(__name__)

PATIENCE = 3.0  # s, that a round waits for the slowest engine
PLAN_PATIENCE = 20.0  # s, that a plan does
SHOWN = 15.0  # s, for which the last status of a job is shown while its engine is slow to answer
_LATE = 0.15  # the part of its time that a plan waits for an engine which was late the last time
_MOMENT = 0.25  # s

_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class Observation:
    """The result of one round: statuses by job name, and the jobs ``found`` at each engine by address.

    ``silent`` has the reason of each engine that does not answer, by address.
    """

    statuses: Mapping[str, JobStatus]
    found: Mapping[str, Sequence[Found]] = field(default_factory=dict)
    silent: Mapping[str, str] = field(default_factory=dict)


_Question = tuple[EngineKey, frozenset[tuple[str, str]]]  # an engine, and jobs there with their handles' ids
_Asked = tuple[Sequence[Deployment], Future[Observation]]


@dataclass
class Observer:
    """Keeps the last status of each job.  ``clock`` gives Unix time, s; ``patience`` is s."""

    pool: BinderPool
    clock: Callable[[], float]
    patience: float = PATIENCE
    looks: StartLimit = field(default_factory=limit_of_looks)
    steady: Clock = field(init=False)
    _seen: dict[str, JobStatus] = field(default_factory=dict, init=False)
    # When each was known, by the steady clock: that of a site may be wrong.
    _known_at: dict[str, float] = field(default_factory=dict, init=False)
    _asked: dict[EngineKey, _Asked] = field(default_factory=dict, init=False)
    _silent: Mapping[str, str] = field(default_factory=dict, init=False)
    _now: PatientCalls[_Question, dict[str, JobStatus]] = field(init=False)
    _late: set[EngineKey] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self.steady = steady_beside(self.clock)
        self._now = PatientCalls("observe-now", 0.0, self.looks.submit)

    def seen(self) -> dict[str, JobStatus]:
        """The last status of each job, by job name.

        While an engine has not answered yet, it is the one before, for up to ``SHOWN`` s.
        """
        return dict(self._seen)

    @property
    def silent(self) -> Mapping[str, str]:
        """The engines that did not answer in the last round, by address, with the reasons."""
        return self._silent

    def close(self) -> None:
        """Wait a moment for the calls that are under way."""
        wait([answer for _, answer in self._asked.values()], CLOSING)

    def observe(
        self, deployed: Iterable[Deployment], patience: float = PLAN_PATIENCE
    ) -> dict[str, JobStatus]:
        """Ask the engines now, and wait ``patience`` seconds for them; returns the statuses by job name.

        Of an engine that has not answered in time, all jobs are UNKNOWN; the next plan waits less for it.
        """
        asked = {_question(key, jobs): (key, jobs) for key, jobs in by_engine(deployed).items()}
        late = [question for question, (key, _) in asked.items() if key in self._late]
        # The late ones last: those that answer do not wait behind them.
        order = sorted(asked, key=set(late).__contains__)
        calls = {question: partial(self._statuses_now, *asked[question]) for question in order}
        answers = self._now.results(calls, patience, late, moment=_LATE * patience)
        found: dict[str, JobStatus] = {}
        for question, (key, jobs) in asked.items():
            if question in answers:
                self._late.discard(key)
                found |= answers[question]
            else:
                self._late.add(key)
                found |= self._silence(key[1], jobs, f"has not answered in {patience:g} s").statuses
        self._seen.update(found)
        return found

    def poll(self, deployed: Iterable[Deployment]) -> Observation:
        """One round: the statuses of these jobs, and the jobs found at their engines.

        Of an engine that has not answered in time, all jobs are UNKNOWN.
        """
        grouped = by_engine(deployed)
        answers = {key: found for key, jobs in grouped.items() if (found := self._reported(key, jobs))}
        others = {key: jobs for key, jobs in grouped.items() if key not in answers}
        answers |= self._ask_all(others)
        statuses = {name: status for each in answers.values() for name, status in each.statuses.items()}
        waiting = {job.job_name for key in self._asked for job, _ in grouped.get(key, ())}
        kept = {name for name in waiting if self._is_recent(name)}
        self._seen.update((name, status) for name, status in statuses.items() if name not in kept)
        self._known_at |= dict.fromkeys(statuses.keys() - waiting, self.steady())
        self._silent = {address: why for each in answers.values() for address, why in each.silent.items()}
        listed = {address: jobs for each in answers.values() for address, jobs in each.found.items()}
        return Observation(statuses, listed, self._silent)

    def _is_recent(self, name: str) -> bool:
        """True if the last status of a job is known, and is not too old to be shown."""
        last = self._seen.get(name)
        if last is None or last.state is JobState.UNKNOWN:
            return False
        known_at = self._known_at.get(name)
        return known_at is not None and self.steady() - known_at < SHOWN

    def _ask_all(self, grouped: Mapping[EngineKey, Sequence[Deployment]]) -> dict[EngineKey, Observation]:
        """The answers of engines that are asked side by side, or their silence."""
        # The silent ones last: those that answer do not wait behind them.
        order = sorted(grouped, key=lambda key: key[1] in self._silent)
        asked = {key for key in order if self._ask(key, grouped[key])}
        # An engine that was silent the last time delays the others only a moment.
        wait([self._asked[key][1] for key in grouped if key[1] not in self._silent], self.patience)
        wait([self._asked[key][1] for key in grouped], min(_MOMENT, self.patience))
        return {key: self._answer(key, jobs, key in asked) for key, jobs in grouped.items()}

    def _reported(self, key: EngineKey, jobs: Sequence[Deployment]) -> Observation | None:
        """The answer of an engine that has reported it, so that no thread has to ask for it."""
        if key in self._asked:
            return None
        try:
            found = self.pool.engine_at(*key).reported([handle for _, handle in jobs])
        except Exception:  # it is met again where the engine is asked, and is the reason of its silence there
            return None
        if found is None:
            return None
        statuses, running = found
        return Observation(_by_job(jobs, statuses), {key[1]: running})

    def forget(self, names: Iterable[str]) -> None:
        """Drop the statuses of jobs that no longer exist or are about to change."""
        for name in names:
            self._seen.pop(name, None)
            self._known_at.pop(name, None)

    def forget_engines(self, addresses: Collection[str]) -> None:
        """Forget which of these engines were late."""
        self._late.difference_update([key for key in self._late.copy() if key[1] in addresses])

    def _ask(self, key: EngineKey, jobs: Sequence[Deployment]) -> bool:
        """Begin to ask an engine; False if an earlier call is still under way."""
        if key in self._asked:
            return False
        self._asked[key] = (jobs, self.looks.submit(partial(self._observed, key, jobs), "observe"))
        return True

    def _answer(self, key: EngineKey, jobs: Sequence[Deployment], now: bool) -> Observation:
        """The answer of an engine, if it is there; it is used once.  ``now``: it was asked in this round."""
        asked, answer = self._asked[key]
        if not answer.done():
            return self._silence(key[1], jobs, "has not responded yet")
        del self._asked[key]
        observation = answer.result()
        if now:
            return observation
        # The answer to a call of an earlier round may be of an attempt that was replaced since.
        current = {job.job_name: (job, handle) for job, handle in jobs}
        same = {job.job_name for job, handle in asked if current.get(job.job_name) == (job, handle)}
        statuses = {name: status for name, status in observation.statuses.items() if name in same}
        return Observation(statuses, {}, observation.silent)

    def _silence(self, address: str, jobs: Iterable[Deployment], why: str) -> Observation:
        unknown = JobStatus(JobState.UNKNOWN, self.clock(), f"{address}: {why}")
        return Observation({job.job_name: unknown for job, _ in jobs}, {}, {address: why})

    def _observed(self, key: EngineKey, jobs: Sequence[Deployment]) -> Observation:
        address = key[1]
        try:
            statuses = self._statuses(key, jobs)
            if all(each.state is JobState.UNKNOWN for each in statuses.values()):
                return Observation(statuses, {}, {address: next(iter(statuses.values())).message})
            return Observation(statuses, self._found(key))
        except Exception as error:
            return self._silence(address, jobs, f"internal error: {error!r}")

    def _found(self, key: EngineKey) -> dict[str, Sequence[Found]]:
        binder = self.pool.engine_at(*key)
        try:
            return {key[1]: binder.running()}
        except SpeckError:
            return {}  # the other jobs there stay unknown

    def _statuses_now(self, key: EngineKey, jobs: Sequence[Deployment]) -> dict[str, JobStatus]:
        try:
            return self._statuses(key, jobs)
        except Exception as error:  # as in a round: it must not end the plan for all other engines
            _log.exception("the request to %s for the statuses of its jobs failed", key[1])
            return dict(self._silence(key[1], jobs, f"internal error: {error!r}").statuses)

    def _statuses(self, key: EngineKey, jobs: Sequence[Deployment]) -> dict[str, JobStatus]:
        try:
            binder = self.pool.engine_at(*key)
        except SpeckError as error:
            lost = JobStatus(JobState.UNKNOWN, self.clock(), str(error))
            return {job.job_name: lost for job, _ in jobs}
        return _by_job(jobs, binder.statuses([handle for _, handle in jobs]))


def _by_job(jobs: Iterable[Deployment], statuses: Mapping[str, JobStatus]) -> dict[str, JobStatus]:
    return {job.job_name: statuses[handle.engine_id] for job, handle in jobs}


def _question(key: EngineKey, jobs: Iterable[Deployment]) -> _Question:
    return key, frozenset((job.job_name, handle.engine_id) for job, handle in jobs)
