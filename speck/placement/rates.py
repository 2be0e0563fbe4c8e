"""The rates of the jobs of a draft, and the profiles from which they follow."""

from __future__ import annotations

from collections.abc import Iterable

from speck.core.draft import Draft
from speck.core.job import Job
from speck.placement.profile import Inputs, JobProfile, Known, Value, better_of, with_expected


class Rates:
    """The rates of jobs: measured, declared, or derived from the jobs that feed them."""

    def __init__(self, draft: Draft, inputs: Inputs) -> None:
        self._draft, self._inputs = draft, inputs
        self._found: dict[str, Value | None] = {}
        for name in draft.graph.order():
            known = self._known(name)
            if known is None or known.known is Known.ASSUMED:
                known = better_of(self._derived(name), known)
            self._found[name] = known

    def of(self, name: str) -> Value | None:
        """The messages/s into a job; ``None``: unknown."""
        return self._found[name]

    def selectivity(self, name: str) -> float:
        """Messages out per message in."""
        return value_or(profile_of(self._draft.jobs[name], self._inputs).selectivity, 1.0)

    def _known(self, name: str) -> Value | None:
        return profile_of(self._draft.jobs[name], self._inputs).rate_in

    def _derived(self, name: str) -> Value | None:
        writers = self._draft.graph.writers_of(self._draft.jobs[name])
        rates = [(self._found.get(each), self.selectivity(each)) for each in writers]
        if not rates or any(rate is None for rate, _ in rates):
            return None
        known = [(rate, factor) for rate, factor in rates if rate is not None]
        worst = max((rate.known for rate, _ in known), key=list(Known).index)
        until = min(rate.until for rate, _ in known)
        return Value(sum(rate.value * factor for rate, factor in known), worst, until)


def profile_of(job: Job, inputs: Inputs) -> JobProfile:
    """The measured profile of a job in its form, and what its author expects where nothing is measured."""
    return with_expected(inputs.of(job), job.expects)


def highest(rates: Iterable[Value | None], unknown: float) -> float:
    """The highest rate of jobs that read the same, of assumed ones if all are; ``unknown`` if none is."""
    found = [each for each in rates if each is not None]
    known = [each for each in found if each.known is not Known.ASSUMED]
    return max((each.value for each in known or found), default=unknown)


def value_or(value: Value | None, assumed: float) -> float:
    """A value as a number; the assumed one if it is not known."""
    return assumed if value is None else value.value
