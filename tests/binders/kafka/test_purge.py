"""Deletion of messages from many topics, some of which cannot be asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from binders.kafka import KafkaBroker, offsets
from speck.core.inventory import Inventory
from speck.errors import Rejected


@pytest.fixture(name="broker")
def broker_fixture(monkeypatch: pytest.MonkeyPatch) -> KafkaBroker:
    """A broker of three topics that SpecK made, without sessions, and without a connection."""
    broker = KafkaBroker("kafka://127.0.0.1:9", Inventory())
    broker._log._records = {f"topic/{name}": b'{"id": "1"}' for name in ("a", "b", "c")}

    def call(doing: str, work: Callable[[Any], Any]) -> Any:
        return work(None)

    monkeypatch.setattr(broker, "_write", call)
    monkeypatch.setattr(offsets, "describe", lambda *_: [{"error_code": 0, "topic_id": "1"}])
    monkeypatch.setattr(offsets, "places", lambda *_: {})
    return broker


def test_a_topic_that_cannot_be_asked_does_not_keep_the_others_from_it(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else they grow until the disk of the broker is full."""
    from kafka.errors import LeaderNotAvailableError, TopicAuthorizationFailedError

    errors = {"a": TopicAuthorizationFailedError("no right"), "b": LeaderNotAvailableError("no leader")}
    deleted: list[str] = []

    def delete_before(_: object, topic: str, *others: object) -> None:
        if topic in errors:
            raise errors[topic]
        deleted.append(topic)

    monkeypatch.setattr(offsets, "delete_before", delete_before)
    with pytest.raises(Rejected, match=r"messages cannot be deleted: topic 'a': .*no right.* .and of 1 more"):
        broker.purge()
    assert deleted == ["c"]


def test_a_connection_that_breaks_ends_the_deletion(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafka.errors import KafkaConnectionError

    asked: list[str] = []

    def delete_before(_: object, topic: str, *others: object) -> None:
        asked.append(topic)
        raise KafkaConnectionError("broken")

    monkeypatch.setattr(offsets, "delete_before", delete_before)
    with pytest.raises(KafkaConnectionError):
        broker.purge()
    assert asked == ["a"]
