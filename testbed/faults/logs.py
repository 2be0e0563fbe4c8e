"""Faults that a Kafka alone has, done to a rig whose middle broker is one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from testbed.faults.middle import KafkaMiddle
from testbed.faults.rig import Rig

WAITING = 500  # messages that are sent meanwhile


def delete_places(rig: Rig) -> None:
    """The places of all groups are deleted while the readers run; their states have them too."""
    admin = _kafka(rig).admin()
    try:
        admin.delete_groups([each["group_id"] for each in admin.list_groups()])
    finally:
        admin.close()
    rig.flink.kill_task_manager()


def leave_transaction_open(rig: Rig) -> None:
    """A stranger's transaction stays open for some seconds: readers wait, and nothing is lost."""
    from kafka import KafkaProducer

    kafka = _kafka(rig)
    producer = KafkaProducer(
        bootstrap_servers=f"127.0.0.1:{kafka.port}",
        transactional_id="stranger",
        transaction_timeout_ms=10_000,
    )
    try:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(kafka.topic(1), value=b"never committed").get(30)
        rig.sending.await_more(WAITING)
        producer.abort_transaction()
    finally:
        producer.close()


def _kafka(rig: Rig) -> KafkaMiddle:
    if not isinstance(rig.middle, KafkaMiddle):
        raise TypeError("the middle broker is no Kafka (expected --broker kafka)")
    return rig.middle


FAULTS: Mapping[str, Callable[[Rig], object]] = {
    "places_deleted": delete_places,
    "transaction_open": leave_transaction_open,
}
