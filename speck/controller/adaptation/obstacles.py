"""The obstacles to moving the jobs of a composition at present."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from speck.apply.operations import Operations
from speck.controller.reconciler import Reconciler
from speck.core.adaptation import Cuts, StepRecord
from speck.core.clocks import Clock
from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.core.lifecycle import OperationKind
from speck.store.deployments import Deployments

SILENCE = 60.0  # s without an answer, after which a site counts as silent
AFTER_HEAL = 60.0  # s without a step


@dataclass
class Obstacles:
    """Silent engines, jobs that are not in their desired state or were repaired lately, and operations.

    All that is kept is in memory only; ``clock`` does not jump.  At the start, repairs of the minute before
    are unknown: it counts as one of all compositions.
    """

    deployments: Deployments
    operations: Operations
    reconciler: Reconciler
    inventory: Inventory
    clock: Clock
    _silent: dict[str, float] = field(default_factory=dict, init=False)  # since when, by engine
    _repaired: dict[str, float] = field(default_factory=dict, init=False)  # when, by composition
    _repaired_jobs: dict[str, dict[str, float]] = field(default_factory=dict, init=False)  # when, by job

    def __post_init__(self) -> None:
        names = (head.name for head in self.deployments.store.heads())
        self._repaired = dict.fromkeys(names, self.clock())

    def note_repair(self, name: str, jobs: Iterable[str]) -> None:
        """Note that some jobs of a composition were repaired now."""
        self._repaired[name] = self.clock()
        self._repaired_jobs[name] = self._repaired_jobs.get(name, {}) | dict.fromkeys(jobs, self.clock())

    def note_silence(self) -> None:
        """Note since when each engine is silent."""
        silent, now = self.reconciler.observer.silent, self.clock()
        self._silent = {address: self._silent.get(address, now) for address in silent}

    def forget_others(self, names: Set[str]) -> None:
        """Forget the repairs of compositions that are no longer there."""
        for name in list(self._repaired):  # a copy: operations end in threads of their own
            if name not in names:
                self._repaired.pop(name, None)
                self._repaired_jobs.pop(name, None)

    def silent_sites(self, name: str) -> dict[str, str]:
        """The sites of a composition's jobs that have been silent for long, with the reasons."""
        used, now = _engines(self._jobs(name)), self.clock()
        long = {each for each, since in self._silent.items() if now - since >= SILENCE and each in used}
        found = {}
        for address in sorted(long):
            site = self.inventory.site_of_engine(address)
            found[site.name if site else address] = self.reconciler.observer.silent.get(address, "")
        return found

    def of(self, name: str) -> str:
        """The reason why nothing of a composition may be moved now; empty if it may."""
        jobs, since_repair = self._jobs(name), self.clock() - self._repaired.get(name, -math.inf)
        drifted = [each for each in sorted(jobs) if self.reconciler.drifts.of(each) is not None]
        waiting = [each for each in sorted(jobs) if self.reconciler.next_try(each) is not None]
        reasons = {
            "an operation is in progress": not self.operations.is_idle(name),
            f"job {few(drifted)} is not in its desired state": bool(drifted),
            f"job {few(waiting)} waits for its next attempt": bool(waiting),
            "the server started, or a job was repaired, within the last minute": since_repair < AFTER_HEAL,
            "an engine of its jobs does not respond": bool(_engines(jobs) & self._silent.keys()),
        }
        return next((reason for reason, applies in reasons.items() if applies), "")

    def failing(self, name: str, jobs: Collection[str], since: float) -> list[str]:
        """Those of some jobs that were repaired after a time, or wait for it, while their engine answers."""
        desired, repaired = self._jobs(name), self._repaired_jobs.get(name, {})
        answering = {job for job in jobs if job in desired and desired[job].spe_address not in self._silent}
        return [job for job in sorted(answering) if repaired.get(job, -math.inf) > since or self._waits(job)]

    def _waits(self, job: str) -> bool:
        """True if a job has failed before, and is not to be started yet."""
        if self.reconciler.drifts.of(job) is None:
            return False
        return self.reconciler.next_try(job) is not None or self.reconciler.backoff.suspended(job) is not None

    def is_stranded(self, step: StepRecord) -> bool:
        """True if the site that the jobs of a step return to has left the inventory."""
        place = step.target if step.back else step.source
        return not isinstance(place, Cuts) and place not in self.inventory.sites

    def moving(self, name: str) -> int:
        """The number of other compositions' steps that are being carried out."""
        running = self.operations.running()
        return sum(each.kind == OperationKind.PLACE and each.composition != name for each in running)

    def _jobs(self, name: str) -> Mapping[str, Job]:
        return self.deployments.desired(self.deployments.head(name))


def _engines(jobs: Mapping[str, Job]) -> Set[str]:
    return {job.spe_address for job in jobs.values()}


def few(names: Sequence[str]) -> str:
    """The first three of some names, and the number of the others."""
    shown = ", ".join(map(repr, names[:3]))
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown
