"""The record of an attempt at a site, and its transitions: pure values.

An attempt that was submitted is a permission to run, until a stop of it is stored.  Its *runs* are the starts
of the same attempt at the engine, one after the other, each from the state that the one before it has left.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from speck.core.job import Job
from speck.core.runtime import Attempt, Handle, State


class Phase(Enum):
    """The phase of an attempt, as the agent has stored it."""

    ACCEPTED = "accepted"  # the engine has not confirmed its first run
    RUNNING = "running"  # the engine had its last run at the last look
    GONE = "gone"  # the engine does not run it: it is to be started again
    STARTING = "starting"  # its next run is stored, and the engine asked
    STOPPING = "stopping"  # a stop is stored, and the engine asked
    STOPPED = "stopped"
    ENDED = "ended"  # superseded, or without a state from which it could start again

    @property
    def permitted(self) -> bool:
        """True while the attempt may run."""
        return self in (Phase.ACCEPTED, Phase.RUNNING, Phase.GONE, Phase.STARTING)

    @property
    def over(self) -> bool:
        """True once the attempt never runs again."""
        return self in (Phase.STOPPED, Phase.ENDED)


# The phases that may follow each other.  A stop is given up only where the engine answers that the job runs.
NEXT: Mapping[Phase, frozenset[Phase]] = {
    Phase.ACCEPTED: frozenset({Phase.RUNNING, Phase.GONE, Phase.STOPPING, Phase.ENDED}),
    Phase.RUNNING: frozenset({Phase.RUNNING, Phase.GONE, Phase.STOPPING}),
    Phase.GONE: frozenset({Phase.GONE, Phase.RUNNING, Phase.STARTING, Phase.STOPPING, Phase.ENDED}),
    Phase.STARTING: frozenset({Phase.RUNNING, Phase.GONE, Phase.STOPPING}),
    Phase.STOPPING: frozenset({Phase.STOPPING, Phase.STOPPED, Phase.RUNNING}),
    Phase.STOPPED: frozenset({Phase.STOPPING, Phase.STOPPED}),
    Phase.ENDED: frozenset({Phase.STOPPING, Phase.STOPPED}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """An attempt at an engine of the site.

    ``handle`` is the engine's of its first run, which the coordinator has; ``run_handle`` that of the last
    one, and ``runs`` their number.  ``state`` is the state from which the last run started.  ``reason`` says
    why it does not run.  ``ended`` is the highest number of an attempt of the job that has ended at the site.

    ``run_id`` is the id of the last run, if it is not the attempt's own: an engine that lives refuses the id
    of a job that has failed.  ``lineage`` is that of its stamps.  ``failed``: it has failed, and the next one
    is to have an id of its own; ``failures`` is the number of such runs in a row.
    """

    job: Job
    attempt: Attempt
    address: str
    phase: Phase = Phase.ACCEPTED
    handle: Handle | None = None
    run_handle: Handle | None = None
    runs: int = 0
    state: State | None = None
    reason: str = ""
    ended: int = 0
    run_id: str = ""
    lineage: str = ""
    failed: bool = False
    failures: int = 0

    @property
    def run(self) -> Attempt:
        """The attempt in the form of its last run."""
        run = replace(self.attempt, state=self.state)
        return replace(run, id=self.run_id, lineage=self.lineage) if self.run_id else run

    def to(self, phase: Phase, reason: str = "") -> Record:
        """The record in another phase.  Raises :class:`ValueError` for one that cannot follow."""
        if phase not in NEXT[self.phase]:
            raise ValueError(f"attempt {self.attempt.id}: {phase.value} after {self.phase.value}")
        return replace(self, phase=phase, reason=reason)

    def confirmed(self, handle: Handle) -> Record:
        """The record once the engine runs the attempt."""
        found = replace(self.to(Phase.RUNNING), handle=self.handle or handle, run_handle=handle)
        return replace(found, runs=max(1, self.runs), failed=False)

    def next_run(self, state: State | None) -> Record:
        """The record of the next run, from this state; ``None`` after one that has kept nothing.

        After a failure the engine has not confirmed it, so that it is looked for by its own id.
        """
        found = replace(self.to(Phase.STARTING, self.reason), state=state, runs=self.runs + 1)
        if not self.failed:
            return found
        former = self.run
        return replace(
            found,
            run_id=hashlib.sha256(f"{self.attempt.id} {self.runs}".encode()).hexdigest()[:32],
            run_handle=None,
            lineage=former.lineage if state is not None else former.lineage or former.id,
            failed=False,
            failures=self.failures + 1,
        )


def accepted(job: Job, attempt: Attempt, address: str, ended: int = 0) -> Record:
    """The record of an attempt that was submitted and not yet started."""
    return Record(job=job, attempt=attempt, address=address, state=attempt.state, ended=ended)
