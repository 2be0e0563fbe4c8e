"""The engines and brokers without which the jobs of a plan wait, asked before it is carried out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from speck.binder.pool import BinderPool
from speck.core.job import Job
from speck.core.plan import Action, Keep, Move, Plan, Stop, UnreachablePlace, Update
from speck.errors import Rejected, SpeckError

PATIENCE = 15.0  # s, for the answers of all: the first of an engine that has just started takes seconds
THREADS = 16  # places that are asked at a time

_Place = tuple[str, str, str]  # "engine" or "broker", the engine's kind, the address


@dataclass(frozen=True)
class Reachability:
    """``left_behind`` are addresses that are not asked."""

    pool: BinderPool
    left_behind: Collection[str] = ()

    def unreachable(self, plan: Plan) -> tuple[UnreachablePlace, ...]:
        """The places that do not answer, of the jobs that a plan starts, stops, updates or moves."""
        jobs: dict[_Place, list[str]] = defaultdict(list)
        for action in plan.actions:
            for place in dict.fromkeys(_places(action)):
                if place[2] not in self.left_behind:
                    jobs[place].append(action.job.job_name)
        starting = {each.job.spe_address for each in plan.actions if not isinstance(each, Keep | Stop)}
        errors = self._errors(list(jobs), starting)
        return tuple(
            UnreachablePlace(place[0], place[2], error, tuple(sorted(jobs[place])), refuses)
            for place, (error, refuses) in sorted(errors.items())
        )

    def _errors(
        self, places: Collection[_Place], starting: Collection[str]
    ) -> Mapping[_Place, tuple[str, bool]]:
        if not places:
            return {}
        threads = ThreadPoolExecutor(min(len(places), THREADS), thread_name_prefix="reach")
        asked = {place: threads.submit(self._check, place, place[2] in starting) for place in places}
        wait(asked.values(), PATIENCE)
        threads.shutdown(wait=False, cancel_futures=True)
        found = {place: self._error(future) for place, future in asked.items()}
        return {place: error for place, error in found.items() if error is not None}

    def _check(self, place: _Place, starts: bool) -> None:
        """Raise the error of a place; ``starts``: jobs are to start at this engine."""
        kind, name, address = place
        if kind == "broker":
            self.pool.broker(address).check()
            return
        engine = self.pool.engine_at(name, address)
        engine.capacity()
        if starts:
            engine.check_acceptance()

    def _error(self, answer: Future[None]) -> tuple[str, bool] | None:
        """The reason why a place cannot be used, and true if it answers; ``None`` if it can."""
        if answer.cancelled() or not answer.done():
            return f"no answer within {PATIENCE:g} s", False
        error = answer.exception()
        if error is not None and not isinstance(error, SpeckError):
            raise error
        return None if error is None else (" ".join(str(error).split()), isinstance(error, Rejected))


def _places(action: Action) -> Iterator[_Place]:
    """The engines and brokers that an action needs; a kept job needs none."""
    if isinstance(action, Keep):
        return
    yield from _places_of(action.job)
    if isinstance(action, Update | Move):
        yield from _places_of(action.previous)


def _places_of(job: Job) -> Iterator[_Place]:
    yield "engine", job.engine, job.spe_address
    yield "broker", "", job.source_broker
    yield "broker", "", job.sink_broker
