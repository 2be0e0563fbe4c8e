"""A topic is deleted while a job writes to it, at a real Kafka that makes each topic which a client names."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyspark
import pytest

from binders.common.java import java
from speck.testing.waiting import eventually
from testbed import ROOT
from testbed.servers.kafka import KafkaServer
from tests.support.trials import trial

JARS = ROOT / "binders" / "jars"
CLASSES = ROOT / "jars_and_apps" / "connectors" / "kafka-core" / "target" / "test-classes"

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not CLASSES.is_dir(), reason="the connectors are not built here (make jars)"),
]


class NamedTopicsMade(KafkaServer):
    """A Kafka with ``auto.create.topics.enable``, as by default."""

    def commands(self) -> Sequence[Sequence[str]]:
        found = super().commands()
        properties = self.directory / "server.properties"
        text = properties.read_text()
        assert "auto.create.topics.enable=false" in text
        properties.write_text(
            text.replace("auto.create.topics.enable=false", "auto.create.topics.enable=true")
        )
        return found


@pytest.fixture(name="broker")
def broker_fixture(tmp_path: Path) -> Iterator[NamedTopicsMade]:
    with NamedTopicsMade(tmp_path / "kafka") as broker:
        yield broker


def topics(broker: KafkaServer) -> list[str]:
    admin = broker.admin()
    try:
        return list(admin.list_topics())
    finally:
        admin.close()


@trial("ExistingTopicsTest")
def test_a_writer_does_not_have_a_deleted_topic_made_again(broker: NamedTopicsMade) -> None:
    from kafka.admin import NewTopic

    admin = broker.admin()
    try:
        admin.create_topics([NewTopic("out", 1, 1)])
        jars = [*JARS.glob("spark-mqtt.jar"), *JARS.glob("speck-kafka.jar")]
        path = ":".join(str(each) for each in (*jars, CLASSES, f"{Path(pyspark.__file__).parent}/jars/*"))
        command = [java("Spark"), "-Xmx64m", "-cp", path, "io.speck.kafka.SinkProcess", broker.address, "out"]
        with subprocess.Popen(command) as writer:
            try:
                eventually(lambda: broker.end("out"), lambda end: end > 5, 120)
                admin.delete_topics(["out"])
                time.sleep(5)  # the writer asks for the topic several times a second
                assert writer.poll() is None
                assert "out" not in topics(broker)
            finally:
                writer.kill()
    finally:
        admin.close()
