"""The engines of pools: chooses one for each job whose site has a pool for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from speck.coordinator.placing.choices import Choices
from speck.core.inventory import Inventory, Pool
from speck.core.job import Composition, Job
from speck.errors import StalePlan
from speck.placement.packing import Fit, loose_fit
from speck.placement.pools import Cores, choose_engines, crowded_out
from speck.store.deployments import Deployments


def _all_answer(addresses: Collection[str]) -> Set[str]:
    """No address: all engines answer."""
    return frozenset()


def _unmeasured(job: Job) -> float | None:
    """No cores: the default share stands for them."""
    return None


@dataclass(frozen=True)
class _Present:
    """A composition beside the others: their jobs, and the addresses of its ``engines`` by job name.

    ``begun`` are the names of its jobs that have begun there, or may have.
    """

    others: Sequence[Job]
    engines: Mapping[str, str]
    begun: Set[str]

    def engine(self, name: str, pool: Pool) -> str | None:
        """The engine of a job if it is one of a pool."""
        address = self.engines.get(name)
        return address if any(each.spe_address == address for each in pool.engines) else None


@dataclass(frozen=True)
class EnginePools:
    """Chooses engines of pools for the jobs of a composition; nothing is changed in here.

    ``cores`` gives the measured cores of an instance of a job, ``fit`` is the rule of the packing.
    ``silent`` asks engines by their addresses now, and gives those that do not answer; ``startable`` are
    those that are started as soon as they have a job, ``leaving`` those that are being stopped.  Safe to use
    from several threads.
    """

    deployments: Deployments
    inventory: Inventory
    cores: Cores = _unmeasured
    fit: Fit = loose_fit
    silent: Callable[[Collection[str]], Set[str]] = _all_answer
    startable: Callable[[], Set[str]] = frozenset
    leaving: Callable[[], Set[str]] = frozenset
    _choices: Choices = field(default_factory=Choices, init=False)
    _choosing: threading.Lock = field(default_factory=threading.Lock, init=False)

    def members(self, address: str) -> Sequence[str]:
        """The engine at an address, and those that may be chosen in its place: the others of its pool."""
        pool = self.inventory.pool_of(address)
        others = () if pool is None else pool.engines
        return [address, *(each.spe_address for each in others if each.spe_address != address)]

    def assign(
        self, composition: Composition, *, reserve: bool = False, left_behind: Collection[str] = ()
    ) -> Composition:
        """A composition with an engine for each job that SpecK gives one of a pool.

        A job that has an engine of the pool already keeps it; new ones follow in the order of the
        composition.  An engine that does not answer gets no new job, and one that was given to it and has
        never begun gets another, unless no engine of the pool answers.  One that is started for it comes
        after all that run.  No engine ``left_behind`` is kept or chosen, unless it is the whole pool.  With
        ``reserve``, the engines count for other compositions until :meth:`release`.
        """
        asked = {name: pool for name, job in composition.jobs.items() if (pool := self._pool(job))}
        if not asked:
            return composition
        if left_behind:
            others = {pool: _without(pool, left_behind) for pool in asked.values()}
            asked = {name: others[pool] for name, pool in asked.items()}
        silent = self._silent(composition, asked)
        # One choice at a time: two at once would both take the same free room.
        with self._choosing:
            chosen = self._chosen(composition, asked, silent)
            if reserve:
                self._choices.note(chosen)
        return chosen

    def reserve(self, composition: Composition, *, running: bool = False) -> None:
        """Reserve the engines that a composition was given before, until :meth:`release`.

        Raises :class:`~speck.errors.StalePlan` if one has no room for a new job by now, and another of its
        pool that answers, or is started, has; of a composition that runs there already (``running``) nothing
        is checked.
        """
        with self._choosing:
            if not running and (crowded := self._crowded_out(composition)):
                reasons = [
                    f"{each.spe_address} has no room left for job {each.job_name!r}" for each in crowded
                ]
                raise StalePlan(composition.name, reasons)
            self._choices.note(composition)

    def _crowded_out(self, composition: Composition) -> list[Job]:
        asked = {name: pool for name, job in composition.jobs.items() if (pool := self._pool(job))}
        if not asked:
            return []
        now, jobs = self._present(composition), composition.jobs
        new = [name for name in asked if now.engines.get(name) != jobs[name].spe_address]
        present = [*now.others, *(job for name, job in jobs.items() if name not in new)]
        found: list[Job] = []
        for pool in dict.fromkeys(asked[name] for name in new):
            chosen = [jobs[name] for name in new if asked[name] is pool]
            crowded = crowded_out(pool, present, chosen, self.cores, self.fit)
            if crowded and (dead := self._dead(pool)):
                crowded = crowded_out(pool, present, chosen, self.cores, self.fit, dead)
            found += crowded
        return found

    def _dead(self, pool: Pool) -> Set[str]:
        """The engines of a pool that do not answer, and are not started as soon as they have a job."""
        silent = self.silent([each.spe_address for each in pool.engines])
        return silent - self.startable() if silent else silent

    def release(self, name: str) -> None:
        """End the reservation of a composition's engines."""
        self._choices.forget(name)

    def _silent(self, composition: Composition, asked: Mapping[str, Pool]) -> Set[str]:
        """The engines that do not answer, of the pools of which a job needs another engine than it has."""
        now = self._present(composition)
        choosing = {
            pool for name, pool in asked.items() if name not in now.begun or now.engine(name, pool) is None
        }
        silent = (self.silent([each.spe_address for each in pool.engines]) for pool in choosing)
        return frozenset().union(*silent)

    def _chosen(self, composition: Composition, asked: Mapping[str, Pool], silent: Set[str]) -> Composition:
        now, jobs = self._present(composition), dict(composition.jobs)
        started = (silent & self.startable()) | self.leaving()
        dead = silent - started
        for pool in dict.fromkeys(asked.values()):
            names = [name for name, each in asked.items() if each is pool]
            there = {name: at for name in names if (at := now.engine(name, pool)) is not None}
            retained = {name: at for name, at in there.items() if name in now.begun or at not in dead}
            jobs |= {name: replace(jobs[name], spe_address=address) for name, address in retained.items()}
            # Those that name an engine of the pool themselves have it before the others choose.
            present = [
                *now.others,
                *(job for name, job in jobs.items() if name not in asked or name in retained),
            ]
            new = [jobs[name] for name in names if name not in retained]
            able = [each for each in pool.engines if each.spe_address not in dead]
            able.sort(key=lambda each: each.spe_address in started)
            usable = replace(pool, engines=tuple(able)) if able else pool
            chosen = choose_engines(usable, present, new, self.cores, self.fit)
            jobs |= {name: replace(jobs[name], spe_address=address) for name, address in chosen.items()}
        return replace(composition, jobs=jobs)

    def _pool(self, job: Job) -> Pool | None:
        """The pool of which SpecK chooses an engine for this job."""
        return self.inventory.pool_of(job.spe_address) if "spe_address" in job.placed else None

    def _present(self, composition: Composition) -> _Present:
        # Before the store is read: what is accepted in between is found in the one or in the other.
        chosen_elsewhere = self._choices.others(composition.name).values()
        others, own, begun = dict[str, Job](), dict[str, str](), set[str]()
        for snapshot in self.deployments.snapshots():
            running = {job.job_name: job for job, _ in snapshot.deployed()}
            found = {**running, **snapshot.desired}
            if snapshot.head.name == composition.name:
                own |= {name: job.spe_address for name, job in found.items()}
                first = self.deployments.store.first_attempt
                begun |= {name for name, each in snapshot.records.items() if each.attempts > first}
            else:
                others |= found
        for chosen in chosen_elsewhere:
            others |= chosen.jobs
        return _Present(list(others.values()), own, begun)


def _without(pool: Pool, addresses: Collection[str]) -> Pool:
    """A pool without the engines at these addresses; the same pool if no other engine is left."""
    others = tuple(each for each in pool.engines if each.spe_address not in addresses)
    return replace(pool, engines=others) if others else pool
