"""Observations of the adaptation loop: the messages that wait, counted in two ways."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from speck.controller.adaptation.observations import Observations, Unread, backlogs
from speck.store import JobRecord, SessionRecord

PRESENT = cast(Any, SimpleNamespace(rates={"a": 10.0}))
READER, BROKER = False, True


def observed(*samples: tuple[int, bool]) -> Observations:
    """Observations of job a, one each 20 s."""
    found = Observations()
    for number, (messages, with_broker) in enumerate(samples):
        found._add_backlogs(PRESENT, {"a": Unread(messages, with_broker)}, 20.0 * number)
    return found


@pytest.mark.parametrize(
    ("samples", "lagging"),
    [
        ([(500, READER), (700, READER), (900, READER), (1100, READER)], ["a"]),
        ([(5000, BROKER), (7000, BROKER), (9000, BROKER), (11000, BROKER)], ["a"]),
        # A buffer that is full for a moment, beside a session of 1,000,000 messages that nobody reads.
        ([(500, READER), (500, READER), (500, READER), (1_000_500, BROKER)], []),
        ([(500, READER), (1_000_500, BROKER), (1_000_600, BROKER), (1_000_700, BROKER)], []),
        ([(500, READER)] + [(1_000_500 + 100 * each, BROKER) for each in range(4)], ["a"]),
    ],
)
def test_a_backlog_grows_only_as_long_as_it_is_counted_in_one_way(
    samples: list[tuple[int, bool]], lagging: list[str]
) -> None:
    assert observed(*samples).lagging == lagging


@pytest.mark.parametrize(
    ("held", "expected"),
    [(None, Unread(500, READER)), (2500, Unread(2500, BROKER)), (100, Unread(500, BROKER))],
)
def test_the_messages_at_the_broker_count_where_they_are_known(held: int | None, expected: Unread) -> None:
    def of_broker(_job: str, _session: SessionRecord) -> int | None:
        return held

    waiting: Mapping[str, int] = {"a": 500}
    sampler = cast(Any, SimpleNamespace(waiting=lambda: waiting, held=of_broker))
    records = [JobRecord("a", "traffic", sessions=(SessionRecord("tcp://b1:1883", "s", "t"),))]
    assert backlogs(sampler, records) == {"a": expected}
