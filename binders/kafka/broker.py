"""The Kafka broker as SpecK uses it: for each job a place in its topic, an owner, and a fence.

A session is a note in the control topic, and the offsets committed to the group of its name.  No call
disturbs its reader, which is a member of no group.  The note names the owner, and no call changes a session
of another.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from binders.common.session_records import named_owner, of_others, owned_by
from binders.kafka import ages, groups, limits, offsets
from binders.kafka.address import BrokerAddress
from binders.kafka.client import TIMEOUT, Client, Connected
from binders.kafka.control_log import ControlLog, describe, ensure_own_topics, make_topic
from binders.kafka.names import CONTROL, topic_fault
from binders.kafka.records import KafkaSessionRecords, ids_in
from speck.binder import Backlog, BrokerBinder, CountFrom, OwnedSession
from speck.core.inventory import Inventory
from speck.core.runtime import Checkup
from speck.core.start import EARLIEST, LATEST
from speck.errors import Fault, InvalidInput, Rejected

KEPT_SECONDS = 7 * 24 * 3600.0  # for which messages are kept that all have read

_POLL = 0.1  # s
_MOST_MARKERS = 1000
_UNKNOWN_TOPIC = 3  # the error code of a topic that there is not

# A topic that SpecK makes keeps messages until they are deleted: a job that is away finds all of them.
_KEPT = {"retention.ms": "-1", "retention.bytes": "-1"}
_MAKING = {"id": ""}  # the record of a topic that is about to be made

_T = TypeVar("_T")


class KafkaBroker(BrokerBinder):
    """The :class:`~speck.binder.BrokerBinder` of one Kafka cluster.

    Each call takes ``timeout`` seconds at most.  Raises :class:`~speck.errors.Unreachable`,
    :class:`~speck.errors.OutcomeUnknown` or :class:`~speck.errors.Rejected`, and
    :class:`~speck.errors.InvalidInput` for an address or a topic that is invalid.
    """

    def __init__(self, address: str, inventory: Inventory, *, timeout: float = TIMEOUT) -> None:
        """Parse the broker's address; nothing is connected yet."""
        self._address = BrokerAddress.parse(address)
        self._client = Client(self._address, inventory.broker_login(address), timeout)
        self._log = ControlLog(self._address.text)
        self._owner = ""
        self._markers: dict[tuple[str, str], dict[int, int]] = {}

    @property
    def address(self) -> str:
        """The broker's address, as written."""
        return self._address.text

    def take_owner(self, owner: str) -> None:
        """See :meth:`speck.binder.BrokerBinder.take_owner`."""
        self._owner = owner

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def check(self) -> None:
        """See :meth:`speck.binder.BrokerBinder.check`; makes the topics of SpecK's own."""
        self._client.run("its own topics cannot be created", ensure_own_topics, writes=True)

    def checkup(self) -> Checkup:
        """The id of the cluster, its limits, and the settings by which jobs lose messages or their place."""

        def checkup(connected: Connected) -> Checkup:
            topics = {topic for note in self._log.below("note/").values() for topic in ids_in(note)}
            return limits.checkup(connected, topics)

        return self._read(checkup)

    def warnings(self) -> list[str]:
        """The settings of the cluster by which it loses messages, a sentence each."""
        self.check()
        return [each.message for each in self.checkup().complaints if not each.remark]

    # --- sessions

    def ensure_topic(self, topic: str, partitions: int | None = None) -> None:
        """See :meth:`speck.binder.BrokerBinder.ensure_topic`; one partition if no number is given."""
        _check_topic(topic)

        def ensure(connected: Connected) -> None:
            self._topic_id(connected, topic, partitions or 1)
            if partitions is None:
                return
            (found,) = describe(connected, topic)
            number = len(found["partitions"])
            if number != partitions:
                found_text = f"{number} partition{'s' * (number > 1)}"
                right = f"expected {partitions}: with another number the messages of a key lose their order"
                raise Rejected(
                    f"{self.address}: topic {topic!r} has {found_text} ({right})", address=self.address
                )

        self._write(f"topic {topic!r} cannot be created", ensure)

    def topic_partitions(self, topic: str) -> int | None:
        """See :meth:`speck.binder.BrokerBinder.topic_partitions`."""

        def count(connected: Connected) -> int | None:
            (found,) = describe(connected, topic)
            return None if found["error_code"] == _UNKNOWN_TOPIC else len(found["partitions"])

        return self._read(count)

    def ensure_session(self, session: str, topic: str) -> None:
        """See :meth:`speck.binder.BrokerBinder.ensure_session`; a new one begins at the end of its topic.

        One whose records are lost continues at its place, as far as that is there.
        """
        self.begin_session(session, topic, LATEST)

    def begin_session(self, session: str, topic: str, start: str) -> None:
        """See :meth:`speck.binder.BrokerBinder.begin_session`."""
        _check_topic(topic)
        doing = f"session {session!r} cannot be created"
        self._write(doing, lambda each: self._ensure(each, session, topic, start))

    def count_from(self, topic: str, start: str, session: str = "") -> CountFrom:
        """See :meth:`speck.binder.BrokerBinder.count_from`, by offsets."""

        def count(connected: Connected) -> CountFrom:
            begin, end = offsets.at_start(connected, topic, start), offsets.ends(connected, topic)
            place = offsets.place(connected, session, topic) if session else None
            return offsets.count_from(begin, end, None if place is None else place.offsets)

        return self._read(count)

    def has_lost(self, session: str, topic: str) -> bool:
        """See :meth:`speck.binder.BrokerBinder.has_lost`; a tombstone shows that it was deleted."""

        def lost(_: Connected) -> bool:
            records = self._own_records(session)
            return not records.deleted and topic not in records.topic_ids

        return self._read(lost)

    def session_exists(self, session: str) -> bool:
        """See :meth:`speck.binder.BrokerBinder.session_exists`."""
        return bool(self._read(lambda _: self._records(session).note.get("ids")))

    def claim_session(self, session: str, topic: str) -> None:
        """See :meth:`speck.binder.BrokerBinder.claim_session`.

        A session whose topic was made anew, or whose place expired, begins at the beginning of the topic.
        """
        self._write(f"session {session!r} cannot be claimed", lambda each: self._claim(each, session, topic))

    def delete_session(self, session: str) -> None:
        """See :meth:`speck.binder.BrokerBinder.delete_session`; a tombstone takes the place of the fence."""
        self._write(f"session {session!r} cannot be deleted", lambda each: self._delete(each, session))

    def fence(self, session: str, attempt: int) -> None:
        """See :meth:`speck.binder.BrokerBinder.fence`; a fence that names a newer attempt stays."""
        self._write(f"session {session!r} cannot be fenced", lambda each: self._fence(each, session, attempt))

    def fenced(self, session: str) -> int:
        """See :meth:`speck.binder.BrokerBinder.fenced`."""

        def fenced(_: Connected) -> int:
            return max(0, self._own_records(session).fenced)

        return self._read(fenced)

    def readers(self, sessions: Sequence[str]) -> dict[str, int]:
        """See :meth:`speck.binder.BrokerBinder.readers`; by the claims of the readers."""

        def readers(_: Connected) -> dict[str, int]:
            claims = {each: self._log.get(f"claim/{each}").get("attempt") for each in sessions}
            return {name: number for name, number in claims.items() if isinstance(number, int)}

        return self._read(readers)

    def name_writers(self, session: str, writers: Sequence[str]) -> None:
        """See :meth:`speck.binder.BrokerBinder.name_writers`."""

        def name(connected: Connected) -> None:
            self._own_records(session)
            self._put(connected, f"writers/{session}", {"writers": list(writers)})

        self._write(f"the writers of session {session!r} cannot be named", name)

    def drained(self, session: str, marker: str, seconds: float) -> bool | None:
        """See :meth:`speck.binder.BrokerBinder.drained`.

        True once the fenced attempt has committed what was in the topic at the first call with the marker.
        """
        deadline = time.monotonic() + seconds
        self._write(f"session {session!r} cannot be drained", lambda each: self._order(each, session, marker))
        while not self._read(lambda each: self._has_passed(each, session, marker)):
            if time.monotonic() + _POLL > deadline:
                return False
            time.sleep(_POLL)
        self._markers.pop((session, marker), None)
        return True

    def waiting(self, session: str) -> int:
        """See :meth:`speck.binder.BrokerBinder.waiting`, by offsets."""

        def waiting(connected: Connected) -> int:
            found = offsets.unread(connected, {session: self._own_records(session).topic_ids})
            return found[session].backlog.messages

        return self._read(waiting)

    def behind(self, sessions: Sequence[str]) -> dict[str, Backlog]:
        """See :meth:`speck.binder.BrokerBinder.behind`, by offsets, and by the time of the first record."""

        def behind(connected: Connected) -> dict[str, Backlog]:
            noted = {each: ids for each in sessions if (ids := self._records(each).topic_ids)}
            found = offsets.unread(connected, noted)
            stretches = {each for unread in found.values() for each in unread.stretches}
            times, now = ages.first_times(connected, stretches), time.time()
            return {
                session: replace(unread.backlog, seconds=ages.oldest(unread.stretches, times, now))
                for session, unread in found.items()
            }

        return self._read(behind)

    def purge(self) -> None:
        """See :meth:`speck.binder.BrokerBinder.purge`; keeps a week in any case, also of what all have read.

        Of topics that SpecK has made; not of one with a session whose place has expired.  One whose messages
        cannot be deleted, as its leader is away or the right is missing, does not keep the others from it.
        """

        def purge(connected: Connected) -> None:
            noted, faults = self._log.below("note/"), list[str]()
            for topic, made in self._log.below("topic/").items():
                sessions = [name for name, note in noted.items() if topic in ids_in(note)]
                topic_id = str(made.get("id"))
                if fault := offsets.purge(connected, topic, topic_id, sessions, KEPT_SECONDS):
                    faults.append(fault)
            if faults:
                more = f" (and of {len(faults) - 1} more)" if len(faults) > 1 else ""
                text = f"{self.address}: messages cannot be deleted: {faults[0]}{more}"
                raise Rejected(text, address=self.address)

        self._write("messages cannot be deleted", purge)

    # --- owners

    def foreign_sessions(self) -> list[OwnedSession]:
        """See :meth:`speck.binder.BrokerBinder.foreign_sessions`."""
        return of_others(self.owned_sessions(), self._owner) if self._owner else []

    def owned_sessions(self) -> list[OwnedSession]:
        """See :meth:`speck.binder.BrokerBinder.owned_sessions`."""

        def owned(_: Connected) -> list[OwnedSession]:
            found = (self._records(name) for name in self._log.below("note/"))
            return [
                OwnedSession(each.session, named_owner(each.note), tuple(each.topics), max(0, each.fenced))
                for each in found
                if named_owner(each.note)
            ]

        return self._read(owned)

    def adopt_session(self, session: str, former: str) -> None:
        """See :meth:`speck.binder.BrokerBinder.adopt_session`."""

        def adopt(connected: Connected) -> None:
            records = self._records(session)
            if records.owner != former:
                records.reject_foreign(self._owner, self.address)
            if records.deleted:
                return
            for key, record in ((f"note/{session}", records.note), (f"fence/{session}", records.fence)):
                if record and named_owner(record) != self._owner:
                    self._put(connected, key, record | owned_by(self._owner))

        self._write(f"session {session!r} cannot be adopted", adopt)

    # --- internals

    def _read(self, work: Callable[[Connected], _T]) -> _T:
        return self._client.run(f"{CONTROL} cannot be read", lambda each: self._refreshed(each, work))

    def _write(self, doing: str, work: Callable[[Connected], _T]) -> _T:
        return self._client.run(doing, lambda each: self._refreshed(each, work), writes=True)

    def _refreshed(self, connected: Connected, work: Callable[[Connected], _T]) -> _T:
        deadline = time.monotonic() + self._client.timeout
        self._log.refresh(connected, self._client.generation, deadline)
        return work(connected)

    def _put(self, connected: Connected, key: str, content: dict[str, Any] | None) -> None:
        self._log.write(connected, key, content, self._client.timeout)

    def _records(self, session: str) -> KafkaSessionRecords:
        return KafkaSessionRecords.read(self._log, session)

    def _own_records(self, session: str) -> KafkaSessionRecords:
        """The records of a session.  Raises :class:`~speck.errors.SessionOfAnother`."""
        records = self._records(session)
        records.reject_foreign(self._owner, self.address)
        return records

    def _ensure(self, connected: Connected, session: str, topic: str, start: str = LATEST) -> None:
        records, topic_id = self._own_records(session), self._topic_id(connected, topic)
        groups.reject_members(connected, session, self.address)
        known = topic in records.topic_ids
        if known and records.topic_ids[topic] != topic_id:
            groups.commit(connected, session, topic, offsets.at_start(connected, topic, EARLIEST))
        elif offsets.place(connected, session, topic) is None:
            begins = offsets.begins(connected, topic) if known else offsets.at_start(connected, topic, start)
            groups.commit(connected, session, topic, begins)
        desired = {"topics": [topic], "ids": {topic: topic_id}} | owned_by(self._owner)
        if records.note != desired:
            self._put(connected, f"note/{session}", desired)
        for other in records.topic_ids:
            if other != topic:
                self._forget(connected, session, other)

    def _topic_id(self, connected: Connected, topic: str, partitions: int = 1) -> str:
        """The id of a topic, which is made if there is none."""
        (found,) = describe(connected, topic)
        if found["error_code"] == _UNKNOWN_TOPIC:
            # First, since a topic that is made and not noted would keep all messages for ever.
            self._put(connected, f"topic/{topic}", _MAKING)
            make_topic(connected, topic, _KEPT, partitions)
            (found,) = describe(connected, topic)
            self._put(connected, f"topic/{topic}", {"id": str(found["topic_id"])})
        elif self._log.get(f"topic/{topic}") == _MAKING and _is_kept(connected, topic):
            self._put(connected, f"topic/{topic}", {"id": str(found["topic_id"])})
        return str(found["topic_id"])

    def _claim(self, connected: Connected, session: str, topic: str) -> None:
        records = self._own_records(session)
        if records.deleted and not records.note:
            return
        if records.topic_ids:
            self._ensure(connected, session, topic)
        elif named_owner(records.note) != self._owner or not records.note:
            self._put(connected, f"note/{session}", {"topics": [topic]} | owned_by(self._owner))

    def _delete(self, connected: Connected, session: str) -> None:
        records = self._own_records(session)
        if not records.note and not records.fence:
            return
        number = records.fenced if records.deleted else max(records.fenced, 0) + 1
        tombstone = {"attempt": number, "deleted": True} | owned_by(self._owner)
        self._put(connected, f"fence/{session}", tombstone)
        for topic in records.topic_ids:
            self._forget(connected, session, topic)
        for kind in ("writers", "claim", "drain", "note"):
            if self._log.get(f"{kind}/{session}"):
                self._put(connected, f"{kind}/{session}", None)

    def _fence(self, connected: Connected, session: str, attempt: int) -> None:
        records = self._own_records(session)
        if records.deleted or records.fenced < attempt:
            fence = {"attempt": max(records.fenced, attempt)} | owned_by(self._owner)
            self._put(connected, f"fence/{session}", fence)

    def _order(self, connected: Connected, session: str, marker: str) -> None:
        topics = self._own_records(session).topics
        if (session, marker) in self._markers:
            return
        ends = offsets.ends(connected, topics[0]) if topics else {}
        while len(self._markers) >= _MOST_MARKERS:
            self._markers.pop(next(iter(self._markers)), None)
        self._markers[session, marker] = ends
        order = {"marker": marker, "ends": {str(part): end for part, end in ends.items()}}
        self._put(connected, f"drain/{session}", order)

    def _has_passed(self, connected: Connected, session: str, marker: str) -> bool:
        records, ends = self._records(session), self._markers.get((session, marker))
        topics = records.topics
        place = offsets.place(connected, session, topics[0]) if topics else None
        if place is None or ends is None:
            return False
        fenced = records.fenced
        by_reader = fenced >= 0 and place.metadata.get("attempt") == fenced and "messages" in place.metadata
        return by_reader and all(place.offsets.get(part, 0) >= end for part, end in ends.items())

    def _forget(self, connected: Connected, session: str, topic: str) -> None:
        """Delete the place of a session in a topic."""
        place = offsets.place(connected, session, topic)
        if place is not None:
            is_last = self._records(session).topics == [topic]
            groups.forget(connected, session, topic, place.offsets, is_last=is_last)


def _is_kept(connected: Connected, topic: str) -> bool:
    """True if a topic has the settings of those that SpecK makes: it may be another's of the same name."""
    return limits.topic_settings(connected, topic).items() >= _KEPT.items()


def _check_topic(topic: str) -> None:
    fault = topic_fault(topic)
    if fault is not None:
        shown = topic if len(topic) <= 100 else topic[:100] + "..."
        raise InvalidInput([Fault(f"{shown!r} {fault}", field="source_topic", value=shown)], "topic")
