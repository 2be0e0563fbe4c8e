"""The decisions on offsets and settings of a cluster; pure."""

from __future__ import annotations

import pytest

from binders.kafka.ages import oldest
from binders.kafka.limits import cluster_complaints, limits, topic_complaints
from binders.kafka.offsets import Stretch, unread_of
from speck.binder import Backlog


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
    ],
)
def test_a_setting_that_loses_messages_is_named(setting: str, value: str, text: str, remark: bool) -> None:
    (found,) = cluster_complaints(SOUND | {setting: value}, 3)
    assert (text in found.message, found.remark) == (True, remark)
    assert setting in found.remedy


def test_settings_that_are_not_shown_are_no_fault() -> None:
    assert list(cluster_complaints({}, 1)) == []
    assert limits({}) == {}


def test_a_compacted_topic_of_a_job_is_named() -> None:
    (found,) = topic_complaints("in", {"cleanup.policy": "compact,delete"})
    assert "'in'" in found.message
    assert list(topic_complaints("in", {"cleanup.policy": "delete"})) == []
