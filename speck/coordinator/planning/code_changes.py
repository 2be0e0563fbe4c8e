"""The changes of the code of jobs: which of them a job does not reach, and what the others are.

A job whose file changed where it does not reach keeps the content that it was accepted with: its form, and
with it the plan, the drift and the history, is then the former one.  So nothing is stored beside the hash of
a file, and jobs that were deployed by former versions are compared as any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from speck.binder import Registry
from speck.core.code import CodeChange, ReachedCode, code_change
from speck.core.job import Composition, Job
from speck.store import Head
from speck.store.artifacts import Artifacts
from speck.store.deployments import Deployments

_REMEMBERED = 4096  # codes of jobs; the statements of most are shared


@dataclass(frozen=True)
class CodeChanges:
    """Compares the code of jobs by its content, which each is read once."""

    artifacts: Artifacts
    registry: Registry
    deployments: Deployments
    _reached: dict[tuple[str, str, str], ReachedCode | None] = field(default_factory=dict)

    def between(self, before: Job, after: Job) -> CodeChange | None:
        """The change of a job's code; ``None`` if its file is the same, or the job has none."""
        if before.code_hash == after.code_hash or not (before.code_hash and after.code_hash):
            return None
        name = Path(after.job_path).name
        change = code_change(name, self._code(before), self._code(after))
        if change.same and (Path(before.job_path).name, before.entry_class, before.engine) != (
            name,
            after.entry_class,
            after.engine,
        ):
            return replace(change, same=False)  # a module of another name, or another function
        return change

    def recognised(
        self, head: Head, composition: Composition
    ) -> tuple[Composition, Mapping[str, CodeChange]]:
        """A composition whose jobs keep their former code where they reach no change, and such changes.

        The former forms are those that run, then those of the last revision.
        """
        last = self.deployments.desired(head)
        pairs = ((last[name], job) for name, job in composition.jobs.items() if name in last)
        if all(former.code_hash == job.code_hash for former, job in pairs):
            return composition, {}
        forms = self.deployments.snapshot(head).forms
        jobs, same = dict(composition.jobs), dict[str, CodeChange]()
        for name, job in composition.jobs.items():
            for known in filter(None, (forms.get(name), last.get(name))):
                change = self.between(known, job)
                if known.code_hash == job.code_hash:
                    break
                if change is not None and change.same:
                    jobs[name], same[name] = replace(job, code_hash=known.code_hash), change
                    break
        return replace(composition, jobs=jobs), same

    def of_forms(self, before: Mapping[str, Job], after: Iterable[Job]) -> dict[str, CodeChange]:
        """The changes of code between two sets of forms, by job name."""
        pairs = ((before[job.job_name], job) for job in after if job.job_name in before)
        found = ((job.job_name, self.between(old, job)) for old, job in pairs)
        return {name: change for name, change in found if change is not None}

    def _code(self, job: Job) -> ReachedCode | None:
        """The statements that a job reaches; ``None``: they are not known."""
        key = (job.engine, job.code_hash, job.entry_class)
        if key not in self._reached:
            if len(self._reached) >= _REMEMBERED:
                self._reached.clear()
            self._reached[key] = self._read(job)
        return self._reached[key]

    def _read(self, job: Job) -> ReachedCode | None:
        kinds = (each for each in self.registry.engines if each.engine == job.engine)
        read = next((each.reached_code for each in kinds if each.reached_code is not None), None)
        path = self.artifacts.readable(job)
        if read is None or path is None or not job.entry_class:
            return None
        try:
            return read(path, job.entry_class)
        except (OSError, ValueError):  # of a file that is gone or damaged: the whole of it counts
            return None
