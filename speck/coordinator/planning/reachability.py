"""The engines and brokers without which the jobs of a plan wait, asked before it is carried out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from speck.binder.asking import ask
from speck.binder.pool import BinderPool
from speck.core.job import Job
from speck.core.plan import Action, Keep, Move, Plan, Stop, UnreachablePlace, Update
from speck.errors import Rejected, one_line

_Place = tuple[str, str, str]  # "engine" or "broker", the engine's kind, the address


@dataclass(frozen=True)
class Reachability:
    """Asks the engines and brokers that a plan needs, but for the addresses in ``left_behind``.

    ``limits`` are the largest packets that the brokers asked so far accept, in bytes; one that states no
    limit is absent.
    """

    pool: BinderPool
    left_behind: Collection[str] = ()
    limits: dict[str, int] = field(default_factory=dict, init=False)

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
        """The reason why each place cannot be used, and true if it answers nevertheless."""
        asked = ask(places, lambda place: self._check(place, place[2] in starting), name="reach")
        return {
            place: (one_line(error), isinstance(error, Rejected)) for place, error in asked.failures().items()
        }

    def _check(self, place: _Place, starts: bool) -> None:
        """Raise the error of a place; ``starts``: jobs are to start at this engine."""
        kind, name, address = place
        if kind == "broker":
            broker = self.pool.broker(address)
            broker.check()
            if (limit := broker.packet_bytes()) is not None:
                self.limits[address] = limit
            return
        engine = self.pool.engine_at(name, address)
        engine.capacity()
        if starts:
            engine.check_acceptance()


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
