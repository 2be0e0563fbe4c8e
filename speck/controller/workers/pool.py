"""The engines of one pool: their jobs, the measured cores of code, and what they report of themselves.

No calls and no clock of its own, as :mod:`speck.controller.workers.group`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field
from statistics import mean
from typing import Any, TypeVar

from speck.controller.backoff import Backoff, exponential
from speck.controller.workers.loads import JobLoad, code_of
from speck.controller.workers.pool_engine import Needed, PoolEngine
from speck.core.inventory import Pool
from speck.core.job import Job
from speck.core.runtime import Worker
from speck.placement.packing import Average, spare_workers
from speck.placement.pools import Filled, filled, instances

MOST_CODES = 1000  # of which the cores are kept: those measured last
READINGS = 5  # of an engine with the same jobs, from which its processor time counts

Number = TypeVar("Number", int, float)


@dataclass
class _Seen:
    """One engine: the sums over its workers at ``at`` (Unix time, s), or the reason why it is silent."""

    at: float | None = None
    silent: str = ""
    slots: int | None = None
    slots_free: int | None = None
    memory: int | None = None
    processor: float | None = None  # s
    busy: Average | None = None  # cores with jobs
    idle: Average | None = None  # cores without jobs
    last: float | None = None  # cores between the last two readings
    free_since: float | None = None


@dataclass
class EnginePool:
    """One pool.  Times are Unix time, s; ``delay`` gives the pause after a number of failed calls, s."""

    pool: Pool
    delay: Callable[[int], float] = exponential
    engines: list[Filled] = field(default_factory=list)
    hooked: dict[str, PoolEngine] = field(default_factory=dict, init=False)  # those with a hook
    _cores: dict[str, Average] = field(default_factory=dict)  # of an instance, by code
    _measured: dict[str, float] = field(default_factory=dict)
    _seen: dict[str, _Seen] = field(default_factory=dict)
    _places: dict[str, str] = field(default_factory=dict)  # the engine of each job at the last look
    _in_use: Set[str] = frozenset()  # the addresses at the last decision

    @property
    def site(self) -> str:
        """The name of its site."""
        return self.pool.site

    def __post_init__(self) -> None:
        self._seen = {each.spe_address: _Seen() for each in self.pool.engines}
        self.engines = filled(self.pool, (), self.cores_of)
        for each in self.pool.engines:
            if each.hook is not None:
                backoff = Backoff(self.delay)
                self.hooked[each.spe_address] = PoolEngine(self.site, each, each.hook, backoff)

    def has(self, address: str) -> bool:
        """True if the engine with this address is in the pool."""
        return address in self._seen

    # --- what is observed

    def observe(self, address: str, workers: Sequence[Worker], now: float) -> None:
        """Take the workers that an engine lists."""
        before = self._seen[address]
        seen = _Seen(
            at=now,
            slots=_sum(each.slots for each in workers),
            slots_free=_sum(each.slots_free for each in workers),
            memory=_sum(each.memory for each in workers),
            processor=_sum(each.processor for each in workers),
            free_since=None if not all(each.free for each in workers) else before.free_since or now,
        )
        if seen.processor is not None and before.processor is not None and before.at is not None:
            seconds = now - before.at
            # Less than before: it was restarted.
            if seconds > 0 and seen.processor >= before.processor:
                seen.last = (seen.processor - before.processor) / seconds
        self._average(seen, before)
        self._seen[address] = seen
        if address in self.hooked:
            self.hooked[address].answered(seen.free_since is not None, now)

    def _average(self, seen: _Seen, before: _Seen) -> None:
        """Take the last reading into the averages with and without jobs."""
        seen.busy, seen.idle = before.busy, before.idle
        if seen.last is None:
            return
        if seen.free_since is None:
            seen.busy = _with(seen.busy, seen.last)
        elif before.free_since is not None:
            # The first reading of a free engine is of the jobs that it had.
            seen.idle, seen.busy = _with(seen.idle, seen.last), None

    def fail(self, address: str, reason: str, now: float) -> None:
        """Note that an engine does not answer."""
        self._seen[address].silent = reason
        if address in self.hooked:
            self.hooked[address].unanswered(now)

    def learn(self, loads: Iterable[JobLoad]) -> None:
        """Take new measurements into the averages of code, and the jobs at each engine."""
        found = list(loads)
        self._forget_former(found)
        factors = self._factors(found)
        for load in found:
            name, code = load.job.job_name, code_of(load.job)
            factor = factors[load.job.spe_address]
            if factor is not None and load.cores is not None and load.measured != self._measured.get(name):
                self._measured[name] = load.measured
                sample = load.cores * factor / instances(load.job)
                self._cores[code] = _with(self._cores.pop(code, None), sample)  # the latest comes last
        for code in list(self._cores)[: max(0, len(self._cores) - MOST_CODES)]:
            del self._cores[code]
        names = {each.job.job_name for each in found}
        self._measured = {name: at for name, at in self._measured.items() if name in names}
        self.engines = filled(self.pool, (each.job for each in found), self.cores_of)

    def _forget_former(self, loads: Sequence[JobLoad]) -> None:
        """Start over with the processor time of each engine whose jobs have changed."""
        now = {each.job.job_name: each.job.spe_address for each in loads}
        changed = {at for _, at in now.items() ^ self._places.items()}
        for address in changed & self._seen.keys():
            self._seen[address].busy = None
        self._places = now

    def _factors(self, loads: Sequence[JobLoad]) -> dict[str, float | None]:
        """By engine, the processor time that it takes for its jobs over what their profiles sum up to.

        The profile of a job looks back over minutes, its warming up among them; its engine's processor time
        is exact, but of all of its jobs together.  ``None`` while these have changed lately; 1 where the
        engine reports no processor time.
        """
        cores, jobs = defaultdict[str, list[float]](list), defaultdict[str, list[Job]](list)
        for load in loads:
            jobs[load.job.spe_address].append(load.job)
            if load.cores is not None:
                cores[code_of(load.job)].append(load.cores / instances(load.job))
        found: dict[str, float | None] = {}
        for address, there in jobs.items():
            seen = self._seen[address]
            if seen.processor is None or not all(cores[code_of(job)] for job in there):
                found[address] = 1.0
                continue
            if seen.busy is None or seen.busy.count < READINGS:
                found[address] = None
                continue
            counted = sum(mean(cores[code_of(job)]) * instances(job) for job in there)
            taken = seen.busy.value - (seen.idle.value if seen.idle is not None else 0.0)
            found[address] = max(0.0, taken) / counted if counted else 1.0
        return found

    def cores_of(self, job: Job) -> float | None:
        """The cores that an instance of the job's code takes; ``None``: never measured here."""
        average = self._cores.get(code_of(job))
        return None if average is None else average.value

    # --- decisions

    def decide(self, in_use: Set[str]) -> None:
        """Decide which engines with a hook are needed: those ``in_use``, and spare ones, at least one in all.

        Spare are first those that run anyway, so that none is started for another one, and last those that
        cannot be started.  So nothing is decided before all engines have been asked once.
        """
        self._in_use = used = in_use & self._seen.keys()
        if not all(each.at is not None or each.silent for each in self._seen.values()):
            return
        count = max(spare_workers(len(used)), 0 if used else 1)
        free = [address for address in self._seen if address not in used]
        spare = set(sorted(free, key=self._rank)[:count])
        reason = f"{len(used)} of {len(self.engines)} engines in use, {len(spare)} spare"
        for address, engine in self.hooked.items():
            engine.needed = Needed(int(address in used | spare), reason)

    def _rank(self, address: str) -> int:
        """The place of an engine among those that may be spare."""
        hooked = self.hooked.get(address)
        if self._answers(address):
            return 0 if hooked is None else 1
        return 2 if hooked is not None and hooked.can_start else 3

    def _answers(self, address: str) -> bool:
        seen = self._seen[address]
        return seen.at is not None and not seen.silent

    # --- plain data

    def data(self, now: float, offset: float = 0.0) -> dict[str, Any]:
        """The pool as plain data, in the form of :meth:`WorkerGroup.data`; its workers are the engines."""
        used = [each for each in self.engines if each.jobs]
        answering = [self._seen[address] for address in self._seen if self._answers(address)]
        needed = [address for address in self._seen if self._is_needed(address)]
        silent = {address: self._seen[address].silent for address in needed if self._seen[address].silent}
        number, count = sum(each.slots for each in used), len(self.engines)
        reason = f"{number} instances fill {len(used)} of {count} engines"
        hooks = {address: fault for address in needed if (fault := self._fault_of(address))}
        faults = "; ".join(f"{address}: {why}" for address, why in (silent | hooks).items())
        due = [self.hooked[address].backoff.next_try(address) for address in hooks]
        return {
            "site": self.site,
            "engine": f"pool {self.pool.name}",
            "least": max(1, count - len(self.hooked)),
            "most": count,
            "cores": sum(each.engine.cores or 1.0 for each in self.engines) / count,
            "slots": self.engines[0].engine.slots,
            "present": len(answering),
            "desired": len(needed),
            "bins": len(used),
            "spare": len(set(needed) - self._in_use),
            "instances": number,
            "predicted": 0,
            "state": "failed" if hooks else self._state(sum(map(self._answers, needed)), len(needed)),
            "message": faults or reason,
            "next_try": min((at + offset for at in due if at is not None), default=None),
            "observed_at": max((each.at + offset for each in answering if each.at is not None), default=None),
            "workers": [self._engine_data(index, each, now) for index, each in enumerate(self.engines)],
            "filled": [each.load for each in used],
        }

    def _fault_of(self, address: str) -> str:
        hooked = self.hooked.get(address)
        return "" if hooked is None else hooked.fault

    def _is_needed(self, address: str) -> bool:
        """True for an engine that is to run."""
        hooked = self.hooked.get(address)
        return hooked is None or hooked.needed is None or hooked.needed.count > 0

    def _state(self, present: int, needed: int) -> str:
        if any(each.sent is not None for each in self.hooked.values()):
            return "scaling"
        return "idle" if present == needed else "short" if present else "silent"

    def _is_stopped(self, address: str) -> bool:
        hooked = self.hooked.get(address)
        return hooked is not None and hooked.is_stopped

    def _engine_data(self, index: int, each: Filled, now: float) -> dict[str, Any]:
        seen = self._seen[each.engine.spe_address]
        since = seen.free_since
        return {
            "id": each.engine.spe_address,
            "index": index,
            "free": not each.jobs,
            "stopped": self._is_stopped(each.engine.spe_address),
            "free_for": None if each.jobs or since is None else max(0.0, now - since),
            "cores": each.engine.cores,
            "busy_cores": seen.last,
            "slots": seen.slots if seen.slots is not None else each.engine.slots,
            "slots_free": seen.slots_free,
            "memory": seen.memory,
            "memory_free": None,
        }


def _with(average: Average | None, sample: float) -> Average:
    return Average(sample) if average is None else average.with_next(sample)


def _sum(values: Iterable[Number | None]) -> Number | None:
    """The sum of the values, if there are any and all are known."""
    found = list(values)
    known = [each for each in found if each is not None]
    return sum(known) if known and len(known) == len(found) else None
