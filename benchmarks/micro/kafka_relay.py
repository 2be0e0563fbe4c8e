"""A relay with kafka-python, which copies the messages of one topic to another.

``python -m benchmarks.kafka_relay HOST:PORT FROM TO --group NAME`` runs until SIGTERM.  By default the client
commits every 5 s what it has polled, whether that was sent or not, and a group without a place begins at the
end of the topic.

With ``--commit-late`` a batch is committed once the broker that it goes to has acknowledged all of it: a
relay that is killed loses nothing, and repeats what was under way.  It joins the group under a fixed name, so
that it gets its partition back at once: the group would wait up to 45 s for the member that was killed.
"""

from __future__ import annotations

import argparse
from typing import Any

_WAIT = 200  # ms of a request for records


def consuming(server: str, topic: str, group: str, *, commit_late: bool) -> Any:
    """A consumer of a topic."""
    from kafka import KafkaConsumer

    late = {"enable_auto_commit": False, "auto_offset_reset": "earliest", "group_instance_id": group}
    return KafkaConsumer(topic, bootstrap_servers=server, group_id=group, **(late if commit_late else {}))


def pass_on(consumer: Any, producer: Any, sink: str, *, commit_late: bool) -> None:
    """Pass on the next batch, if there is one now.

    Raises :class:`kafka.errors.KafkaError` with ``commit_late`` for a message that was not acknowledged.
    """
    batch = [record for records in consumer.poll(_WAIT).values() for record in records]
    sent = [producer.send(sink, record.value) for record in batch]
    if commit_late and batch:
        for each in sent:
            each.get()
        consumer.commit()


def main() -> None:
    """Read the command line and relay for ever."""
    from kafka import KafkaProducer

    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("server", metavar="HOST:PORT")
    parser.add_argument("source", metavar="FROM")
    parser.add_argument("sink", metavar="TO")
    parser.add_argument("--to", metavar="HOST:PORT", help="of the broker written to, if it is another")
    parser.add_argument("--group", required=True, metavar="NAME", help="of the consumer")
    parser.add_argument("--commit-late", action="store_true", help="commit what the broker written to has")
    options = parser.parse_args()
    late = options.commit_late
    consumer = consuming(options.server, options.source, options.group, commit_late=late)
    producer = KafkaProducer(bootstrap_servers=options.to or options.server)
    while True:
        pass_on(consumer, producer, options.sink, commit_late=late)


if __name__ == "__main__":
    main()
