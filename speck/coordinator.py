"""The coordinator: accepts compositions, has them carried out, and answers what is wanted and what is.

It decides nothing about single jobs (:mod:`speck.plan` does) and calls no engine itself
(:mod:`speck.runner` and :mod:`speck.reconcile` do).
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import speck
from speck import audit
from speck.artifacts import Artifacts, ServedFiles, clear_scratch
from speck.binder import ENGINE_OF_SCHEME, Registry, scheme_of
from speck.carry import STATE_LIMIT
from speck.drain import BOUND
from speck.errors import (
    BinderError,
    Busy,
    Conflict,
    Fault,
    InvalidInput,
    NotFound,
    SpeckError,
    StaleRevision,
    StoreError,
)
from speck.history import History, count, differences
from speck.leaving import addresses_of, left_copies
from speck.model import Composition, Inventory, Job, JobMetrics, JobState, JobStatus, Site
from speck.operation import Operation
from speck.plan import Deployed, Keep, Plan, Start, kind_of, make_plan, stranded_state
from speck.pool import BinderPool
from speck.reconcile import PERIOD, Deployment, Observer
from speck.retention import Retention
from speck.runner import Runner
from speck.schema import client_id_conflicts
from speck.store import AttemptRecord, Event, Head, Intent, JobRecord, Revision, Store, Transaction
from speck.store.backup import archive
from speck.store.care import check

_log = logging.getLogger(__name__)

KEPT_OPERATIONS = 200  # ended ones that stay in memory; the store keeps all


@dataclass
class Coordinator:
    """One per store.  Safe to use from several threads.

    ``roots`` are the directories under which job files may lie.  ``mint`` makes ids, ``clock`` tells
    Unix time (s), ``period`` is the time between two rounds of observation (s; 0: none).  ``advertise`` is
    the URL at which engines reach this coordinator (empty: they do not).  ``drain`` is how long (s)
    a job that is to read elsewhere may take to work off what waits for it.  ``state_limit`` is the size up to
    which a job's state is carried between engines that share no storage, bytes.
    """

    store: Store
    registry: Registry
    inventory: Inventory = field(default_factory=Inventory)
    roots: Sequence[Path] = ()
    mint: Callable[[], str] = field(default=lambda: uuid.uuid4().hex)
    clock: Callable[[], float] = time.time
    period: float = PERIOD
    advertise: str = ""
    drain: float = BOUND
    state_limit: int = STATE_LIMIT

    def __post_init__(self) -> None:
        self.artifacts = Artifacts(self.store.directory / "artifacts", self.roots)
        self.files = ServedFiles(self.store.directory, self.advertise) if self.advertise else None
        self.pool = BinderPool(self.registry, self.inventory, self.files)
        self.observer = Observer(self.pool, self._deployed, self.clock)
        self._operations: dict[str, Operation] = {}
        self._at_work: dict[str, Operation] = {}
        self._threads: list[threading.Thread] = []
        self.history = History(self.store)
        self.retention = Retention(self.store, self.artifacts, self.history)
        self._lock = threading.RLock()
        # One at a time plans a composition; to ask slow engines for one holds up no other.
        self._turns: defaultdict[str, threading.RLock] = defaultdict(threading.RLock)
        self._closing = False

    def start(self) -> None:
        """Go on with what a crash or a stop interrupted, and begin to observe."""
        clear_scratch(self.store.directory)
        self.retention.sweep_code()  # code that was brought, and not accepted
        interrupted = [data for data in self.store.operations() if data["state"] == "running"]
        last = {data["composition"]: data["id"] for data in interrupted}
        for data in interrupted:
            if data["id"] == last[data["composition"]]:
                self._resume(data)
            else:  # a later one was accepted, since the end of this one could not be stored
                self._store_end(data | {"state": "failed", "error": "its end could not be stored"}, [])
        if self.period:
            self.observer.start(self.period)

    def close(self) -> None:
        """Take nothing new, wait for the operations at work, and let go of engines and brokers."""
        self.settle()
        self.observer.close()
        self.pool.close()

    def settle(self) -> None:
        """Take nothing new, and wait for the operations at work."""
        with self._lock:
            self._closing = True
            at_work = list(self._threads)
        for thread in at_work:
            thread.join()

    # --- planning

    def plan(self, composition: Composition, base_revision: int | None = None) -> Plan:
        """The plan from what runs to this composition.  Nothing is changed."""
        head = self._head(composition.name)
        _refuse_stale(head, base_revision)
        self._refuse_taken(composition)
        if faults := stranded_state(composition.jobs, self._stored(head)):
            raise InvalidInput(faults, f"composition {composition.name!r}")
        return self._plan(head, composition.jobs)

    def _plan(self, head: Head, desired: Mapping[str, Job]) -> Plan:
        observed = self.observer.observe(self._deployed(head.name))
        return make_plan(head.name, head.revision, desired, self._stored(head), observed)

    def _stored(self, head: Head) -> dict[str, Deployed]:
        """The composition's jobs as the store holds them."""
        attempts = {each.attempt.job_name: each for each in self.store.attempts()}
        wanted = self.store.revision(head.name, head.revision).jobs if head.revision else {}
        stored: dict[str, Deployed] = {}
        for record in self.store.jobs(head.name):
            attempt = attempts.get(record.name)
            job = wanted.get(record.name) if attempt is None else self._form(head.name, attempt)
            if job is None:  # it went in an earlier revision, and its end was not carried out yet
                _, job = self.history.last_form(head.name, record.name)
            stored[record.name] = Deployed(job, attempt is not None and attempt.phase == "running")
        return stored

    def _form(self, composition: str, record: AttemptRecord) -> Job:
        return self.store.revision(composition, record.revision).jobs[record.attempt.job_name]

    def _refuse_taken(self, composition: Composition) -> None:
        """A job's name, and so its session, belongs to one composition."""
        owners = {record.name: record.composition for record in self.store.jobs()}
        faults = [
            Fault(
                f"job_name {name!r} is a job of composition {owners[name]!r} already (choose another name)",
                job=name,
                field="job_name",
                value=name,
            )
            for name in composition.jobs
            if owners.get(name, composition.name) != composition.name
        ]
        others = self._wanted_elsewhere(composition.name)
        faults += client_id_conflicts([*others, *composition.jobs.values()])
        if faults:
            raise InvalidInput(faults, f"composition {composition.name!r}")

    def _wanted_elsewhere(self, name: str) -> list[Job]:
        return [
            job
            for head in self.store.heads()
            if head.name != name and head.revision
            for job in self.store.revision(head.name, head.revision).jobs.values()
        ]

    # --- applying

    def apply(
        self,
        composition: Composition,
        *,
        base_revision: int | None = None,
        warnings: Iterable[str] = (),
        author: str = "",
        message: str = "",
        restored: int = 0,
        leave_behind: Iterable[str] = (),
    ) -> tuple[Operation, Plan]:
        """Accept a composition as its next revision, and have it carried out in the background.

        A composition that is as it is wanted already makes no revision.  ``author`` asks for it, ``message``
        is why, ``restored`` the number of the revision that it brings back.  ``leave_behind`` names sites, or
        addresses of engines, that are not to be waited for: copies that run there and are wanted elsewhere,
        or no more, are left instead of stopped (:mod:`speck.leaving`).  Raises
        :class:`~speck.errors.StaleRevision`, :class:`~speck.errors.Busy`,
        :class:`~speck.errors.InvalidInput`.
        """
        name = composition.name
        with self._turns[name]:
            self._refuse_busy(name)
            head = self._not_deleting(name)
            plan = self.plan(composition, base_revision)
            found = differences(self._wanted(name), composition.jobs)
            same = bool(head.revision) and not found
            number = head.revision if same else head.revision + 1
            operation = self._operation(
                name, number, "rollback" if restored else "apply", author, message, warnings
            )
            deployed = [each.job for each in self._stored(head).values()]
            operation.left_behind = tuple(sorted(addresses_of(leave_behind, self.inventory, deployed)))
            operation.plan(plan)
            added, removed, changed = count(found).values()
            revision = Revision(
                name,
                number,
                self.clock(),
                composition.jobs,
                author,
                message,
                restored,
                (added, removed, changed),
            )
            with self._lock:
                self._refuse_busy(name)
                self._refuse_taken(composition)  # again: another composition may have come meanwhile
                self.artifacts.keep(composition.jobs.values())
                self._accept(operation, plan, None if same else revision)
                self._begin(operation, composition.jobs, plan)
        return operation, plan

    def plan_rollback(
        self, name: str, number: int | None = None, base_revision: int | None = None
    ) -> tuple[Plan, int]:
        """The plan of :meth:`rollback`, and the revision that it brings back.  Nothing is changed."""
        former, restored = self._former(name, number)
        return self.plan(former, base_revision), restored

    def rollback(
        self,
        name: str,
        number: int | None = None,
        *,
        base_revision: int | None = None,
        author: str = "",
        message: str = "",
    ) -> tuple[Operation, Plan]:
        """Accept an earlier revision (the one before the last, when none is named) as the next one.

        It is planned, refused and carried out like any other.  Raises besides what :meth:`apply` does
        :class:`~speck.errors.NotFound` when there is no such revision, and
        :class:`~speck.errors.InvalidInput` when code that it names is kept no more.
        """
        with self._turns[name]:
            self._refuse_busy(name)
            former, restored = self._former(name, number)
            return self.apply(
                former,
                base_revision=base_revision,
                author=author,
                message=message or f"rollback to revision {restored}",
                restored=restored,
            )

    def _former(self, name: str, number: int | None) -> tuple[Composition, int]:
        """The composition as an earlier revision has it, and that one's number."""
        head = self._known_head(name)
        number = self.history.before(name, head.revision) if number is None else number
        jobs = self.store.revision_once(name, number).jobs
        if faults := self.artifacts.lost(jobs.values()):
            raise InvalidInput(faults, f"composition {name!r}")
        return Composition(name, jobs), number

    def _not_deleting(self, name: str) -> Head:
        head = self._head(name)
        if head.deleting:
            raise Conflict(f"composition {name!r} is being deleted (delete it again, or wait)")
        return head

    def _accept(self, operation: Operation, plan: Plan, revision: Revision | None) -> None:
        """The intent, in one write: the revision, its jobs that are new, and the operation."""
        attempts = {each.attempt.job_name: each for each in self.store.attempts()}
        with self.store.transaction() as transaction:
            if revision is not None:
                transaction.put_revision(revision)
                transaction.put_head(Head(revision.composition, revision.number))
            for action in plan.actions:
                name = action.job.job_name
                if isinstance(action, Start) and self.store.job(name) is None:
                    transaction.put_job(JobRecord(name, plan.composition))
                if isinstance(action, Keep) and action.changes and revision is not None:
                    transaction.put_attempt(replace(attempts[name], revision=revision.number))
            self._put_intent(transaction, operation, plan)

    def delete_composition(self, name: str, author: str = "", message: str = "") -> Operation:
        """Stop all of a composition's jobs, then forget it."""
        with self._turns[name]:
            self._refuse_busy(name)
            head = self._known_head(name)
            plan = self._plan(head, {})
            operation = self._operation(name, head.revision, "delete", author, message)
            operation.plan(plan)
            with self._lock:
                self._refuse_busy(name)
                with self.store.transaction() as transaction:
                    transaction.put_head(replace(head, deleting=True))
                    self._put_intent(transaction, operation, plan)
                self._begin(operation, {}, plan)
        return operation

    def apply_job(
        self, job: Job, composition: str, author: str = "", message: str = ""
    ) -> tuple[Operation, Plan]:
        """Deploy one job: a revision of its composition with this job put in, the others as they are."""
        with self._turns[composition]:
            wanted = Composition(composition, {**self._wanted(composition), job.job_name: job})
            return self.apply(wanted, author=author, message=message)

    def delete_job(self, name: str, author: str = "", message: str = "") -> Operation:
        """Stop and forget one job: a revision of its composition without it."""
        composition = self._known_job(name).composition
        with self._turns[composition]:
            jobs = {key: job for key, job in self._wanted(composition).items() if key != name}
            return self.apply(Composition(composition, jobs), author=author, message=message)[0]

    def _wanted(self, composition: str) -> Mapping[str, Job]:
        head = self._head(composition)
        return self.store.revision(composition, head.revision).jobs if head.revision else {}

    def _refuse_busy(self, composition: str) -> None:
        if self._closing:
            raise Busy("the server is shutting down (try again when it is up)")
        at_work = self._at_work.get(composition)
        if at_work is not None:
            raise Busy(
                f"composition {composition!r}: operation {at_work.id} ({at_work.kind}, revision "
                f"{at_work.revision}) is at work (wait for its end)"
            )

    def _operation(
        self,
        composition: str,
        revision: int,
        kind: str,
        author: str,
        message: str,
        warnings: Iterable[str] = (),
    ) -> Operation:
        now = self.clock()
        # Ids sort by time, so that the store finds the oldest without reading them all.
        identifier = f"{int(now * 1000):011x}{self.mint()[:9]}"
        return Operation(
            identifier, composition, revision, kind, now, self.clock, list(warnings), author, message
        )

    def _put_intent(self, transaction: Transaction, operation: Operation, plan: Plan) -> None:
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
            )
        )

    def _begin(self, operation: Operation, wanted: Mapping[str, Job], plan: Plan) -> None:
        """Carry out a plan in a thread of its own."""
        self._operations[operation.id] = operation
        self._at_work[operation.composition] = operation
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        work = threading.Thread(
            target=self._work, args=(operation, wanted, plan), name=f"operation-{operation.id}"
        )
        self._threads.append(work)
        work.start()

    def _work(self, operation: Operation, wanted: Mapping[str, Job], plan: Plan) -> None:
        error = ""
        try:
            runner = Runner(
                self.store,
                self.pool,
                operation,
                wanted,
                self.artifacts.placed,
                self.mint,
                self.clock,
                self.drain,
                self.state_limit,
                left_behind=frozenset(operation.left_behind),
            )
            runner.run(plan)
        except Exception as problem:
            _log.exception("operation %s", operation.id)
            error = f"internal error: {problem!r}"
        try:
            self._end(operation, plan, error)
        except Exception:
            _log.exception("operation %s could not be ended", operation.id)

    def _end(self, operation: Operation, plan: Plan, error: str) -> None:
        self.observer.forget(each.job.job_name for each in plan.changes)
        failed = error or any(p.state in ("failed", "skipped") for p in operation.actions.values())
        state = "failed" if failed else "succeeded"
        with self._lock:
            data = operation.to_dict() | {"state": state, "ended": self.clock(), "error": error}
            try:
                self._store_end(data, [each for each in data["actions"] if each["state"] == "skipped"])
                at_work = {each.id for each in self._at_work.values()}
                self.retention.trim(operation.composition, at_work - {operation.id})
            except StoreError as trouble:
                _log.error("the end of operation %s could not be stored: %s", operation.id, trouble)
                error = error or f"its end could not be stored: {trouble}"
            del self._at_work[operation.composition]
            self._trim_operations()
            operation.end(error)

    def _store_end(self, data: Mapping[str, Any], skipped: Iterable[Mapping[str, Any]]) -> None:
        """How an operation ended, and what became of its composition."""
        kind, name, state = data["kind"], data["composition"], data["state"]
        with self.store.transaction() as transaction:
            transaction.put_operation(data["id"], data)
            for each in skipped:
                message = f"job {each['job']!r} skipped: {each['error']}"
                transaction.add_event(Event(self.clock(), "skipped", message, name, each["job"], data["id"]))
            message = f"{kind} of {name!r} {state}" + (f": {data['error']}" if data["error"] else "")
            transaction.add_event(Event(self.clock(), state, message, name, "", data["id"]))
            if kind == "delete" and state == "succeeded":
                transaction.delete_composition(name)

    def _trim_operations(self) -> None:
        ended = [key for key, each in self._operations.items() if each.state != "running"]
        for key in ended[:-KEPT_OPERATIONS]:
            del self._operations[key]

    def _resume(self, data: Mapping[str, Any]) -> None:
        """Go on with an operation that did not end: plan again from what the store and the engines say."""
        name, kind = data["composition"], data["kind"]
        head = self.store.head(name)
        operation = Operation(
            data["id"],
            name,
            data["revision"],
            kind,
            data["started"],
            self.clock,
            list(data["warnings"]),
            data.get("author", ""),
            data.get("message", ""),
        )
        operation.left_behind = tuple(data.get("left_behind", ()))
        if head is None:
            operation.end()
            self._operations[operation.id] = operation
            return
        wanted = {} if kind == "delete" else self.store.revision(name, head.revision).jobs
        plan = self._plan(head, wanted)
        operation.plan(plan)
        self._begin(operation, wanted, plan)

    # --- looking

    def operation(self, identifier: str) -> dict[str, Any]:
        """An operation as plain data."""
        live = self._operations.get(identifier)
        data = live.to_dict() if live is not None else self.store.operation(identifier)
        if data is None:
            raise NotFound(f"there is no operation {identifier!r}")
        return data

    def live_operation(self, identifier: str) -> Operation | None:
        """An operation that is, or lately was, at work in this process."""
        return self._operations.get(identifier)

    def compositions(self) -> list[dict[str, Any]]:
        """Each composition: name, last revision, number of wanted jobs, whether one is at work on it."""
        found: list[dict[str, Any]] = []
        for head in self.store.heads():
            with contextlib.suppress(NotFound):  # deleted meanwhile
                found.append(self._composition_summary(head))
        return found

    def _composition_summary(self, head: Head) -> dict[str, Any]:
        jobs = self.store.revision(head.name, head.revision).jobs if head.revision else {}
        at_work = self._at_work.get(head.name)
        return {
            "name": head.name,
            "revision": head.revision,
            "jobs": len(jobs),
            "deleting": head.deleting,
            "operation": at_work.id if at_work else None,
        }

    def composition(self, name: str) -> dict[str, Any]:
        """One composition with its jobs, wanted and real, and its revisions."""
        head = self._known_head(name)
        summary = self._composition_summary(head)
        jobs = [each for each in self.jobs() if each["composition"] == name]
        return summary | {"jobs": jobs, "revisions": self.revisions(name)}

    def revisions(self, name: str) -> list[dict[str, Any]]:
        """A composition's revisions, oldest first, without their jobs."""
        self._known_head(name)
        return self.history.revisions(name)

    def revision(self, name: str, number: int) -> dict[str, Any]:
        """One revision with its jobs."""
        self._known_head(name)
        return self.history.revision(name, number)

    def difference(self, name: str, before: int | None = None, after: int | None = None) -> dict[str, Any]:
        """What differs between two revisions; by default between the last one and the one before it."""
        head = self._known_head(name)
        after = head.revision if after is None else after
        return self.history.difference(
            name, self.history.before(name, after) if before is None else before, after
        )

    def jobs(self) -> list[dict[str, Any]]:
        """Every job, wanted and as last observed, by name."""
        # Applies and deletions go on meanwhile.  The jobs are read first: a composition that is not found
        # after that was deleted, and not made since.
        records = self.store.jobs()
        attempts = {each.attempt.job_name: each for each in self.store.attempts()}
        heads = {head.name: head for head in self.store.heads()}
        found: list[dict[str, Any]] = []
        for record in records:
            with contextlib.suppress(NotFound):  # deleted meanwhile
                wanted = self._wanted_by(heads.get(record.composition)).get(record.name)
                found.append(self._job_data(record, wanted, attempts.get(record.name)))
        return found

    def _wanted_by(self, head: Head | None) -> Mapping[str, Job]:
        if head is None or head.deleting or not head.revision:
            return {}
        return self.store.revision(head.name, head.revision).jobs

    def job(self, name: str) -> dict[str, Any]:
        """One job: wanted and real, its attempt, and its metrics when its engine tells them."""
        record = self._known_job(name)
        attempts = self.store.attempts(name)
        if attempts and attempts[-1].handle is not None:
            form = self._form(record.composition, attempts[-1])
            self.observer.observe([(form, attempts[-1].handle)])
        data = next((each for each in self.jobs() if each["job_name"] == name), None)
        if data is None:
            raise NotFound(f"job {name!r} was deleted just now")
        if attempts:
            data["metrics"] = self._metrics(record, attempts[-1])
        return data

    def _job_data(
        self, record: JobRecord, wanted: Job | None, attempt: AttemptRecord | None
    ) -> dict[str, Any]:
        form = self._form(record.composition, attempt) if attempt else wanted
        status = self._status(record, attempt)
        return {
            "job_name": record.name,
            "composition": record.composition,
            "wanted": "stopped" if wanted is None else "running",
            "state": status.state.value,
            "observed_at": status.observed_at,
            "message": status.message,
            "error": record.error,
            "up_to_date": form == wanted and attempt is not None and attempt.phase == "running",
            "attempt": None if attempt is None else attempt.attempt.number,
            "job": None if form is None else form.to_dict(),
            "sessions": [asdict(each) for each in record.sessions],
            "left_behind": [
                {"address": each.address, "attempt": each.attempt.number}
                for each in left_copies(self.store)
                if each.attempt.job_name == record.name
            ],
        }

    def _status(self, record: JobRecord, attempt: AttemptRecord | None) -> JobStatus:
        if attempt is None:
            return JobStatus(JobState.PENDING, self.clock(), "not started")
        if attempt.phase == "intended":
            return JobStatus(JobState.STARTING, self.clock(), "given to its engine, no answer yet")
        unseen = JobStatus(JobState.UNKNOWN, self.clock(), "not observed yet")
        return self.observer.seen().get(record.name, unseen)

    def _metrics(self, record: JobRecord, attempt: AttemptRecord) -> dict[str, Any] | None:
        if attempt.handle is None:
            return None
        form = self._form(record.composition, attempt)
        try:
            metrics: JobMetrics = self.pool.engine(form).metrics(attempt.handle)
        except BinderError as error:
            return {"error": str(error)}
        return asdict(metrics)

    def sites(self) -> list[dict[str, Any]]:
        """The inventory, and whether each engine and broker can be reached now."""
        sites = list(self.inventory.sites.values())
        if not sites:
            return []
        with ThreadPoolExecutor(min(16, len(sites))) as threads:
            return list(threads.map(self._site_data, sites))

    def _site_data(self, site: Site) -> dict[str, Any]:
        return {
            "name": site.name,
            "engines": [self._engine_data(each.spe_address) for each in site.engines],
            "broker": self._broker_data(site.broker_address),
        }

    def _engine_data(self, address: str) -> dict[str, Any]:
        data: dict[str, Any] = {"address": address, "reached": True, "error": "", "capacity": None}
        try:
            engine = self.pool.engine_at(ENGINE_OF_SCHEME.get(scheme_of(address), ""), address)
            return data | {"capacity": asdict(engine.capacity())}
        except SpeckError as error:
            return data | {"reached": False, "error": str(error)}

    def _broker_data(self, address: str) -> dict[str, Any]:
        data: dict[str, Any] = {"address": address, "reached": True, "error": "", "warnings": []}
        try:
            broker = self.pool.broker(address)
            broker.check()
            return data | {"warnings": broker.warnings()}
        except SpeckError as error:
            return data | {"reached": False, "error": str(error)}

    def events(self, limit: int = 100, **filters: Any) -> list[dict[str, Any]]:
        """The audit log's last entries, oldest first; ``filters`` are those of :class:`audit.Filter`."""
        return audit.entries(self.store, limit, audit.Filter(**filters))

    # --- the store itself

    def backup(self) -> Iterator[bytes]:
        """The store as it is now, with its code, as the pieces of one file."""
        pieces = self._backup()
        next(pieces)  # what goes wrong at the beginning is raised here
        return pieces

    def _backup(self) -> Iterator[bytes]:
        with self.retention.code_kept():
            records = self.store.records()
            yield b""
            yield from archive(records, self.store.directory, self.clock(), speck.__version__)

    def check_store(self) -> list[dict[str, str]]:
        """What is wrong with the store as it is now."""
        found = check(self.store.records(), self.store.directory)
        return [{"what": each.what, "message": each.message} for each in found]

    # --- small things

    def _deployed(self, composition: str | None = None) -> list[Deployment]:
        """What is thought to run (of one composition)."""
        owners = {each.name: each.composition for each in self.store.jobs(composition)}
        return [
            (self._form(owners[each.attempt.job_name], each), each.handle)
            for each in self.store.attempts()
            if each.handle is not None and each.phase == "running" and each.attempt.job_name in owners
        ]

    def _head(self, name: str) -> Head:
        return self.store.head(name) or Head(name, 0)

    def _known_head(self, name: str) -> Head:
        head = self.store.head(name)
        if head is None:
            raise NotFound(f"there is no composition {name!r}")
        return head

    def _known_job(self, name: str) -> JobRecord:
        record = self.store.job(name)
        if record is None:
            raise NotFound(f"there is no job {name!r}")
        return record


def _refuse_stale(head: Head, base_revision: int | None) -> None:
    if base_revision is not None and base_revision != head.revision:
        raise StaleRevision(head.name, base_revision, head.revision)
