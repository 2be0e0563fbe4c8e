"""The plan from the deployed to the desired jobs: a pure decision that returns data.

There is no clock, no id and no I/O here.  The cost of a change is declared with each field of
:class:`speck.core.job.Job`; the highest cost of a job's changed fields decides its action.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from speck.core.code import CodeChange, changes_data
from speck.core.job import CODE, JOB_FIELDS, ChangeCost, FieldChange, Job, changed_fields, plain, shown_name
from speck.core.lifecycle import ActionKind
from speck.core.logins import NO_LOGINS, Marks, login_changes
from speck.core.runtime import JobState, JobStatus
from speck.core.start import LATEST
from speck.core.waiting import count_text


@dataclass(frozen=True, slots=True)
class Deployed:
    """A stored job; ``started`` is false if no engine is known to run it.

    ``logins`` are the marks of those with which it was started (``None``: not known).
    """

    job: Job
    started: bool = True
    logins: Marks | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """Start a desired job that does not run."""

    job: Job
    reason: str
    changes: tuple[FieldChange, ...] = ()


@dataclass(frozen=True, slots=True)
class Stop:
    """Stop a deployed ``job`` that is no longer desired."""

    job: Job
    reason: str
    changes: tuple[FieldChange, ...] = ()


@dataclass(frozen=True, slots=True)
class Update:
    """Restart a job at its engine as ``job``."""

    job: Job
    previous: Job
    reason: str
    changes: tuple[FieldChange, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """Stop a job at its engine, and start it as ``job`` at another."""

    job: Job
    previous: Job
    reason: str
    changes: tuple[FieldChange, ...]


@dataclass(frozen=True, slots=True)
class Keep:
    """Leave a job as it is; changed notes (labels, policies) are stored."""

    job: Job
    reason: str
    changes: tuple[FieldChange, ...] = ()


Action = Start | Stop | Update | Move | Keep


@dataclass(frozen=True, slots=True)
class UndrainedSession:
    """A session with messages that a job leaves and that no running copy processes as a matter of course.

    ``waiting`` is their number (``None``: it cannot be counted now; counting stops at 1,000); ``fate`` says
    in words what becomes of them; ``lossless`` is false if they are lost.
    """

    job: str
    broker: str
    topic: str
    waiting: int | None
    fate: str
    lossless: bool


@dataclass(frozen=True, slots=True)
class UnreachablePlace:
    """An ``engine`` or ``broker`` (``kind``) that does not answer, and the jobs that wait for it.

    ``refuses``: it answers, and refuses what the jobs need.
    """

    kind: str
    address: str
    error: str
    jobs: tuple[str, ...]
    refuses: bool = False


@dataclass(frozen=True, slots=True)
class ForeignJob:
    """A job to start that another store runs (at ``address``), or has a session for (at ``broker``).

    Either is empty if none is found.  ``owner`` is the identity of that store, ``attempt`` the id of its
    copy; both are empty if they are not known.
    """

    job: str
    owner: str
    address: str = ""
    attempt: str = ""
    broker: str = ""
    session: str = ""

    def text(self, own: str) -> str:
        """The finding, and the ways out of it; ``own`` is the identity of this store."""
        store = f"store {self.owner}" if self.owner else "an unknown store"
        copy = f" (attempt {self.attempt})" if self.attempt else ""
        running = f"runs at {self.address}{copy}" if self.address else ""
        reading = f"has session {self.session!r} at {self.broker}" if self.session else ""
        found = " and ".join(filter(None, [running, reading]))
        return (
            f"job {self.job!r} {found}, by {store} (this is store {own}): nothing was started, since a "
            "second copy would write everything twice (restore a backup of that store, adopt the job with "
            "speck adopt, or rename the job; see docs/store.md, A lost store)"
        )


@dataclass(frozen=True, slots=True)
class Basis:
    """The facts that a plan was made from: the stored jobs, and the statuses observed, by job name."""

    stored: Mapping[str, Deployed] = field(default_factory=dict)
    observed: Mapping[str, JobStatus] = field(default_factory=dict)

    def changes(self, now: Basis) -> Iterator[str]:
        """The facts that are different now, and with which another plan would be made, as sentences."""
        for name in sorted(self.stored.keys() | now.stored.keys()):
            before, after = self.stored.get(name), now.stored.get(name)
            if before is None or after is None:
                yield f"job {name!r} {'was deployed' if before is None else 'was deleted'}"
            elif before.started != after.started:
                yield f"job {name!r} {'was started' if after.started else 'was stopped'}"
            elif before.job != after.job:
                fields = ", ".join(shown_name(each.field) for each in changed_fields(before.job, after.job))
                yield f"job {name!r} runs in another form ({fields} differ)"
            elif self._is_gone(name) != now._is_gone(name):
                yield f"job {name!r} was {self._state(name)} and is {now._state(name)}"

    def _is_gone(self, name: str) -> bool:
        return name in self.observed and self.observed[name].state.ended

    def _state(self, name: str) -> str:
        return self.observed[name].state.value if name in self.observed else JobState.UNKNOWN.value


@dataclass(frozen=True, slots=True)
class Plan:
    """The actions that lead to the desired composition, by job name, and the revision they start from.

    ``consequences`` are those of actions that a user should know before, by job name.  ``figures`` are the
    predicted ones, ``now`` and ``after``, if places were chosen for jobs or topics.  ``unreachable`` are the
    places that did not answer when the plan was made, if they were asked.  ``code`` are the changes of files,
    by job name, those that change nothing for their job included.  ``unbuilt`` are sentences about the jobs
    that could not be built now, if that was asked for.  ``foreign`` are the jobs to start that another store
    runs: such a plan is not carried out.  ``basis`` are the facts that it was made from.
    """

    composition: str
    base_revision: int
    actions: tuple[Action, ...]
    consequences: Mapping[str, str] = field(default_factory=dict)
    leaves: tuple[UndrainedSession, ...] = ()
    figures: Mapping[str, Any] | None = None
    unreachable: tuple[UnreachablePlace, ...] = ()
    code: Mapping[str, CodeChange] = field(default_factory=dict)
    unbuilt: tuple[str, ...] = ()
    foreign: tuple[ForeignJob, ...] = ()
    basis: Basis = field(default_factory=Basis, compare=False, repr=False)

    @property
    def changes(self) -> tuple[Action, ...]:
        """The actions that change anything: all but those that keep a job exactly as it is."""
        return tuple(each for each in self.actions if not isinstance(each, Keep) or each.changes)

    def counts(self) -> dict[str, int]:
        """The number of actions of each kind, zeros included."""
        counted = Counter(kind_of(each) for each in self.actions)
        return {kind.value: counted[kind] for kind in ActionKind}


def kind_of(action: Action) -> ActionKind:
    """The kind of an action."""
    return ActionKind(type(action).__name__.lower())


def former_of(action: Action) -> Job | None:
    """The form that an action replaces, or that ran last; ``None`` for a new job, and one that is kept."""
    match action:
        case Stop():
            return action.job
        case Update() | Move():
            return action.previous
        case Start() if action.changes:  # it runs no more, and messages wait for its former form
            return replace(action.job, **{each.field: each.before for each in action.changes})
    return None


def continued_jobs(desired: Mapping[str, Job], stored: Mapping[str, Deployed]) -> Iterator[tuple[Job, Job]]:
    """The deployed and the desired form of each job that was started and is still desired.

    Both mappings are by job name; the pairs are in the order of ``desired``.
    """
    for name, job in desired.items():
        deployed = stored.get(name)
        if deployed is not None and deployed.started:
            yield deployed.job, job


def make_plan(
    composition: str,
    base_revision: int,
    desired: Mapping[str, Job],
    stored: Mapping[str, Deployed],
    observed: Mapping[str, JobStatus] | None = None,
    code: Mapping[str, CodeChange] | None = None,
    logins: Mapping[str, str] = NO_LOGINS,
) -> Plan:
    """Compare the desired jobs with the stored ones, by name.

    ``observed`` are the statuses of those jobs that an engine was asked about, ``code`` the changes of the
    files of jobs, ``logins`` the marks of those that jobs get now, by broker.  Linear in the number of jobs,
    except for sorting their names.
    """
    statuses, changed = observed or {}, code or {}
    actions = [
        _decide(name, desired.get(name), stored.get(name), statuses.get(name), changed.get(name), logins)
        for name in sorted(desired.keys() | stored.keys())
    ]
    basis = Basis(stored, statuses)
    return Plan(composition, base_revision, tuple(actions), code=changed, basis=basis)


def _decide(
    name: str,
    desired: Job | None,
    deployed: Deployed | None,
    status: JobStatus | None,
    code: CodeChange | None,
    logins: Mapping[str, str],
) -> Action:
    if desired is None:
        assert deployed is not None, name  # noqa: S101 - each name is desired or deployed
        return Stop(deployed.job, "no longer in the composition")
    if deployed is None:
        return Start(desired, "new in the composition")
    changes = changed_fields(deployed.job, desired)
    if not deployed.started:
        return Start(desired, "accepted, but not started yet", changes)
    if status is not None and status.state.ended:
        return Start(desired, f"is {status.state.value} at {deployed.job.spe_address}", changes)
    login = login_changes(deployed.job, deployed.logins, logins)
    return _compare(desired, deployed.job, changes, status, code, login)


def _compare(
    desired: Job,
    previous: Job,
    changes: tuple[FieldChange, ...],
    status: JobStatus | None,
    code: CodeChange | None,
    login: str,
) -> Action:
    silent = status is not None and status.state is JobState.UNKNOWN
    note = f" ({previous.spe_address} does not answer)" if silent else ""
    unreached = f" ({code})" if code is not None else ""
    if not changes and login:
        return Update(desired, previous, f"{login}{unreached}{note}", ())
    if not changes:
        return Keep(desired, f"unchanged{unreached}{note}")
    worst = max(JOB_FIELDS[each.field] for each in changes)
    named = changed_text([each.field for each in changes], code) + _state_note(desired, previous)
    if worst is ChangeCost.MOVE:
        return Move(desired, previous, f"{named}{note}", changes)
    if worst is ChangeCost.UPDATE:
        return Update(desired, previous, f"{named}{note}", changes)
    if login:
        return Update(desired, previous, f"{login}; {named}{note}", changes)
    return Keep(desired, f"only {named}, which changes nothing at engines{unreached}{note}", changes)


def _state_note(desired: Job, previous: Job) -> str:
    if desired.timezone == previous.timezone or desired.upgrade != "stateful":
        return ""
    return f" (what its state has counted by local times of {previous.timezone} stays as it is)"


def changed_text(fields: Iterable[str], code: CodeChange | None) -> str:
    """The changed fields of a job in words; the code by its change, where that is known."""
    others = ["code" if each == CODE else each for each in fields if each != CODE or code is None]
    parts = [f"{', '.join(others)} changed"] if others else []
    return "; ".join(parts if code is None or code.same else [*parts, str(code)])


# --- the destructive part


class Destroyed(StrEnum):
    """The kinds of things that a plan may destroy."""

    JOB = "job"
    STATE = "state"
    MESSAGES = "messages"


@dataclass(frozen=True, slots=True)
class Destruction:
    """One thing that a plan destroys of a job; ``text`` continues the job's name."""

    job: str
    kind: Destroyed
    text: str


def destructions(plan: Plan) -> tuple[Destruction, ...]:
    """The jobs that a plan stops permanently, the state that it drops, the messages that it discards.

    A plan without any is not destructive: an update or a move that carries its state along is none.
    """
    deletes_all = all(isinstance(each, Stop) for each in plan.actions)
    found = [_destruction(each, deletes_all) for each in plan.actions]
    found += [
        Destruction(each.job, Destroyed.MESSAGES, _undrained_text(each))
        for each in plan.leaves
        if not each.lossless
    ]
    return tuple(each for each in found if each is not None)


def _destruction(action: Action, deletes_all: bool) -> Destruction | None:
    name = action.job.job_name
    if isinstance(action, Stop) and deletes_all:  # nothing is drained: no job could use the results
        text = "is permanently stopped; its state and unprocessed messages are deleted"
        return Destruction(name, Destroyed.JOB, text)
    if isinstance(action, Stop):
        text = "is permanently stopped after it has processed its backlog; its state is deleted"
        return Destruction(name, Destroyed.JOB, text)
    if isinstance(action, Update | Move) and action.job.upgrade == "stateless":
        return Destruction(name, Destroyed.STATE, "starts without its present state (upgrade: stateless)")
    if isinstance(action, Update | Move) and _reads_again(action):
        return Destruction(name, Destroyed.STATE, "reads again, without its present state (start)")
    return None


def _reads_again(action: Update | Move) -> bool:
    return action.job.start != LATEST and any(each.field == "start" for each in action.changes)


def _undrained_text(session: UndrainedSession) -> str:
    return f"leaves {count_text(session.waiting)} at {session.topic!r} of {session.broker}: {session.fate}"


# --- as plain data


def plan_data(plan: Plan, *, lines: bool = False) -> dict[str, Any]:
    """A plan as plain data; with ``lines``, the lines of code that differ too."""
    code = changes_data(plan.code, lines=lines)
    return {
        "composition": plan.composition,
        "base_revision": plan.base_revision,
        "counts": plan.counts(),
        "actions": [
            action_data(each)
            | _part_data(each.job)
            | {"consequence": plan.consequences.get(each.job.job_name, "")}
            | _code_data(code, each.job.job_name)
            for each in plan.actions
        ],
        "leaves": [asdict(each) for each in plan.leaves],
        "destroys": [asdict(each) for each in destructions(plan)],
        "unreachable": [asdict(each) | {"jobs": list(each.jobs)} for each in plan.unreachable],
        "foreign": [asdict(each) for each in plan.foreign],
        "figures": plan.figures,
    }


def _code_data(code: Mapping[str, dict[str, Any]], name: str) -> dict[str, Any]:
    """The change of a job's file."""
    return {"code": code[name]} if name in code else {}


def _part_data(job: Job) -> dict[str, Any]:
    """The part of a job of a split, the template of one of a ``for_each``; of both the site."""
    parts = {"split": dict(job.split), "template": job.template}
    found: dict[str, Any] = {name: value for name, value in parts.items() if value}
    return found | {"site": job.site} if found else {}


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
    return {
        "field": shown_name(change.field),
        "before": plain(change.before),
        "after": plain(change.after),
    }
