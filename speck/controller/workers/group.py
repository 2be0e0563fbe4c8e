"""The workers of one engine: their desired number, and the request to its hook that is under way.

No calls and no clock of its own: the controller passes in the workers, the jobs and the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from speck.controller.backoff import Backoff
from speck.controller.workers.hooks import WorkerRequest, is_nameable
from speck.core.inventory import Engine, Scale
from speck.core.job import Job
from speck.core.lifecycle import EventKind
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

ARRIVAL = 120.0  # s, in which the workers that a hook has reported must be registered
DEPARTURE = 10.0  # s, that the engine may list workers after the hook has reported them as stopped


@dataclass(frozen=True, slots=True)
class JobLoad:
    """A job of the engine: the cores that it takes (``None``: not measured), at ``measured`` (Unix time, s).

    ``waiting`` are the messages that wait for it, at ``counted`` (Unix time, s).
    """

    job: Job
    cores: float | None = None
    measured: float = 0.0
    waiting: int | None = None
    counted: float = 0.0


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


@dataclass(frozen=True, slots=True)
class Sent:
    """A request to the hook: when (s), from how many workers, and when the hook reported success."""

    request: WorkerRequest
    at: float
    before: int
    restores: bool = False  # workers that were there and died
    reported: float | None = None


@dataclass
class WorkerGroup:
    """One engine with workers.  Times are Unix time, s."""

    site: str
    engine: Engine
    scale: Scale
    backoff: Backoff = field(default_factory=Backoff)
    workers: tuple[Worker, ...] = ()
    decision: Packed | None = None
    sent: Sent | None = None
    fault: str = ""  # of the hook, or of the workers that did not come
    silent: str = ""  # the reason why the engine does not list its workers
    seen_at: float | None = None
    reached: int = 0  # the number of workers that were there, or were to be left
    indexes: dict[str, int] = field(default_factory=dict)
    free_since: dict[str, float] = field(default_factory=dict)
    processor: dict[str, tuple[float, float]] = field(default_factory=dict)
    busy: dict[str, float] = field(default_factory=dict)  # cores that each worker takes
    shares: dict[str, Average] = field(default_factory=dict)
    _arrivals: dict[str, None] = field(default_factory=dict)
    _measured: dict[str, float] = field(default_factory=dict)
    _counts: dict[str, tuple[float, int]] = field(default_factory=dict)
    _units: dict[str, int] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """The address of the engine."""
        return self.engine.spe_address

    # --- what is observed

    def observe(self, workers: Sequence[Worker], now: float) -> None:
        """Take the workers as the engine lists them; each keeps its index while it is there."""
        self.silent, self.seen_at = "", now
        known = {each.id for each in workers}
        for gone in self.indexes.keys() - known:
            for entries in (self.indexes, self.free_since, self.processor, self.busy):
                entries.pop(gone, None)
        for each in sorted(workers, key=lambda worker: _by_number(worker.id)):
            self._number(each.id)
            self._note_processor(each, now)
            if not each.free:
                self.free_since.pop(each.id, None)
            else:
                self.free_since.setdefault(each.id, now)
        self.workers = tuple(sorted(workers, key=lambda worker: self.indexes[worker.id]))
        self.reached = max(self.reached, len(workers))

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

    def _predict(self, name: str, at: float, waiting: int) -> None:
        rules, (before_at, before) = self.scale.predictor, self._counts.get(name, (at, waiting))
        if name in self._counts and at - before_at < rules.pause:
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

    def request(self, now: float) -> WorkerRequest | None:
        """The request that is due: none while one is under way, after a failure, or if all is as desired."""
        if self.decision is None or self.sent is not None or not self._may_try(now):
            return None
        present, desired = len(self.workers), self.decision.count
        if present < desired:
            return WorkerRequest(self.site, self.address, desired)
        stop = self._stoppable(now)[: present - desired] if present > desired else []
        return WorkerRequest(self.site, self.address, present - len(stop), tuple(stop)) if stop else None

    def _may_try(self, now: float) -> bool:
        due = self.backoff.next_try(self.address)
        return due is None or due <= now

    def _stoppable(self, now: float) -> list[str]:
        """The workers that have been free for long enough, the highest index first.

        A hook that is not given their ids stops the last ones, so none behind a busy one counts.
        """
        found = []
        for each in reversed(self.workers):
            since = self.free_since.get(each.id)
            if not is_nameable(each.id) and self.scale.names_stopped:
                continue
            if since is not None and now - since >= self.scale.idle:
                found.append(each.id)
            elif not self.scale.names_stopped:
                break
        return found

    # --- the request under way

    def send(self, request: WorkerRequest, now: float) -> tuple[EventKind, str] | None:
        """Note that the hook is called; returns an event, unless this repeats a call that failed."""
        present = len(self.workers)
        self.sent = Sent(request, now, present, restores=present < self.reached and not request.stop)
        if self.sent.restores:
            # Workers that die again and again are not started each time at once.
            self.backoff.record_attempt([self.address], now)
        if self.fault:
            return None
        stopped = f" (stopping {', '.join(request.stop)})" if request.stop else ""
        lost = f"{present} of {self.reached} workers are left; " if self.sent.restores else ""
        why = self.decision.reason if self.decision is not None else ""
        return (
            EventKind.SCALING,
            f"{self._subject()}: {present} to {request.count} workers{stopped}: {lost}{why}",
        )

    def hook_ended(self, fault: str, now: float) -> tuple[EventKind, str] | None:
        """Take the end of the hook; returns an event for the first of several failures."""
        if fault:
            return self._fail(f"{self._hook()} {fault}", now)
        if self.sent is not None:
            self.sent = replace(self.sent, reported=now)
        return None

    def check_arrival(self, now: float) -> tuple[EventKind, str] | None:
        """Compare the workers with the request that its hook reported as done."""
        sent = self.sent
        if sent is None or sent.reported is None:
            return None
        present, desired = len(self.workers), sent.request.count
        if present >= desired if desired >= sent.before else present <= desired:
            if self.fault:
                self.backoff.forget([self.address])
            self.sent, self.fault, self.reached = None, "", present
            return self._as_desired()
        if now - sent.reported < ARRIVAL:
            return None
        return self._fail(
            f"{self._hook()} reported success, but {ARRIVAL:g} s later {present} workers are registered "
            f"(expected {desired})",
            now,
        )

    def is_stopping(self, now: float) -> bool:
        """True if workers are being stopped that the engine may still give a job to."""
        sent = self.sent
        if sent is None or not sent.request.stop or self.silent:
            return False
        return sent.reported is None or now - sent.reported < DEPARTURE

    def _fail(self, fault: str, now: float) -> tuple[EventKind, str] | None:
        sent, self.sent = self.sent, None
        if sent is None or not sent.restores:
            self.backoff.record_attempt([self.address], now)
        self.backoff.ended(self.address, now)
        repeated, self.fault = bool(self.fault), fault
        return None if repeated else (EventKind.NOT_SCALED, f"{self._subject()}: {fault}")

    def note_state(self, now: float) -> tuple[EventKind, str] | None:
        """Note if the workers are there; after some minutes of that, the former calls are forgotten.

        Returns an event if a fault has ended without the hook.
        """
        difference = 0 if self.decision is None else len(self.workers) - self.decision.count
        ended = bool(self.fault) and not difference and self.sent is None
        if ended:
            self.fault = ""
        if difference >= 0 and not self.fault:
            self.backoff.runs(self.address, now)
        else:
            self.backoff.stopped(self.address)
        return self._as_desired() if ended else None

    def _as_desired(self) -> tuple[EventKind, str]:
        return EventKind.SCALED, f"{self._subject()}: {len(self.workers)} workers, as desired"

    def _subject(self) -> str:
        return f"site {self.site}: {self.address}"

    def _hook(self) -> str:
        if self.scale.local is not None:
            return "the hook of the local sites"
        if self.scale.url is not None:  # a query may hold a secret under any name
            return f"the hook {self.scale.url.partition('?')[0]}"
        return f"the hook {self.scale.command[0]}"

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
        return f"not stopped, as the hook is not given such an id: {', '.join(found[:5])} ({expected})"

    def state(self) -> str:
        """``silent``, ``failed``, ``scaling``, ``idle`` (as desired), ``short`` or ``over``."""
        if self.silent or self.decision is None:
            return "silent"
        if self.sent is not None:
            return "scaling"
        if self.fault:
            return "failed"
        difference = len(self.workers) - self.decision.count
        return "idle" if not difference else "short" if difference < 0 else "over"

    def _worker_data(self, worker: Worker, now: float) -> dict[str, Any]:
        since = self.free_since.get(worker.id)
        return {
            "id": worker.id,
            "index": self.indexes[worker.id],
            "free": worker.free,
            "free_for": None if since is None else max(0.0, now - since),
            "cores": worker.cores,
            "busy_cores": self.busy.get(worker.id),
            "slots": worker.slots,
            "slots_free": worker.slots_free,
            "memory": worker.memory,
            "memory_free": worker.memory_free,
        }


def code_of(job: Job) -> str:
    """Identifies the code of a job; the name stands for one without a hash."""
    return f"{job.code_hash or job.job_name} {job.entry_class or ''}"


def _by_number(identifier: str) -> tuple[str, int, str]:
    """Sorts ``worker-10`` behind ``worker-9``."""
    head = identifier.rstrip("0123456789")
    number = identifier[len(head) :]
    return head, int(number) if number else -1, identifier
