"""The candidates of jobs that can take them now: whose engine answers, and that their state can come to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Set
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

PATIENCE = 15.0  # s, for the answers of all: the first of an engine that has just started takes seconds

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
    asked = ask(engines, lambda each: engine_of(each).capacity(), PATIENCE, name="portability")
    return {
        engine: f"cannot be reached: {error}"
        for engine, error in asked.failures().items()
        # With any other error it answers; the plan shows if it takes the job.
        if isinstance(error, Unreachable | OutcomeUnknown)
    }


def portable(draft: Draft, snapshot: Snapshot, pool: BinderPool, limit: int) -> Portable:
    """Ask the engines at both ends for each running, movable job; ``limit`` (bytes) as of a move."""
    transfer = StateTransfer(pool, limit, lambda call: None)
    candidates, refused, shared = dict(draft.candidates), list(draft.refused), set[str]()
    running = {job.job_name: (job, handle) for job, handle in snapshot.deployed()}
    for name in draft.sites.keys() & running.keys():
        faults = {
            site: fault
            for site, address in draft.candidates[name].items()
            if site != draft.sites[name] and (fault := _fault(transfer, address, *running[name]))
        }
        candidates[name] = {site: each for site, each in candidates[name].items() if site not in faults}
        refused += [ExcludedSite(name, site, fault) for site, fault in faults.items()]
        if _reads_in_place(transfer, draft.candidates[name].values(), *running[name]):
            shared.add(name)
    return Portable(replace(draft, candidates=candidates, refused=tuple(refused)), frozenset(shared))


def _fault(transfer: StateTransfer, address: str, former: Job, handle: Handle) -> str | None:
    """The reason why a job cannot move to an engine; ``None`` if it can."""
    if address == former.spe_address:
        return None
    try:
        return transfer.fault(replace(former, spe_address=address), handle, former)
    except Unreachable as error:
        return f"its engine cannot be reached: {error}"
    except BinderError as error:
        return str(error)


def _reads_in_place(transfer: StateTransfer, addresses: Collection[str], former: Job, handle: Handle) -> bool:
    forms = (replace(former, spe_address=each) for each in addresses)
    try:
        return all(transfer.shares(form, handle, former) for form in forms)
    except BinderError:
        return False
