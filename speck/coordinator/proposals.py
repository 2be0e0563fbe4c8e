"""Proposed placements: kept in memory for a while, and carried out as ordinary applies when accepted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from speck.apply.operation import Operation
from speck.coordinator.coordinator import Coordinator
from speck.coordinator.placing.figures import proposal_data
from speck.coordinator.placing.placer import PlacementRequest, PlacementResult, Placer
from speck.core.clocks import Clock, steady_beside
from speck.core.job import Composition
from speck.core.plan import Plan
from speck.errors import Conflict, Expired, NotFound, StaleRevision
from speck.placement.graph import Model
from speck.placement.problem import Load, Problem
from speck.store.deployments import nearest

CAPACITY = 100
LIFETIME = 15 * 60.0  # s
# An input that differs by more than this share makes a proposal stale.
TOLERANCE = 0.2
# Differences below these are noise: of a rate (messages/s), of a share of a site's cores, of a latency (s).
LEAST_RATE, LEAST_SHARE, LEAST_LATENCY = 1.0, 0.05, 5e-3
_ID_LENGTH = 8


@dataclass
class Proposal:
    """A proposed placement with its plan; ``operation`` is the id of the one that accepted it.

    ``created`` and ``until`` are Unix time, s.
    """

    id: str
    placed: PlacementResult
    plan: Plan
    created: float
    until: float
    expires: float  # of the steady clock
    warnings: tuple[dict[str, Any], ...] = ()
    operation: str | None = None


@dataclass
class Proposals:
    """Proposes and accepts.  ``mint`` makes ids, ``clock`` gives Unix time, s.  Safe for several threads."""

    coordinator: Coordinator
    placer: Placer
    mint: Callable[[], str]
    clock: Callable[[], float]
    steady: Clock = field(init=False)
    _proposals: dict[str, Proposal] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        self.steady = steady_beside(self.clock)

    def propose(
        self,
        composition: Composition,
        wishes: PlacementRequest,
        warnings: Iterable[dict[str, Any]] = (),
    ) -> dict[str, Any]:
        """Place a composition anew, and keep the result.  Nothing is changed.

        Raises as :meth:`~speck.coordinator.placing.placer.Placer.place` and as
        :meth:`~speck.coordinator.Coordinator.plan`.
        """
        placed = self.placer.place(composition, wishes)
        plan = self.coordinator.plan(placed.composition, placed.base_revision)
        now = self.clock()
        expires = self.steady() + LIFETIME
        identifier = self.mint()[:_ID_LENGTH]
        proposal = Proposal(identifier, placed, plan, now, now + LIFETIME, expires, tuple(warnings))
        with self._lock:
            self._proposals[proposal.id] = proposal
            while len(self._proposals) > CAPACITY:
                del self._proposals[next(iter(self._proposals))]
        return self._data(proposal)

    def advise(self, name: str, wishes: PlacementRequest) -> dict[str, Any]:
        """Place what runs of a composition anew.  Raises :class:`~speck.errors.NotFound` besides."""
        return self.propose(self.running(name), wishes)

    def running(self, name: str) -> Composition:
        """The last revision of a composition.  Raises :class:`~speck.errors.NotFound`."""
        head = self.coordinator.deployments.known_head(name)
        return self.coordinator.desired(head.name)

    def all(self) -> list[dict[str, Any]]:
        """The kept proposals, newest first."""
        with self._lock:
            found = list(self._proposals.values())
        return [self._data(each) for each in reversed(found)]

    def data(self, identifier: str) -> dict[str, Any]:
        """One proposal.  Raises :class:`~speck.errors.NotFound`."""
        return self._data(self._proposal(identifier))

    def accept(
        self, identifier: str, *, author: str = "", message: str = "", give_up: bool = False
    ) -> tuple[Operation, Plan]:
        """Apply a proposed placement as the next revision.

        Besides the errors of an apply, raises :class:`~speck.errors.NotFound`,
        :class:`~speck.errors.Expired`, and :class:`~speck.errors.Conflict` for one that was accepted already
        or whose inputs have changed; nothing is touched then.
        """
        proposal = self._proposal(identifier)
        self._check(proposal)
        why = f"placement {proposal.id}, policy {proposal.placed.policy}"
        operation, plan = self.coordinator.apply(
            proposal.placed.composition,
            base_revision=proposal.placed.base_revision,
            warnings=[each["message"] for each in proposal.warnings],
            author=author,
            message=message or why,
            give_up=give_up,
        )
        proposal.operation = operation.id
        return operation, plan

    def _check(self, proposal: Proposal) -> None:
        """Raise the error of a proposal that can no longer be accepted."""
        if proposal.operation is not None:
            raise Conflict(
                f"placement {proposal.id!r} was already accepted, by operation {proposal.operation} "
                "(expected a new one: speck advise)"
            )
        if self.steady() > proposal.expires:
            raise Expired(f"placement {proposal.id!r} has expired (expected a new one: speck advise)")
        base = proposal.placed.base_revision
        head = self.coordinator.deployments.head(proposal.placed.composition.name)
        if head.revision != base:
            raise StaleRevision(head.name, base, head.revision)
        changed = list(changed_inputs(proposal.placed.model, self.placer.remodel(proposal.placed)))
        if changed:
            raise Conflict(
                f"placement {proposal.id!r} is stale: {'; '.join(changed[:3])} "
                "(expected inputs within a fifth of those it was computed from: speck advise)"
            )

    def _proposal(self, identifier: str) -> Proposal:
        with self._lock:
            found = self._proposals.get(identifier)
            near = nearest(identifier, self._proposals)
        if found is None:
            raise NotFound(f"there is no placement {identifier!r}{near}")
        return found

    def _data(self, proposal: Proposal) -> dict[str, Any]:
        expired = self.steady() > proposal.expires
        state = "accepted" if proposal.operation else "expired" if expired else "open"
        placed = proposal_data(proposal.placed, proposal.plan, self.clock())
        return {
            "id": proposal.id,
            "state": state,
            "operation": proposal.operation,
            "created": proposal.created,
            "until": proposal.until,
            "warnings": list(proposal.warnings),
            **placed,
        }


def changed_inputs(before: Model, now: Model) -> Iterator[str]:
    """The inputs that differ by more than :data:`TOLERANCE`, in words."""
    old, new = before.problem, now.problem
    for name, one, other in zip(before.channels, old.channels, new.channels, strict=True):
        topic = name.split(" ", 1)[1]
        if _differs(one.rate, other.rate, LEAST_RATE):
            yield f"the rate of topic {topic!r} was {one.rate:.3g}/s and is {other.rate:.3g}/s"
        if _differs(one.size, other.size, 1.0):
            yield f"a message of topic {topic!r} had {one.size:.3g} and has {other.size:.3g} bytes"
    slowest = min((site.cores * site.speed for site in old.sites), default=1.0)
    for index, job in enumerate(old.jobs):
        load, later = _cores(old, index), _cores(new, index)
        if _differs(load, later, LEAST_SHARE * slowest):
            yield f"job {job.name!r} took {load:.3g} cores and takes {later:.3g}"
    yield from _changed_load(old, new)
    sites = {site.name: site for site in new.sites}
    for site in old.sites:
        other_site = sites.get(site.name, site)
        for what, one_value, other_value, least in (
            ("uplink (bytes/s)", site.up, other_site.up, 0.0),
            ("downlink (bytes/s)", site.down, other_site.down, 0.0),
            ("latency (s)", site.latency, other_site.latency, LEAST_LATENCY),
            ("speed", site.speed, other_site.speed, 0.0),
        ):
            if _differs(one_value, other_value, least):
                yield f"the {what} of site {site.name!r} was {one_value:.3g} and is {other_value:.3g}"


def _changed_load(old: Problem, new: Problem) -> Iterator[str]:
    """The sites whose cores other compositions use to another extent, in words."""
    before, later = _used_elsewhere(old), _used_elsewhere(new)
    for site in old.sites:
        cores = before[site.name]
        if _differs(cores, now := later.get(site.name, cores), LEAST_SHARE * site.cores):
            yield (f"other compositions took {cores:.3g} cores of site {site.name!r} and take {now:.3g}")


def _used_elsewhere(problem: Problem) -> dict[str, float]:
    """The cores that other compositions use, by site."""
    load = problem.background or Load.none(len(problem.sites))
    return {site.name: cores for site, cores in zip(problem.sites, load.cores, strict=True)}


def _cores(problem: Problem, index: int) -> float:
    """The reference cores of a job, of which a line through more samples makes more or less a message's."""
    job = problem.jobs[index]
    return problem.rates[0][index] * job.cost + job.fixed


def _differs(one: float, other: float, least: float) -> bool:
    return abs(one - other) > max(least, TOLERANCE * max(abs(one), 1e-12))
