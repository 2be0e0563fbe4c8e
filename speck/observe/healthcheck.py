"""Health checks of all engines and brokers of an inventory: reachability, version, limits, clock, problems.

With a pool of its own it also works without a server.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any

from speck.binder import (
    BrokerBinder,
    Capability,
    EngineBinder,
    OwnedSession,
)
from speck.binder.asking import ask
from speck.binder.pool import BinderPool
from speck.core.inventory import Inventory, Site
from speck.core.runtime import Checkup, Complaint
from speck.errors import OutcomeUnknown, SpeckError, Unreachable
from speck.observe.between import Edge, bridge_complaints, packet_complaints
from speck.observe.from_engines import reach_complaints

_log = logging.getLogger(__name__)

MAX_SKEW = 5.0  # s; with more, the times of logs and events are in no useful order
TIMEOUT = 50.0  # s, for all checks; below the read timeout of the command line
_MOST_NAMED = 20  # sessions of another SpecK


@dataclass(frozen=True, slots=True)
class Examined:
    """The health check of one engine or broker; ``role`` is ``engine`` or ``broker``.

    ``site`` is the name of the site, or of a broker that belongs to no site.
    """

    site: str
    role: str
    address: str
    reached: bool
    found: Checkup

    def to_dict(self) -> dict[str, Any]:
        """The check as plain data; ``clock_ahead`` is a range (from, to) in s."""
        found = self.found
        return {
            "site": self.site,
            "role": self.role,
            "address": self.address,
            "reached": self.reached,
            "version": found.version,
            "limits": dict(found.limits),
            "clock_ahead": None if found.clock is None else [round(each, 3) for each in found.clock],
            "wrong": [asdict(each) for each in found.complaints],
        }


@dataclass(frozen=True, slots=True)
class _Target:
    """An engine or broker, and the call that checks it."""

    site: str
    role: str
    address: str
    check: Callable[[], Checkup]


def examine(
    inventory: Inventory, pool: BinderPool, timeout: float = TIMEOUT, edges: Iterable[Edge] = ()
) -> list[Examined]:
    """Check all engines and brokers concurrently; results are by site, brokers without a site last.

    ``edges`` are those of the jobs that run.  Errors of engines and brokers, and checks that take longer than
    ``timeout`` (s), are results.
    """
    return between(_each(inventory, pool, timeout), pool, edges)


def _each(inventory: Inventory, pool: BinderPool, timeout: float) -> list[Examined]:
    targets = [each for site in inventory.places() for each in _targets(site, pool)]
    found = ask(targets, _examined, timeout, name="checkup").answers
    return [found[each] if each in found else _timed_out(each, timeout) for each in targets]


def between(found: Sequence[Examined], pool: BinderPool, edges: Iterable[Edge]) -> list[Examined]:
    """The health checks with the faults that lie between brokers, each at the first entry of a broker."""
    reached = {each.address: each.found for each in found if each.role == "broker" and each.reached}
    limits = {address: packet for address, each in reached.items() if (packet := _packet_bytes(each))}
    complaints: dict[str, list[Complaint]] = defaultdict(list)
    known = [each for each in edges if each.source in reached and each.sink in reached]
    for part in (bridge_complaints(_traced(reached, pool)), packet_complaints(known, limits)):
        for address, each in part.items():
            complaints[address] += each
    return [_with(each, complaints.pop(each.address, ()) if each.role == "broker" else ()) for each in found]


def without_stopped(found: Iterable[Examined], stopped: Set[str]) -> list[Examined]:
    """The health checks without the faults of engines that were ``stopped``, as no job needs them."""
    remark = Complaint("is stopped, as no job needs it", remark=True)
    return [
        replace(each, found=replace(each.found, complaints=(remark,)))
        if each.role == "engine" and not each.reached and each.address in stopped
        else each
        for each in found
    ]


def with_reach(
    found: Sequence[Examined], inventory: Inventory, pool: BinderPool, used: Iterable[tuple[str, str]] = ()
) -> list[Examined]:
    """The health checks with the brokers that jobs do not reach from each engine; takes slots of engines.

    ``used`` are pairs of the engine and a broker of a job that runs.
    """
    places = {
        role: {each.address for each in found if each.role == role and each.reached}
        for role in ("engine", "broker")
    }
    complaints = reach_complaints(inventory, pool, places["engine"], places["broker"], used)
    return [_with(each, complaints.pop(each.address, ()) if each.role == "engine" else ()) for each in found]


def _with(examined: Examined, complaints: Iterable[Complaint]) -> Examined:
    found = examined.found
    return replace(examined, found=replace(found, complaints=(*found.complaints, *complaints)))


def _traced(addresses: Iterable[str], pool: BinderPool) -> dict[str, BrokerBinder]:
    brokers = {address: pool.broker(address) for address in addresses}
    return {address: each for address, each in brokers.items() if Capability.TRACING in each.capabilities}


def _packet_bytes(checkup: Checkup) -> int | None:
    found = checkup.limits.get("packet_bytes")
    return found if isinstance(found, int) else None


def _targets(site: Site, pool: BinderPool) -> Iterator[_Target]:
    for engine in site.engines:
        check = partial(_check_engine, pool, engine.spe_address)
        yield _Target(site.name, "engine", engine.spe_address, check)
    broker = site.broker_address
    yield _Target(site.name, "broker", broker, lambda: broker_checkup(pool.broker(broker)))


def _check_engine(pool: BinderPool, address: str) -> Checkup:
    return engine_checkup(pool.engine_for(address))


def _timed_out(target: _Target, timeout: float) -> Examined:
    error = OutcomeUnknown(f"{target.address} did not answer in {timeout:g} s", address=target.address)
    return _unreached(target, error)


def _unreached(target: _Target, error: SpeckError) -> Examined:
    found = Checkup(complaints=(failure(error, target.role),))
    return Examined(target.site, target.role, target.address, False, found)


def _examined(target: _Target) -> Examined:
    try:
        found = target.check()
    except SpeckError as error:
        return _unreached(target, error)
    except Exception as error:  # a defect of one binder must not hide the state of all others
        _log.exception("the health check of %s failed", target.address)
        return _unreached(target, SpeckError(f"internal error: {error!r}"))
    skew = clock_complaint(found.clock)
    if skew is not None:
        found = replace(found, complaints=(*found.complaints, skew))
    return Examined(target.site, target.role, target.address, True, found)


def engine_checkup(engine: EngineBinder) -> Checkup:
    """The checkup of an engine, with its capacity among its limits."""
    capacity = {name: value for name, value in asdict(engine.capacity()).items() if value is not None}
    checkup = engine.checkup()
    return replace(checkup, limits={**capacity, **checkup.limits})


def broker_checkup(broker: BrokerBinder) -> Checkup:
    """The checkup of a broker, with the settings that lose messages among its complaints."""
    broker.check()
    checkup = broker.checkup()
    lossy = tuple(Complaint(each) for each in broker.warnings())
    foreign = tuple(foreign_complaints(broker.foreign_sessions()))
    return replace(checkup, complaints=(*checkup.complaints, *lossy, *foreign))


def foreign_complaints(sessions: Iterable[OwnedSession]) -> Iterator[Complaint]:
    """A remark for each other SpecK that has sessions at a broker."""
    by_owner = groupby(sorted(sessions, key=lambda each: each.owner), key=lambda each: each.owner)
    for owner, found in by_owner:
        names = sorted(f"{each.session} ({', '.join(each.topics)})" for each in found)
        more = f"; and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
        yield Complaint(
            f"{len(names)} session{'s' * (len(names) > 1)} of another SpecK, with store {owner}: "
            f"{'; '.join(names[:_MOST_NAMED])}{more}",
            "nothing if that SpecK is in use; if its store is permanently lost, delete them "
            "(docs/mqtt.md, Owners)",
            remark=True,
        )


def clock_complaint(clock: tuple[float, float] | None) -> Complaint | None:
    """The complaint about a clock that is ahead by this range (from, to; s); ``None`` if there is none.

    A clock is reported only if the whole range is off by more than :data:`MAX_SKEW`.
    """
    if clock is None or (clock[0] <= MAX_SKEW and clock[1] >= -MAX_SKEW):
        return None
    ahead, behind = clock[0] > MAX_SKEW, -clock[1]
    by = f"{clock[0]:.0f} s ahead of" if ahead else f"{behind:.0f} s behind"
    return Complaint(
        f"its clock is at least {by} this machine's",
        "synchronize both clocks by NTP (check with timedatectl)",
    )


_REMEDIES: Mapping[str, str] = {
    "engine": "start it, open its port to this machine, or correct spe_address in the inventory",
    "broker": "start it, open its port to this machine, or correct broker_address in the inventory",
}


def failure(error: SpeckError, role: str) -> Complaint:
    """The complaint about an engine or a broker that could not be checked."""
    if isinstance(error, Unreachable):
        return Complaint(str(error), _REMEDIES[role])
    if isinstance(error, OutcomeUnknown):
        return Complaint(str(error), "check its log; another program may be listening at this address")
    return Complaint(str(error))
