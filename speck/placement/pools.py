"""The engine of a pool for a job: first-fit over the engines, in the order of the inventory.

Pure: no clock, no calls.  Jobs that run stay where they are, so that a hole which one leaves is filled by the
next that fits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass

from speck.core.inventory import Engine, Pool
from speck.core.job import Job
from speck.placement.packing import DEFAULT_SHARE, Fit, loose_fit

Cores = Callable[[Job], float | None]  # that an instance of a job takes; ``None``: not measured


@dataclass(frozen=True, slots=True)
class Filled:
    """One engine of a pool: the names of its jobs, its load as a share of its cores, its slots in use."""

    engine: Engine
    jobs: tuple[str, ...] = ()
    load: float = 0.0
    slots: int = 0

    def has_slots(self, job: Job) -> bool:
        """True if the engine has the slots for a job; one whose slots are not declared has any number."""
        return self.engine.slots is None or self.slots + instances(job) <= self.engine.slots

    def has_room(self, job: Job, cores: Cores, fit: Fit) -> bool:
        """True if a job fits; one that is larger than an engine has one for itself."""
        return self.has_slots(job) and (not self.jobs or fit(share(self.engine, job, cores), 1.0 - self.load))

    def with_job(self, job: Job, cores: Cores) -> Filled:
        """The engine with one job more."""
        load, slots = self.load + share(self.engine, job, cores), self.slots + instances(job)
        return Filled(self.engine, (*self.jobs, job.job_name), load, slots)


def instances(job: Job) -> int:
    """The number of instances of a job: its parallelism, 1 by default."""
    return max(1, job.parallelism or 1)


def share(engine: Engine, job: Job, cores: Cores) -> float:
    """The share of an engine that a job takes with all of its instances; 1/8 for each until measured."""
    measured = cores(job)
    one = DEFAULT_SHARE if measured is None else measured / (engine.cores or 1.0)
    return one * instances(job)


def filled(pool: Pool, jobs: Iterable[Job], cores: Cores) -> list[Filled]:
    """The engines of a pool with those of the jobs that are at them."""
    found = {each.spe_address: Filled(each) for each in pool.engines}
    for job in jobs:
        if job.spe_address in found:
            found[job.spe_address] = found[job.spe_address].with_job(job, cores)
    return list(found.values())


def choose_engines(
    pool: Pool, present: Iterable[Job], new: Iterable[Job], cores: Cores, fit: Fit = loose_fit
) -> Mapping[str, str]:
    """The address of an engine for each new job, by its name; ``present`` are the jobs at the engines.

    Each new job goes to the first engine with room for it.  Where none has room, it goes to the one with the
    least load among those with free slots, or among all: it waits there for its slots, as at any engine.
    """
    engines, found = filled(pool, present, cores), dict[str, str]()
    for job in new:
        at = next((index for index, each in enumerate(engines) if each.has_room(job, cores, fit)), None)
        if at is None:
            able = [index for index, each in enumerate(engines) if each.has_slots(job)]
            at = min(able or range(len(engines)), key=lambda index: engines[index].load)
        engines[at] = engines[at].with_job(job, cores)
        found[job.job_name] = engines[at].engine.spe_address
    return found


def crowded_out(
    pool: Pool,
    present: Iterable[Job],
    chosen: Iterable[Job],
    cores: Cores,
    fit: Fit = loose_fit,
    dead: Set[str] = frozenset(),
) -> list[Job]:
    """The jobs whose engine, chosen before, has no room for them now, though another one of the pool has.

    ``present`` are the jobs at the engines, ``chosen`` those that are to follow, each at its engine, ``dead``
    the addresses of engines that can take none.
    """
    engines, found = filled(pool, present, cores), []
    for job in chosen:
        at = next(index for index, each in enumerate(engines) if each.engine.spe_address == job.spe_address)
        full = not engines[at].has_room(job, cores, fit)
        able = (each for each in engines if each.engine.spe_address not in dead)
        if full and any(each.has_room(job, cores, fit) for each in able):
            found.append(job)
        engines[at] = engines[at].with_job(job, cores)
    return found
