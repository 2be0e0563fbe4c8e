"""Messages that a trial sends to a Kafka, and receives from it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

_WAIT = 200  # ms of a request for records


class _Sent:
    """A record that is under way; see :class:`~testbed.faults.flow.Sent`."""

    def __init__(self, future: Any) -> None:
        self._future = future

    def wait_for_publish(self, timeout: float | None = None) -> None:
        """Wait for the broker's acknowledgement, at most ``timeout`` s."""
        from kafka.errors import KafkaError

        with suppress(KafkaError):  # of a time-out, too
            self._future.get(timeout)

    def is_published(self) -> bool:
        """True if the broker has acknowledged it."""
        return bool(self._future.succeeded())


class _KafkaPublisher:
    """See :class:`~testbed.faults.flow.Publisher`."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer

    def publish(self, topic: str, payload: str, qos: int, /) -> _Sent:
        """Append it to the topic's only partition, acknowledged by all replicas."""
        return _Sent(self._producer.send(topic, payload.encode(), partition=0))


@contextmanager
def producing(address: str) -> Iterator[_KafkaPublisher]:
    """A connection; ``address`` is ``kafka://HOST:PORT``."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=servers(address), acks="all")
    try:
        yield _KafkaPublisher(producer)
    finally:
        producer.close()


@contextmanager
def consuming(
    address: str,
    topic: str,
    take: Callable[[str, Sequence[tuple[str, str]]], None],
    *,
    committed: bool = False,
) -> Iterator[None]:
    """Hand what is appended to the topic from now on to ``take``, in another thread, with its headers.

    ``committed``: not before its transaction is.
    """
    from kafka import KafkaConsumer, TopicPartition

    isolation = "read_committed" if committed else "read_uncommitted"
    consumer = KafkaConsumer(
        bootstrap_servers=servers(address), enable_auto_commit=False, isolation_level=isolation
    )
    part, ended = TopicPartition(topic, 0), threading.Event()

    def run() -> None:
        while not ended.is_set():
            for record in consumer.poll(_WAIT).get(part, ()):
                headers = [(name, (value or b"").decode()) for name, value in record.headers]
                take(record.value.decode(), headers)

    try:
        consumer.assign([part])
        consumer.seek_to_end(part)
        consumer.position(part)  # asks for the end now; the first poll would
        thread = threading.Thread(target=run, name=f"consume-{topic}")
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
    finally:
        consumer.close()


def servers(address: str) -> str:
    """``HOST:PORT`` of ``kafka://HOST:PORT``."""
    return address.removeprefix("kafka://")
