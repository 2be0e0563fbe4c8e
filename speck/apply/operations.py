"""The operations: one at a time on a composition, each in a thread, from its acceptance to its end."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from speck.apply.executor import Executor, schedule_of
from speck.apply.operation import Operation, end_state, summary_data
from speck.apply.operation_records import OperationRecords
from speck.apply.planned import PlannedChange
from speck.binder.pool import BinderPool
from speck.core.change import KEY_DIGITS, Request
from speck.core.lifecycle import AUTOMATIC, ActionState, OperationKind, OperationState
from speck.core.plan import Keep, Plan
from speck.core.quotas import refuse_operation
from speck.core.settings import Settings
from speck.errors import Busy, Conflict, NotFound, ShuttingDown, SpeckError, StoreError
from speck.logs import about, errors_logged
from speck.observe.observer import Observer
from speck.store import RevisionOutcome, Store, Transaction
from speck.store.deployments import Deployments
from speck.store.retention import Retention

_log = logging.getLogger(__name__)

RECENT_OPERATIONS = 200  # ended ones that stay in memory; the store keeps all
RECENT_ACTIONS = 20_000  # of these; an operation on many jobs has as many


Record = Callable[[Transaction, Operation, PlannedChange], None]
EndListener = Callable[[Operation, Plan, OperationState], None]


@dataclass
class Operations:
    """The running operations, and recent ones.  Those of users go before repairs of the reconciler.

    ``mint`` makes ids, ``clock`` returns Unix time (s).

    Listeners are called in the thread of an operation: those of ``on_applied`` when its plan is carried out,
    and those of ``on_end`` when its end is stored, with its final state.  Those of ``on_atomic_failure``
    follow, of an atomic one that was not carried out wholly; they return an error, or an empty text.
    """

    deployments: Deployments
    retention: Retention
    observer: Observer
    pool: BinderPool
    mint: Callable[[], str]
    clock: Callable[[], float]
    settings: Settings = field(default_factory=Settings)
    on_applied: list[Callable[[Operation], object]] = field(default_factory=list, init=False)
    on_end: list[EndListener] = field(default_factory=list, init=False)
    on_atomic_failure: list[Callable[[Operation], str]] = field(default_factory=list, init=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, init=False)
    _operations: dict[str, Operation] = field(default_factory=dict, init=False)
    _running: dict[str, Operation] = field(default_factory=dict, init=False)
    _threads: list[threading.Thread] = field(default_factory=list, init=False)
    # One plan of a composition at a time; a slow engine of one holds up no other.
    _planning: dict[str, threading.RLock] = field(default_factory=dict, init=False)
    _generations: Counter[str] = field(default_factory=Counter, init=False)
    _users: Counter[str] = field(default_factory=Counter, init=False)
    _last_time: int | None = field(default=None, init=False)  # ms, of the last id; None: that of the store
    _closing: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.records = OperationRecords(self.deployments, self.clock)

    @property
    def store(self) -> Store:
        """The store of all operations."""
        return self.deployments.store

    # --- queries

    def data(self, identifier: str) -> dict[str, Any]:
        """An operation as plain data."""
        live = self._operations.get(identifier)
        data = live.to_dict() if live is not None else self.store.operation(identifier)
        if data is None:
            raise NotFound(f"there is no operation {identifier!r}")
        return data

    def last(self, limit: int, before: str = "", composition: str = "") -> list[dict[str, Any]]:
        """The last ``limit`` operations (on a composition) that began before one by its id, newest first.

        They are as plain data without their actions (:func:`~speck.apply.operation.summary_data`).
        """
        stored = self.store.last_operations(
            limit, before, lambda data: composition in ("", data["composition"])
        )
        lives = [(data, self._operations.get(data["id"])) for data in stored]
        return [summary_data(data if live is None else live.to_dict()) for data, live in lives]

    def live(self, identifier: str) -> Operation | None:
        """An operation that runs, or ran recently, in this process."""
        return self._operations.get(identifier)

    def recent(self) -> list[Operation]:
        """Those that run, or ran recently, in this process, oldest first."""
        return sorted(self._operations.copy().values(), key=lambda each: each.id)

    @property
    def is_closing(self) -> bool:
        """True if nothing is accepted any more."""
        return self._closing

    def running(self) -> list[Operation]:
        """Those that run now."""
        return list(self._running.values())

    def running_on(self, composition: str) -> str | None:
        """The id of the operation that runs on a composition; ``None``: none does."""
        running = self._running.get(composition)
        return running.id if running else None

    # --- beginning and ending

    @contextmanager
    def exclusive(self, composition: str, kind: str = OperationKind.APPLY) -> Iterator[None]:
        """Reserve a composition for a user, or for a step of the adaptation (``kind``).

        For a user, a running operation of a loop is awaited; no other begins meanwhile.  Raises
        :class:`~speck.errors.Busy`.
        """
        with self._lock:
            if kind in AUTOMATIC:
                self.refuse_waiting(composition)
            self._users[composition] += 1
            planning = self._planning.setdefault(composition, threading.RLock())
        try:
            if kind not in AUTOMATIC:
                self._await_loop(composition)
            with planning:
                if kind not in AUTOMATIC:  # a step may have begun while this one waited for its plan
                    self._await_loop(composition)
                self.refuse_busy(composition)
                yield
        finally:
            with self._lock:
                self._users[composition] -= 1
                if not self._users[composition]:  # names of users may be of no composition
                    del self._users[composition], self._planning[composition]

    def _await_loop(self, composition: str) -> None:
        running = self._running.get(composition)
        if running is not None and running.kind in AUTOMATIC:
            running.wait(self.settings.heal_patience)

    @contextmanager
    def admission(self, composition: str, kind: str = OperationKind.APPLY) -> Iterator[None]:
        """While the block runs, nothing else is accepted; a step (``kind``) gives way to users who wait.

        Raises as :meth:`refuse_busy`.
        """
        with self._lock:
            if kind in AUTOMATIC:
                self.refuse_waiting(composition, own=1)
            self.refuse_busy(composition)
            yield

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """While the block runs, nothing is accepted and nothing begins."""
        with self._lock:
            yield

    def refuse_waiting(self, composition: str, own: int = 0) -> None:
        """Raise :class:`~speck.errors.Busy` if a composition has users other than its ``own`` one."""
        if self._users[composition] > own:
            raise Busy(
                f"composition {composition!r}: a user's change is in progress (retry when it has finished)"
            )

    def begin(
        self, planned: PlannedChange, record: Record | None = None, warnings: Iterable[str] = ()
    ) -> Operation:
        """Accept a planned change: one write of its intent and of what ``record`` adds; then it is applied.

        Of one that resumes an operation both are stored already.  Raises :class:`~speck.errors.Busy` for one
        of another generation than the composition's.
        """
        name = planned.composition
        with self._lock:
            if planned.generation is not None and not self.is_idle_since(name, planned.generation):
                raise Busy(f"composition {name!r}: another change has begun since this one was planned")
            operation = planned.resumes or self._operation(planned, warnings)
            operation.plan(planned.plan)
            changed = {each.job.job_name for each in planned.plan.actions if not isinstance(each, Keep)}
            for number, wave in enumerate(planned.waves, 1):
                for job in changed.intersection(wave.jobs):
                    operation.assign(job, f"wave {number} of {len(planned.waves)}")
            for job, reason in planned.waits.items():
                operation.finish(job, ActionState.WAITING, reason)
            if planned.resumes is None:
                with self.store.transaction() as transaction:
                    if record is not None:
                        record(transaction, operation, planned)
                    self.records.put_intent(transaction, operation, planned.plan)
            self._begin(operation, planned)
        return operation

    def _operation(self, planned: PlannedChange, warnings: Iterable[str]) -> Operation:
        now, name, request = self.clock(), planned.composition, planned.request
        identifier = self._next_id(now, request.key or self.mint())
        return Operation(identifier, name, planned.number, request, now, self.clock, list(warnings))

    def refuse_repeated(self, request: Request) -> None:
        """Raise :class:`~speck.errors.Conflict` for a request that was accepted before."""
        if (identifier := self.of_request(request)) is not None:
            raise Conflict(f"this request was accepted before, as operation {identifier}")

    def of_request(self, request: Request) -> str | None:
        """The id of the operation that accepted a request with this key; ``None`` if none has."""
        if not request.key:
            return None
        return self.store.operation_of_key(request.key)

    def refuse_busy(self, composition: str) -> None:
        """Raise :class:`~speck.errors.Busy` while an operation changes a composition.

        Raises :class:`~speck.errors.ShuttingDown`, and :class:`~speck.errors.Overloaded` when too many run.
        """
        if self._closing:
            raise ShuttingDown("the server is shutting down (retry after it has restarted)")
        running = self._running.get(composition)
        if running is not None:
            raise Busy(
                f"composition {composition!r}: operation {running.id} ({running.kind}, revision "
                f"{running.revision}) is in progress (retry when it has finished)"
            )
        users = [each for each in list(self._running.values()) if each.kind not in AUTOMATIC]
        refuse_operation(self.settings.quotas, len(users))

    def _next_id(self, now: float, suffix: str) -> str:
        """The id of the next operation, with the beginning of ``suffix``; ``now`` is Unix time, s.

        Ids sort by the order of the operations, so that the store finds the oldest without reading them all:
        a clock that was set back must not make the next one older than the last.
        """
        with self._lock:
            last = self.store.last_operation_time() if self._last_time is None else self._last_time
            self._last_time = max(int(now * 1000), last + 1)
            return f"{self._last_time:011x}{suffix[:KEY_DIGITS]}"

    def _begin(self, operation: Operation, planned: PlannedChange) -> None:
        """Apply a planned change in a thread of its own."""
        self._operations[operation.id] = operation
        self._running[operation.composition] = operation
        self._generations[operation.composition] += 1
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        # A daemon: the end of the process does not wait for an engine that is silent (see :meth:`join`).
        work = threading.Thread(
            target=self._run,
            args=(operation, planned),
            name=f"operation-{operation.id}",
            daemon=True,
        )
        try:
            work.start()
        except RuntimeError as problem:  # the system has no thread for it: nothing else would end it
            # The later waves of a roll-out are held back: nothing of it happens before a user asks.
            waves = operation.request.waves
            later = "apply again, or roll back" if waves else "the reconciler carries it out, or apply again"
            error = f"it did not begin: {problem} ({later})"
            operation.end(self._leave(operation, planned.due, OperationState.FAILED, error))
        else:
            self._threads.append(work)

    def _run(self, operation: Operation, planned: PlannedChange) -> None:
        with about(operation=operation.id, composition=operation.composition):
            error = ""
            try:
                self._apply(operation, planned)
            except Exception as problem:
                _log.exception("operation %s", operation.id)
                error = f"internal error: {problem!r}"
            try:
                self._end(operation, planned.due, error)
            except Exception as problem:
                _log.exception("operation %s could not be ended", operation.id)
                operation.end(error or f"internal error: {problem!r}")  # a request may wait for it

    def _apply(self, operation: Operation, planned: PlannedChange) -> None:
        executor = Executor(
            store=self.store,
            pool=self.pool,
            operation=operation,
            desired=planned.desired,
            placed=self.retention.artifacts.placed,
            mint=self.mint,
            clock=self.clock,
            settings=self.settings,
        )
        executor.run(planned.due, schedule_of(self.store, planned), planned.waves)
        for listener in self.on_applied:
            listener(operation)

    def _observe(self, operation: Operation, plan: Plan) -> None:
        """Observe the jobs that were changed: users look now, the reconciler only in a while."""
        self.observer.forget(each.job.job_name for each in plan.changes)
        done = {name for name, action in operation.actions.items() if action.state == ActionState.DONE}
        with suppress(SpeckError):  # it was deleted
            head = self.deployments.known_head(operation.composition)
            deployed = self.deployments.snapshot(head).deployed()
            self.observer.observe(each for each in deployed if each[0].job_name in done)

    def _end(self, operation: Operation, plan: Plan, error: str) -> None:
        with errors_logged(_log, "the jobs of operation %s could not be observed", operation.id):
            self._observe(operation, plan)
        state = end_state(error, operation.actions.values())
        with self._lock:
            error = self._leave(operation, plan, state, error)
            if not operation.request.atomic or state is OperationState.SUCCEEDED:
                operation.end(error)
                return
        found = [error, *(listener(operation) for listener in self.on_atomic_failure)]
        operation.end("; ".join(filter(None, found)))
        with self.store.transaction() as transaction:
            transaction.put_operation(operation.id, operation.to_dict())

    def _leave(self, operation: Operation, plan: Plan, state: OperationState, error: str) -> str:
        """Store the end of an operation, whose composition is idle then whatever fails here.

        Returns the error that the operation has then.
        """
        try:
            error = self._store_end_of(operation, state, error)
            for listener in self.on_end:
                with errors_logged(_log, "an end of operation %s could not be noted", operation.id):
                    listener(operation, plan, state)
        finally:
            del self._running[operation.composition]
            self._generations[operation.composition] += 1
            self._trim_operations()
        return error

    def _store_end_of(self, operation: Operation, state: OperationState, error: str) -> str:
        """Store the end of an operation; returns the error that it has then."""
        data = operation.to_dict() | {"state": state, "ended": self.clock(), "error": error}
        try:
            self.records.end(data)
            running = {each.id for each in self._running.values()}
            self.retention.trim(operation.composition, running - {operation.id})
        except StoreError as fault:
            _log.error("the end of operation %s could not be stored: %s", operation.id, fault)
            error = error or f"its end could not be stored: {fault}"
        return error

    def put_replaced(self, transaction: Transaction, outcome: RevisionOutcome, by: str) -> None:
        """Write that the operation of this outcome has been replaced by another one."""
        self.records.put_replaced(transaction, outcome, by)
        if (live := self._operations.get(outcome.operation)) is not None:
            live.replace(by)

    def _trim_operations(self) -> None:
        ended = [each for each in self._operations.values() if each.state != OperationState.RUNNING]
        actions = 0
        for number, each in enumerate(reversed(ended)):
            actions += len(each.actions)
            if number and (number >= RECENT_OPERATIONS or actions > RECENT_ACTIONS):
                del self._operations[each.id]

    def refuse_new(self) -> None:
        """Accept nothing from now on."""
        with self._lock:
            self._closing = True

    def join(self, seconds: float | None = None) -> None:
        """Wait for the running ones, for at most ``seconds`` in all."""
        with self._lock:
            threads = list(self._threads)
        until = None if seconds is None else time.monotonic() + seconds
        for thread in threads:
            thread.join(None if until is None else max(0.0, until - time.monotonic()))

    def end_at_once(self, operation: Operation) -> None:
        """Add an operation for which there is nothing left to do."""
        operation.end()
        self._operations[operation.id] = operation

    # --- healing

    def generations(self) -> Mapping[str, int]:
        """For each composition a number that changes whenever an operation on it begins or ends."""
        return dict(self._generations)

    def is_idle(self, composition: str) -> bool:
        """True if no operation runs on the composition, and no user is about to begin one."""
        return not (self._closing or composition in self._running or self._users[composition])

    def may_heal(self) -> bool:
        """True if the loops run fewer operations than the limit, which is that of users."""
        loops = [each for each in list(self._running.values()) if each.kind in AUTOMATIC]
        return len(loops) < self.settings.quotas.operations

    @contextmanager
    def idle_transaction(self, composition: str, generation: int) -> Iterator[Transaction | None]:
        """A write while no operation runs; ``None`` when the composition has another generation by now."""
        with self._lock:
            if not self.is_idle_since(composition, generation):
                yield None
                return
            with self.store.transaction() as transaction:
                yield transaction

    def is_idle_since(self, composition: str, generation: int) -> bool:
        """True if no operation ran on a composition since it had this one of :meth:`generations`."""
        return self.is_idle(composition) and self._generations[composition] == generation
