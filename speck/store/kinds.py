"""The kinds of records: the keys of each, and how its values are encoded and decoded.

The store reads by them, transactions write by them, and a check of a store decodes by them all records that
there are.  A new kind is added here, and to the key layout in :mod:`~speck.store.codec`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

from speck.core.adaptation import AdaptationState
from speck.placement.profile import JobProfile, SiteProfile
from speck.store import codec, profiles
from speck.store.abandoned import AbandonedAttempt, AbandonedSession, DeletedSession
from speck.store.agents import AgentRecord, CodeRecord
from speck.store.codec import key_of, number_part
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

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Kind(Generic[_T]):
    """A kind of records, whose keys have ``parts`` parts after ``name``.

    ``decode`` makes a record from these parts, with ``/`` between them, and from its value; whatever it
    raises means damage.  ``encode`` makes the value of a record.  ``resident`` kinds are in memory
    (:mod:`~speck.store.leveldb.resident`).
    """

    name: str
    decode: Callable[[str, bytes], _T]
    encode: Callable[[_T], bytes]
    parts: int = 1
    resident: bool = False

    def key(self, *parts: str | int) -> bytes:
        """The key with these parts; numbers get leading zeros, so that they sort."""
        return key_of(self.name, *(each if isinstance(each, str) else number_part(each) for each in parts))

    def beginning(self, *parts: str) -> bytes:
        """The beginning of all keys with these first parts."""
        return key_of(self.name, *parts, "")

    def decoded(self, key: bytes, value: bytes) -> _T:
        """The record of a key and its value."""
        path = key[len(self.name) + 1 :].decode()
        if path.count("/") != self.parts - 1:
            raise _unknown()
        return self.decode(path, value)


def _unknown() -> ValueError:
    return ValueError("no such kind of record")


def _by_value(decode: Callable[[bytes], _T]) -> Callable[[str, bytes], _T]:
    """Decodes records that do not name what their key names."""
    return lambda path, value: decode(value)


def _numbered(decode: Callable[[bytes], _T]) -> Callable[[str, bytes], _T]:
    """Decodes records whose key ends with a number, which they do not name."""

    def decode_numbered(path: str, value: bytes) -> _T:
        int(path.rpartition("/")[2])
        return decode(value)

    return decode_numbered


def _plain(
    name: str,
    from_dict: Callable[[dict[str, Any]], _T],
    to_dict: Callable[[_T], Mapping[str, Any]],
    *,
    resident: bool = False,
) -> Kind[_T]:
    """A kind whose values are plain data, compressed."""
    return Kind(
        name,
        lambda path, value: from_dict(codec.decode_plain(value)),
        lambda record: codec.encode_plain(to_dict(record)),
        resident=resident,
    )


def _revision(path: str, value: bytes) -> Revision:
    composition, number = path.split("/")
    return codec.decode_revision(composition, int(number), value)


def _link(path: str, value: bytes) -> MeasuredLink:
    source, target = path.split("/")
    return profiles.decode_link(source, target, value)


HEAD: Kind[Head] = Kind("composition", codec.decode_head, codec.encode_head, resident=True)
DELETED: Kind[DeletedComposition] = Kind("deleted", codec.decode_deleted, codec.encode_deleted)
REVISION: Kind[Revision] = Kind("revision", _revision, codec.encode_revision, parts=2)
OUTCOME: Kind[RevisionOutcome] = Kind(
    "outcome", _numbered(codec.decode_outcome), codec.encode_outcome, parts=2
)
JOB: Kind[JobRecord] = Kind("job", codec.decode_job, codec.encode_job, resident=True)
ATTEMPT: Kind[AttemptRecord] = Kind(
    "attempt", codec.decode_attempt, codec.encode_attempt, parts=2, resident=True
)
RETRY_STATE: Kind[RetryState] = Kind("tries", _by_value(codec.decode_retry_state), codec.encode_retry_state)
ABANDONED_ATTEMPT: Kind[AbandonedAttempt] = _plain(
    "left", AbandonedAttempt.from_dict, AbandonedAttempt.to_dict, resident=True
)
ABANDONED_SESSION: Kind[AbandonedSession] = _plain(
    "left-session", lambda data: AbandonedSession(**data), AbandonedSession.to_dict, resident=True
)
DELETED_SESSION: Kind[DeletedSession] = _plain("gone-session", lambda data: DeletedSession(**data), asdict)
AGENT: Kind[AgentRecord] = _plain("agent", AgentRecord.from_dict, AgentRecord.to_dict)
JOIN_CODE: Kind[CodeRecord] = _plain("join", CodeRecord.from_dict, CodeRecord.to_dict)
OPERATION: Kind[dict[str, Any]] = _plain("operation", lambda data: data, lambda data: data)
HEALING: Kind[dict[str, Any]] = _plain("healing", lambda data: data, lambda data: data)
ADAPTATION: Kind[AdaptationState] = Kind("adapt", _by_value(codec.decode_adaptation), codec.encode_adaptation)
JOB_PROFILE: Kind[JobProfile] = Kind(
    "profile/job", _by_value(profiles.decode_job_profile), profiles.encode_job_profile, parts=2
)
CUT_CORRECTION: Kind[CutCorrection] = Kind(
    "profile/cut", _by_value(profiles.decode_cut_correction), profiles.encode_cut_correction, parts=2
)
LINK: Kind[MeasuredLink] = Kind("profile/link", _link, profiles.encode_link, parts=2)
SITE_PROFILE: Kind[SiteProfile] = Kind(
    "profile/site", profiles.decode_site_profile, profiles.encode_site_profile
)
EVENT: Kind[Event] = Kind("event", _numbered(codec.decode_event), codec.encode_event)
# Each with the number of the user's event that follows it.
LOOP_EVENT: Kind[tuple[int, Event]] = Kind(
    "loop", _numbered(codec.decode_loop_event), lambda entry: codec.encode_loop_event(entry[1], entry[0])
)

OPERATIONS = (OPERATION, HEALING)  # of users, and of the loops

ALL: tuple[Kind[Any], ...] = (
    *(HEAD, DELETED, REVISION, OUTCOME, JOB, ATTEMPT, RETRY_STATE),
    *(ABANDONED_ATTEMPT, ABANDONED_SESSION, DELETED_SESSION, AGENT, JOIN_CODE),
    *(OPERATION, HEALING, ADAPTATION, EVENT, LOOP_EVENT),
    *(JOB_PROFILE, CUT_CORRECTION, LINK, SITE_PROFILE),
)
RESIDENT = tuple(kind for kind in ALL if kind.resident)

_BY_NAME = {kind.name: kind for kind in ALL}


def kind_of(key: bytes) -> Kind[Any]:
    """The kind of the record with this key.  Raises :class:`ValueError` if there is none."""
    first, slash, rest = key.decode().partition("/")
    second, _, _ = rest.partition("/")
    kind = _BY_NAME.get(first) or _BY_NAME.get(f"{first}/{second}")
    if kind is None or not slash:
        raise _unknown()
    return kind
