"""Planned changes that were shown: retained in memory for a while, and accepted as they were shown."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from speck.apply.operation import Operation
from speck.apply.planned import PlannedChange
from speck.coordinator.changes import Changes
from speck.coordinator.placing.figures import proposal_data
from speck.coordinator.placing.placer import PlacementResult, Placer
from speck.coordinator.placing.request import PlacementRequest
from speck.coordinator.planning.planner import refuse_stale
from speck.core.change import PLACE_NEW, Apply, Request
from speck.core.clocks import Clock, steady_beside
from speck.core.suggestions import similar_names
from speck.errors import Conflict, Expired, Fault, InvalidInput, NotFound
from speck.schema.fault_report import fault_data

PLANS, PLACEMENTS = 20, 100  # the most that are retained; a plan of a large composition has megabytes
LIFETIME = 15 * 60.0  # s
_ID_LENGTH = 8  # of proposed placements, which people type


@dataclass
class RetainedPlan:
    """A planned change with its id; ``placed`` is how a proposed placement came about.

    ``change`` and ``planned`` are what was asked for and what was shown.  ``created`` and ``until`` are Unix
    time, s.  ``operation`` is the id of the one that accepted it.  ``lock`` lets one request accept it.
    """

    id: str
    change: Apply
    planned: PlannedChange
    placed: PlacementResult | None
    created: float
    until: float
    expires: float  # of the steady clock
    operation: str | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def name(self) -> str:
        """The plan in messages."""
        return f"plan {self.id!r}" if self.placed is None else f"placement {self.id!r}"

    @property
    def remedy(self) -> str:
        """The way to another plan."""
        if self.placed is None:
            return "expected the composition's text"
        return "expected a new one: speck advise"


@dataclass
class RetainedPlans:
    """Plans, proposes and accepts.  ``mint`` makes ids, ``clock`` gives Unix time, s.

    Safe for several threads.
    """

    changes: Changes
    placer: Placer
    mint: Callable[[], str]
    clock: Callable[[], float]
    steady: Clock = field(init=False)
    _retained: dict[str, RetainedPlan] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        self.steady = steady_beside(self.clock)

    def show(
        self, change: Apply, request: Request, placed: PlacementResult | None = None, *, build: bool = False
    ) -> RetainedPlan:
        """Plan a composition for a reader, and keep the plan.  Nothing is changed.

        ``placed`` is how a proposed placement came about.  Raises as
        :meth:`~speck.coordinator.changes.Changes.plan`.
        """
        planned = self.changes.inspected(self.changes.plan(change, request), build=build)
        identifier = self.mint() if placed is None else self.mint()[:_ID_LENGTH]
        now, expires = self.clock(), self.steady() + LIFETIME
        retained = RetainedPlan(identifier, change, planned, placed, now, now + LIFETIME, expires)
        with self._lock:
            self._retained[retained.id] = retained
            alike = [each.id for each in self._retained.values() if (each.placed is None) == (placed is None)]
            for surplus in alike[: -(PLANS if placed is None else PLACEMENTS)]:
                del self._retained[surplus]
        return retained

    def propose(self, change: Apply, request: PlacementRequest) -> dict[str, Any]:
        """Place a composition again, and keep the result, shown with lines of code.  Nothing is changed.

        Raises as :meth:`~speck.coordinator.placing.placer.Placer.place` and
        :meth:`~speck.coordinator.changes.Changes.plan`.
        """
        composition, notes = self.changes.cuts.chosen(change.composition)
        placed = self.placer.place(composition, request)
        change = replace(change, composition=placed.composition, notes=notes, cuts_stay=True)
        retained = self.show(change, Request(base_revision=placed.base_revision), placed)
        return self._data(retained, lines=True)

    def advise(self, name: str, request: PlacementRequest) -> dict[str, Any]:
        """Place the running jobs of a composition again.  Also raises :class:`~speck.errors.NotFound`."""
        deployments = self.changes.deployments
        return self.propose(Apply(deployments.last(deployments.known_head(name))), request)

    def placements(self, *, lines: bool) -> list[dict[str, Any]]:
        """The retained placements, newest first; with ``lines``, those of code that differ too."""
        with self._lock:
            found = [each for each in self._retained.values() if each.placed is not None]
        return [self._data(each, lines=lines) for each in reversed(found)]

    def placement(self, identifier: str, *, lines: bool) -> dict[str, Any]:
        """One of :meth:`placements`.  Raises :class:`~speck.errors.NotFound`."""
        return self._data(self._placement(identifier), lines=lines)

    # --- accepting

    def accept(self, identifier: str, request: Request, **options: Any) -> Operation:
        """Carry out a plan as it was shown; ``options`` are those of an apply that the request repeats.

        ``request`` has the author, the message, and whether it is atomic.  Besides the errors of
        :meth:`~speck.coordinator.changes.Changes.accept`, raises :class:`~speck.errors.NotFound`,
        :class:`~speck.errors.Expired`, :class:`~speck.errors.Conflict` for a plan that was accepted already,
        and :class:`~speck.errors.InvalidInput` for a request that differs from what was planned.
        """
        with self._lock:
            retained = self._retained.get(identifier)
        if retained is None or retained.placed is not None:
            raise NotFound(f"there is no plan {identifier!r} (expected the composition's text)")
        self._refuse_other(retained, request, options)
        return self._accept(retained, request)

    def accept_placement(self, identifier: str, request: Request) -> Operation:
        """Carry out a proposed placement as the next revision.

        Raises as :meth:`accept`, and :class:`~speck.errors.Conflict` if the placement's inputs have changed.
        """
        retained = self._placement(identifier)
        assert retained.placed is not None  # noqa: S101 - it is a placement
        message = request.message or f"placement {retained.id}, policy {retained.placed.policy}"
        return self._accept(retained, replace(request, message=message))

    def _accept(self, retained: RetainedPlan, request: Request) -> Operation:
        # A second request for the same plan waits, and finds it accepted.
        with retained.lock:
            self._check(retained)
            planned = retained.planned
            request = replace(
                planned.request,
                author=request.author,
                message=request.message,
                atomic=request.atomic,
                key=request.key,
                give_up=planned.request.give_up or request.give_up,
            )
            operation = self.changes.accept(replace(planned, request=request))
            retained.operation = operation.id
        return operation

    def _check(self, retained: RetainedPlan) -> None:
        """Raise the error of a plan that can no longer be accepted."""
        if retained.operation is not None:
            raise Conflict(
                f"{retained.name} was already accepted, by operation {retained.operation} ({retained.remedy})"
            )
        if self.steady() > retained.expires:
            raise Expired(f"{retained.name} has expired ({retained.remedy})")
        head = self.changes.deployments.head(retained.planned.composition)
        refuse_stale(head, retained.planned.head.revision)
        if retained.placed is None:
            return
        if changed := self.placer.changed_since(retained.placed):
            raise Conflict(
                f"{retained.name} is stale: {'; '.join(changed[:3])} "
                "(its inputs may change by a fifth at most: make another one with speck advise)"
            )

    def _refuse_other(self, retained: RetainedPlan, request: Request, options: dict[str, Any]) -> None:
        """Raise :class:`~speck.errors.InvalidInput` for a request that differs from what was planned.

        What it leaves out is as it was planned.
        """
        planned, asked = retained.planned, Apply(retained.change.composition, **options)
        left_behind = self.changes.planner.left_behind(planned.head, request.leave_behind)
        different = {
            "base_revision": request.base_revision not in (None, planned.head.revision),
            "leave_behind": left_behind not in (frozenset(), frozenset(planned.request.leave_behind)),
            "give_up": request.give_up and not planned.request.give_up,
            "wave": request.waves not in ((), planned.request.waves),
            "place": asked.place not in (PLACE_NEW, retained.change.place),
            "all_code": asked.all_code and not retained.change.all_code,
        }
        faults = [
            Fault(
                f"{field} differs from that of {retained.name} (expected the same, or a new plan)",
                field=field,
            )
            for field, differs in different.items()
            if differs
        ]
        if faults:
            raise InvalidInput(faults, retained.name)

    def _placement(self, identifier: str) -> RetainedPlan:
        with self._lock:
            placements = {each.id: each for each in self._retained.values() if each.placed is not None}
        found = placements.get(identifier)
        if found is None:
            raise NotFound(f"there is no placement {identifier!r}{similar_names(identifier, placements)}")
        return found

    def _data(self, retained: RetainedPlan, *, lines: bool) -> dict[str, Any]:
        assert retained.placed is not None  # noqa: S101 - it is a placement
        expired = self.steady() > retained.expires
        state = "accepted" if retained.operation else "expired" if expired else "open"
        return {
            "id": retained.id,
            "state": state,
            "operation": retained.operation,
            "created": retained.created,
            "until": retained.until,
            "warnings": [fault_data(each) for each in retained.planned.warnings],
            **proposal_data(retained.placed, retained.planned.plan, self.clock(), lines=lines),
        }
