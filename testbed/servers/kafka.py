"""A real Kafka of its own for tests, on free loopback ports.

Its files stay over :meth:`kill` and :meth:`start`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from binders.kafka.local import KAFKA_SERVER
from testbed.servers.base import RealServer, free_test_ports


class KafkaServer(RealServer):
    """One Kafka process, without replicas."""

    log_name = "kafka.log"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.ports = free_test_ports(KAFKA_SERVER.ports)

    @property
    def port(self) -> int:
        """The port of the broker."""
        return self.ports[0]

    @property
    def address(self) -> str:
        """The broker's address as in a composition."""
        return KAFKA_SERVER.address(self.ports)

    def commands(self) -> Sequence[Sequence[str]]:
        """See :meth:`RealServer.commands`; raises :class:`~speck.errors.LocalError` without Kafka's jars."""
        return [KAFKA_SERVER.command(self.ports, self.directory, "")[0]]

    def ready(self) -> bool:
        """True if the broker answers."""
        return KAFKA_SERVER.ready(self.ports)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()  # an orderly end takes seconds

    def admin(self) -> Any:
        """A client of the administrator, to be closed."""
        from kafka.admin import KafkaAdminClient

        return KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{self.port}")

    def clear(self) -> None:
        """Delete all topics but those of Kafka itself, and all groups."""
        admin = self.admin()
        try:
            groups = [each["group_id"] for each in admin.list_groups()]
            if groups:
                admin.delete_groups(groups)
            topics = [each for each in admin.list_topics() if not each.startswith("__")]
            if topics:
                admin.delete_topics(topics)
        finally:
            admin.close()

    def end(self, topic: str) -> int:
        """The end of a topic's first partition."""
        from kafka import TopicPartition
        from kafka.admin import OffsetSpec

        part, admin = TopicPartition(topic, 0), self.admin()
        try:
            return int(admin.list_partition_offsets({part: OffsetSpec.LATEST})[part].offset)
        finally:
            admin.close()

    def places(self, topic: str) -> dict[str, int]:
        """The offset that each group has committed in a topic's first partition."""
        from kafka import TopicPartition

        part, admin = TopicPartition(topic, 0), self.admin()
        try:
            groups = dict.fromkeys(each["group_id"] for each in admin.list_groups())
            found = admin.list_group_offsets(groups) if groups else {}
            return {group: int(at[part].offset) for group, at in found.items() if part in at}
        finally:
            admin.close()

    def add_partitions(self, topic: str, total: int) -> None:
        """Add partitions to a topic, so that it has this number."""
        admin = self.admin()
        try:
            admin.create_partitions({topic: total})
        finally:
            admin.close()

    def delete_before(self, topic: str, offset: int) -> None:
        """Delete the records of a topic's first partition before an offset, as its retention does."""
        from kafka import TopicPartition

        admin = self.admin()
        try:
            admin.delete_records({TopicPartition(topic, 0): offset})
        finally:
            admin.close()

    def publish(
        self,
        topic: str,
        values: Sequence[bytes],
        key: bytes | None = None,
        *,
        at: float | None = None,
        partition: int | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> None:
        """Append values to a topic that there is, in order; ``at``: their time, s since 1970."""
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=f"127.0.0.1:{self.port}", acks="all", linger_ms=5)
        millis = None if at is None else int(at * 1000)
        try:
            sent = [
                producer.send(
                    topic,
                    value=each,
                    key=key,
                    headers=list(headers),
                    timestamp_ms=millis,
                    partition=partition,
                )
                for each in values
            ]
            producer.flush(30)
            assert all(each.succeeded() for each in sent)
        finally:
            producer.close()

    def abort_transaction(self, topic: str, values: Sequence[bytes], *, at: float) -> None:
        """Append values in a transaction, and abort it; ``at``: their time, s since 1970."""
        with self.open_transaction(topic, values, at=at):
            pass

    @contextmanager
    def open_transaction(
        self, topic: str, values: Sequence[bytes], *, at: float | None = None
    ) -> Iterator[None]:
        """Append values in a transaction, which is aborted at the end; ``at`` as in :meth:`publish`."""
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=f"127.0.0.1:{self.port}", transactional_id="testbed")
        try:
            producer.init_transactions()
            producer.begin_transaction()
            for each in values:
                producer.send(topic, value=each, timestamp_ms=None if at is None else int(at * 1000))
            producer.flush(30)
            yield
            producer.abort_transaction()
        finally:
            producer.close()

    def read(self, topic: str) -> list[bytes]:
        """All values of a topic, by partition and offset."""
        return [each.value for each in self.records(topic)]

    def records(self, topic: str) -> list[Any]:
        """All records of a topic, by partition and offset."""
        from kafka import KafkaConsumer, TopicPartition

        consumer = KafkaConsumer(bootstrap_servers=f"127.0.0.1:{self.port}", enable_auto_commit=False)
        try:
            parts = [TopicPartition(topic, each) for each in consumer.partitions_for_topic(topic) or ()]
            consumer.assign(parts)
            consumer.seek_to_beginning(*parts)
            ends = consumer.end_offsets(parts)
            found: dict[Any, list[Any]] = {each: [] for each in parts}
            while any(consumer.position(each) < ends[each] for each in parts):
                for part, records in consumer.poll(500).items():
                    found[part] += records
            return [each for part in parts for each in found[part]]
        finally:
            consumer.close()
