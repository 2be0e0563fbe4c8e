"""The fences of the sessions of lost jobs, read side by side at their brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

from speck.agent.run_state import Record
from speck.binder import BrokerBinder
from speck.binder.deadline import within
from speck.binder.patience import PatientCalls
from speck.errors import OutcomeUnknown, SpeckError, Unreachable

PATIENCE = 5.0  # s, for the slowest broker: a later answer is that of the next request
_READING = 30.0  # s, for all fences at one broker

_Place = tuple[str, str]  # the address of a broker, and the owner of the sessions
_Read = Mapping[str, int | SpeckError]  # by the ids of attempts


@dataclass
class Fences:
    """Used in one thread.  ``broker(address, owner)`` is the binder of a broker that acts for an owner."""

    broker: Callable[[str, str], BrokerBinder]
    _asked: PatientCalls[_Place, _Read] = field(default_factory=lambda: PatientCalls("fences"), init=False)

    def read(self, records: Iterable[Record]) -> _Read:
        """The highest attempt that the fence of each attempt's session has named, by the attempt's id.

        The error of its broker instead, where that does not answer.  A fence never names a lower attempt
        later, so that a number stays a lower bound.
        """
        places: dict[_Place, list[Record]] = {}
        for each in records:
            places.setdefault((each.job.source_broker, each.attempt.owner), []).append(each)
        answers = self._asked.results(
            {place: partial(self._read, place, listed) for place, listed in places.items()}, PATIENCE
        )
        found: dict[str, int | SpeckError] = {}
        for place, listed in places.items():
            late = OutcomeUnknown(f"{place[0]} has not answered in {PATIENCE:g} s", address=place[0])
            answer = answers.get(place, {})
            found |= {each.attempt.id: answer.get(each.attempt.id, late) for each in listed}
        return found

    def _read(self, place: _Place, records: Iterable[Record]) -> _Read:
        """The fences at one broker; one that does not answer is not asked for the rest."""
        found: dict[str, int | SpeckError] = {}
        fault: SpeckError | None = None
        with within(_READING):
            for each in records:
                try:
                    found[each.attempt.id] = fault or self.broker(*place).fenced(each.attempt.session)
                except (Unreachable, OutcomeUnknown) as error:
                    found[each.attempt.id] = fault = error
                except SpeckError as error:
                    found[each.attempt.id] = error
        return found
