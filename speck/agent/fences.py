"""The fences of the sessions of lost jobs, read side by side at their brokers."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from speck.agent.run_state import Record
from speck.binder import BrokerBinder
from speck.binder.deadline import within
from speck.binder.patience import PatientCalls
from speck.core.attempt_number import FURTHEST, is_believed
from speck.errors import OutcomeUnknown, Rejected, SpeckError, Unreachable

PATIENCE = 5.0  # s, for the slowest broker: a later answer is that of a further request
_READING = 30.0  # s, for all fences at one broker

_Place = tuple[str, str]  # the address of a broker, and the owner of the sessions


class Late(OutcomeUnknown):
    """A broker has not answered yet."""


class Unbelieved(Rejected):
    """A fence names an attempt that no coordinator gives: its message is damaged, or of somebody else."""


@dataclass(frozen=True, slots=True)
class _Read:
    """The fences by the ids of attempts; ``failed`` is the time of an error, monotonic, s."""

    found: Mapping[str, int | SpeckError]
    failed: float


@dataclass
class Fences:
    """Used in one thread.  ``broker(address, owner)`` is the binder of a broker that acts for an owner."""

    broker: Callable[[str, str], BrokerBinder]
    _asked: PatientCalls[_Place, _Read] = field(init=False)

    def __post_init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Wait for no question that is under way: an uplink may be back that was away when it was asked."""
        self._asked = PatientCalls("fences")

    def read(self, records: Iterable[Record]) -> Mapping[str, int | SpeckError]:
        """The highest attempt that the fence of each attempt's session has named, by the attempt's id.

        The error of its broker instead, where that does not answer; a :class:`Late` while it may do so yet;
        :class:`Unbelieved` for a number at which its reader would not begin either.
        A fence never names a lower attempt later, so that a number stays a lower bound.
        """
        places: dict[_Place, list[Record]] = {}
        for each in records:
            places.setdefault((each.job.source_broker, each.attempt.owner), []).append(each)
        begun = time.monotonic()
        answers = self._ask(places)
        # An earlier error says nothing of the present.
        again = {place: places[place] for place, each in answers.items() if each.failed < begun}
        answers |= self._ask(again)
        found: dict[str, int | SpeckError] = {}
        for place, listed in places.items():
            late = Late(f"{place[0]} has not answered in {PATIENCE:g} s", address=place[0])
            answer = answers[place].found if place in answers else {}
            found |= {each.attempt.id: answer.get(each.attempt.id, late) for each in listed}
        return found

    def _ask(self, places: Mapping[_Place, Sequence[Record]]) -> dict[_Place, _Read]:
        calls = {place: partial(self._read, place, listed) for place, listed in places.items()}
        return self._asked.results(calls, PATIENCE) if calls else {}

    def _read(self, place: _Place, records: Iterable[Record]) -> _Read:
        """The fences at one broker; one that does not answer is not asked for the rest."""
        found: dict[str, int | SpeckError] = {}
        fault: SpeckError | None = None
        with within(_READING):
            for each in records:
                try:
                    found[each.attempt.id] = fault or self._fenced(place, each)
                except (Unreachable, OutcomeUnknown) as error:
                    found[each.attempt.id] = fault = error
                except SpeckError as error:
                    found[each.attempt.id] = error
        return _Read(found, math.inf if fault is None else time.monotonic())

    def _fenced(self, place: _Place, record: Record) -> int:
        """The number that the fence of one attempt's session names."""
        attempt = record.attempt
        number = self.broker(*place).fenced(attempt.session)
        if not is_believed(number, attempt.number):
            raise Unbelieved(
                f"the fence of session {attempt.session!r} at broker {place[0]} names attempt {number} "
                f"(expected at most {attempt.number + FURTHEST}): find who may publish there, and remove the "
                "retained message (docs/security.md, Topics of SpecK)",
                address=place[0],
            )
        return number
