"""The sessions that jobs leave by the actions of a plan: their messages are processed before, or given up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from speck.binder import BrokerBinder
from speck.core.graph import Endpoint, source_of
from speck.core.job import Job
from speck.core.plan import Action, Keep, Move, Plan, Stop, Update
from speck.errors import Rejected
from speck.store import JobRecord, SessionRecord
from speck.store.history import History


def left_sessions(
    history: History, composition: str, action: Action, sessions: Iterable[SessionRecord]
) -> list[SessionRecord]:
    """Those of a job's sessions that an action leaves.

    One was read by the former form.  Others may be of later forms that never came to read: their messages are
    processed, too, unless that change was reverted.
    """
    remaining = [each for each in sessions if each.start]
    if isinstance(action, Stop):
        return remaining
    former, now = source_of(_former(action)), source_of(action.job)
    if former == now:
        return []
    runs = isinstance(action, Update | Move)
    name = action.job.job_name
    return [
        each
        for each in remaining
        if each.source == former
        or (
            each.source != now
            and not history.is_reverted(composition, name, each.source, former if runs else None)
        )
    ]


def count_unread(broker: BrokerBinder, record: JobRecord, session: SessionRecord) -> int | None:
    """The messages that wait in a session of a job; takes it over.

    ``None`` if its broker has lost the session: then none wait, and its writers may retain some for it.
    """
    waiting = broker.waiting(session.name)
    if waiting or session in record.unmade_sessions:
        return waiting
    with suppress(Rejected):  # by an agent of an earlier version, which does not have the call
        return None if broker.has_lost(session.name, session.topic) else 0
    return 0


def left_sources(
    history: History, plan: Plan, records: Mapping[str, JobRecord]
) -> dict[str, frozenset[Endpoint]]:
    """The sources of the sessions that the jobs of a plan leave, without former ones, by job name."""
    found = {}
    for action in plan.actions:
        record = records.get(action.job.job_name)
        if record is None or isinstance(action, Keep) or len(record.sessions) < 2:
            continue
        left = left_sessions(history, plan.composition, action, record.sessions)
        if others := frozenset(each.source for each in left) - {source_of(_former(action))}:
            found[record.name] = others
    return found


def _former(action: Action) -> Job:
    """The form that runs, or ran last."""
    if isinstance(action, Update | Move):
        return action.previous
    return replace(action.job, **{each.field: each.before for each in action.changes})
