"""Probes of links and sites: short programs at engines, run on request alone, one at a time.

A probe takes a slot of an engine, and that of a link sends up to 4 MiB.  A link is probed at most once an
hour, and not while jobs use more than half of its bandwidth.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from enum import StrEnum
from math import sqrt
from typing import TypeVar

from speck.binder import Capability, EngineBinder
from speck.binder.pool import BinderPool
from speck.core.inventory import Inventory, Site
from speck.core.profile import CoreProbe
from speck.errors import BinderError, Conflict, NoCapacity, SpeckError, one_line
from speck.loop import Loop
from speck.observe.links import ACTIVE, SitePair
from speck.observe.measures import Measures
from speck.placement.profile import Known, LinkProfile, SiteProfile, Value
from speck.store.profiles import MeasuredLink

_log = logging.getLogger(__name__)

_Found = TypeVar("_Found")

BUSY = 0.5  # share of a link's bandwidth, above which it is not probed
# Readings/s of the reference core: that of the machine on which benchmarks/README.md and the assumed costs
# were measured (three probes each).
REFERENCE = CoreProbe(stateless=2.6e6, keyed=2.4e6)
_BOUNDS = (0.01, 100.0)  # of a speed
_CLOSING = 5.0  # s, for which the end waits for a probe


class ProbeState(StrEnum):
    """The progress of a probe."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    REFUSED = "refused"  # not run; the message has the reason
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Probe:
    """One probe: of the link from ``site`` to ``target``, or of the site itself (``target`` is empty)."""

    site: str
    target: str = ""
    state: ProbeState = ProbeState.WAITING
    message: str = ""


class _Refusal(SpeckError):
    """A probe that is not run."""


@dataclass
class Prober:
    """Runs probes in a thread of its own.  Safe to use from several threads; ``clock`` gives Unix time, s."""

    measures: Measures
    pool: BinderPool
    inventory: Inventory
    clock: Callable[[], float]
    _probes: list[Probe] = field(default_factory=list, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _changed: threading.Condition = field(init=False)
    loop: Loop = field(init=False)

    def __post_init__(self) -> None:
        self._changed = threading.Condition(self._lock)
        self.loop = Loop("prober", "a probe", self._probe_next)

    def probes(self) -> list[Probe]:
        """The probes of the last request, in their order."""
        with self._lock:
            return list(self._probes)

    def begin(self, links: Iterable[SitePair], sites: Iterable[str]) -> None:
        """Begin to probe these links and sites, instead of those of the last request.

        Raises :class:`~speck.errors.Conflict` while probes run.
        """
        probes = [*(Probe(*link) for link in links), *(Probe(name) for name in sites)]
        if probes:
            self.loop.start()  # first: where no thread can be started, no probe waits for it
        with self._lock:
            if not self._has_ended():
                raise Conflict("probes are already running (wait until they have finished: GET /profile)")
            self._probes = probes
        if probes:
            self.loop.wake()

    def _has_ended(self) -> bool:
        return not any(each.state in (ProbeState.WAITING, ProbeState.RUNNING) for each in self._probes)

    def await_end(self, seconds: float) -> bool:
        """Wait until all probes have ended; false if that takes longer."""
        with self._changed:
            return self._changed.wait_for(self._has_ended, seconds)

    def close(self) -> None:
        """Begin no further probe; the current one may continue at its engine until it ends."""
        self.loop.close(_CLOSING)

    def _probe_next(self) -> float:
        """Run the first probe that waits; returns the time until the next one, s."""
        waiting = (item for item in enumerate(self.probes()) if item[1].state is ProbeState.WAITING)
        number, probe = next(waiting, (-1, None))
        if probe is None:
            return math.inf
        self._note(number, replace(probe, state=ProbeState.RUNNING))
        self._note(number, self._ended(probe))
        return 0.0

    def _note(self, number: int, probe: Probe) -> None:
        with self._changed:
            self._probes[number] = probe
            self._changed.notify_all()

    def _ended(self, probe: Probe) -> Probe:
        try:
            message = self._link(probe) if probe.target else self._site(probe)
            return replace(probe, state=ProbeState.DONE, message=message)
        except (_Refusal, NoCapacity) as error:
            return replace(probe, state=ProbeState.REFUSED, message=one_line(error))
        except SpeckError as error:
            return replace(probe, state=ProbeState.FAILED, message=one_line(error))
        except Exception as error:
            _log.exception("the probe of %s failed", probe)
            return replace(probe, state=ProbeState.FAILED, message=f"internal error: {error!r}")

    # --- links

    def _link(self, probe: Probe) -> str:
        link, site = (probe.site, probe.target), self._named(probe.site)
        broker = self.inventory.broker_named(probe.target)
        known = self.measures.links().get(link)
        if broker is None or known is None:
            raise _Refusal(f"{probe.target!r} is no longer in the inventory")
        self._refuse_link(known, self.measures.measured_link(link))
        found = self._first(site, lambda engine: engine.probe_link(broker.broker_address))
        if not (0 <= found.rtt < math.inf and 0 < found.bandwidth < math.inf):  # false for NaN
            raise BinderError(
                f"the measured link, {found.rtt:g} s and {found.bandwidth:g} bytes/s, is implausible "
                "(expected finite numbers)"
            )
        now = self.clock()
        active = LinkProfile(
            source=probe.site,
            target=probe.target,
            round_trip=Value(found.rtt, Known.MEASURED, now, 1),
            bandwidth=Value(found.bandwidth, Known.MEASURED, now, 1),
        )
        self.measures.put_active(link, active)
        return f"{found.rtt * 1000:.3g} ms, {found.bandwidth * 8 / 1e6:.3g} Mbit/s"

    def _refuse_link(self, known: LinkProfile, stored: MeasuredLink) -> None:
        active = stored.active.round_trip if stored.active is not None else None
        age = math.inf if active is None else self.clock() - active.until
        if 0 <= age < ACTIVE:  # of one in the future nothing is known: the clock was set back since
            minutes = age / 60
            raise _Refusal(f"it was probed {minutes:.0f} min ago (once an hour is enough)")
        if known.load is not None and known.bandwidth is not None:
            share = known.load.value / known.bandwidth.value
            if share > BUSY and not known.at_least:
                raise _Refusal(f"jobs use {share:.2f} of it (a probe would disturb them above {BUSY:g})")

    # --- sites

    def _site(self, probe: Probe) -> str:
        found = self._first(self._named(probe.site), lambda engine: engine.probe_core())
        # The geometric mean: the ratio of two sites is the same, whichever is the reference.
        speed = sqrt(found.stateless / REFERENCE.stateless * found.keyed / REFERENCE.keyed)
        if not _BOUNDS[0] <= speed <= _BOUNDS[1]:
            raise BinderError(
                f"the measured speed of a core, {speed:.3g}, is implausible (expected 0.01 to 100)"
            )
        measured = Value(speed, Known.MEASURED, self.clock(), 1)
        self.measures.put_site(SiteProfile(name=probe.site, speed=measured))
        return f"speed {speed:.2f}"

    def _named(self, site: str) -> Site:
        """A site, which may have been removed since its probe was asked for."""
        if (found := self.inventory.sites.get(site)) is None:
            raise _Refusal(f"site {site!r} is no longer in the inventory")
        return found

    def _first(self, site: Site, ask: Callable[[EngineBinder], _Found]) -> _Found:
        """The answer of the first engine of a site that can run a probe."""
        refusals: list[str] = []
        for address, engine in self._engines(site):
            if Capability.PROBES not in engine.capabilities:
                refusals.append(f"the engine at {address} has no probe")
                continue
            try:
                return ask(engine)
            except NoCapacity as error:
                refusals.append(one_line(error))
        raise _Refusal("; ".join(refusals))

    def _engines(self, site: Site) -> Iterator[tuple[str, EngineBinder]]:
        for each in site.engines:
            yield each.spe_address, self.pool.engine_for(each.spe_address)
