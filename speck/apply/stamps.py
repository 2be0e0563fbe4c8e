"""The numbers in the stamps of what a job writes: decided with each attempt, pure.

A message that is counted has the job's *incarnation* in its stamp.  Counting goes on from the state that a
copy left, and names the messages after it as before only where the same form repeats the same work.  Another
form begins a new incarnation: then messages may come twice, but none is taken for another one and dropped.

A message that is named after its position in the job's session has the *origin* of that position in its
stamp.  Positions are repeated only when the state that holds them is lost, or an older one.

Both are numbers of attempts, which no other attempt at the job has ever had, not even before a restore.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from speck.core.job import JOB_FIELDS, ChangeCost, Job, form_fingerprint
from speck.core.plan import Action, Keep, Plan, Stop
from speck.store import JobRecord


@dataclass(frozen=True, slots=True)
class Stamps:
    """The numbers of an attempt (see :class:`~speck.core.runtime.Attempt`)."""

    incarnation: int
    origin: int


def next_stamps(job: Job, record: JobRecord, *, continues: bool) -> Stamps:
    """The numbers of the next attempt at a job.

    ``continues`` is true if it starts from a state, or repeats all the work of one that had kept nothing.
    """
    number = record.attempts + 1
    if record.renumbers or (record.form and not continues):
        return Stamps(number, number)
    # A state without a form is of a store that did not keep the form yet.
    known = bool(record.form or record.state)
    changed = known and record.form != form_fingerprint(job)
    return Stamps(number if changed else record.incarnation, record.origin)


DERIVED = "derived"
"""The kind of the stamps that are the same in every form of a job, as its connector reports it."""

_TWICE = "messages written since its last state may be delivered twice; none are lost"


def stamp_notes(plan: Plan, kinds: Mapping[str, str]) -> dict[str, str]:
    """A remark on each job that continues in another form and may count its messages, by job name.

    ``kinds`` are the kinds of the stamps of the jobs that run, as far as they are known.
    """
    names = {each.job.job_name for each in plan.actions if is_another_form(each)}
    return {name: _TWICE for name in names if kinds.get(name) != DERIVED}


def is_another_form(action: Action) -> bool:
    """True if an action leaves another form of its job running."""
    costs = (JOB_FIELDS[each.field] for each in action.changes)
    return not isinstance(action, Stop | Keep) and any(cost > ChangeCost.NOTE for cost in costs)
