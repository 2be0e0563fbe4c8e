"""The store: what SpecK wants, has asked for and knows, in LevelDB, which belongs to this one process.

Key layout (text, parts divided by ``/``; numbers with leading zeros, so that they sort)::

    meta/format                     "1"
    composition/NAME                head: last revision, and whether it is being deleted
    revision/NAME/NUMBER            the wanted jobs of a revision, with who, when and why (compressed)
    job/NAME                        composition, number of its last attempt, sessions, state, error
    attempt/JOB/NUMBER              one try on an engine, written before the engine hears of it; names
                                    the revision that holds the form of the job which it runs
    operation/ID                    one apply: its plan, how it ended (compressed)
    event/NUMBER                    the audit log, oldest first, bounded

A job's fields are kept once, in a revision, and an attempt points there: that, and compression of
whatever holds many jobs, keeps a job small.  Every change is one atomic batch that is on disk when
the call returns.
"""

from __future__ import annotations

import json
import os
import re
import threading
import uuid
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import plyvel

from speck.errors import NotFound, StoreError, StoreLocked
from speck.model import Attempt, Handle, Job, State, client_id

FORMAT = "1"
KEPT_EVENTS = 10_000
KEPT_OPERATIONS = 500
_OWNER_FILE = "OWNER"  # beside LevelDB's own files: the process id of whoever has the store open


@dataclass(frozen=True, slots=True)
class Head:
    """A composition's last revision (0: none yet)."""

    name: str
    revision: int
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class Revision:
    """An accepted version of a composition.  ``at`` is Unix time, s."""

    composition: str
    number: int
    at: float
    jobs: Mapping[str, Job]
    author: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session that was made for a job at a broker, or may have been: the intent is stored first."""

    broker: str
    name: str
    topic: str


@dataclass(frozen=True, slots=True)
class JobRecord:
    """What SpecK keeps of a job besides its attempts.

    ``attempts`` is the number of the last attempt; ``sessions`` holds the current one last; ``state`` is
    where its last stopped attempt left its state; ``error`` what went wrong last.
    """

    name: str
    composition: str
    attempts: int = 0
    sessions: tuple[SessionRecord, ...] = ()
    state: State | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """An attempt that an engine runs or may run: ``phase`` is ``intended``, ``running`` or ``stopping``.

    ``revision`` is the one that holds the form of the job which it runs.
    """

    attempt: Attempt
    revision: int
    phase: str = "intended"
    handle: Handle | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the audit log.  ``at`` is Unix time, s."""

    at: float
    kind: str
    message: str
    composition: str = ""
    job: str = ""
    operation: str = ""


class _Batch(Protocol):
    def put(self, key: bytes, value: bytes) -> None: ...
    def delete(self, key: bytes) -> None: ...


def _key(*parts: str) -> bytes:
    return "/".join(parts).encode()


def _number(value: int) -> str:
    return f"{value:010d}"


# An id (a UUID, with dashes or without) is half of what an attempt weighs, and no compression helps against
# it but to write its 16 bytes.  The marks before them occur in no UTF-8 text (RFC 3629, section 1).
_ID = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<![0-9a-f])[0-9a-f]{32}(?![0-9a-f])")
_DASHED, _PLAIN = b"\xfe", b"\xff"
_MARKED = re.compile(b"[\xfe\xff]")


def _pack(data: Any) -> bytes:
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()
    return _ID.sub(lambda found: _shortened(found[0]), text)


def _shortened(identifier: bytes) -> bytes:
    mark = _DASHED if b"-" in identifier else _PLAIN
    return mark + bytes.fromhex(identifier.replace(b"-", b"").decode())


def _unpack(value: bytes) -> Any:
    parts, start = [], 0
    while (found := _MARKED.search(value, start)) is not None:
        end = found.end() + 16
        identifier = uuid.UUID(bytes=value[found.end() : end])
        text = str(identifier) if found[0] == _DASHED else identifier.hex
        parts += [value[start : found.start()], text.encode()]
        start = end
    return json.loads(b"".join([*parts, value[start:]]))


def _compress(data: Any) -> bytes:
    return zlib.compress(json.dumps(data, separators=(",", ":")).encode(), 9)


class Transaction:
    """Changes that reach the disk together, or not at all."""

    def __init__(self, batch: _Batch, store: Store) -> None:
        self._batch = batch
        self._store = store

    def put_head(self, head: Head) -> None:
        """Write a composition's head."""
        data = {"r": head.revision} | ({"d": 1} if head.deleting else {})
        self._batch.put(_key("composition", head.name), _pack(data))

    def delete_composition(self, name: str) -> None:
        """Forget a composition and its revisions."""
        self._batch.delete(_key("composition", name))
        for key in self._store.keys(_key("revision", name, "")):
            self._batch.delete(key)
        self._store.forget_cached(name)

    def put_revision(self, revision: Revision) -> None:
        """Write a revision; it is never changed afterwards."""
        data = {
            "at": revision.at,
            "author": revision.author,
            "message": revision.message,
            "jobs": [job.to_dict() for _, job in sorted(revision.jobs.items())],
        }
        key = _key("revision", revision.composition, _number(revision.number))
        self._batch.put(key, _compress(data))

    def put_job(self, record: JobRecord) -> None:
        """Write what is deployed of a job."""
        data: dict[str, Any] = {"c": record.composition}
        optional = {
            "n": record.attempts,
            "s": [_session_data(each, record.name) for each in record.sessions],
            "state": [record.state.kind, record.state.location] if record.state else None,
            "error": record.error,
        }
        data |= {key: value for key, value in optional.items() if value}
        self._batch.put(_key("job", record.name), _pack(data))

    def delete_job(self, name: str) -> None:
        """Forget a job."""
        self._batch.delete(_key("job", name))

    def put_attempt(self, record: AttemptRecord) -> None:
        """Write an attempt, in the phase it is in."""
        attempt, handle = record.attempt, record.handle
        data: dict[str, Any] = {"i": attempt.id, "r": record.revision, "p": record.phase}
        if attempt.state is not None:
            data["state"] = [attempt.state.kind, attempt.state.location]
        if handle is not None:
            data["h"] = [handle.address, handle.engine_id, dict(handle.details)]
        if attempt.session != client_id(attempt.job_name):
            data["s"] = attempt.session
        self._batch.put(_key("attempt", attempt.job_name, _number(attempt.number)), _pack(data))

    def delete_attempt(self, attempt: Attempt) -> None:
        """Forget an attempt that is known to run no more."""
        self._batch.delete(_key("attempt", attempt.job_name, _number(attempt.number)))

    def put_left_behind(self, identifier: str, data: Mapping[str, Any]) -> None:
        """Write a copy that was left behind, as plain data."""
        self._batch.put(_key("left", identifier), _pack(dict(data)))

    def delete_left_behind(self, identifier: str) -> None:
        """Forget a copy that is known to run no more."""
        self._batch.delete(_key("left", identifier))

    def put_operation(self, identifier: str, data: Mapping[str, Any]) -> None:
        """Write an operation as plain data."""
        self._batch.put(_key("operation", identifier), _compress(data))

    def add_event(self, event: Event) -> None:
        """Append to the audit log; the oldest entry leaves when the log is full."""
        number = self._store.next_event()
        data = [round(event.at, 3), event.kind, event.message, event.composition, event.job, event.operation]
        self._batch.put(_key("event", _number(number)), _pack(data))
        if number >= KEPT_EVENTS:
            self._batch.delete(_key("event", _number(number - KEPT_EVENTS)))


@dataclass
class Store:
    """One open store.  Safe to use from several threads; a context manager.

    Raises :class:`~speck.errors.StoreLocked` when another process (or this one) has it open, and
    :class:`~speck.errors.StoreError` when it cannot be read or written.
    """

    directory: Path
    _cache: dict[tuple[str, int], Revision] = field(default_factory=dict, init=False, repr=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, init=False, repr=False)

    def __post_init__(self) -> None:
        self._db = self._open()
        try:
            self._check_format()
            self._events = self._last_event() + 1
        except BaseException:
            self._db.close()
            raise

    def _open(self) -> Any:
        owner = self.directory / _OWNER_FILE
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            # Small buffers: the store of a coordinator is small, and its memory is a Raspberry Pi's.
            db = plyvel.DB(str(self.directory), create_if_missing=True, write_buffer_size=256 * 1024)
            owner.write_text(str(os.getpid()), encoding="ascii")
        except plyvel.IOError as error:
            if "lock" in str(error).lower():
                raise StoreLocked(
                    f"store {str(self.directory)!r} is held by {_who_holds(owner)}; "
                    "one server at a time may open it (stop that one, or use its address)"
                ) from error
            raise StoreError(f"store {str(self.directory)!r} cannot be opened: {error}") from error
        except (plyvel.Error, OSError) as error:
            raise StoreError(f"store {str(self.directory)!r} cannot be opened: {error}") from error
        return db

    def _check_format(self) -> None:
        found = self._db.get(_key("meta", "format"))
        if found is None:
            self._db.put(_key("meta", "format"), FORMAT.encode(), sync=True)
        elif found.decode() != FORMAT:
            raise StoreError(
                f"store {str(self.directory)!r} has format {found.decode()!r}, this SpecK reads {FORMAT!r}"
            )

    def _last_event(self) -> int:
        with self._db.iterator(prefix=b"event/", reverse=True, include_value=False) as keys:
            last = next(keys, None)
        return -1 if last is None else int(last.rsplit(b"/", 1)[1])

    # --- writing

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        """Everything put inside is written when the block ends without an error; then it is on disk.

        Blocks exclude each other; their writes do not, and LevelDB takes several to disk at once.  So what
        one thread reads in its block, no other may be about to change: each job is one thread's at a time.
        """
        with self._guard():
            batch = self._db.write_batch(sync=True)
            with self._lock:
                yield Transaction(batch, self)
            batch.write()

    def next_event(self) -> int:
        """The number of the next entry of the audit log."""
        with self._lock:
            self._events += 1
            return self._events - 1

    def trim_operations(self, keep: int = KEPT_OPERATIONS) -> None:
        """Forget the oldest operations but ``keep`` (their ids sort by time)."""
        surplus = self.keys(b"operation/")[:-keep]
        with self._lock, self._guard(), self._db.write_batch(sync=True) as batch:
            for key in surplus:
                batch.delete(key)

    def compact(self) -> None:
        """Give back the space of what was overwritten or deleted."""
        with self._guard():
            self._db.compact_range()

    # --- reading

    def keys(self, prefix: bytes) -> list[bytes]:
        """All keys that begin with a prefix, in order."""
        with self._guard(), self._db.iterator(prefix=prefix, include_value=False) as found:
            return list(found)

    def _scan(self, prefix: bytes, *, reverse: bool = False) -> Iterator[tuple[str, bytes]]:
        with self._guard(), self._db.iterator(prefix=prefix, reverse=reverse) as found:
            for key, value in found:
                yield key[len(prefix) :].decode(), value

    def _get(self, *parts: str) -> bytes | None:
        with self._guard():
            value: bytes | None = self._db.get(_key(*parts))
            return value

    def heads(self) -> list[Head]:
        """Every composition's head, by name."""
        return [_head(name, value) for name, value in self._scan(b"composition/")]

    def head(self, name: str) -> Head | None:
        """A composition's head."""
        value = self._get("composition", name)
        return None if value is None else _head(name, value)

    def revision(self, composition: str, number: int) -> Revision:
        """One revision; :class:`~speck.errors.NotFound` when there is none of that number."""
        cached = self._cache.get((composition, number))
        if cached is not None:
            return cached
        value = self._get("revision", composition, _number(number))
        if value is None:
            raise NotFound(f"composition {composition!r} has no revision {number}")
        revision = _revision(composition, number, value)
        with self._lock:
            self._cache[composition, number] = revision
        return revision

    def revisions(self, composition: str) -> list[Revision]:
        """All revisions of a composition, oldest first."""
        prefix = _key("revision", composition, "")
        return [_revision(composition, int(name), value) for name, value in self._scan(prefix)]

    def forget_cached(self, composition: str) -> None:
        """Drop revisions of a composition that were read before."""
        with self._lock:
            for key in [key for key in self._cache if key[0] == composition]:
                del self._cache[key]

    def job(self, name: str) -> JobRecord | None:
        """What is deployed of a job."""
        value = self._get("job", name)
        return None if value is None else _job(name, value)

    def jobs(self, composition: str | None = None) -> list[JobRecord]:
        """What is deployed of each job (of one composition), by name."""
        records = (_job(name, value) for name, value in self._scan(b"job/"))
        return [each for each in records if composition is None or each.composition == composition]

    def attempts(self, job: str | None = None) -> list[AttemptRecord]:
        """The attempts that run or may run (of one job), by job name and number."""
        prefix = b"attempt/" if job is None else _key("attempt", job, "")
        skipped = "" if job is None else f"{job}/"
        return [_attempt(skipped + name, value) for name, value in self._scan(prefix)]

    def left_behind(self) -> list[dict[str, Any]]:
        """The copies that were left behind, as plain data."""
        return [_unpack(value) for _, value in self._scan(b"left/")]

    def operation(self, identifier: str) -> dict[str, Any] | None:
        """An operation as plain data."""
        value = self._get("operation", identifier)
        return None if value is None else json.loads(zlib.decompress(value))

    def operations(self) -> list[dict[str, Any]]:
        """All operations, as plain data, in no particular order."""
        return [json.loads(zlib.decompress(value)) for _, value in self._scan(b"operation/")]

    def events(self, limit: int = 100) -> list[Event]:
        """The last ``limit`` events, oldest first."""
        found: list[Event] = []
        for _, value in self._scan(b"event/", reverse=True):
            if len(found) >= limit:
                break
            found.append(Event(*_unpack(value)))
        return found[::-1]

    # --- ending

    def close(self) -> None:
        """Let go of the store; another process may open it then."""
        with self._lock:
            if not self._db.closed:
                self._db.close()
                (self.directory / _OWNER_FILE).unlink(missing_ok=True)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _guard(self) -> Iterator[None]:
        try:
            yield
        except (plyvel.Error, OSError) as error:
            raise StoreError(f"store {str(self.directory)!r}: {error}") from error
        except RuntimeError as error:  # plyvel's word for a closed database
            if self._db.closed:
                raise StoreError(f"store {str(self.directory)!r} is closed") from error
            raise


def _who_holds(owner: Path) -> str:
    try:
        return f"process {owner.read_text(encoding='ascii').strip()}"
    except OSError:
        return "another process"


def _state(data: list[str] | None) -> State | None:
    return None if data is None else State(*data)


def _head(name: str, value: bytes) -> Head:
    data = _unpack(value)
    return Head(name, data["r"], bool(data.get("d")))


def _revision(composition: str, number: int, value: bytes) -> Revision:
    data = json.loads(zlib.decompress(value))
    jobs = {each["job_name"]: Job.from_dict(each) for each in data["jobs"]}
    return Revision(composition, number, data["at"], jobs, data["author"], data["message"])


def _session_data(session: SessionRecord, job: str) -> list[str]:
    """Broker, topic, and the session's name where it is not the job's first one."""
    name = [] if session.name == client_id(job) else [session.name]
    return [session.broker, session.topic, *name]


def _session(data: list[str], job: str) -> SessionRecord:
    broker, topic, *name = data
    return SessionRecord(broker, name[0] if name else client_id(job), topic)


def _job(name: str, value: bytes) -> JobRecord:
    data = _unpack(value)
    return JobRecord(
        name,
        data["c"],
        data.get("n", 0),
        tuple(_session(each, name) for each in data.get("s", ())),
        _state(data.get("state")),
        data.get("error", ""),
    )


def _attempt(path: str, value: bytes) -> AttemptRecord:
    job_name, number = path.split("/")
    data = _unpack(value)
    attempt = Attempt(
        id=data["i"],
        job_name=job_name,
        number=int(number),
        session=data.get("s", client_id(job_name)),
        state=_state(data.get("state")),
    )
    handle = Handle(*data["h"]) if "h" in data else None
    return AttemptRecord(attempt, data["r"], data["p"], handle)
