"""The workers of one engine: their desired number, by the packing of its jobs.

No calls and no clock of its own: the controller passes in the workers, the jobs and the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from speck.controller.workers.hooked import Hooked
from speck.controller.workers.hooks import is_nameable
from speck.controller.workers.loads import JobLoad, code_of
from speck.core.inventory import Scale
from speck.core.job import Job
from speck.core.runtime import Worker
from speck.placement.packing import (
    DEFAULT_SHARE,
    Average,
    Item,
    Packing,
    first_fit,
    further_instances,
    spare_workers,
    target_workers,
)
from speck.placement.pools import instances


@dataclass(frozen=True, slots=True)
class Packed:
    """The desired number of workers, and the packing that it comes from."""

    count: int
    packing: Packing
    spare: int
    instances: int
    predicted: int

    @property
    def reason(self) -> str:
        """The packing in words."""
        more = f", {self.predicted} of them predicted" if self.predicted else ""
        return f"{self.instances} instances{more} fill {len(self.packing.bins)}, and {self.spare} spare"


@dataclass
class WorkerGroup(Hooked):
    """One engine with workers.  Times are Unix time, s."""

    decision: Packed | None = None
    indexes: dict[str, int] = field(default_factory=dict)
    processor: dict[str, tuple[float, float]] = field(default_factory=dict)
    busy: dict[str, float] = field(default_factory=dict)  # cores that each worker takes
    shares: dict[str, Average] = field(default_factory=dict)
    _arrivals: dict[str, None] = field(default_factory=dict)
    _measured: dict[str, float] = field(default_factory=dict)
    _counts: dict[str, tuple[float, int]] = field(default_factory=dict)
    _units: dict[str, int] = field(default_factory=dict)

    @property
    def scale(self) -> Scale:
        """The bounds of the workers, with their hook."""
        return cast("Scale", self.hook)

    @property
    def decided(self) -> Packed | None:
        """See :attr:`Hooked.decided`."""
        return self.decision

    # --- what is observed

    def observe(self, workers: Sequence[Worker], now: float) -> None:
        """Take the workers as the engine lists them; each keeps its index while it is there."""
        known = {each.id for each in workers}
        for gone in self.indexes.keys() - known:
            for entries in (self.indexes, self.processor, self.busy):
                entries.pop(gone, None)
        for each in sorted(workers, key=lambda worker: _by_number(worker.id)):
            self._number(each.id)
            self._note_processor(each, now)
        super().observe(sorted(workers, key=lambda worker: self.indexes[worker.id]), now)

    def _number(self, worker: str) -> None:
        if worker not in self.indexes:
            used = set(self.indexes.values())
            self.indexes[worker] = next(each for each in range(len(used) + 1) if each not in used)

    def _note_processor(self, worker: Worker, now: float) -> None:
        if worker.processor is None:
            return
        at, before = self.processor.get(worker.id, (now, worker.processor))
        if now - at >= 1 and worker.processor >= before:
            self.busy[worker.id] = (worker.processor - before) / (now - at)
        if now - at >= 1 or worker.id not in self.processor:
            self.processor[worker.id] = now, worker.processor

    def learn(self, loads: Iterable[JobLoad]) -> None:
        """Take new measurements into the profiles of code, and new counts into the predictions."""
        for load in loads:
            name = load.job.job_name
            if load.cores is not None and load.measured != self._measured.get(name):
                self._measured[name] = load.measured
                share = load.cores / self.scale.cores / instances(load.job)
                average = self.shares.get(code_of(load.job))
                self.shares[code_of(load.job)] = (
                    Average(share) if average is None else average.with_next(share)
                )
            if load.waiting is not None:
                self._predict(name, load.counted, load.waiting)
            else:  # a former count asks for no workers any longer
                self._units.pop(name, None)

    def _predict(self, name: str, at: float, waiting: int) -> None:
        rules, (before_at, before) = self.scale.predictor, self._counts.get(name, (at, waiting))
        if name in self._counts and 0 <= at - before_at < rules.pause:  # below: the clock was set back
            return
        growth = (waiting - before) / (at - before_at) if at > before_at else 0.0
        self._counts[name] = at, waiting
        self._units[name] = further_instances(rules, growth, waiting) if at > before_at else 0

    # --- decisions

    def decide(self, loads: Sequence[JobLoad]) -> Packed:
        """Pack the jobs, in the order of their arrival, and their predicted instances after them."""
        jobs = {each.job.job_name: each.job for each in loads}
        self._forget_others(jobs)
        for name in sorted(jobs):
            self._arrivals.setdefault(name)
        items = [
            Item(name, self.share(jobs[name]))
            for name in self._arrivals
            for _ in range(instances(jobs[name]))
        ]
        predicted = [
            Item(name, self.share(jobs[name]))
            for name in self._arrivals
            for _ in range(self._units.get(name, 0))
        ]
        packing = first_fit([*items, *predicted], self._slots())
        bins, least, most = len(packing.bins), self.scale.least, self.scale.most
        count = target_workers(bins, least, most)
        self.reached = min(self.reached, max(count, len(self.workers)))
        number = len(items) + len(predicted)
        self.decision = Packed(count, packing, spare_workers(bins), number, len(predicted))
        return self.decision

    def share(self, job: Job) -> float:
        """The share of a worker that an instance of the job takes; that of its code, or the default."""
        average = self.shares.get(code_of(job))
        return DEFAULT_SHARE if average is None else average.value

    def _slots(self) -> int | None:
        reported = [each.slots for each in self.workers if each.slots is not None]
        return self.scale.slots or max(reported, default=None)

    def _forget_others(self, jobs: Mapping[str, Job]) -> None:
        for entries in (self._arrivals, self._measured, self._counts, self._units):
            for name in entries.keys() - jobs.keys():
                entries.pop(name)
        codes = {code_of(job) for job in jobs.values()}
        for code in self.shares.keys() - codes:
            del self.shares[code]

    # --- plain data

    def data(self, now: float, offset: float = 0.0) -> dict[str, Any]:
        """The group as plain data; ``offset`` is that of Unix time from the clock of ``now``, s."""
        decision, due = self.decision, self.backoff.next_try(self.address)
        return {
            "site": self.site,
            "engine": self.address,
            "least": self.scale.least,
            "most": self.scale.most,
            "cores": self.scale.cores,
            "slots": self._slots(),
            "present": len(self.workers),
            "desired": None if decision is None else decision.count,
            "bins": None if decision is None else len(decision.packing.bins),
            "spare": None if decision is None else decision.spare,
            "instances": None if decision is None else decision.instances,
            "predicted": None if decision is None else decision.predicted,
            "state": self.state(),
            "message": self.silent or self.fault or self._unnameable() or self._reason(),
            "next_try": due + offset if self.fault and due is not None else None,
            "observed_at": None if self.seen_at is None else self.seen_at + offset,
            "workers": [self._worker_data(each, now) for each in self.workers],
            "filled": [] if decision is None else list(decision.packing.loads),
        }

    def _reason(self) -> str:
        return "" if self.decision is None else self.decision.reason

    def _unnameable(self) -> str:
        """The workers that are never stopped because of their ids; empty if there are none."""
        found = [repr(each.id[:100]) for each in self.workers if not is_nameable(each.id)]
        if not found or not self.scale.names_stopped:
            return ""
        expected = "expected letters, digits, '.', ':', '_' and '-', and no '-' at the beginning"
        return f"not stopped, since the hook accepts no such id: {', '.join(found[:5])} ({expected})"

    def _worker_data(self, worker: Worker, now: float) -> dict[str, Any]:
        since = self.free_since.get(worker.id)
        return {
            "id": worker.id,
            "index": self.indexes[worker.id],
            "free": worker.free,
            "stopped": False,  # as engines of pools may be
            "free_for": None if since is None else max(0.0, now - since),
            "cores": worker.cores,
            "busy_cores": self.busy.get(worker.id),
            "slots": worker.slots,
            "slots_free": worker.slots_free,
            "memory": worker.memory,
            "memory_free": worker.memory_free,
        }


def _by_number(identifier: str) -> tuple[str, int, str]:
    """Sorts ``worker-10`` behind ``worker-9``."""
    head = identifier.rstrip("0123456789")
    number = identifier[len(head) :]
    return head, int(number) if number else -1, identifier
