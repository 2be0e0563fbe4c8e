"""The Kafka binder: places in groups, records in a compacted topic, topics that SpecK makes.

See docs/kafka.md.  The client is imported when the first broker is connected: all commands load all kinds.
"""

from __future__ import annotations

from binders.kafka.broker import KafkaBroker
from binders.kafka.local import KAFKA_SERVER
from binders.kafka.names import topic_fault
from speck.binder import BrokerKind

KAFKA = BrokerKind(
    "kafka",
    ("kafka", "kafkas"),
    KafkaBroker,
    local=KAFKA_SERVER,
    topic_fault=topic_fault,
    retains=False,
    splits=False,
    replays=True,
    partitions=True,
)

__all__ = ["KAFKA", "KafkaBroker"]
