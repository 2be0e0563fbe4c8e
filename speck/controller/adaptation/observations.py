"""Recent observations of a composition by the adaptation loop; kept in memory only."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from speck.controller.adaptation.mover import Present
from speck.core.adaptation import AdaptationState, Trigger
from speck.observe.sampler import Sampler
from speck.placement.adaptation import knowledge, triggers
from speck.placement.profile import LinkProfile
from speck.store import JobRecord

_ORDER = list(Trigger)


class Unread(NamedTuple):
    """The messages that wait for a job; ``with_broker``: those at its broker included."""

    messages: int
    with_broker: bool


def backlogs(sampler: Sampler, records: Iterable[JobRecord]) -> dict[str, Unread]:
    """The messages that wait for each job, as far as they are known.

    A reader counts what it has received, and takes no more when its buffer is full: the broker has the rest.
    """
    found = {name: Unread(count, with_broker=False) for name, count in sampler.waiting().items()}
    for record in records:
        held = sampler.held(record.name, record.sessions[-1]) if record.sessions else None
        if held is not None:
            received = found.get(record.name, Unread(0, with_broker=False)).messages
            found[record.name] = Unread(max(received, held), with_broker=True)
    return found


@dataclass
class Observations:
    """The recent observations of one composition, and the triggers that follow from them.

    ``decided`` is the time of the last decision (steady, s), ``baseline`` has the links at that time.

    ``lagging`` are the jobs that fall behind, ``draining`` those that process a backlog; ``resumed`` is set
    when a pause ends early.  ``regret`` is the excess of the objective over that of the last advice,
    ``realised`` the realised share of the predicted gain of the last step (``None``: unknown).
    """

    decided: float = float("-inf")
    resumed: bool = False
    baseline: Mapping[tuple[str, str], LinkProfile] = field(default_factory=dict)
    lagging: list[str] = field(default_factory=list)
    draining: list[str] = field(default_factory=list)
    present: Present | None = None
    regret: float | None = None
    realised: float | None = None
    _watch: triggers.Watch = field(default_factory=triggers.Watch)
    _reported: list[Trigger] = field(default_factory=list)
    _waiting: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    _with_broker: dict[str, bool] = field(default_factory=dict)

    def add(
        self, present: Present, waiting: Mapping[str, Unread], rates: Mapping[str, float], now: float
    ) -> None:
        """Add the present measurements; ``rates`` are those of the last decision."""
        self.present = present
        self._add_backlogs(present, waiting, now)
        holding = [
            *triggers.loads(present.model.problem, present.figures),
            *triggers.links(self.baseline, present.inputs.links),
            *triggers.rates(rates, present.rates),
            *((Trigger.LAG, name) for name in present.inputs.pressed & present.rates.keys()),
        ]
        self._watch, due = self._watch.with_next(holding, now, present.inputs.interval)
        self._reported += [trigger for trigger, _ in due]

    def _add_backlogs(self, present: Present, waiting: Mapping[str, Unread], now: float) -> None:
        known = {name: each for name, each in waiting.items() if name in present.rates}
        # Two ways of counting differ by what the broker has: a change of the way is no growth.
        comparable = {name for name, each in known.items() if self._with_broker.get(name) == each.with_broker}
        former = {name: self._waiting[name] for name in comparable}
        self._waiting = {
            name: triggers.recent([*former.get(name, ()), (now, each.messages)], now)
            for name, each in known.items()
        }
        self._with_broker = {name: each.with_broker for name, each in known.items()}
        lagged, self.lagging = self.lagging, triggers.lagging(self._waiting, present.rates)
        self.draining = triggers.draining(self._waiting, present.rates)
        if self.lagging and not lagged:
            self._reported.append(Trigger.LAG)

    @property
    def idle(self) -> list[str]:
        """The jobs that no message reaches."""
        last = {name: samples[-1][1] for name, samples in self._waiting.items()}
        return [] if self.present is None else knowledge.idle(self.present.rates, last)

    def falls_behind(self, jobs: Collection[str], span: float) -> bool | None:
        """True if one of these jobs has fallen behind for ``span`` s; ``None``: that is not known yet."""
        waiting = {name: each for name, each in self._waiting.items() if name in jobs}
        if self.present is None or not all(triggers.is_known_for(each, span) for each in waiting.values()):
            return None
        return bool(triggers.lagging(waiting, self.present.rates, span))

    def due(
        self, memory: AdaptationState, silent: Mapping[str, str], period: float, now: float
    ) -> Trigger | None:
        """The cause of a decision now; ``None`` if none is due."""
        found, self._reported = [*self._reported], []
        if self.resumed:
            self.resumed = False
            found.append(Trigger.RESUMED)
        if memory.pending is not None:
            found.append(Trigger.VERDICT)
        if now - self.decided >= period:
            found.append(Trigger.SILENT if silent else Trigger.PERIOD)
        # The most specific one is recorded.
        return max(found, key=_ORDER.index, default=None)
