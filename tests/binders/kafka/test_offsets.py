"""The decisions on offsets and settings of a cluster; pure."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from binders.kafka.ages import oldest
from binders.kafka.epochs import EpochOf, former_epochs, kept_offset
from binders.kafka.limits import cluster_complaints, limits, topic_complaints
from binders.kafka.offsets import Stretch, places, unread_of
from speck.binder import Backlog


class Part(NamedTuple):
    """A partition, as the client names it."""

    topic: str
    partition: int


class Commit(NamedTuple):
    """A place of a group, as the client returns it."""

    offset: int
    leader_epoch: int | None
    metadata: str = "{}"


@pytest.mark.parametrize(
    ("first", "end", "at", "expected"),
    [
        ({0: 0}, {0: 10}, {0: 4}, Backlog(6)),
        ({0: 0}, {0: 10}, {0: 10}, Backlog(0)),
        ({0: 7}, {0: 10}, {0: 4}, Backlog(3, deleted=3)),
        ({0: 10}, {0: 10}, {0: 4}, Backlog(0, deleted=6)),
        (
            {0: 0, 1: 0},
            {0: 10, 1: 5},
            {0: 10},
            Backlog(5),
        ),  # a partition that is new is read from its beginning
        ({0: 3}, {0: 10}, None, Backlog(7)),  # without a place, a session begins at the beginning
        ({0: 0}, {0: 2}, {0: 9}, Backlog(0)),  # behind the end: of a topic that lost its last messages
        ({}, {}, {0: 9}, Backlog(0)),  # of a topic that is not there
    ],
)
def test_the_backlog_is_what_lies_between_the_place_and_the_end(
    first: dict[int, int], end: dict[int, int], at: dict[int, int] | None, expected: Backlog
) -> None:
    found = unread_of("in", first, end, at)
    assert found.backlog == expected
    assert sum(each.end - each.first for each in found.stretches) == expected.messages


def test_each_partition_with_messages_has_its_stretch() -> None:
    found = unread_of("in", {0: 7, 1: 0, 2: 0}, {0: 10, 1: 5, 2: 4}, {0: 4, 1: 2, 2: 4})
    assert found.stretches == {Stretch("in", 0, 7, 10), Stretch("in", 1, 2, 5)}


@pytest.mark.parametrize(
    ("end", "expected"),
    [(None, 8), (-1, 8), (9, 8), (8, 8), (5, 5), (0, 0)],
)
def test_a_place_is_not_behind_the_end_of_its_epoch(end: int | None, expected: int) -> None:
    assert kept_offset(8, end) == expected


def described(topic: str, *epochs: int, error: int = 0) -> dict[str, object]:
    parts = [
        {"partition_index": number, "leader_epoch": epoch, "leader_id": 3}
        for number, epoch in enumerate(epochs)
    ]
    return {"name": topic, "error_code": error, "partitions": parts}


def test_only_an_epoch_before_that_of_the_leader_may_have_lost_its_end() -> None:
    known = [described("in", 6, 7), described("gone", 6, error=3)]
    former, other = EpochOf("in", 0, 4), EpochOf("in", 1, 0)
    rest = [EpochOf("in", 0, 6), EpochOf("in", 0, -1), EpochOf("in", 2, 1), EpochOf("gone", 0, 1)]
    newer = EpochOf("in", 0, 8)  # the description is older than the place
    assert former_epochs(known, [former, other, newer, *rest]) == {former: 3, other: 3}


def test_a_place_whose_records_are_lost_is_where_the_log_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    commits = {
        "s": {Part("in", 0): Commit(10, 4), Part("in", 1): Commit(10, None), Part("on", 0): Commit(3, 6)}
    }
    connected = SimpleNamespace(admin=SimpleNamespace(list_group_offsets=lambda groups: commits))
    asked: list[EpochOf] = []

    def ends(connected: object, epochs: Iterable[EpochOf]) -> dict[EpochOf, int]:
        asked.extend(sorted(epochs))
        return {EpochOf("in", 0, 4): 7}

    monkeypatch.setattr("binders.kafka.offsets.epoch_ends", ends)
    found = places(connected, ["s"])  # type: ignore[arg-type]
    assert {key: each.offsets for key, each in found.items()} == {
        ("s", "in"): {0: 7, 1: 10},
        ("s", "on"): {0: 3},
    }
    assert asked == [EpochOf("in", 0, 4), EpochOf("in", 1, -1), EpochOf("on", 0, 6)]


ONE, OTHER = Stretch("in", 0, 7, 10), Stretch("in", 1, 2, 5)


@pytest.mark.parametrize(
    ("stretches", "times", "expected"),
    [
        ([], {}, 0.0),
        ([ONE], {ONE: 990_500}, 9.5),
        ([ONE, OTHER], {ONE: 990_500, OTHER: 940_000}, 60.0),
        ([ONE, OTHER], {ONE: None, OTHER: 940_000}, 60.0),  # the marks of a transaction alone
        ([ONE], {ONE: None}, 0.0),
        ([ONE, OTHER], {OTHER: 940_000}, None),
        ([ONE], {ONE: 1_002_000}, 0.0),  # by the clock of another machine, which is ahead
    ],
)
def test_the_oldest_record_of_all_partitions_counts(
    stretches: list[Stretch], times: dict[Stretch, int | None], expected: float | None
) -> None:
    assert oldest(stretches, times, 1000.0) == expected


SOUND = {
    "message.max.bytes": "1048588",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.retention.minutes": "10080",
    "auto.create.topics.enable": "false",
    "unclean.leader.election.enable": "false",
    "log.message.timestamp.type": "CreateTime",
    "log.message.timestamp.after.max.ms": "3600000",
}


def test_a_sound_cluster_has_no_complaints() -> None:
    assert list(cluster_complaints(SOUND, 3)) == []
    assert limits(SOUND) == {
        "message_bytes": 1048588,
        "replicas": 3,
        "min_insync": 2,
        "places_kept_days": 7.0,
    }


@pytest.mark.parametrize(
    ("setting", "value", "text", "remark"),
    [
        ("message.max.bytes", "1000", "rejects messages above 1000 bytes", False),
        ("offsets.retention.minutes", "60", "away for 60 minutes (expected at least a day)", False),
        ("unclean.leader.election.enable", "true", "replica without acknowledged messages", False),
        ("default.replication.factor", "1", "no replicas: a broker that is lost", True),
        ("auto.create.topics.enable", "true", "makes each topic that a client names", True),
        ("log.message.timestamp.after.max.ms", "86400000", "more than an hour ahead of its clock", True),
    ],
)
def test_a_setting_that_loses_messages_is_named(setting: str, value: str, text: str, remark: bool) -> None:
    (found,) = cluster_complaints(SOUND | {setting: value}, 3)
    assert (text in found.message, found.remark) == (True, remark)
    assert setting in found.remedy


def test_a_broker_that_sets_the_timestamps_needs_no_bound_of_them() -> None:
    own = {
        "log.message.timestamp.type": "LogAppendTime",
        "log.message.timestamp.after.max.ms": str(2**63 - 1),
    }
    assert list(cluster_complaints(SOUND | own, 3)) == []


def test_settings_that_are_not_shown_are_no_fault() -> None:
    assert list(cluster_complaints({}, 1)) == []
    assert limits({}) == {}


def test_a_compacted_topic_of_a_job_is_named() -> None:
    (found,) = topic_complaints("in", {"cleanup.policy": "compact,delete"})
    assert "'in'" in found.message
    assert list(topic_complaints("in", {"cleanup.policy": "delete"})) == []
