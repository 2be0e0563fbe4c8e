"""The candidates of running jobs whose state can come along, and those that are refused since it cannot."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from speck.apply.state_transfer import StateTransfer
from speck.binder.pool import BinderPool
from speck.core.draft import Draft, Refusal
from speck.core.job import Job
from speck.core.runtime import Handle
from speck.errors import BinderError, Unreachable
from speck.store.deployments import Snapshot


@dataclass(frozen=True)
class Portable:
    """A draft without the candidates that a job's state cannot reach.

    ``shared`` are the names of jobs whose state all of their candidates can read where it is.
    """

    draft: Draft
    shared: frozenset[str]


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
        refused += [Refusal(name, site, fault) for site, fault in faults.items()]
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
