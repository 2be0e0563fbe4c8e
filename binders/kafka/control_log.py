"""The compacted topic ``speck.control`` as a map: the coordinator's records, read as far as they are new."""

from __future__ import annotations

import json
import time
from typing import Any

from binders.common.session_records import json_object
from binders.kafka.client import Connected
from binders.kafka.names import CONTROL, PROBE
from speck.errors import Unreachable

# Segments are small, so that compaction reaches what is obsolete: readers read the topic from its beginning.
_SETTINGS = {
    "cleanup.policy": "compact",
    "segment.ms": "600000",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.1",
}
_PROBE_SETTINGS = {"retention.ms": "60000"}
_POLL_MS = 200


def ensure_own_topics(connected: Connected) -> None:
    """Make SpecK's own topics, unless they are there."""
    present = {each["name"] for each in describe(connected, CONTROL, PROBE) if not each["error_code"]}
    for name, settings in ((CONTROL, _SETTINGS), (PROBE, _PROBE_SETTINGS)):
        if name not in present:
            make_topic(connected, name, settings)


def describe(connected: Connected, *topics: str) -> list[dict[str, Any]]:
    """The descriptions of topics, those that are missing with an error code."""
    found: list[dict[str, Any]] = connected.admin.describe_topics(list(topics))
    return found


def make_topic(connected: Connected, name: str, settings: dict[str, str], partitions: int = 1) -> None:
    """Make a topic with the cluster's replicas; no error if another makes it meanwhile."""
    from kafka.admin import NewTopic
    from kafka.errors import TopicAlreadyExistsError

    try:
        connected.admin.create_topics([NewTopic(name, partitions, -1, topic_configs=settings)])
    except TopicAlreadyExistsError:
        return
    connected.admin.wait_for_topics([name])


class ControlLog:
    """The newest record of each key.  Guarded by the client's lock."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._records: dict[str, bytes] = {}
        self._position = 0
        self._generation = 0

    def refresh(self, connected: Connected, generation: int, deadline: float) -> None:
        """Read new records; over another connection from the beginning, since it may be another cluster's."""
        from kafka import TopicPartition

        partition, consumer = TopicPartition(CONTROL, 0), connected.consumer
        if generation != self._generation:
            ensure_own_topics(connected)
            consumer.assign([partition])
            self._records, self._position, self._generation = {}, 0, generation
            consumer.seek_to_beginning(partition)
        end = consumer.end_offsets([partition])[partition]
        # The broker may have lost the end of the log: what was in it is gone.
        if consumer.position(partition) > end:
            self._records = {}
            consumer.seek_to_beginning(partition)
        while (position := consumer.position(partition)) < end:
            if time.monotonic() > deadline:
                text = f"{self._address}: {CONTROL} could not be read in time"
                raise Unreachable(text, address=self._address)
            for record in consumer.poll(_POLL_MS).get(partition, ()):
                self._take(record)
        self._position = position

    def _take(self, record: Any) -> None:
        key = (record.key or b"").decode(errors="replace")
        if record.value is None:
            self._records.pop(key, None)
        else:
            self._records[key] = record.value

    def get(self, key: str) -> dict[str, Any]:
        """The record as a JSON object; empty if there is none, or other content."""
        return json_object(self._records.get(key))

    def below(self, prefix: str) -> dict[str, dict[str, Any]]:
        """The records whose keys begin so, by the rest of the key, in its order."""
        return {
            key.removeprefix(prefix): json_object(value)
            for key, value in sorted(self._records.items())
            if key.startswith(prefix)
        }

    def write(self, connected: Connected, key: str, content: dict[str, Any] | None, timeout: float) -> None:
        """Write a record, ``None`` to delete it, and wait for its acknowledgement."""
        value = None if content is None else json.dumps(content).encode()
        connected.producer.send(CONTROL, key=key.encode(), value=value, partition=0).get(timeout)
        if value is None:
            self._records.pop(key, None)
        else:
            self._records[key] = value
