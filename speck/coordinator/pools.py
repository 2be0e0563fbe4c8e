"""The engines of pools: chooses one for each job whose site has a pool for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from speck.core.inventory import Inventory, Pool
from speck.core.job import Composition, Job
from speck.placement.packing import Fit, loose_fit
from speck.placement.pools import Cores, choose_engines
from speck.store.deployments import Deployments


def _unmeasured(job: Job) -> float | None:
    """No cores: the default share stands for them."""
    return None


@dataclass(frozen=True)
class EnginePools:
    """Chooses engines of pools for the jobs of a composition; nothing is changed in here.

    ``cores`` gives the measured cores of an instance of a job, ``fit`` is the rule of the packing.
    """

    deployments: Deployments
    inventory: Inventory
    cores: Cores = _unmeasured
    fit: Fit = loose_fit

    def assign(self, composition: Composition) -> Composition:
        """A composition with an engine for each job that SpecK gives one of a pool.

        A job that has an engine of the pool already keeps it; new ones follow in the order of the
        composition.
        """
        asked = {name: pool for name, job in composition.jobs.items() if (pool := self._pool(job))}
        if not asked:
            return composition
        elsewhere, own = self._present(composition)
        jobs = dict(composition.jobs)
        for pool in dict.fromkeys(asked.values()):
            addresses = {each.spe_address for each in pool.engines}
            names = [name for name, each in asked.items() if each is pool]
            retained = {name: own[name] for name in names if name in own and own[name] in addresses}
            jobs |= {name: replace(jobs[name], spe_address=address) for name, address in retained.items()}
            # Those that name an engine of the pool themselves have it before the others choose.
            present = [
                *elsewhere,
                *(job for name, job in jobs.items() if name not in asked or name in retained),
            ]
            new = [jobs[name] for name in names if name not in retained]
            chosen = choose_engines(pool, present, new, self.cores, self.fit)
            jobs |= {name: replace(jobs[name], spe_address=address) for name, address in chosen.items()}
        return replace(composition, jobs=jobs)

    def _pool(self, job: Job) -> Pool | None:
        """The pool of which SpecK chooses an engine for this job."""
        return self.inventory.pool_of(job.spe_address) if "spe_address" in job.placed else None

    def _present(self, composition: Composition) -> tuple[Sequence[Job], dict[str, str]]:
        """The jobs of other compositions, and the engines of this one's by the names of its jobs."""
        others, own = list[Job](), dict[str, str]()
        for snapshot in self.deployments.snapshots():
            running = {job.job_name: job for job, _ in snapshot.deployed()}
            found = {**running, **snapshot.desired}
            if snapshot.head.name == composition.name:
                own |= {name: job.spe_address for name, job in found.items()}
            else:
                others += found.values()
        return others, own
