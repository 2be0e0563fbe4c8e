"""The Kafka binder, against a real Kafka that loses the end of a log which a job has read."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from binders.kafka import KafkaBroker
from speck.core.inventory import Inventory
from speck.testing.waiting import PATIENCE
from testbed.faults.middle import KafkaMiddle
from tests.binders.kafka.test_broker import SESSION, committed
from tests.support.skips import skip_without_kafka
from tests.support.trials import trials_run

pytestmark = pytest.mark.engine


def test_messages_with_the_offsets_of_lost_ones_wait(tmp_path: Path) -> None:
    """A broker loses the end of a log that was read, and gives its offsets to others: they are unread."""
    skip_without_kafka()
    with (
        KafkaMiddle(tmp_path) as own,
        closing(KafkaBroker(own.address, Inventory(), timeout=PATIENCE)) as broker,
    ):

        def read_all() -> None:
            last, read = own.records("in")[-1], '{"attempt": 1, "messages": 1}'
            committed(own, SESSION, "in", last.offset + 1, read, epoch=last.leader_epoch)

        broker.ensure_session(SESSION, "in")  # after the topic of places, at a fresh broker
        broker.fence(SESSION, 1)
        for number in range(10):  # a batch of the log each
            own.publish("in", [b"%d" % number])
        read_all()
        if trials_run():
            own.kill()
            own.start()  # another leader epoch alone says nothing
        assert broker.waiting(SESSION) == 0
        assert broker.drained(SESSION, "before", 0.1)
        own.kill()
        own.cut("in", 200)
        own.start()
        left = own.end("in")
        assert 0 < left < 9
        assert broker.waiting(SESSION) == 0
        own.publish("in", [b"other"] * (9 - left))  # the end stays before the place of the reader
        assert broker.waiting(SESSION) == broker.behind([SESSION])[SESSION].messages == 9 - left
        assert not broker.drained(SESSION, "marker", 0.1)
        read_all()
        assert broker.drained(SESSION, "marker", 0.1)
        assert broker.waiting(SESSION) == 0
