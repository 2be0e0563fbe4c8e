"""Upgrades of agents in waves: each site's agent replaces itself, and its jobs run on.

Nothing of an upgrade is stored but its events: an agent that was upgraded stays so, and a further request
leaves it out.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import speck
from speck.apply.operations import Operations
from speck.apply.settling import Settling
from speck.binder.asking import ask
from speck.binder.pool import BinderPool
from speck.coordinator.agents.presence import Agents, Connections
from speck.coordinator.agents.rollout import Arrival, RollOut, RollOutState, SiteState, arrival, grown
from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.core.lifecycle import AUTOMATIC, EventKind
from speck.core.runtime import JobState
from speck.core.suggestions import similar_names
from speck.core.waves import site_waves
from speck.errors import (
    BinderError,
    Busy,
    Fault,
    InvalidInput,
    NotFound,
    OutcomeUnknown,
    ShuttingDown,
    SpeckError,
    StoreError,
)
from speck.link.upgrade import LONGEST, upgradability, upgrade
from speck.observe.losses import LossKind, LossRecorder
from speck.store import Event
from speck.store.deployments import Deployments, by_engine

_ASKING = 10.0  # s, for an agent to say whether it can be upgraded
_RETURNING = 120.0  # s, for an agent that has installed the version to be connected again
_IDLE = 300.0  # s, for changes of jobs at a wave's sites to end
LOOK = 1.0  # s between two polls

_log = logging.getLogger(__name__)


@dataclass
class Upgrades:
    """One upgrade at a time.  Safe to use from several threads."""

    agents: Agents
    inventory: Inventory
    deployments: Deployments
    operations: Operations
    pool: BinderPool
    losses: LossRecorder
    version: str = speck.__version__
    _last: RollOut | None = field(default=None, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)
    _stop: threading.Event = field(default_factory=threading.Event, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    # --- requests of users

    def plan(self, sites: Sequence[str], waves: Sequence[str], settle: float) -> RollOut:
        """The upgrade of the agents of these sites, or of all that are connected, to the server's version.

        Raises :class:`~speck.errors.InvalidInput` with all agents that cannot be upgraded,
        :class:`~speck.errors.NotFound`, and :class:`~speck.errors.Conflict`.
        """
        known = {name: found["version"] for name, found in self.agents.all()}
        for name in sites:
            if name not in self.inventory.sites:
                raise NotFound(f"there is no site {name!r}{similar_names(name, self.inventory.sites)}")
        connections = self.agents.require_connections()
        chosen = dict.fromkeys(sites or sorted(known))
        away = [each for each in chosen if each in known and connections.presence(each) is None]
        present = [each for each in chosen if each in known and each not in away]
        current = [each for each in present if known[each] == self.version]
        changed = [each for each in present if each not in current]
        faults = {each: "it has no agent (leave it out)" for each in chosen if each not in known}
        if sites:
            faults |= dict.fromkeys(away, "its agent is away (leave it out, or connect it first)")
        faults |= self._faults(connections, changed)
        if faults:
            raise InvalidInput(
                [Fault(f"site {site!r}: {text}") for site, text in sorted(faults.items())], "sites"
            )
        groups = site_waves(waves, changed, self.inventory.sites)
        return RollOut.of(self.version, groups, known, settle, current, away)

    def begin(self, planned: RollOut, author: str = "") -> RollOut:
        """Carry out a planned upgrade in a thread of its own.

        Raises :class:`~speck.errors.Busy` while another one, or a user's change of jobs at its sites, is at
        work.
        """
        with self._lock:
            if self._stop.is_set():
                raise ShuttingDown("the server is shutting down (retry after it has restarted)")
            if self._last is not None and self._last.state is RollOutState.RUNNING:
                at = f"wave {self._last.wave} of {len(self._last.waves)}"
                raise Busy(f"an upgrade of agents is in progress ({at}; retry when it has finished)")
            if busy := self._busy(planned.sites, by_users=True):
                raise Busy(f"{busy} (retry when it has finished)")
            planned.begin(author, self._now())
            names = ", ".join(planned.sites) or "none"
            text = (
                f"upgrade of agents to version {planned.version}, waves: {len(planned.waves)}, sites: {names}"
            )
            self._write(EventKind.UPGRADING, text, author)
            self._last = planned
            thread = threading.Thread(target=self._run, args=(planned,), name="upgrade", daemon=True)
            try:
                thread.start()
            except RuntimeError as problem:  # the system has no thread for it: nothing else would end it
                self._end(planned, f"wave 1 of {len(planned.waves)}: it did not begin: {problem}")
            else:
                self._thread = thread
        return planned

    def last(self) -> RollOut:
        """The upgrade in progress, or the most recent one since the server started.

        Raises :class:`~speck.errors.NotFound` without one.
        """
        if self._last is None:
            raise NotFound("no agents were upgraded since the server's start (speck events has earlier ones)")
        return self._last

    def close(self) -> None:
        """Start no further wave.  Agents that are installing a version finish."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(2 * LOOK)

    def _faults(self, connections: Connections, sites: Iterable[str]) -> dict[str, str]:
        """The reasons why agents cannot be upgraded, by site."""
        asked = ask(sites, lambda site: upgradability(connections, site, _ASKING), _ASKING, name="upgradable")
        found = {site: each.fault for site, each in asked.answers.items() if each.fault}
        busy = {
            site: f"it is being upgraded to {each.target}"
            for site, each in asked.answers.items()
            if each.target
        }
        return found | busy | {site: str(error) for site, error in asked.failures().items()}

    # --- carrying out

    def _run(self, rollout: RollOut) -> None:
        error = ""
        try:
            for number, sites in enumerate(rollout.waves, 1):
                self._wave(rollout, number, sites)
        except SpeckError as problem:
            error = f"wave {rollout.wave} of {len(rollout.waves)}: {problem}"
        except Exception as problem:
            _log.exception("the upgrade of agents")
            error = f"internal error: {problem!r}"
        self._end(rollout, error)

    def _end(self, rollout: RollOut, error: str) -> None:
        """End an upgrade; ``error`` has the wave in which it stopped, and the reason."""
        try:
            if error:  # before the end, so that whoever sees that finds the event
                left = ", ".join(rollout.untouched())
                rest = f"; not touched: {left}" if left else ""
                self._report(EventKind.NOT_UPGRADED, f"the upgrade of agents stopped in {error}{rest}")
        finally:
            rollout.end(self._now(), error)

    def _wave(self, rollout: RollOut, number: int, sites: Sequence[str]) -> None:
        """Upgrade the agents of a wave, and wait until it has settled.

        Raises :class:`~speck.errors.SpeckError` with the reason why the next one must not begin.
        """
        rollout.note_wave(number)
        self._await_idle(rollout, number, sites)
        jobs = self._running(sites)
        before = self._lost(jobs)
        asked = ask(
            sites,
            partial(self._replace, rollout),
            LONGEST + 2 * _RETURNING,
            at_once=len(sites),
            name="upgrade",
        )
        for site, error in asked.failures().items():
            self._report(EventKind.NOT_UPGRADED, f"site {site!r}: its agent was not upgraded: {error}")
            rollout.note(site, SiteState.FAILED, str(error))
        if failures := asked.failures():
            site, error = min(failures.items())
            more = f" (and {len(failures) - 1} more)" if len(failures) > 1 else ""
            raise BinderError(f"site {site!r}: {error}{more}")
        self._settle(rollout, number, sites, jobs)
        if loss := grown(before, self._lost(jobs)):
            raise BinderError(f"{loss} (see speck events --job NAME)")

    def _settle(self, rollout: RollOut, number: int, sites: Iterable[str], jobs: Mapping[str, Job]) -> None:
        """Wait until jobs have been running for a while, and see whether the agents are connected still.

        Raises :class:`~speck.errors.SpeckError` with the reason why the wave does not settle.
        """
        report = partial(rollout.note_wave, number)
        if jobs:
            store = self.deployments.store
            settling = Settling(store, self.pool, sleep=self._pause, report=report)
            settling.settle(jobs.values(), rollout.settle)
        else:
            report(f"its agents must have been connected for {rollout.settle:g} s")
            self._pause(rollout.settle)
        connections = self.agents.require_connections()
        for site in sites:
            present = connections.presence(site)
            if present is None or present.hello.version != rollout.version:
                now = "away" if present is None else f"back in version {present.hello.version}"
                raise BinderError(f"site {site!r}: its agent was upgraded, and is {now}")

    def _replace(self, rollout: RollOut, site: str) -> None:
        """Have one agent replaced; returns when it is connected in the new version.

        Raises :class:`~speck.errors.SpeckError` with the reason why it is not.
        """
        connections = self.agents.require_connections()
        first, version = connections.presence(site), rollout.version
        rollout.note(site, SiteState.UPGRADING)
        answered = True
        try:
            upgrade(connections, site, version)
        except OutcomeUnknown:  # the uplink broke, the program restarts the agent itself, or it was killed
            answered = False
        until = time.monotonic() + (_RETURNING if answered else LONGEST)
        while (now := time.monotonic()) < until:
            present = connections.presence(site)
            connected = None if present is None else present.hello.version
            found = arrival(connected, version, reconnected=present is not first, answered=answered)
            if found is Arrival.UNCLEAR:
                found = self._asked_again(connections, site)
            if found is Arrival.ARRIVED:
                old = rollout.sites[site].version
                self._report(
                    EventKind.UPGRADED, f"site {site!r}: its agent was upgraded from {old} to {version}"
                )
                rollout.note(site, SiteState.UPGRADED)
                return
            if found is Arrival.RETURNED:
                raise BinderError(f"its agent came back in version {connected} (see its log at the site)")
            self._pause(min(LOOK, until - now))
        raise BinderError(f"its agent has not come back in version {version} (see its log at the site)")

    @staticmethod
    def _asked_again(connections: Connections, site: str) -> Arrival:
        """The agent's own report, after its connection broke before it had answered.

        Raises :class:`~speck.errors.BinderError` for an upgrade that has failed.
        """
        try:
            found = upgradability(connections, site, _ASKING)
        except BinderError:  # it is away again
            return Arrival.AWAITED
        if found.failure:
            raise BinderError(found.failure)
        return Arrival.AWAITED if found.target else Arrival.RETURNED

    def _await_idle(self, rollout: RollOut, number: int, sites: Collection[str]) -> None:
        """Wait for the changes of jobs at some sites to end.  Raises :class:`~speck.errors.Busy`."""
        until = time.monotonic() + _IDLE
        while busy := self._busy(sites):
            if time.monotonic() >= until:
                raise Busy(busy)
            rollout.note_wave(number, busy)
            self._pause(LOOK)
        rollout.note_wave(number)

    def _busy(self, sites: Collection[str], *, by_users: bool = False) -> str:
        """The first operation (of users) on a composition that uses these sites, or an empty text."""
        addresses = {address for site in sites for address in self.inventory.addresses_at(site)}
        running = {each.composition: each for each in self.operations.running()}
        for snapshot in self.deployments.snapshots():
            operation = running.get(snapshot.head.name)
            if operation is None or (by_users and operation.kind in AUTOMATIC):
                continue
            desired = {job.spe_address for job in snapshot.desired.values()}
            if addresses & (desired | snapshot.addresses()):
                name = f"composition {snapshot.head.name!r}"
                return f"{name}: operation {operation.id} ({operation.kind}) is in progress"
        return ""

    def _running(self, sites: Collection[str]) -> Mapping[str, Job]:
        """The jobs that run at the engines of some sites now, by name."""
        known = self.inventory.sites  # without those that were removed since
        engines = {each.spe_address for site in sites if site in known for each in known[site].engines}
        deployed = by_engine(each for found in self.deployments.snapshots() for each in found.deployed())
        at = {key: each for key, each in deployed.items() if key[1] in engines}
        asked = ask(
            at,
            lambda key: self.pool.engine(at[key][0][0]).statuses([handle for _, handle in at[key]]),
            name="upgrade",
        )
        return {
            job.job_name: job
            for key, found in asked.answers.items()
            for job, handle in at[key]
            if found[handle.engine_id].state is JobState.RUNNING
        }

    def _lost(self, jobs: Collection[str]) -> Mapping[tuple[str, str], int]:
        """The messages that jobs have lost, or may have, by job and reason."""
        grave = (LossKind.LOST, LossKind.SUSPECT)
        return {
            (each.job, each.reason.name): each.total
            for each in self.losses.counts()
            if each.job in jobs and each.reason.kind in grave
        }

    def _pause(self, seconds: float) -> None:
        """Wait.  Raises :class:`~speck.errors.ShuttingDown` when the server ends."""
        if self._stop.wait(seconds):
            raise ShuttingDown("the server is shutting down (repeat the upgrade after it has restarted)")

    # --- events

    def _report(self, kind: EventKind, text: str) -> None:
        """Write the event of an outcome, which a full disk does not change."""
        try:
            self._write(kind, text)
        except StoreError as error:
            _log.error("%s (not stored: %s)", text, error)

    def _write(self, kind: EventKind, text: str, author: str = "") -> None:
        event = Event(self._now(), kind, text, author=author, automatic=not author)
        self.deployments.store.add_events([event])

    def _now(self) -> float:
        """Unix time, s."""
        return self.agents.enrolment.clock()
