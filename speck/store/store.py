"""What the coordinator asks of the store: records by name, and changes in transactions."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from speck.errors import NotFound, StoreDamaged, StoreError
from speck.store import encoding
from speck.store.database import Database
from speck.store.encoding import FORMAT, FORMAT_KEY, key_of, number_part
from speck.store.records import AttemptRecord, Bounds, Event, Head, JobRecord, Revision
from speck.store.transaction import Change, Record, Transaction

_log = logging.getLogger("speck.audit")

_T = TypeVar("_T")

_TROUBLE = frozenset(("failed", "skipped", "waiting", "drift"))  # kinds of events


def _log_event(event: Event) -> None:
    fields = {
        "event_kind": event.kind,
        "operation": event.operation,
        "composition": event.composition,
        "job": event.job,
        "author": event.author,
    }
    said = {name: value for name, value in fields.items() if value}  # an empty one would hide another's
    _log.log(logging.WARNING if event.kind in _TROUBLE else logging.INFO, "%s", event.message, extra=said)


@dataclass
class Store:
    """One open store.  Safe to use from several threads; a context manager.

    Raises :class:`~speck.errors.StoreLocked` when another process (or this one) has it open, and the other
    kinds of :class:`~speck.errors.StoreError` when it cannot be read or written.
    """

    directory: Path
    bounds: Bounds = field(default_factory=Bounds)
    _cache: dict[tuple[str, int], Revision] = field(default_factory=dict, init=False, repr=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, init=False, repr=False)

    def __post_init__(self) -> None:
        self._database = Database(self.directory)
        try:
            self._check_format()
            self._events = self._last_event() + 1
        except BaseException:
            self._database.close()
            raise

    def _check_format(self) -> None:
        found = self._database.get(FORMAT_KEY)
        there = FORMAT if found is None else found.decode(errors="replace")
        if there != FORMAT:
            raise StoreError(
                f"store {str(self.directory)!r} has format {there!r}, this SpecK reads {FORMAT!r}"
            )
        with self._database.scan() as records:
            for _ in records:  # what is damaged is told now, not when it is needed
                pass
        if found is None:
            self._database.write([(FORMAT_KEY, FORMAT.encode())])

    def _last_event(self) -> int:
        with self._database.scan(b"event/", reverse=True) as found:
            last, _ = next(found, (b"event/-1", b""))
        return int(last.rsplit(b"/", 1)[1])

    # --- writing

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Everything put inside is written when the block ends without an error; then it is on disk.

        Blocks exclude each other; their writes do not, and several go to disk at once.  So what one thread
        reads in its block, no other may be about to change: each job is one thread's at a time.
        """
        with self._lock:
            transaction = Transaction(self._database.keys)
            yield transaction
            changes = [*transaction.changes(), *self._events_of(transaction)]
        self._database.write(changes)
        self._forget_cached(changes)
        for event in transaction.events:
            _log_event(event)

    def _events_of(self, transaction: Transaction) -> Iterator[Change]:
        for event in transaction.events:
            number, self._events = self._events, self._events + 1
            yield key_of("event", number_part(number)), encoding.encode_event(event)
            if number >= self.bounds.events:
                yield key_of("event", number_part(number - self.bounds.events)), None

    def _forget_cached(self, changes: list[Change]) -> None:
        deleted = [key.decode().split("/") for key, value in changes if value is None]
        gone = [each for each in deleted if each[0] == "revision"]
        with self._lock:
            for _, composition, number in gone:
                self._cache.pop((composition, int(number)), None)

    def trim_operations(self, spared: Container[str] = ()) -> None:
        """Forget the oldest operations beyond the bound (their ids sort by time), but for those spared."""
        known = [key.decode().split("/")[1] for key in self._database.keys(b"operation/")]
        surplus = [each for each in known[: -self.bounds.operations] if each not in spared]
        if surplus:
            with self.transaction() as transaction:
                for identifier in surplus:
                    transaction.delete_operation(identifier)

    def compact(self) -> None:
        """Give back the space of what was overwritten or deleted."""
        self._database.compact()

    # --- reading

    def _scan(self, prefix: bytes, decode: Callable[[str, bytes], _T]) -> list[_T]:
        with self._database.scan(prefix) as found:
            return [self._decoded(key, decode, key[len(prefix) :].decode(), value) for key, value in found]

    def _decoded(self, key: bytes, decode: Callable[..., _T], *arguments: Any) -> _T:
        try:
            return decode(*arguments)
        except Exception as error:  # whatever the bytes may bring about
            raise StoreDamaged(
                f"store {str(self.directory)!r} is damaged: {key.decode(errors='replace')!r} cannot be read "
                f"({type(error).__name__}; stop the server, and see `speck store check`)"
            ) from error

    def heads(self) -> list[Head]:
        """Every composition's head, by name."""
        return self._scan(b"composition/", encoding.decode_head)

    def head(self, name: str) -> Head | None:
        """A composition's head."""
        key = key_of("composition", name)
        value = self._database.get(key)
        return None if value is None else self._decoded(key, encoding.decode_head, name, value)

    def revision(self, composition: str, number: int) -> Revision:
        """One revision; :class:`~speck.errors.NotFound` when there is none of that number."""
        cached = self._cache.get((composition, number))
        if cached is not None:
            return cached
        revision = self.revision_once(composition, number)
        with self._lock:
            self._cache[composition, number] = revision
        return revision

    def revision_once(self, composition: str, number: int) -> Revision:
        """One revision, not kept in memory, as for a look at the past."""
        key = key_of("revision", composition, number_part(number))
        value = self._database.get(key)
        if value is None:
            raise NotFound(f"composition {composition!r} has no revision {number}")
        return self._decoded(key, encoding.decode_revision, composition, number, value)

    def revision_numbers(self, composition: str) -> list[int]:
        """The numbers of the revisions that are kept, oldest first."""
        found = self._database.keys(key_of("revision", composition, ""))
        return [int(key.rsplit(b"/", 1)[1]) for key in found]

    def job(self, name: str) -> JobRecord | None:
        """What is deployed of a job."""
        key = key_of("job", name)
        value = self._database.get(key)
        return None if value is None else self._decoded(key, encoding.decode_job, name, value)

    def jobs(self, composition: str | None = None) -> list[JobRecord]:
        """What is deployed of each job (of one composition), by name."""
        records = self._scan(b"job/", encoding.decode_job)
        return [each for each in records if composition is None or each.composition == composition]

    def attempts(self, job: str | None = None) -> list[AttemptRecord]:
        """The attempts that run or may run (of one job), by job name and number."""
        if job is None:
            return self._scan(b"attempt/", encoding.decode_attempt)
        return self._scan(
            key_of("attempt", job, ""),
            lambda number, value: encoding.decode_attempt(f"{job}/{number}", value),
        )

    def operation(self, identifier: str) -> dict[str, Any] | None:
        """An operation as plain data."""
        key = key_of("operation", identifier)
        value = self._database.get(key)
        return None if value is None else self._decoded(key, encoding.decode_operation, value)

    def left_behind(self) -> list[dict[str, Any]]:
        """The copies that were left behind, as plain data."""
        return self._scan(b"left/", lambda _, value: encoding.decode_operation(value))

    def operations(self) -> list[dict[str, Any]]:
        """All operations, as plain data, oldest first."""
        return self._scan(b"operation/", lambda _, value: encoding.decode_operation(value))

    def events(self, limit: int = 100, accept: Callable[[Event], bool] | None = None) -> list[Event]:
        """The last ``limit`` events (of those that ``accept`` answers true for), oldest first."""
        found: list[Event] = []
        with self._database.scan(b"event/", reverse=True) as records:
            for key, value in records:
                event = self._decoded(key, encoding.decode_event, value)
                if accept is None or accept(event):
                    found.append(event)
                if len(found) >= limit:
                    break
        return found[::-1]

    def records(self) -> list[Record]:
        """Every key with its value, as they are together at this moment."""
        return self._database.all()

    # --- ending

    @property
    def failure(self) -> StoreError | None:
        """What kept the last change from the disk, until one succeeds."""
        return self._database.failure

    def close(self) -> None:
        """Let go of the store; another process may open it then."""
        with self._lock:
            self._database.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
