"""The offsets of topics, and the places of groups in them."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from binders.common.session_records import json_object
from binders.kafka.client import Connected, first_line
from binders.kafka.control_log import describe
from binders.kafka.epochs import EpochOf, epoch_ends, kept_offset
from speck.binder import Backlog, CountFrom
from speck.core.start import EARLIEST, LATEST, start_millis

Offsets = dict[int, int]  # by partition


@dataclass(frozen=True, slots=True)
class Place:
    """The offsets that were committed to a group for a topic, and the metadata of the oldest commit."""

    offsets: Offsets
    metadata: Mapping[str, Any] = field(default_factory=dict)


class Stretch(NamedTuple):
    """The offsets of a partition from the first that a session has not read, up to the end."""

    topic: str
    partition: int
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Unread:
    """The backlog of a session, without an age, and its place in the partitions."""

    backlog: Backlog = field(default_factory=lambda: Backlog(0))
    stretches: frozenset[Stretch] = frozenset()


def ends(connected: Connected, topic: str) -> Offsets:
    """The end of each partition, behind all messages that the broker has acknowledged.

    Those of an open transaction are before it, and so are others behind them, which nobody reads yet.
    """
    return _ends(connected, describe(connected, topic)).get(topic, {})


def begins(connected: Connected, topic: str) -> Offsets:
    """The offset of the first record that each partition has."""
    return _begins(connected, describe(connected, topic)).get(topic, {})


def at_start(connected: Connected, topic: str, start: str) -> Offsets:
    """The offset of each partition at a start (:mod:`speck.core.start`).

    If nothing came since, the end, or the beginning of the first open transaction: its messages come yet.
    """
    from kafka.admin import OffsetTimestamp

    if start == LATEST:
        return _readable_ends(connected, describe(connected, topic)).get(topic, {})
    if start == EARLIEST:
        return begins(connected, topic)
    described = describe(connected, topic)
    found = _offsets(connected, described, OffsetTimestamp(start_millis(start))).get(topic, {})
    end = _readable_ends(connected, described).get(topic, {})
    return {part: offset if offset >= 0 else end[part] for part, offset in found.items()}


def count_from(begin: Mapping[int, int], end: Mapping[int, int], at: Mapping[int, int] | None) -> CountFrom:
    """The messages from a place to the end, and those from the place ``at`` to there, by partition."""
    messages = sum(max(0, until - begin.get(part, 0)) for part, until in end.items())
    before = {} if at is None else at
    return CountFrom(messages, sum(max(0, begin.get(part, 0) - offset) for part, offset in before.items()))


def places(connected: Connected, groups: Iterable[str]) -> dict[tuple[str, str], Place]:
    """The places of groups, by group and topic, as far as they have any.

    One whose records the broker has lost is where the log has changed, as the reader will continue there.
    """
    specs: dict[str, None] = dict.fromkeys(groups)
    found = connected.admin.list_group_offsets(specs) if specs else {}
    commits: dict[tuple[str, str], dict[int, Any]] = defaultdict(dict)
    for group, of_group in found.items():
        for part, at in of_group.items():
            if at.offset >= 0:
                commits[group, part.topic][part.partition] = at
    ends = epoch_ends(
        connected, {_epoch(topic, *each) for (_, topic), at in commits.items() for each in at.items()}
    )
    return {(group, topic): _place(topic, at, ends) for (group, topic), at in commits.items()}


def place(connected: Connected, group: str, topic: str) -> Place | None:
    """The place of a group in a topic; ``None`` for none."""
    return places(connected, [group]).get((group, topic))


def unread(connected: Connected, noted: Mapping[str, Mapping[str, str]]) -> dict[str, Unread]:
    """The unread messages of each session, by its name; ``noted`` has the ids of its topics by their names.

    Offsets count the marks of transactions too, and the messages of open ones.
    """
    topics = sorted({topic for ids in noted.values() for topic in ids})
    described = describe(connected, *topics) if topics else []
    present = {str(each["name"]): str(each["topic_id"]) for each in described if not each["error_code"]}
    last, first = _ends(connected, described), _begins(connected, described)
    found, at = {}, places(connected, noted)
    for session, ids in noted.items():
        total = Unread()
        for topic in ids.keys() & present.keys():
            own = at.get((session, topic)) if present[topic] == ids[topic] else None
            offsets = None if own is None else own.offsets
            total = _sum(total, unread_of(topic, first[topic], last[topic], offsets))
        found[session] = total
    return found


def unread_of(
    topic: str, first: Mapping[int, int], end: Mapping[int, int], at: Mapping[int, int] | None
) -> Unread:
    """The messages between a place and the end of a topic, by partition.

    Without a place, a session begins at the beginning; so it does in a partition that is new.
    """
    begin = first if at is None else dict.fromkeys(end, 0) | dict(at)
    all_stretches = (
        Stretch(topic, part, max(begin.get(part, 0), first.get(part, 0)), until)
        for part, until in end.items()
    )
    stretches = frozenset(each for each in all_stretches if each.first < each.end)
    gone = sum(max(0, first.get(part, 0) - begin.get(part, 0)) for part in end)
    return Unread(Backlog(sum(each.end - each.first for each in stretches), gone), stretches)


def purge(
    connected: Connected, topic: str, topic_id: str, sessions: Sequence[str], kept_seconds: float
) -> str:
    """Delete what these sessions have read of a topic with this id, as :func:`delete_before`.

    Not if the place of one has expired.  Returns the fault of the topic, or an empty text; raises an error of
    the connection.
    """
    from kafka.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError

    try:
        (found,) = describe(connected, topic)
        if found["error_code"] or str(found["topic_id"]) != topic_id:
            return ""
        known = places(connected, sessions)
        if all((each, topic) in known for each in sessions):
            delete_before(connected, topic, [known[each, topic].offsets for each in sessions], kept_seconds)
    except (KafkaConnectionError, KafkaTimeoutError):
        raise
    except KafkaError as error:
        return f"topic {topic!r}: {first_line(error)}"
    return ""


def delete_before(
    connected: Connected, topic: str, places: Sequence[Mapping[int, int]], kept_seconds: float
) -> None:
    """Delete the records that lie before all of these places, and are older than ``kept_seconds``."""
    from kafka import TopicPartition
    from kafka.admin import OffsetTimestamp

    described = describe(connected, topic)
    moment = OffsetTimestamp(int((time.time() - kept_seconds) * 1000))
    first = _begins(connected, described).get(topic, {})
    end = _readable_ends(connected, described).get(topic, {})
    before = {}
    for part, offset in _offsets(connected, described, moment).get(topic, {}).items():
        young = offset if offset >= 0 else end[part]
        needed = min([young, *(each.get(part, 0) for each in places)])
        if needed > first[part]:
            before[TopicPartition(topic, part)] = needed
    if before:
        connected.admin.delete_records(before)


def _ends(connected: Connected, described: Iterable[Mapping[str, Any]]) -> dict[str, Offsets]:
    from kafka.admin import OffsetSpec

    return _offsets(connected, described, OffsetSpec.LATEST)


def _readable_ends(connected: Connected, described: Iterable[Mapping[str, Any]]) -> dict[str, Offsets]:
    """The ends up to which readers of committed records read: the last stable offsets."""
    from kafka.admin import OffsetSpec

    return _offsets(connected, described, OffsetSpec.LATEST, isolation_level="read_committed")


def _begins(connected: Connected, described: Iterable[Mapping[str, Any]]) -> dict[str, Offsets]:
    from kafka.admin import OffsetSpec

    return _offsets(connected, described, OffsetSpec.EARLIEST)


def _offsets(
    connected: Connected, described: Iterable[Mapping[str, Any]], spec: Any, **options: Any
) -> dict[str, Offsets]:
    from kafka import TopicPartition

    specs = {
        TopicPartition(topic["name"], each["partition_index"]): spec
        for topic in described
        for each in topic["partitions"]
    }
    found: dict[str, Offsets] = defaultdict(dict)
    for part, at in (connected.admin.list_partition_offsets(specs, **options) if specs else {}).items():
        found[part.topic][part.partition] = at.offset
    return found


def _epoch(topic: str, partition: int, commit: Any) -> EpochOf:
    return EpochOf(topic, partition, -1 if commit.leader_epoch is None else commit.leader_epoch)


def _place(topic: str, commits: Mapping[int, Any], ends: Mapping[EpochOf, int]) -> Place:
    metadata = [json_object(each.metadata) for each in commits.values()]
    return Place(
        {part: kept_offset(at.offset, ends.get(_epoch(topic, part, at))) for part, at in commits.items()},
        min(metadata, key=lambda each: each.get("attempt", -1)),
    )


def _sum(one: Unread, other: Unread) -> Unread:
    total = replace(
        one.backlog,
        messages=one.backlog.messages + other.backlog.messages,
        deleted=one.backlog.deleted + other.backlog.deleted,
    )
    return Unread(total, one.stretches | other.stretches)
