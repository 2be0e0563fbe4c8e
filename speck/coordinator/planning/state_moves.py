"""The jobs of a plan whose state cannot come along to their new engine, or that cannot continue from it.

The same engines are asked when the change is carried out, before anything is stopped.  An engine that does
not answer says nothing here: its jobs wait for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from speck.apply.state_transfer import StateTransfer, changes_code
from speck.binder.asking import ask
from speck.binder.pool import BinderPool
from speck.core.job import Job
from speck.core.plan import Move, Plan, Update
from speck.core.runtime import Handle
from speck.errors import Fault, OutcomeUnknown, Unreachable, one_line
from speck.store.artifacts import Artifacts
from speck.store.deployments import Snapshot


@dataclass(frozen=True)
class StateMoves:
    """Asks the engines of a plan; ``limit`` (bytes) is the largest state that is transferred.

    Addresses in ``left_behind`` are not asked.
    """

    pool: BinderPool
    artifacts: Artifacts
    limit: int
    left_behind: Collection[str] = ()

    def refused(self, plan: Plan, snapshot: Snapshot) -> Mapping[str, str]:
        """The reasons of the engines, by job name."""
        asked = dict(self._asked(plan, snapshot))
        transfer = StateTransfer(self.pool, self.limit, lambda call: None)
        found = ask(asked, lambda name: transfer.fault(*asked[name]), name="state")
        refusals = {
            name: one_line(error)
            for name, error in found.errors.items()
            if not isinstance(error, Unreachable | OutcomeUnknown)
        }
        return refusals | {name: fault for name, fault in found.answers.items() if fault is not None}

    def _asked(self, plan: Plan, snapshot: Snapshot) -> Iterator[tuple[str, tuple[Job, Handle, Job]]]:
        """The new form, the running copy and the present form of each job whose state may not fit."""
        running = {form.job_name: (form, handle) for form, handle in snapshot.deployed()}
        for action in plan.actions:
            name, job = action.job.job_name, action.job
            if not isinstance(action, Update | Move) or job.upgrade != "stateful" or name not in running:
                continue
            former, handle = running[name]
            lost = {job.spe_address, former.spe_address} & set(self.left_behind)
            if not lost and (job.spe_address != former.spe_address or changes_code(job, former)):
                path = self.artifacts.readable(job)
                yield name, (job if path is None else replace(job, job_path=str(path)), handle, former)


def state_notes(refused: Mapping[str, str]) -> dict[str, str]:
    """The notes of a plan on jobs with these refusals, by job name."""
    return {
        name: f"will be refused, and the job keeps running as it is: {reason}"
        for name, reason in refused.items()
    }


def lost_state_faults(refused: Mapping[str, str], restored: int) -> list[Fault]:
    """A fault for each job that a rollback to the revision ``restored`` cannot bring back with its state."""
    right = "expected another revision, or an apply of its file with 'upgrade: stateless'"
    return [
        Fault(
            f"cannot go back to its form of revision {restored} with its state: {reason} ({right})", job=name
        )
        for name, reason in refused.items()
    ]
