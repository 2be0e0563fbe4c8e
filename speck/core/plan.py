"""From what is deployed to what is wanted: a pure decision that returns data.

No clock, no ids, no I/O in here.  The grade of a change is declared beside each field of
:class:`speck.core.job.Job`; the worst grade of a job's changed fields decides its action.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from speck.core.job import JOB_FIELDS, Change, FieldChange, Job, changed_fields
from speck.core.runtime import JobState, JobStatus
from speck.errors import Fault


@dataclass(frozen=True, slots=True)
class Deployed:
    """A job as the store holds it; ``started`` is false when no engine is known to have it."""

    job: Job
    started: bool = True


@dataclass(frozen=True, slots=True)
class Start:
    """Nothing of the job runs, and it is wanted."""

    job: Job
    reason: str
    changes: tuple[FieldChange, ...] = ()


@dataclass(frozen=True, slots=True)
class Stop:
    """The job is deployed (``job`` is how) and no longer wanted."""

    job: Job
    reason: str
    changes: tuple[FieldChange, ...] = ()


@dataclass(frozen=True, slots=True)
class Update:
    """The job stays at its engine, and is restarted there as ``job``."""

    job: Job
    previous: Job
    reason: str
    changes: tuple[FieldChange, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """The job leaves its engine for another."""

    job: Job
    previous: Job
    reason: str
    changes: tuple[FieldChange, ...]


@dataclass(frozen=True, slots=True)
class Keep:
    """No engine is touched; changed notes (labels, policies) are stored."""

    job: Job
    reason: str
    changes: tuple[FieldChange, ...] = ()


Action = Start | Stop | Update | Move | Keep

_GONE = {JobState.LOST, JobState.FAILED, JobState.STOPPED, JobState.FINISHED}


@dataclass(frozen=True, slots=True)
class Plan:
    """The actions that lead to the wanted composition, by job name, and the revision they were made from."""

    composition: str
    base_revision: int
    actions: tuple[Action, ...]

    @property
    def changes(self) -> tuple[Action, ...]:
        """The actions that change something: all but those that keep a job exactly as it is."""
        return tuple(each for each in self.actions if not isinstance(each, Keep) or each.changes)

    def counts(self) -> dict[str, int]:
        """How many actions there are of each kind, every kind named."""
        counted = Counter(kind_of(each) for each in self.actions)
        return {kind: counted[kind] for kind in ("start", "stop", "update", "move", "keep")}


def kind_of(action: Action) -> str:
    """The action's kind as a word: ``start``, ``stop``, ``update``, ``move`` or ``keep``."""
    return type(action).__name__.lower()


def make_plan(
    composition: str,
    base_revision: int,
    desired: Mapping[str, Job],
    stored: Mapping[str, Deployed],
    observed: Mapping[str, JobStatus] | None = None,
) -> Plan:
    """Compare wanted jobs with deployed ones; ``observed`` is what engines said of those that were asked.

    Linear in the number of jobs, but for sorting them by name.
    """
    seen = observed or {}
    actions = [
        _decide(name, desired.get(name), stored.get(name), seen.get(name))
        for name in sorted(desired.keys() | stored.keys())
    ]
    return Plan(composition, base_revision, tuple(actions))


def stranded_state(desired: Mapping[str, Job], stored: Mapping[str, Deployed]) -> list[Fault]:
    """A fault for each job whose state would have to go to another kind of engine, which cannot read it."""
    return [
        Fault(
            f"engine {wanted.engine!r} cannot read the state that the job has on {deployed.job.engine!r} "
            "(write 'upgrade: stateless' to start it there without its state, or leave it where it is)",
            job=name,
            field="engine",
            value=wanted.engine,
        )
        for name, wanted in desired.items()
        if (deployed := stored.get(name)) is not None
        and deployed.started
        and deployed.job.engine != wanted.engine
        and wanted.upgrade == "stateful"
    ]


def _decide(name: str, wanted: Job | None, deployed: Deployed | None, status: JobStatus | None) -> Action:
    if wanted is None:
        assert deployed is not None, name  # noqa: S101 - each name is of one side or the other
        return Stop(deployed.job, "no longer in the composition")
    if deployed is None:
        return Start(wanted, "new in the composition")
    changes = changed_fields(deployed.job, wanted)
    if not deployed.started:
        return Start(wanted, "accepted before, and not started yet", changes)
    if status is not None and status.state in _GONE:
        return Start(wanted, f"is {status.state.value} at {deployed.job.spe_address}", changes)
    return _compare(wanted, deployed.job, changes, status)


def _compare(
    wanted: Job, previous: Job, changes: tuple[FieldChange, ...], status: JobStatus | None
) -> Action:
    worst = max((JOB_FIELDS[each.field] for each in changes), default=None)
    named = ", ".join(each.field for each in changes)
    silent = status is not None and status.state is JobState.UNKNOWN
    note = f" ({previous.spe_address} does not answer)" if silent else ""
    if worst is Change.MOVE:
        return Move(wanted, previous, f"{named} changed{note}", changes)
    if worst is Change.UPDATE:
        return Update(wanted, previous, f"{named} changed{note}", changes)
    reason = "unchanged" if worst is None else f"only {named} changed, which touches no engine"
    return Keep(wanted, reason + note, changes)


# --- as plain data


def plan_data(plan: Plan) -> dict[str, Any]:
    """A plan as plain data."""
    return {
        "composition": plan.composition,
        "base_revision": plan.base_revision,
        "counts": plan.counts(),
        "actions": [action_data(each) for each in plan.actions],
    }


def action_data(action: Action) -> dict[str, Any]:
    """An action as plain data: ``job``, ``kind``, ``reason``, ``changes`` (each field, before, after)."""
    return {
        "job": action.job.job_name,
        "kind": kind_of(action),
        "reason": action.reason,
        "changes": [change_data(each) for each in action.changes],
    }


def change_data(change: FieldChange) -> dict[str, Any]:
    """A changed field as plain data."""
    return {"field": change.field, "before": _plain(change.before), "after": _plain(change.after)}


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value
