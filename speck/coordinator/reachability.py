"""The engines and brokers without which the jobs of a plan wait, asked before it is carried out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from speck.binder.pool import BinderPool
from speck.core.job import Job
from speck.core.plan import Action, Keep, Move, Plan, UnreachablePlace, Update
from speck.errors import SpeckError

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
        errors = self._errors(list(jobs))
        return tuple(
            UnreachablePlace(place[0], place[2], errors[place], tuple(sorted(names)))
            for place, names in sorted(jobs.items())
            if place in errors
        )

    def _errors(self, places: Collection[_Place]) -> Mapping[_Place, str]:
        if not places:
            return {}
        threads = ThreadPoolExecutor(min(len(places), THREADS), thread_name_prefix="reach")
        asked = {place: threads.submit(self._check_of(place)) for place in places}
        wait(asked.values(), PATIENCE)
        threads.shutdown(wait=False, cancel_futures=True)
        found = {place: self._error(future) for place, future in asked.items()}
        return {place: error for place, error in found.items() if error}

    def _check_of(self, place: _Place) -> Callable[[], object]:
        kind, engine, address = place
        if kind == "engine":
            return lambda: self.pool.engine_at(engine, address).capacity()
        return lambda: self.pool.broker(address).check()

    def _error(self, answer: Future[object]) -> str:
        """The reason why a place does not answer; empty if it does."""
        if answer.cancelled() or not answer.done():
            return f"no answer within {PATIENCE:g} s"
        error = answer.exception()
        if error is not None and not isinstance(error, SpeckError):
            raise error
        return "" if error is None else " ".join(str(error).split())


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
