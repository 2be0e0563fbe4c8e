"""The Kafka binder, against a real Kafka, as partitions are added to a topic that a job reads."""

from __future__ import annotations

import pytest

from binders.kafka import KafkaBroker
from speck.core.inventory import Inventory
from testbed.servers.kafka import KafkaServer

pytestmark = pytest.mark.engine

SESSION, READ = "speck-job", '{"attempt": 1, "messages": 2}'


def commit(kafka: KafkaServer, offsets: dict[int, int]) -> None:
    """Commit a place as the connector of attempt 1 does."""
    from kafka import TopicPartition
    from kafka.structs import OffsetAndMetadata

    admin = kafka.admin()
    try:
        places = {TopicPartition("in", part): OffsetAndMetadata(at, READ, -1) for part, at in offsets.items()}
        admin.alter_group_offsets(SESSION, places)
    finally:
        admin.close()


def test_what_is_unread_in_a_partition_that_was_added_is_counted_and_drained(kafka: KafkaServer) -> None:
    broker = KafkaBroker(kafka.address, Inventory())
    try:
        broker.ensure_session(SESSION, "in")
        broker.fence(SESSION, 1)
        kafka.publish("in", [b"1", b"2"])
        commit(kafka, {0: 2})
        kafka.add_partitions("in", 2)
        kafka.publish("in", [b"3", b"4", b"5"], partition=1)
        assert broker.waiting(SESSION) == 3
        assert not broker.drained(SESSION, "marker", 0.1)
        commit(kafka, {0: 2, 1: 2})
        assert broker.waiting(SESSION) == 1
        assert not broker.drained(SESSION, "marker", 0.1)
        commit(kafka, {0: 2, 1: 3})
        assert broker.waiting(SESSION) == 0
        assert broker.drained(SESSION, "marker", 0.1)
        broker.begin_session(f"{SESSION}-2", "in", "latest")
        assert broker.waiting(f"{SESSION}-2") == 0
    finally:
        broker.close()
        kafka.clear()
