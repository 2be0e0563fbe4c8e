"""The store as the coordinator uses it: records by name, and changes in transactions.

Whatever the coordinator must know after a crash is here, and nothing else counts: the composition that a user
asked for (revisions and their heads), the jobs as they should be, the attempts at them that run or may run,
operations with their actions, sessions and attempts that were abandoned, events, profiles.  The order of
writing carries the guarantee that nothing runs twice and nothing is forgotten: an attempt is written before
an engine is asked to start it, and its handle when the engine has answered; it is deleted only once the
engine is known to run it no more.  Between two such writes a crash leaves a record that the next process can
settle by asking the engine.

One process has the store open (LevelDB's own lock).  All changes go through :meth:`Store.transaction`: the
blocks of different threads exclude each other, so that a record which is read inside a block and written
back undoes no other change; their bytes go to disk after the block, several together, since a synced write
takes milliseconds and a deployment of 100 jobs makes hundreds of them.  A reader outside a block sees what is
on disk.  :mod:`~speck.store.isolation` keeps these two promises apart.

Numbered kinds (events, operations, revisions) have bounds, and the write that exceeds one deletes the
oldest in the same batch.  Records that every operation and every round of the reconciler read are in memory
(:mod:`~speck.store.leveldb.resident`), and are decoded once.  A value that cannot be decoded is damage,
reported with its key, and never a default.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from heapq import merge
from itertools import islice, takewhile
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from speck.core.adaptation import AdaptationState
from speck.core.change import KEY_DIGITS
from speck.core.settings import HistoryBounds
from speck.errors import NotFound, StoreDamaged, StoreError
from speck.placement.profile import JobProfile, SiteProfile
from speck.store import kinds
from speck.store.abandoned import AbandonedAttempt, AbandonedSession, DeletedSession
from speck.store.agents import AgentRecord, CodeRecord
from speck.store.codec import FIRST_KEY
from speck.store.event_log import log_event
from speck.store.isolation import Isolation
from speck.store.kinds import Kind, kind_of
from speck.store.leveldb.database import Copy, Database
from speck.store.leveldb.resident import ResidentRecord, ResidentRecords
from speck.store.opening import check, ensure_format, identity_of, leave_pair, next_number
from speck.store.profiles import CutCorrection, MeasuredLink
from speck.store.records import (
    AttemptRecord,
    DeletedComposition,
    Event,
    Head,
    JobRecord,
    RetryState,
    Revision,
    RevisionOutcome,
)
from speck.store.revision_cache import RevisionCache
from speck.store.transaction import Record, Transaction, Write

_T = TypeVar("_T")

_BEFORE = 1 << 62  # more than there are entries: those of the loop come before the event that follows them

_TIMED_ID = re.compile("[0-9a-f]{20}")  # of an operation: 11 digits of its time, and others


@dataclass
class Store:
    """One open store.  Safe to use from several threads; a context manager.

    Raises :class:`~speck.errors.StoreLocked` when another process (or this one) has it open, and the other
    kinds of :class:`~speck.errors.StoreError` when it cannot be read or written.

    ``identity`` is of this store alone.  ``first_attempt`` is the number after which the attempts at a job
    begin that is new to the store.  ``copy`` has each write before it is made.
    ``is_checked`` is true if all records were read just before.  ``epoch`` is that of a store without a copy
    which had one; 0 for any other.
    """

    directory: Path
    bounds: HistoryBounds = field(default_factory=HistoryBounds)
    copy: Copy | None = field(default=None, repr=False)
    is_checked: bool = field(default=False, repr=False)
    on_event: list[Callable[[Event], None]] = field(default_factory=list, init=False, repr=False)
    _cache: RevisionCache = field(default_factory=RevisionCache, init=False, repr=False)
    _isolation: Isolation = field(default_factory=Isolation, init=False, repr=False)

    def __post_init__(self) -> None:
        resident = ResidentRecords(kind.beginning() for kind in kinds.RESIDENT)
        self._database = Database(self.directory, self.copy, resident)
        try:
            if not self.is_checked:
                check(self._database)
            ensure_format(self._database)
            self.epoch = leave_pair(self._database) if self.copy is None else 0
            self.identity = identity_of(self._database)
            self.first_attempt = int(self._database.get(FIRST_KEY) or 0)
            self._events = next_number(self._database, kinds.EVENT.beginning())
            self._loop_events = next_number(self._database, kinds.LOOP_EVENT.beginning())
            # The bounds may have been higher before: these go with the next events.
            self._surplus = [
                *self._beyond(kinds.EVENT, self._events, self.bounds.events),
                *self._beyond(kinds.LOOP_EVENT, self._loop_events, self.bounds.loop_events),
            ]
        except BaseException:
            self._database.close()
            raise

    def _beyond(self, kind: Kind[Any], number: int, bound: int) -> list[bytes]:
        """The keys of the numbered records that a bound leaves no room for; ``number`` is the next one."""
        with self._database.scan(kind.beginning()) as found:  # which ends at the first record to keep
            return list(takewhile(lambda key: _number_in(key) < number - bound, (key for key, _ in found)))

    @property
    def database(self) -> Database:
        """The database, for a copy of all of it."""
        return self._database

    # --- writing

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Everything put inside is written when the block ends without an error; then it is on disk.

        Blocks exclude each other; their writes do not, and several go to disk at once.  A record that is read
        inside the block is the last one written (:mod:`~speck.store.isolation`), so a change that is made
        from it undoes no other.  A change made from what was read before the block may.
        """
        with self._isolation.block():
            transaction = Transaction(self._keys)
            yield transaction
            changes = [*transaction.changes(), *self._events_of(transaction)]
            keys = [key for key, _ in changes]
            self._isolation.announce(keys)
        try:
            self._database.write(changes)
        finally:
            self._isolation.complete(keys)
        self._forget_cached(changes)
        for event in transaction.events:
            log_event(event)
            for listener in self.on_event:
                listener(event)

    def add_events(self, events: Iterable[Event]) -> None:
        """Append to the audit log, all at once."""
        with self.transaction() as transaction:
            for event in events:
                transaction.add_event(event)

    def _events_of(self, transaction: Transaction) -> Iterator[Write]:
        for event in transaction.events:
            if event.automatic:
                number, self._loop_events = self._loop_events, self._loop_events + 1
                yield from _bounded(kinds.LOOP_EVENT, number, (self._events, event), self.bounds.loop_events)
            else:
                number, self._events = self._events, self._events + 1
                yield from _bounded(kinds.EVENT, number, event, self.bounds.events)
        if transaction.events:
            yield from ((key, None) for key in self._surplus)
            self._surplus = []

    def _forget_cached(self, changes: list[Write]) -> None:
        deleted = [key.decode().split("/") for key, value in changes if value is None]
        for _, composition, number in (each for each in deleted if each[0] == "revision"):
            self._cache.drop(composition, int(number))

    def decoded_revisions(self, composition: str) -> int:
        """The number of a composition's revisions that are in memory."""
        return self._cache.count(composition)

    def retain_decoded(self, composition: str, numbers: Container[int]) -> None:
        """Keep no revisions of a composition in memory but these."""
        self._cache.retain(composition, numbers)

    def trim_operations(self, spared: Container[str] = ()) -> None:
        """Forget the oldest operations beyond the bounds (ids sort by time), except for ``spared`` ones."""
        bounds = (self.bounds.operations, self.bounds.healings)
        surplus = [
            identifier
            for kind, bound in zip(kinds.OPERATIONS, bounds, strict=True)
            for identifier in self._operation_ids(kind)[:-bound]
            if identifier not in spared
        ]
        if surplus:
            with self.transaction() as transaction:
                for identifier in surplus:
                    transaction.delete_operation(identifier)

    def _operation_ids(self, kind: Kind[Any]) -> list[str]:
        return [key.decode().split("/")[1] for key in self._keys(kind.beginning())]

    def operation_of_key(self, key: str) -> str | None:
        """The id of the operation of a user whose request has this key; it ends with the key's beginning."""
        for identifier in self._operation_ids(kinds.OPERATION):
            if identifier.endswith(key[:KEY_DIGITS]):
                found = self.operation(identifier)
                if found is not None and found.get("key") == key:
                    return identifier
        return None

    def last_operation_time(self) -> int:
        """The time in the id of the last operation, ms; 0: there is none."""
        last = [each[-1] for kind in kinds.OPERATIONS if (each := self._operation_ids(kind))]
        return max((int(each[:11], 16) for each in last if _TIMED_ID.match(each)), default=0)

    def compact(self) -> None:
        """Give back the space of what was overwritten or deleted."""
        self._database.compact()

    # --- reading

    def _get(self, key: bytes) -> bytes | None:
        self._isolation.await_key(key)
        return self._database.get(key)

    def _keys(self, prefix: bytes) -> list[bytes]:
        self._isolation.await_prefix(prefix)
        return self._database.keys(prefix)

    def _scanned_from(
        self, prefix: bytes, *, reverse: bool = False
    ) -> AbstractContextManager[Iterator[Record]]:
        self._isolation.await_prefix(prefix)
        return self._database.scan(prefix, reverse=reverse)

    def _one(self, kind: Kind[_T], *parts: str | int) -> _T | None:
        key = kind.key(*parts)
        if kind.resident:
            self._isolation.await_key(key)
            self._database.check_open()
            found = self._database.resident.get(key)
            return None if found is None else self._decoded_once(kind, key, found)
        value = self._get(key)
        return None if value is None else self._decoded(kind, key, value)

    def _all(self, kind: Kind[_T], *parts: str) -> dict[str, _T]:
        """All records of a kind whose keys begin with these parts, by the other parts of their keys."""
        prefix = kind.beginning(*parts)
        if kind.resident:
            self._isolation.await_prefix(prefix)
            self._database.check_open()
            resident = self._database.resident.beginning_with(prefix)
            decoded = [(key, self._decoded_once(kind, key, each)) for key, each in resident]
        else:
            with self._scanned_from(prefix) as found:
                decoded = [(key, self._decoded(kind, key, value)) for key, value in found]
        return {key[len(prefix) :].decode(): record for key, record in decoded}

    def _all_pairs(self, kind: Kind[_T]) -> dict[tuple[str, str], _T]:
        """All records of a kind whose keys have two parts, by these."""
        pairs = ((path.split("/"), record) for path, record in self._all(kind).items())
        return {(first, second): record for (first, second), record in pairs}

    def _decoded_once(self, kind: Kind[_T], key: bytes, found: ResidentRecord) -> _T:
        if found.decoded is None:
            found.decoded = self._decoded(kind, key, found.value)
        record: _T = found.decoded
        return record

    def _decoded(self, kind: Kind[_T], key: bytes, value: bytes) -> _T:
        try:
            return kind.decoded(key, value)
        except Exception as error:  # whatever the bytes may bring about
            raise StoreDamaged(
                f"store {str(self.directory)!r} is damaged: {key.decode(errors='replace')!r} cannot be read "
                f"({type(error).__name__}; stop the server, and see `speck store check`)"
            ) from error

    def heads(self) -> list[Head]:
        """Every composition's head, by name."""
        return list(self._all(kinds.HEAD).values())

    def head(self, name: str) -> Head | None:
        """A composition's head."""
        return self._one(kinds.HEAD, name)

    def deletions(self) -> list[DeletedComposition]:
        """The deleted compositions whose revisions are retained, by name."""
        return list(self._all(kinds.DELETED).values())

    def deleted(self, name: str) -> DeletedComposition | None:
        """A deleted composition; ``None`` if there is one of its name again, or there never was one."""
        return self._one(kinds.DELETED, name)

    def outcomes(self, composition: str) -> dict[int, RevisionOutcome]:
        """The outcomes of a composition's revisions, by number, as far as they are known."""
        return {int(number): each for number, each in self._all(kinds.OUTCOME, composition).items()}

    def outcome(self, composition: str, number: int) -> RevisionOutcome | None:
        """The outcome of one revision."""
        return self._one(kinds.OUTCOME, composition, number)

    def revision(self, composition: str, number: int) -> Revision:
        """One revision; :class:`~speck.errors.NotFound` when there is none of that number."""
        cached = self._cache.get(composition, number)
        return cached if cached is not None else self._cache.put(self.revision_once(composition, number))

    def revision_once(self, composition: str, number: int) -> Revision:
        """One revision, without keeping it in memory."""
        found = self._one(kinds.REVISION, composition, number)
        if found is None:
            raise NotFound(f"composition {composition!r} has no revision {number}")
        return found

    def revision_numbers(self, composition: str) -> list[int]:
        """The numbers of the revisions that are kept, oldest first."""
        return [_number_in(key) for key in self._keys(kinds.REVISION.beginning(composition))]

    def job(self, name: str) -> JobRecord | None:
        """The record of a job."""
        return self._one(kinds.JOB, name)

    def jobs(self, composition: str | None = None) -> list[JobRecord]:
        """The records of all jobs (of one composition), by name."""
        records = self._all(kinds.JOB).values()
        return [each for each in records if composition is None or each.composition == composition]

    def attempts(self, job: str | None = None) -> list[AttemptRecord]:
        """The attempts that run or may run (of one job), by job name and number."""
        found = self._all(kinds.ATTEMPT, *([] if job is None else [job])).values()
        # Keys of numbers with more than ten digits sort otherwise.
        return sorted(found, key=lambda each: (each.attempt.job_name, each.attempt.number))

    def operation(self, identifier: str) -> dict[str, Any] | None:
        """An operation as plain data."""
        found = (self._one(kind, identifier) for kind in kinds.OPERATIONS)
        return next((each for each in found if each is not None), None)

    def abandoned_attempts(self) -> list[AbandonedAttempt]:
        """The attempts that were abandoned and are not known to have ended."""
        return list(self._all(kinds.ABANDONED_ATTEMPT).values())

    def abandoned_sessions(self) -> list[AbandonedSession]:
        """The sessions that were abandoned and are not known to be deleted."""
        return list(self._all(kinds.ABANDONED_SESSION).values())

    def deleted_sessions(self) -> list[DeletedSession]:
        """The sessions that were deleted lately."""
        return list(self._all(kinds.DELETED_SESSION).values())

    def fence_above(self, broker: str, session: str) -> int:
        """The attempt number that shuts all abandoned attempts out of a session; 0: there are none."""
        attempts = (each for each in self.abandoned_attempts() if each.session == (broker, session))
        return max((each.attempt.number + 1 for each in attempts), default=0)

    def abandoned_names(self, broker: str) -> set[str]:
        """The names of abandoned sessions at a broker, and of those that abandoned attempts read through.

        They are deleted in the end, so that no other session may have such a name before.
        """
        attempts, sessions = self.abandoned_attempts(), self.abandoned_sessions()
        names = {each.attempt.session for each in attempts if each.source_broker == broker}
        return names | {each.name for each in sessions if each.broker == broker}

    def agents(self) -> list[AgentRecord]:
        """The agents of sites that joined or were revoked."""
        return list(self._all(kinds.AGENT).values())

    def join_codes(self) -> list[CodeRecord]:
        """The codes with which sites join, also used and expired ones."""
        return list(self._all(kinds.JOIN_CODE).values())

    def operations(self) -> list[dict[str, Any]]:
        """All operations, as plain data, oldest first."""
        found = [self._all(kind).values() for kind in kinds.OPERATIONS]
        return list(merge(*found, key=lambda data: str(data.get("id", ""))))

    def last_operations(
        self, limit: int, before: str = "", accept: Callable[[dict[str, Any]], bool] | None = None
    ) -> list[dict[str, Any]]:
        """The last ``limit`` operations (of those that ``accept`` returns true for), newest first.

        ``before`` is an id: only what began before that operation.
        """
        prefixes = [kind.beginning() for kind in kinds.OPERATIONS]
        with ExitStack() as open_scans:
            scans = [open_scans.enter_context(self._scanned_from(each, reverse=True)) for each in prefixes]
            newest_first = merge(*scans, key=lambda record: record[0].rpartition(b"/")[2], reverse=True)
            older: Iterator[dict[str, Any]] = (
                self._decoded(kind_of(key), key, value)
                for key, value in newest_first
                if not before or key.rpartition(b"/")[2] < before.encode()
            )
            return list(islice((data for data in older if accept is None or accept(data)), max(limit, 1)))

    def retry_states(self) -> dict[str, RetryState]:
        """The retry states of the jobs that do not come up, by job name."""
        return self._all(kinds.RETRY_STATE)

    def adaptation(self, name: str) -> AdaptationState:
        """The memory of a composition's adaptation; empty if there is none."""
        found = self._one(kinds.ADAPTATION, name)
        return AdaptationState() if found is None else found

    def job_profiles(self) -> dict[tuple[str, str], JobProfile]:
        """The measured load of jobs, by name and form."""
        return self._all_pairs(kinds.JOB_PROFILE)

    def cut_corrections(self) -> dict[tuple[str, str], CutCorrection]:
        """The measured errors of the estimates of cuts, by the name of the input job and its form."""
        return self._all_pairs(kinds.CUT_CORRECTION)

    def links(self) -> dict[tuple[str, str], MeasuredLink]:
        """The measurements of links, by the names of both sites."""
        return self._all_pairs(kinds.LINK)

    def site_profiles(self) -> dict[str, SiteProfile]:
        """The measured values of sites, by name."""
        return self._all(kinds.SITE_PROFILE)

    def events(self, limit: int = 100, accept: Callable[[Event], bool] | None = None) -> list[Event]:
        """The last ``limit`` events (of those that ``accept`` returns true for), oldest first."""
        with (
            self._scanned_from(kinds.EVENT.beginning(), reverse=True) as events,
            self._scanned_from(kinds.LOOP_EVENT.beginning(), reverse=True) as loop,
        ):
            numbered = merge(
                (self._event(key, value) for key, value in events),
                (self._loop_event(key, value) for key, value in loop),
                key=lambda each: each[:2],
                reverse=True,
            )
            accepted = (event for _, _, event in numbered if accept is None or accept(event))
            found = list(islice(accepted, max(limit, 1)))
        return found[::-1]

    def _event(self, key: bytes, value: bytes) -> tuple[int, int, Event]:
        return _number_in(key), 0, self._decoded(kinds.EVENT, key, value)

    def _loop_event(self, key: bytes, value: bytes) -> tuple[int, int, Event]:
        before, event = self._decoded(kinds.LOOP_EVENT, key, value)
        return before, _number_in(key) - _BEFORE, event

    def records(self) -> list[Record]:
        """Every key with its value, as they are together at this moment."""
        return self._database.all()

    # --- ending

    @property
    def failure(self) -> StoreError | None:
        """The error of the last change, until one succeeds or :meth:`retry` finds room again."""
        return self._database.failure

    def retry(self) -> None:
        """After a change that did not reach the disk, see whether the next one would."""
        self._database.retry()

    def close(self) -> None:
        """Close the database and release its lock."""
        with self._isolation.block():
            self._database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _bounded(kind: Kind[_T], number: int, record: _T, bound: int) -> Iterator[Write]:
    """A numbered record, and the end of the one that it pushes out."""
    yield kind.key(number), kind.encode(record)
    if number >= bound:
        yield kind.key(number - bound), None


def _number_in(key: bytes) -> int:
    return int(key.rsplit(b"/", 1)[1])
