"""The candidates of jobs that can take them now: whose engine answers, and that their state can come to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Set
from dataclasses import dataclass, replace
from typing import TypeVar

from speck.apply.state_transfer import StateTransfer
from speck.binder import EngineBinder
from speck.binder.asking import ask
from speck.binder.pool import BinderPool
from speck.coordinator.placing.pools import EnginePools
from speck.core.draft import Draft, ExcludedSite
from speck.core.job import Job
from speck.core.runtime import Handle
from speck.errors import BinderError, OutcomeUnknown, Unreachable
from speck.store.deployments import Snapshot

_Engine = TypeVar("_Engine", bound=Hashable)


@dataclass(frozen=True)
class Portable:
    """A draft without the candidates that a job's state cannot reach.

    ``shared`` are the names of jobs whose state all of their candidates can read where it is.
    """

    draft: Draft
    shared: frozenset[str]


def reachable(draft: Draft, pool: BinderPool, pools: EnginePools) -> Draft:
    """A draft without the candidates whose engine does not answer, but for the present place of a job.

    For an engine of a pool another one stands that answers, or else one that is started for the job.  A job
    none of whose candidates answers keeps them all: it waits for the one that is chosen.
    """
    asked = {
        name: {
            site: pools.members(address) for site, address in found.items() if site != draft.sites.get(name)
        }
        for name, found in draft.candidates.items()
        if draft.jobs[name].movable
    }
    engines = {
        (draft.jobs[name].engine, address)
        for name, sites in asked.items()
        for addresses in sites.values()
        for address in addresses
    }
    faults = _silent(sorted(engines), lambda each: pool.engine_at(*each))
    startable = pools.startable() if faults else frozenset()
    candidates, refused = dict(draft.candidates), list(draft.refused)
    for name, sites in asked.items():
        kind, able, silent = draft.jobs[name].engine, dict(draft.candidates[name]), dict[str, str]()
        for site, addresses in sites.items():
            answering = [each for each in addresses if (kind, each) not in faults]
            if usable := answering or [each for each in addresses if each in startable]:
                able[site] = usable[0]
            else:
                silent[site] = faults[kind, addresses[0]]
        if len(silent) < len(able):
            candidates[name] = {site: each for site, each in able.items() if site not in silent}
            refused += [ExcludedSite(name, site, fault) for site, fault in silent.items()]
    return replace(draft, candidates=candidates, refused=tuple(refused))


def silent_engines(pool: BinderPool, addresses: Collection[str]) -> Set[str]:
    """The engines, of those at these addresses, that cannot take a job now."""
    return _silent(addresses, pool.engine_for).keys()


def _silent(engines: Collection[_Engine], engine_of: Callable[[_Engine], EngineBinder]) -> dict[_Engine, str]:
    """The reasons why engines cannot take a job now; one that answers is left out."""
    asked = ask(engines, lambda each: engine_of(each).capacity(), name="portability")
    return {
        engine: f"cannot be reached: {error}"
        for engine, error in asked.failures().items()
        # With any other error it answers; the plan shows if it takes the job.
        if isinstance(error, Unreachable | OutcomeUnknown)
    }


def portable(
    draft: Draft,
    snapshot: Snapshot,
    pool: BinderPool,
    limit: int,
    names: Collection[str],
    left_behind: Collection[str] = (),
) -> Portable:
    """Ask the engines at both ends for each of these jobs that runs; ``limit`` (bytes) as of a move.

    A job that may not stay where it is moves in any case: where its engines cannot be asked, or it is at an
    address of ``left_behind``, whose state is given up, all of its candidates remain.
    """
    transfer = StateTransfer(pool, limit, lambda call: None)
    candidates, refused, shared = dict(draft.candidates), list(draft.refused), set[str]()
    running = {job.job_name: (job, handle) for job, handle in snapshot.deployed()}
    for name in names:
        if name not in running:
            continue
        former, handle = running[name]
        stays, job = name in draft.sites, draft.jobs[name]
        if not stays and (former.spe_address in left_behind or former.engine != job.engine):
            continue
        others = {site: each for site, each in candidates[name].items() if site != draft.sites.get(name)}
        form = replace(former, upgrade=job.upgrade)
        moving = _RunningJob(transfer, form, former, handle, stays)
        faults = moving.faults(others)
        candidates[name] = {site: each for site, each in candidates[name].items() if site not in faults}
        refused += [ExcludedSite(name, site, fault) for site, fault in faults.items()]
        left = candidates[name].values()
        if not stays and faults and all(each == former.spe_address for each in left):
            candidates[name] = {}  # the place that it leaves, because of others, is none that it can go to
        if moving.is_read_in_place(draft.candidates[name].values()):
            shared.add(name)
    return Portable(replace(draft, candidates=candidates, refused=tuple(refused)), frozenset(shared))


@dataclass(frozen=True)
class _RunningJob:
    """A job that runs in its ``former`` form and would move in another one; ``stays``: it may also stay."""

    transfer: StateTransfer
    form: Job
    former: Job
    handle: Handle
    stays: bool

    def faults(self, sites: Mapping[str, str]) -> dict[str, str]:
        """The reasons why it cannot move to the engines of sites, by site.

        The sites that cannot be asked are among them if the job may stay.
        """
        found = dict[str, str]()
        for site, address in sites.items():
            if address == self.former.spe_address:
                continue
            try:
                moved = replace(self.form, spe_address=address)
                fault = self.transfer.fault(moved, self.handle, self.former)
            except (Unreachable, OutcomeUnknown) as error:
                # Most likely it is its own engine, for which each of the others would wait as long.
                if not self.stays:
                    return found
                fault = f"its engine cannot be reached: {error}"
            except BinderError as error:
                fault = str(error)
            if fault is not None:
                found[site] = fault
        return found

    def is_read_in_place(self, addresses: Collection[str]) -> bool:
        """True if the engines at all of these addresses read its state where it is."""
        forms = (replace(self.former, spe_address=each) for each in addresses)
        try:
            return all(self.transfer.shares(form, self.handle, self.former) for form in forms)
        except BinderError:
            return False
