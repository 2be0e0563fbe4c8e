"""Tries to reach brokers from engines, as jobs do, on request: each takes a slot of an engine for a moment.

The coordinator's own way to a broker says nothing of a job's, which may have another address, another network
and other authorities.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable

from speck.binder.asking import ask
from speck.binder.pool import BinderPool
from speck.core.inventory import Inventory
from speck.core.runtime import Complaint
from speck.errors import NoCapacity, SpeckError, one_line

_log = logging.getLogger(__name__)

# s, for all engines, and for the last trial; with the checks before, below the read timeout of the client
PATIENCE, LAST_TRIAL = 25.0, 10.0
CHECKS = 20.0  # s, for the checks before


class _Untested(SpeckError):
    """A trial that says nothing of the way to the broker."""


def reach_complaints(
    inventory: Inventory,
    pool: BinderPool,
    engines: Collection[str],
    brokers: Collection[str],
    used: Iterable[tuple[str, str]] = (),
    patience: float = PATIENCE,
) -> dict[str, list[Complaint]]:
    """The complaints about the ways from these engines to these brokers, by the address of the engine.

    A fault for the broker of an engine's own site and those that its jobs use (``used``: pairs of engine and
    broker); a remark for others.
    """
    needed = {(each.spe_address, site.broker_address) for site in inventory.places() for each in site.engines}
    needed |= set(used)
    deadline = time.monotonic() + patience
    found: dict[str, list[Complaint]] = {address: [] for address in engines}

    def try_all(engine: str) -> None:
        # Those that jobs need come first, should the time not suffice.
        for broker in sorted(brokers, key=lambda each: (engine, each) not in needed):
            if time.monotonic() > deadline:
                found[engine].append(_untried(broker, patience))
            elif (reason := _reason(pool, engine, broker)) is not None:
                is_needed = (engine, broker) in needed
                found[engine].append(_complaint(inventory, broker, reason, is_needed=is_needed))

    ask(found, try_all, patience + LAST_TRIAL, name="reach")
    return {engine: list(complaints) for engine, complaints in found.items() if complaints}


def _reason(pool: BinderPool, address: str, broker: str) -> SpeckError | None:
    """The reason why the engine does not reach the broker; ``None`` if it does, or cannot tell."""
    try:
        engine = pool.engine_for(address)
        engine.reach(broker)
    except SpeckError as error:
        return error
    except Exception as error:  # a defect of one binder must not hide the ways from all others
        _log.exception("the trial of %s from %s failed", broker, address)
        return _Untested(f"internal error: {error!r}")
    return None


def _complaint(inventory: Inventory, broker: str, reason: SpeckError, *, is_needed: bool) -> Complaint:
    if isinstance(reason, NoCapacity | _Untested):
        return Complaint(f"the path from its jobs to broker {broker} was not tested: {reason}", remark=True)
    of_jobs = inventory.job_broker_address(broker)
    by = "" if of_jobs == broker else f" (for jobs: {of_jobs})"
    return Complaint(
        f"its jobs do not reach broker {broker}{by}: {one_line(reason)}",
        "let the engine reach the broker, or set job_broker_address of the broker in the inventory to the "
        "address by which it does",
        remark=not is_needed,
    )


def _untried(broker: str, patience: float) -> Complaint:
    message = f"the path from its jobs to broker {broker} could not be tested within {patience:g} s"
    return Complaint(message, remark=True)
