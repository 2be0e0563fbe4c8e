"""Encodes records as keys and bytes, and decodes them; :mod:`~speck.store.kinds` has them by their keys.

Key layout (text, parts divided by ``/``; numbers with leading zeros, so that they sort)::

    meta/format                     "1"
    meta/epoch                      the epoch of the last pair of servers that the store was of
    meta/identity                   16 letters and digits of this store alone, which its attempts carry
    meta/first                      the number after which the attempts at a new job begin (none: 0)
    meta/position                   of a pair of servers: EPOCH.N.ID of the last write that both have, the
                                    N-th one (EPOCH.ID by earlier versions)
    composition/NAME                head: last revision, whether it is being deleted, what its user allowed
    deleted/NAME                    in place of the head of a deleted composition: last revision, time, author
    revision/NAME/NUMBER            the jobs of a revision, with author, time and reason (compressed)
    outcome/NAME/NUMBER             what became of a revision (none: not known)
    job/NAME                        composition, number of its last attempt, sessions, state, error
    attempt/JOB/NUMBER              one try on an engine, written before the engine is called; names
                                    the revision that holds the form of the job which it runs
    left/ID                         an attempt that was abandoned at an engine out of reach
    left-session/ID                 a session that was abandoned at a broker out of reach
    gone-session/ID                 a session that was deleted lately
    agent/SITE                      the agent of a site that joined or was revoked
    join/SHA256                     a code with which a site joins
    tries/JOB                       how often a job that does not come up was tried, and when it is again
    operation/ID                    one apply: its plan, how it ended (compressed)
    healing/ID                      the same of automatic operations, with a separate bound
    profile/job/NAME/FORM           the measured load of a job in a form (profile_fingerprint)
    profile/cut/NAME/FORM           the measured errors of the estimate of an input job at a cut
    profile/link/FROM/TO            the measurements of a link between two sites
    profile/site/NAME               those of a site
    adapt/NAME                      the memory of a composition's adaptation (compressed)
    event/NUMBER                    the audit log, oldest first, bounded
    loop/NUMBER                     its entries of automatic operations, each with the number of the
                                    event that follows it, bounded

A job's fields are kept once, in a revision, and an attempt points there: that, and compression of
whatever holds many jobs, keeps a job small.
"""

from __future__ import annotations

import json
import re
import uuid
import zlib
from collections.abc import Mapping
from dataclasses import astuple, replace
from typing import Any

from speck.core.adaptation import AdaptationState
from speck.core.job import Job, client_id
from speck.core.lifecycle import AttemptPhase, RevisionState
from speck.core.placement import PlacementOptions
from speck.core.runtime import Attempt, Handle, State
from speck.core.start import LATEST
from speck.store.records import (
    AttemptRecord,
    DeletedComposition,
    Event,
    Head,
    Intent,
    JobRecord,
    RetryState,
    Revision,
    RevisionOutcome,
    SessionRecord,
)

FORMAT = "1"
INCOMPLETE = "incomplete copy of the primary's store"  # the format of a standby's first copy until its end
FORMAT_KEY = b"meta/format"
IDENTITY_KEY = b"meta/identity"
FIRST_KEY = b"meta/first"
POSITION_KEY = b"meta/position"
EPOCH_KEY = b"meta/epoch"


def key_of(*parts: str) -> bytes:
    """The key with these parts."""
    return "/".join(parts).encode()


def number_part(value: int) -> str:
    """A number as part of a key."""
    return f"{value:010d}"


# An id (a UUID, with dashes or without, or half of one) is half of what an attempt weighs, and no compression
# helps against it but to write its 16 or 8 bytes, and those of the first one once: a handle repeats the id of
# its attempt.  The marks before them occur in no UTF-8 text (RFC 3629, section 1).
_ID = re.compile(
    rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<![0-9a-f])(?:[0-9a-f]{32}|[0-9a-f]{16})(?![0-9a-f])"
)
_DASHED, _PLAIN, _HALF, _FIRST_DASHED, _FIRST_PLAIN = b"\xfe", b"\xff", b"\xfd", b"\xfc", b"\xfb"
_BYTES = {_DASHED: 16, _PLAIN: 16, _HALF: 8, _FIRST_DASHED: 0, _FIRST_PLAIN: 0}  # after each mark
_MARKED = re.compile(b"[\xfb-\xff]")


def _pack(data: Any) -> bytes:
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False).encode()
    if (first := _ID.search(text)) is None:
        return text
    packed, start = _bytes_of(first[0]), first.end()
    rest = _ID.sub(lambda found: _shortened(found[0], packed), text[start:])
    return text[: first.start()] + _shortened(first[0]) + rest


def _bytes_of(identifier: bytes) -> bytes:
    return bytes.fromhex(identifier.replace(b"-", b"").decode())


def _shortened(identifier: bytes, first: bytes = b"") -> bytes:
    packed, dashed = _bytes_of(identifier), b"-" in identifier
    if len(packed) == 8:
        return _HALF + packed
    if packed == first:
        return _FIRST_DASHED if dashed else _FIRST_PLAIN
    return (_DASHED if dashed else _PLAIN) + packed


def _unpack(value: bytes) -> Any:
    parts, start, first = [], 0, b""
    while (found := _MARKED.search(value, start)) is not None:
        end = found.end() + _BYTES[found[0]]
        packed = value[found.end() : end] or first
        first = first or packed
        parts += [value[start : found.start()], _written(packed, found[0]).encode()]
        start = end
    return json.loads(b"".join([*parts, value[start:]]))


def _written(packed: bytes, mark: bytes) -> str:
    return str(uuid.UUID(bytes=packed)) if mark in (_DASHED, _FIRST_DASHED) else packed.hex()


def _compress(data: Any) -> bytes:
    return zlib.compress(json.dumps(data, separators=(",", ":")).encode(), 9)


def _decompress(value: bytes) -> Any:
    return json.loads(zlib.decompress(value))


# --- heads and revisions


def encode_head(head: Head) -> bytes:
    """The inverse of :func:`decode_head`."""
    optional = {"d": int(head.deleting), "l": list(head.left_behind), "g": int(head.give_up)}
    return _pack({"r": head.revision} | {key: value for key, value in optional.items() if value})


def decode_head(name: str, value: bytes) -> Head:
    """A composition's head; ``name`` is the last part of its key."""
    data = _unpack(value)
    return Head(name, data["r"], bool(data.get("d")), tuple(data.get("l", ())), bool(data.get("g")))


def encode_outcome(outcome: RevisionOutcome) -> bytes:
    """The inverse of :func:`decode_outcome`."""
    return _pack([outcome.state, outcome.operation, outcome.by])


def decode_outcome(value: bytes) -> RevisionOutcome:
    """The outcome of a revision."""
    state, operation, by = _unpack(value)
    return RevisionOutcome(RevisionState(state), operation, by)


def encode_deleted(deleted: DeletedComposition) -> bytes:
    """The inverse of :func:`decode_deleted`."""
    return _pack([deleted.revision, round(deleted.at, 3), deleted.author, deleted.message, deleted.operation])


def decode_deleted(name: str, value: bytes) -> DeletedComposition:
    """A deleted composition; ``name`` is the last part of its key."""
    return DeletedComposition(name, *_unpack(value))


def encode_revision(revision: Revision) -> bytes:
    """The inverse of :func:`decode_revision`."""
    data: dict[str, Any] = {
        "at": revision.at,
        "author": revision.author,
        "message": revision.message,
        "counts": revision.counts,
        "jobs": [job.to_dict() for _, job in sorted(revision.jobs.items())],
    }
    if revision.restored:
        data["restored"] = revision.restored
    if revision.placement is not None:
        data["placement"] = revision.placement.to_dict()
    if revision.declared:
        data["declared"] = revision.declared
    return _compress(data)


def decode_revision(composition: str, number: int, value: bytes) -> Revision:
    """A revision."""
    data = _decompress(value)
    jobs = {each["job_name"]: Job.from_dict(each) for each in data["jobs"]}
    added, removed, changed = data.get("counts", (0, 0, 0))
    return Revision(
        composition=composition,
        number=number,
        at=data["at"],
        jobs=jobs,
        author=data["author"],
        message=data["message"],
        restored=data.get("restored", 0),
        counts=(added, removed, changed),
        placement=PlacementOptions.from_dict(data["placement"]) if "placement" in data else None,
        declared=data.get("declared", {}),
    )


# --- jobs and attempts


def encode_job(record: JobRecord) -> bytes:
    """The inverse of :func:`decode_job`."""
    optional = {
        "n": record.attempts,
        "s": [_session_data(each, record.name) for each in record.sessions],
        "state": _state_data(record.state) if record.state else None,
        "error": record.error,
        "left": [_state_data(each) for each in record.garbage_states],
        "f": record.rollback_revision,
        "k": [_state_data(each) for each in record.retained_states],
        "b": record.restart_lineage,
        "i": record.incarnation,
        "o": record.origin,
        "w": record.form,
        "r": int(record.renumbers),
        "a": record.state_source,
        "fs": _state_data(record.rollback_state) if record.rollback_state else None,
        "u": [_session_data(each, record.name) for each in record.unmade_sessions],
        "v": record.unread,
    }
    return _pack({"c": record.composition} | {key: value for key, value in optional.items() if value})


def decode_job(name: str, value: bytes) -> JobRecord:
    """The record of a job; ``name`` is the last part of its key."""
    data = _unpack(value)
    return JobRecord(
        name=name,
        composition=data["c"],
        attempts=data.get("n", 0),
        sessions=tuple(_session(each, name) for each in data.get("s", ())),
        state=_state(data.get("state")),
        error=data.get("error", ""),
        garbage_states=tuple(State(*each) for each in data.get("left", ())),
        rollback_revision=data.get("f", 0),
        retained_states=tuple(State(*each) for each in data.get("k", ())),
        restart_lineage=tuple(data["b"]) if "b" in data else None,
        incarnation=data.get("i", 0),
        origin=data.get("o", 0),
        form=data.get("w", ""),
        renumbers=bool(data.get("r")),
        state_source=data.get("a", ""),
        rollback_state=_state(data.get("fs")),
        unmade_sessions=tuple(_session(each, name) for each in data.get("u", ())),
        unread=data.get("v", ""),
    )


def encode_attempt(record: AttemptRecord) -> bytes:
    """The inverse of :func:`decode_attempt`."""
    attempt, handle = record.attempt, record.handle
    data: dict[str, Any] = {"i": attempt.id, "r": record.revision, "p": record.phase}
    if attempt.state is not None:
        data["state"] = _state_data(attempt.state)
    if handle is not None:
        data["h"] = [handle.address, handle.engine_id, dict(handle.details)]
    if attempt.session != client_id(attempt.job_name):
        data["s"] = _short_name(attempt.session, attempt.job_name)
    if attempt.lineage:
        data["l"] = attempt.lineage
    if attempt.incarnation or attempt.origin:
        data["c"] = [attempt.incarnation, attempt.origin]
    if record.logins is not None:
        data["k"] = list(record.logins) if any(record.logins) else []
    return _pack(data)


def decode_attempt(path: str, value: bytes) -> AttemptRecord:
    """An attempt; ``path`` is its key without the first part."""
    job_name, number = path.split("/")
    data = _unpack(value)
    incarnation, origin = data.get("c", (0, 0))
    attempt = Attempt(
        id=data["i"],
        job_name=job_name,
        number=int(number),
        session=_session_name(data.get("s", ""), job_name),
        state=_state(data.get("state")),
        lineage=data.get("l", ""),
        incarnation=incarnation,
        origin=origin,
    )
    handle = Handle(*data["h"]) if "h" in data else None
    source, sink = data.get("k") or ("", "")
    logins = (source, sink) if "k" in data else None
    return AttemptRecord(attempt, data["r"], AttemptPhase(data["p"]), handle, logins)


def _state_data(state: State) -> list[str]:
    """Kind, location, and the engine's address where it is known."""
    return [state.kind, state.location, *([state.address] if state.address else [])]


def _state(data: list[str] | None) -> State | None:
    return None if data is None else State(*data)


def _session_data(session: SessionRecord, job: str) -> list[str]:
    """Broker, topic, the name where it is not ``client_id(job)``, and a start that is not ``LATEST``."""
    name = "" if session.name == client_id(job) else _short_name(session.name, job)
    start = [] if session.start == LATEST else [session.start]
    return [session.broker, session.topic, *([name] if name or start else []), *start]


def _session(data: list[str], job: str) -> SessionRecord:
    broker, topic, name, start = (*data, *("", LATEST)[len(data) - 2 :])
    return SessionRecord(broker, _session_name(name, job), topic, start)


def _short_name(name: str, job: str) -> str:
    """The name of a session; of one of this job only the part after its name, which has a colon first."""
    return name.removeprefix(client_id(job)) if name.startswith(f"{client_id(job)}:") else name


def _session_name(short: str, job: str) -> str:
    return f"{client_id(job)}{short}" if short[:1] in ("", ":") else short


def encode_retry_state(state: RetryState) -> bytes:
    """The inverse of :func:`decode_retry_state`."""
    return _pack([state.tries, round(state.next_try, 3), state.suspended])


def decode_retry_state(value: bytes) -> RetryState:
    """The retry state of a job."""
    return RetryState(*_unpack(value))


# --- records that are plain data, adaptation and events


def encode_plain(data: Mapping[str, Any]) -> bytes:
    """The inverse of :func:`decode_plain`."""
    return _compress(data)


def decode_plain(value: bytes) -> dict[str, Any]:
    """A record as plain data, such as an operation, or the agent of a site."""
    data: dict[str, Any] = _decompress(value)
    return data


def encode_adaptation(memory: AdaptationState) -> bytes:
    """The inverse of :func:`decode_adaptation`."""
    return _compress(memory.to_dict())


def decode_adaptation(value: bytes) -> AdaptationState:
    """The memory of a composition's adaptation."""
    return AdaptationState.from_dict(_decompress(value))


def encode_event(event: Event) -> bytes:
    """The inverse of :func:`decode_event`."""
    data: list[Any] = [
        round(event.at, 3),
        event.kind,
        event.message,
        event.composition,
        event.job,
        event.operation,
    ]
    if event.author or event.cause or event.intents:
        data += [event.author, event.cause]
    if not event.intents:
        return _pack(data)
    return _compress([*data, *zip(*map(astuple, event.intents), strict=True)])


def decode_event(value: bytes) -> Event:
    """A line of the audit log."""
    data = _unpack(value) if value[:1] == b"[" else _decompress(value)
    fields, intents = data[:8], zip(*data[8:], strict=True)
    return replace(Event(*fields), intents=tuple(Intent(*each) for each in intents))


def encode_loop_event(event: Event, before: int) -> bytes:
    """The inverse of :func:`decode_loop_event`."""
    return b"%d " % before + encode_event(event)


def decode_loop_event(value: bytes) -> tuple[int, Event]:
    """An entry of the loop's own, after the number of the event that follows it."""
    before, _, event = value.partition(b" ")
    return int(before), replace(decode_event(event), automatic=True)
