"""The operations: one at a time on a composition, begun with their intent in the store, ended likewise."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from speck.apply.operation import Operation, end_state, summary_data
from speck.core.job import Job
from speck.core.plan import Plan, kind_of
from speck.core.quotas import refuse_operation
from speck.core.settings import Settings
from speck.errors import Busy, NotFound, SpeckError, StoreError
from speck.logs import about
from speck.observe.observer import Observer
from speck.store import Event, Intent, Store, Transaction
from speck.store.deployments import Deployments, Snapshot
from speck.store.retention import Retention

_log = logging.getLogger(__name__)

KEPT_OPERATIONS = 200  # ended ones that stay in memory; the store keeps all


@dataclass
class Operations:
    """Those at work, and those that lately were.  A user goes before the loop, which heals through here.

    ``carry_out`` does what a plan says, ``ended`` is told of each end and its state, ``mint`` makes ids,
    ``clock`` tells Unix time (s).  Of the quota of operations, those of the loop are not counted.
    ``lock`` is to be held from the last look at what is at work to :meth:`begin`.
    """

    store: Store
    retention: Retention
    deployments: Deployments
    observer: Observer
    carry_out: Callable[[Operation, Mapping[str, Job], Plan], None]
    ended: Callable[[Operation, Plan, str], None]
    mint: Callable[[], str]
    clock: Callable[[], float]
    settings: Settings = field(default_factory=Settings)
    lock: threading.RLock = field(default_factory=threading.RLock, init=False)
    _operations: dict[str, Operation] = field(default_factory=dict, init=False)
    _at_work: dict[str, Operation] = field(default_factory=dict, init=False)
    _threads: list[threading.Thread] = field(default_factory=list, init=False)
    # One at a time plans a composition; to ask slow engines for one holds up no other.
    _turns: dict[str, threading.RLock] = field(default_factory=dict, init=False)
    _changes: Counter[str] = field(default_factory=Counter, init=False)
    _users: Counter[str] = field(default_factory=Counter, init=False)
    _closing: bool = field(default=False, init=False)

    # --- looking

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
        """An operation that is, or lately was, at work in this process."""
        return self._operations.get(identifier)

    def recent(self) -> list[Operation]:
        """Those that are, or lately were, at work in this process, oldest first."""
        return sorted(self._operations.copy().values(), key=lambda each: each.id)

    @property
    def is_closing(self) -> bool:
        """Whether nothing new is taken any more."""
        return self._closing

    def running(self) -> list[Operation]:
        """Those at work now."""
        return list(self._at_work.values())

    def at_work(self, composition: str) -> str | None:
        """The id of the operation at work on a composition."""
        work = self._at_work.get(composition)
        return work.id if work else None

    # --- beginning and ending

    @contextmanager
    def turn(self, composition: str) -> Iterator[None]:
        """Let a user do something with a composition; a healing at work is waited for, and no other begins.

        Raises :class:`~speck.errors.Busy`.
        """
        with self.lock:
            self._users[composition] += 1
            turn = self._turns.setdefault(composition, threading.RLock())
            at_work = self._at_work.get(composition)
        try:
            if at_work is not None and at_work.kind == "heal":
                at_work.wait(self.settings.heal_patience)
            with turn:
                self.refuse_busy(composition)
                yield
        finally:
            with self.lock:
                self._users[composition] -= 1
                if not self._users[composition]:  # whoever asks may name what there is not
                    del self._users[composition], self._turns[composition]

    def refuse_busy(self, composition: str) -> None:
        """Raise :class:`~speck.errors.Busy` when something is at work on a composition, or all is to end.

        Raises :class:`~speck.errors.Overloaded` when too much is at work on others.
        """
        if self._closing:
            raise Busy("the server is shutting down (try again when it is up)")
        at_work = self._at_work.get(composition)
        if at_work is not None:
            raise Busy(
                f"composition {composition!r}: operation {at_work.id} ({at_work.kind}, revision "
                f"{at_work.revision}) is at work (wait for its end)"
            )
        users = [each for each in list(self._at_work.values()) if each.kind != "heal"]
        refuse_operation(self.settings.quotas, len(users))

    def new(
        self,
        composition: str,
        revision: int,
        kind: str,
        author: str,
        message: str,
        warnings: Iterable[str] = (),
    ) -> Operation:
        """An operation that is about to begin."""
        now = self.clock()
        # Ids sort by time, so that the store finds the oldest without reading them all.
        identifier = f"{int(now * 1000):011x}{self.mint()[:9]}"
        return Operation(
            identifier, composition, revision, kind, now, self.clock, list(warnings), author, message
        )

    def put_intent(self, transaction: Transaction, operation: Operation, plan: Plan) -> None:
        """What is about to be done, for whom and why, before any of it is."""
        transaction.put_operation(operation.id, operation.to_dict())
        name = operation.composition
        message = f"{operation.kind} of {name!r} accepted, revision {operation.revision}"
        intents = tuple(Intent(each.job.job_name, kind_of(each), each.reason) for each in plan.changes)
        transaction.add_event(
            Event(
                self.clock(),
                "accepted",
                message,
                name,
                operation=operation.id,
                author=operation.author,
                cause=operation.message,
                intents=intents,
                by_loop=operation.kind == "heal",
            )
        )

    def begin(self, operation: Operation, wanted: Mapping[str, Job], plan: Plan) -> None:
        """Carry out a plan in a thread of its own."""
        self._operations[operation.id] = operation
        self._at_work[operation.composition] = operation
        self._changes[operation.composition] += 1
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        work = threading.Thread(
            target=self._work, args=(operation, wanted, plan), name=f"operation-{operation.id}"
        )
        self._threads.append(work)
        work.start()

    def _work(self, operation: Operation, wanted: Mapping[str, Job], plan: Plan) -> None:
        with about(operation=operation.id, composition=operation.composition):
            self._carry_through(operation, wanted, plan)

    def _carry_through(self, operation: Operation, wanted: Mapping[str, Job], plan: Plan) -> None:
        error = ""
        try:
            self.carry_out(operation, wanted, plan)
        except Exception as problem:
            _log.exception("operation %s", operation.id)
            error = f"internal error: {problem!r}"
        try:
            self._end(operation, plan, error)
        except Exception:
            _log.exception("operation %s could not be ended", operation.id)

    def _look(self, operation: Operation, plan: Plan) -> None:
        """Ask what has become of the jobs that were changed: users look now, the loop only in a while."""
        self.observer.forget(each.job.job_name for each in plan.changes)
        done = {name for name, action in operation.actions.items() if action.state == "done"}
        with suppress(SpeckError):  # it was deleted
            head = self.deployments.known_head(operation.composition)
            deployed = self.deployments.snapshot(head).deployed()
            self.observer.observe(each for each in deployed if each[0].job_name in done)

    def _end(self, operation: Operation, plan: Plan, error: str) -> None:
        self._look(operation, plan)
        state = end_state(error, operation.actions.values())
        with self.lock:
            data = operation.to_dict() | {"state": state, "ended": self.clock(), "error": error}
            try:
                self.store_end(data, [each for each in data["actions"] if each["state"] == "skipped"])
                at_work = {each.id for each in self._at_work.values()}
                self.retention.trim(operation.composition, at_work - {operation.id})
            except StoreError as trouble:
                _log.error("the end of operation %s could not be stored: %s", operation.id, trouble)
                error = error or f"its end could not be stored: {trouble}"
            self.ended(operation, plan, state)
            del self._at_work[operation.composition]
            self._changes[operation.composition] += 1
            self._trim_operations()
            operation.end(error)

    def store_end(self, data: Mapping[str, Any], skipped: Iterable[Mapping[str, Any]]) -> None:
        """How an operation ended, and what became of its composition."""
        kind, name, state = data["kind"], data["composition"], data["state"]
        message = f"{kind} of {name!r} {state}" + (f": {data['error']}" if data["error"] else "")
        end = Event(self.clock(), state, message, name, operation=data["id"], by_loop=kind == "heal")
        with self.store.transaction() as transaction:
            transaction.put_operation(data["id"], data)
            for each in skipped:
                message = f"job {each['job']!r} skipped: {each['error']}"
                transaction.add_event(replace(end, kind="skipped", message=message, job=each["job"]))
            transaction.add_event(end)
            if self._is_deleted(name):
                transaction.delete_composition(name)

    def _is_deleted(self, composition: str) -> bool:
        head = self.store.head(composition)
        return head is not None and head.deleting and not self.store.jobs(composition)

    def _trim_operations(self) -> None:
        ended = [key for key, each in self._operations.items() if each.state != "running"]
        for key in ended[:-KEPT_OPERATIONS]:
            del self._operations[key]

    def take_nothing_new(self) -> None:
        """Refuse whatever is asked for from now on."""
        with self.lock:
            self._closing = True

    def join(self) -> None:
        """Wait for those at work."""
        with self.lock:
            at_work = list(self._threads)
        for thread in at_work:
            thread.join()

    # --- after a crash

    def interrupted(self) -> list[Mapping[str, Any]]:
        """Those that a crash or a stop interrupted, as plain data: the last one of each composition."""
        found = [data for data in self.store.operations() if data["state"] == "running"]
        last = {data["composition"]: data for data in found}
        for data in found:
            if data is not last[data["composition"]]:  # its own end could not be stored
                self.store_end(data | {"state": "failed", "error": "its end could not be stored"}, [])
        return list(last.values())

    def again(self, data: Mapping[str, Any]) -> Operation:
        """The operation that this data is of, once more at its beginning."""
        operation = Operation(
            data["id"],
            data["composition"],
            data["revision"],
            data["kind"],
            data["started"],
            self.clock,
            list(data["warnings"]),
            data.get("author", ""),
            data.get("message", ""),
        )
        operation.left_behind = tuple(data.get("left_behind", ()))
        return operation

    def end_at_once(self, operation: Operation) -> None:
        """Take up an operation for which there is nothing left to do."""
        operation.end()
        self._operations[operation.id] = operation

    # --- healing

    def turns(self) -> Mapping[str, int]:
        """See :class:`speck.controller.reconciler.Healer`."""
        return dict(self._changes)

    def free(self, composition: str) -> bool:
        """See :class:`speck.controller.reconciler.Healer`."""
        return not (self._closing or composition in self._at_work or self._users[composition])

    def heal(self, snapshot: Snapshot, plan: Plan, turn: int) -> Operation | None:
        """See :class:`speck.controller.reconciler.Healer`."""
        name = snapshot.head.name
        with self.lock:
            if not self.free(name) or self._changes[name] != turn:
                return None
            operation = self.new(name, snapshot.head.revision, "heal", "speck", "it drifted")
            operation.plan(plan)
            with self.store.transaction() as transaction:
                self.put_intent(transaction, operation, plan)
            self.begin(operation, snapshot.wanted, plan)
        return operation

    def quietly(self, composition: str, turn: int, write: Callable[[Transaction], None]) -> bool:
        """See :class:`speck.controller.reconciler.Healer`."""
        with self.lock:
            if not self.free(composition) or self._changes[composition] != turn:
                return False
            with self.store.transaction() as transaction:
                write(transaction)
        return True
