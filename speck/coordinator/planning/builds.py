"""Builds the jobs of a plan at their engines before anything is stopped for them.

Code is built once for each kind of engine and form of the code, however many sites run it, and not again
where it was built or runs already.  An engine that does not answer builds nothing: its jobs are reported, and
started later as without a build.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from math import inf

from speck.binder.asking import ask
from speck.binder.pool import BinderPool
from speck.core.job import Job, job_title
from speck.core.plan import Move, Plan, Start, Stop, Update
from speck.core.split import part_of
from speck.errors import BinderError, Fault, InvalidInput, Rejected
from speck.store.artifacts import Artifacts

PATIENCE = 45.0  # s for all builds of a plan; a client waits for two minutes
_AT_ONCE = 4  # builds of an operation side by side: each loads an engine that runs other jobs
_REMEMBERED = 1000  # outcomes of builds, the oldest of which is dropped


@dataclass(frozen=True)
class Builds:
    """Builds jobs; remembers the last forms of code that were built, by engine."""

    pool: BinderPool
    artifacts: Artifacts
    patience: float = PATIENCE
    _built: OrderedDict[tuple[str, str], None] = field(default_factory=OrderedDict)

    def check(self, plan: Plan, left_behind: Collection[str] = (), *, on_request: bool = False) -> list[str]:
        """Build the new forms of a plan; returns a warning for each job that could not be built now.

        Unless it is ``on_request``, those of a plan that stops nothing are left to their start.  Raises
        :class:`~speck.errors.InvalidInput` with the faults of all forms.
        """
        if not on_request and not any(isinstance(each, Update | Move | Stop) for each in plan.actions):
            return []
        forms = dict[str, list[Job]]()
        for job in _to_build(plan):
            if job.spe_address not in left_behind and not self._is_built(job):
                forms.setdefault(_form(job), []).append(job)
        faults, warnings = self._results(list(forms.values()))
        if faults:
            raise InvalidInput(faults, f"composition {plan.composition!r}")
        return warnings

    def _results(self, groups: list[list[Job]]) -> tuple[list[Fault], list[str]]:
        faults, warnings = list[Fault](), list[str]()
        forms = {each[0].job_name: each for each in groups}
        # A build takes seconds of an engine's processors: without grace, no more than these run at a time.
        asked = ask(
            forms,
            lambda name: self._build(forms[name]),
            self.patience,
            at_once=_AT_ONCE,
            grace=inf,
            name="build",
        )
        for name, error in sorted(asked.errors.items()):
            jobs = forms[name]
            if isinstance(error, Rejected):
                faults.append(Fault(_text(error, jobs), job=name, field="job_path"))
            elif isinstance(error, BinderError):
                warnings.append(f"{_names(jobs)} could not be built in advance: {error}")
            else:
                raise error
        warnings += [
            f"{_names(forms[each])} could not be built in {self.patience:g} s"
            for each in sorted(asked.silent)
        ]
        return faults, warnings

    def _build(self, jobs: list[Job]) -> None:
        """Build a form at the first of its engines that answers."""
        error: BinderError | None = None
        places = dict[str, Job]()
        for job in jobs:
            places.setdefault(job.spe_address, job)
        for job in places.values():
            engine, path = self.pool.engine(job), self.artifacts.readable(job)
            if path is None:
                return
            try:
                engine.build_job(replace(job, job_path=str(path)))
            except Rejected:
                raise
            except BinderError as unanswered:
                error = unanswered
            else:
                self._remember(jobs)
                return
        if error is not None:
            raise error

    def _is_built(self, job: Job) -> bool:
        return (job.spe_address, _form(job)) in self._built

    def _remember(self, jobs: list[Job]) -> None:
        for job in jobs:
            self._built[job.spe_address, _form(job)] = None
        while len(self._built) > _REMEMBERED:
            self._built.popitem(last=False)


def _to_build(plan: Plan) -> Iterator[Job]:
    """The jobs of a plan to start in a form that has not run at their engine."""
    for action in plan.actions:
        if isinstance(action, Start) or (isinstance(action, Update | Move) and _differs(action)):
            yield action.job


def _differs(action: Update | Move) -> bool:
    same = action.job.spe_address == action.previous.spe_address
    return not same or _form(action.job) != _form(action.previous)


def _form(job: Job) -> str:
    """All that a job's code depends on when it is built, but its engine's address."""
    part = part_of(job)
    role = part.role if part is not None else ""
    built = [
        job.engine,
        job.code_hash,
        job.entry_class,
        dict(job.arguments),
        job.output_mode,
        job.timezone,
        role,
    ]
    return json.dumps(built, sort_keys=True)


def _names(jobs: list[Job]) -> str:
    more = f" and {len(jobs) - 1} more" if len(jobs) > 1 else ""
    return f"job {jobs[0].job_name!r}{more}"


def _text(error: Rejected, jobs: list[Job]) -> str:
    """The error, without the name of the job, which the fault has."""
    text = str(error).removeprefix(job_title(jobs[0])).lstrip(": ")
    others = ", ".join(each.job_name for each in jobs[1:4])
    more = f" and {len(jobs) - 4} more" if len(jobs) > 4 else ""
    return text + (f" (also: {others}{more})" if others else "") + "; nothing was stopped"
