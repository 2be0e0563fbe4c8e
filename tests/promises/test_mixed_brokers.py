"""A composition over Flink and Spark whose middle broker is a Kafka, with each server killed under load.

And a job at a Kafka that comes back without the end of a log.
"""

from __future__ import annotations

import re
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from binders.common.connectors import KAFKA_CONNECTOR
from binders.flink.local.cluster import CONNECTOR as FLINK_CONNECTOR
from binders.spark.local.commands import CONNECTOR as SPARK_CONNECTOR
from speck.apply.operation import Operation
from speck.binder import installed
from speck.coordinator import build
from speck.core.inventory import Engine, Inventory, Site
from speck.core.settings import Settings
from speck.schema.compositions import load_composition
from speck.store import Store
from speck.testing.waiting import eventually
from testbed import ROOT
from testbed.benches import user
from testbed.benches.job_text import FLINK_CODE
from testbed.benches.mqtt_client import MqttClient
from testbed.faults.middle import KafkaMiddle
from testbed.servers.flink import QUICK_HEARTBEATS, FlinkServer
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.spark import SparkServer
from testbed.waiting import PATIENCE
from tests.support.requirements import needs
from tests.support.skips import skip_without_kafka
from tests.support.trials import trial

pytestmark = [pytest.mark.engine, needs(FLINK_CONNECTOR, SPARK_CONNECTOR, KAFKA_CONNECTOR, ROOT / FLINK_CODE)]

JOBS = f"""
jobs:
- {{job_name: gather, site: A, source_topic: words, sink_broker: C, sink_topic: raw,
   job_path: {FLINK_CODE}, entry_class: io.speck.flink.jobs.Forward}}
- {{job_name: capitals, site: C, source_topic: raw, sink_topic: capitals,
   job_path: testbed/programs/spark/simple.py, entry_class: upper}}
- {{job_name: count, site: A, source_broker: C, source_topic: capitals, sink_topic: out/counted,
   job_path: {FLINK_CODE}, entry_class: io.speck.flink.jobs.CountByKey}}
"""
REWIRED = JOBS.replace("_topic: capitals", "_topic: elsewhere")
SPARK_AGAIN = JOBS.replace("entry_class: upper", "entry_class: upper, start: earliest")
BOTH_AGAIN = SPARK_AGAIN.replace("CountByKey", "CountByKey, start: earliest")
OVER_MQTT = JOBS.replace("_broker: C", "_broker: A").replace(
    "site: C, source_topic: raw,", "site: C, source_broker: A, source_topic: raw, sink_broker: A,"
)
WORDS = [f"w{number % 7}" for number in range(50)]
CUT = 4096  # bytes of the end of a log
AGAIN_WITHOUT = r"does not have (\d+) messages of the uncommitted batch \[(\d+), (\d+)\)"


@contextmanager
def sending(mqtt_client: MqttClient) -> Iterator[Counter[str]]:
    """Send words in the background, 250/s; the result as it is counted is complete after the block."""
    ended, sent = threading.Event(), Counter[str]()

    def send() -> None:
        while not ended.is_set():
            mqtt_client.send("words", WORDS)
            sent.update(word.upper() for word in WORDS)
            ended.wait(0.2)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield sent
    finally:
        ended.set()
        thread.join()


@contextmanager
def coordinator_on(directory: Path, sites: dict[str, Site]) -> Iterator[Callable[[str], Operation]]:
    """A coordinator of these sites; what it gives applies a composition, and does not wait for its end."""
    inventory = Inventory(sites)
    with Store(directory / "store") as store:
        settings = Settings(roots=(ROOT,), period=0, drain=PATIENCE)  # engines that were killed are behind
        coordinator = build(store, installed(), inventory, settings).coordinator
        coordinator.start()

        def begin(text: str) -> Operation:
            loaded = load_composition(
                text, inventory=inventory, registry=installed(), root=ROOT, default_name="mixed"
            )
            operation, _ = user.apply(coordinator, loaded.composition)
            return operation

        try:
            yield begin
        finally:
            ended(user.delete_composition(coordinator, "mixed"))  # engines and brokers are shared
            coordinator.close()


def ended(operation: Operation) -> Operation:
    """The operation, when it has ended."""
    assert operation.wait(PATIENCE), operation.to_dict()
    return operation


def counts(mqtt_client: MqttClient, since: int = 0) -> Counter[str]:
    """The last count of each word, of the messages from number ``since`` on: a count only grows."""
    latest: Counter[str] = Counter()
    for _, value in list(mqtt_client.received)[since:]:
        word, _, count = value.rpartition(",")
        latest[word] = max(latest[word], int(count))
    return latest


def await_received(mqtt_client: MqttClient, texts: list[str]) -> None:
    """Wait until each text has arrived."""
    eventually(
        lambda: set(texts) - {text for _, text in list(mqtt_client.received)}, lambda left: not left, PATIENCE
    )


def of_test(text: str, number: str) -> str:
    """A composition between whose jobs are topics of a test alone: Kafka keeps what an earlier one sent."""
    return re.sub(r"_topic: (raw|capitals|elsewhere)\b", rf"_topic: \1-{number}", text)


@dataclass(frozen=True)
class Deployment:
    """Jobs over both engines and both kinds of brokers, and what they need."""

    spark: SparkServer
    flink: FlinkServer
    mqtt_client: MqttClient
    begin: Callable[[str], Operation]
    number: str

    def apply(self, text: str) -> Operation:
        """The operation of an apply, ended."""
        return ended(self.begin(text))

    def apply_until_it_succeeds(self, text: str) -> None:
        """Apply again while an engine that was killed starts."""
        eventually(lambda: self.apply(text).state, lambda state: state == "succeeded", 900)

    def await_counted(self, messages: int) -> None:
        """Wait until more than so many messages were counted."""
        eventually(lambda: counts(self.mqtt_client).total(), lambda total: total > messages, PATIENCE)

    @staticmethod
    def await_begun(operation: Operation, name: str) -> None:
        """Wait until an operation works on a job, or has ended."""
        action = operation.actions[name]
        eventually(lambda: (action.started, operation.ended), any, PATIENCE)

    def assert_counted(self, sent: Counter[str], since: int = 0) -> None:
        """Each word is counted as often as it was sent, no more and no less."""
        eventually(
            lambda: counts(self.mqtt_client, since).total(), lambda total: total >= sent.total(), PATIENCE
        )
        assert counts(self.mqtt_client, since) == sent


def site_a(flink: FlinkServer, broker: MosquittoServer) -> Site:
    """A site with Flink and a broker with MQTT."""
    engine = Engine(
        spe_address=flink.address,
        checkpoint_dir=flink.cluster.checkpoints.as_uri(),
        savepoint_dir=flink.cluster.savepoints.as_uri(),
    )
    return Site(name="A", engines=(engine,), broker_address=broker.address)


@pytest.fixture(name="kafka", scope="module")
def kafka_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaMiddle]:
    """A Kafka that may be killed and damaged (use topics of your own)."""
    skip_without_kafka()
    with KafkaMiddle(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(name="flink", scope="module")
def flink_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkServer]:
    """A cluster of two processes, which may be killed."""
    directory = tmp_path_factory.mktemp("flink")
    with FlinkServer(directory, small=False, conf=QUICK_HEARTBEATS) as server:
        yield server


@pytest.fixture(name="deployed")
def deployed_fixture(
    tmp_path: Path,
    mosquitto: MosquittoServer,
    kafka: KafkaMiddle,
    spark_server: SparkServer,
    flink: FlinkServer,
) -> Iterator[Deployment]:
    of_spark = Engine(spe_address=spark_server.address, checkpoint_dir=str(tmp_path / "checkpoints"))
    sites = {
        "A": site_a(flink, mosquitto),
        "C": Site(name="C", engines=(of_spark,), broker_address=kafka.address),
    }
    mqtt_client = MqttClient(mosquitto.port)
    try:
        with coordinator_on(tmp_path, sites) as begin:
            number = uuid.uuid4().hex[:8]
            deployment = Deployment(
                spark_server, flink, mqtt_client, lambda text: begin(of_test(text, number)), number
            )
            operation = deployment.apply(JOBS)
            assert operation.state == "succeeded", operation
            yield deployment
    finally:
        mqtt_client.close()


def test_every_message_is_counted_once_whatever_is_killed(deployed: Deployment, kafka: KafkaMiddle) -> None:
    with sending(deployed.mqtt_client) as sent:
        deployed.await_counted(500)
        deployed.flink.kill_task_manager()
        deployed.spark.kill()
        deployed.spark.start()
        kafka.kill()
        kafka.start()
        # Drained, then read elsewhere: at brokers of another kind, and at another topic of the first kind.
        for text in (JOBS, OVER_MQTT, REWIRED):
            assert deployed.apply(text).state == "succeeded"
    deployed.assert_counted(sent)
    assert deployed.apply(REWIRED).calls == {}


@trial("tests/apply/test_replays.py, RecordDecoderTest and the contract of the Kafka binder")
def test_a_job_that_reads_again_writes_under_new_names_and_counts_anew(deployed: Deployment) -> None:
    with sending(deployed.mqtt_client) as sent:
        deployed.await_counted(5000)
    deployed.assert_counted(sent)
    assert deployed.apply(SPARK_AGAIN).state == "succeeded"
    deployed.spark.kill()
    deployed.spark.start()
    assert deployed.apply(SPARK_AGAIN).state == "succeeded"
    with sending(deployed.mqtt_client) as more:
        deployed.await_counted(2 * sent.total())
    written = sent + sent + more
    deployed.assert_counted(written)
    since = len(deployed.mqtt_client.received)
    assert deployed.apply(BOTH_AGAIN).state == "succeeded"
    deployed.flink.kill_task_manager()
    deployed.assert_counted(written, since)


@pytest.mark.timeout(1800)  # s; engines start six times
@trial("test_every_message_is_counted_once_whatever_is_killed")
def test_sources_change_while_engines_have_messages_that_they_have_not_committed(
    deployed: Deployment,
) -> None:
    """Both engines are killed before each change, and one of them while the change is carried out."""
    with sending(deployed.mqtt_client) as sent:
        deployed.await_counted(500)
        for text, name in ((OVER_MQTT, "count"), (JOBS, "gather")):
            deployed.flink.kill_task_manager()  # a checkpoint that was not complete
            deployed.spark.kill()  # a batch that was not committed
            deployed.spark.start()
            operation = deployed.begin(text)
            deployed.await_begun(operation, name)
            deployed.flink.kill_task_manager()
            if ended(operation).state != "succeeded":  # an engine or a broker gave no answer meanwhile
                deployed.apply_until_it_succeeds(text)
            deployed.await_counted(counts(deployed.mqtt_client).total() + 500)
    deployed.assert_counted(sent)


@trial("test_every_message_is_counted_once_whatever_is_killed")
def test_sources_change_between_kinds_of_brokers_ten_times(deployed: Deployment) -> None:
    with sending(deployed.mqtt_client) as sent:
        for _ in range(10):
            for text in (OVER_MQTT, JOBS):
                assert deployed.apply(text).state == "succeeded"
    deployed.assert_counted(sent)


@trial("SeveralPartitionsTest, PollerTest and tests/binders/kafka/test_broker.py")
def test_partitions_that_are_added_are_read_without_a_restart(
    deployed: Deployment, kafka: KafkaMiddle
) -> None:
    """By both engines, and where they were after a restart; a job that leaves the topic reads them before."""
    with sending(deployed.mqtt_client) as sent:
        deployed.await_counted(500)
        for topic in (f"raw-{deployed.number}", f"capitals-{deployed.number}"):
            kafka.add_partitions(topic, 3)
            kafka.publish(topic, [b"W0"] * 100, partition=2)
    sent["W0"] += 200
    deployed.assert_counted(sent)
    deployed.flink.kill_task_manager()
    deployed.spark.kill()
    deployed.spark.start()
    with sending(deployed.mqtt_client) as more:
        deployed.apply_until_it_succeeds(JOBS)
        for topic in (f"raw-{deployed.number}", f"capitals-{deployed.number}"):
            kafka.add_partitions(topic, 4)
            kafka.publish(topic, [b"W1"] * 100, partition=3)
        deployed.apply_until_it_succeeds(OVER_MQTT)
    more["W1"] += 200
    deployed.assert_counted(sent + more)


@contextmanager
def away(flink: FlinkServer, suspended: bool) -> Iterator[None]:
    """Flink does not look at the broker: it is suspended, or has no TaskManager."""
    if not suspended:
        with flink.without_task_manager():
            yield
        return
    flink.freeze()
    try:
        yield
    finally:
        flink.thaw()


@trial("PlaceTest, ContinuationTest and tests/binders/kafka/test_lost_messages.py")
@pytest.mark.parametrize("suspended", [False, True], ids=["reader restarted", "reader suspended"])
def test_messages_with_the_offsets_of_lost_ones_are_read(
    suspended: bool, mosquitto: MosquittoServer, kafka: KafkaMiddle, flink: FlinkServer, tmp_path: Path
) -> None:
    """The broker loses the end of a log that was read; others have its offsets before the reader looks."""
    topic = f"damaged-{suspended}"
    text = f"""
jobs:
- {{job_name: forward, site: A, source_broker: '{kafka.address}', source_topic: {topic}, sink_topic: out/raw,
   job_path: {FLINK_CODE}, entry_class: io.speck.flink.jobs.Forward}}
"""
    mqtt_client = MqttClient(mosquitto.port)
    try:
        with coordinator_on(tmp_path, {"A": site_a(flink, mosquitto)}) as begin:
            assert ended(begin(text)).state == "succeeded"
            former = [f"former {number:100}" for number in range(200)]
            for first in range(0, len(former), 5):  # a few in each batch of the log
                kafka.publish(topic, [each.encode() for each in former[first : first + 5]])
            await_received(mqtt_client, former)
            end = kafka.end(topic)
            eventually(lambda: list(kafka.places(topic).values()), lambda places: places == [end], PATIENCE)
            with away(flink, suspended):
                kafka.kill()
                kafka.cut(topic, CUT)
                kafka.start()
                assert kafka.end(topic) < end
                others = [f"other {number:100}" for number in range(200)]
                kafka.publish(topic, [each.encode() for each in others])
                assert kafka.end(topic) > end
            await_received(mqtt_client, others)
    finally:
        mqtt_client.close()


@trial("AgainTest")
def test_a_batch_that_is_run_again_leaves_out_what_its_broker_has_lost(
    mosquitto: MosquittoServer, kafka: KafkaMiddle, spark_server: SparkServer, tmp_path: Path
) -> None:
    """Spark and the broker are killed in the midst of a batch, and the broker loses its last messages."""
    engine = Engine(spe_address=spark_server.address, checkpoint_dir=str(tmp_path / "checkpoints"))
    site = Site(name="C", engines=(engine,), broker_address=kafka.address)
    text = f"""
jobs:
- {{job_name: slow, site: C, source_topic: batch, sink_broker: '{mosquitto.address}', sink_topic: out/raw,
   job_path: testbed/programs/spark/multiplied.py, entry_class: slow}}
"""
    mqtt_client = MqttClient(mosquitto.port)
    try:
        with coordinator_on(tmp_path, {"C": site}) as begin:
            assert ended(begin(text)).state == "succeeded"
            former = [f"former {number:{CUT}}" for number in range(400)]
            kafka.publish("batch", [each.encode() for each in former])
            # Behind what the broker keeps, and so within a batch of which it loses messages.
            eventually(lambda: len(mqtt_client.received), lambda count: count > 120, PATIENCE)
            spark_server.kill()
            kafka.kill()
            kafka.cut("batch", 300 * CUT)  # some of the batch are left
            kafka.start()
            left = kafka.end("batch")
            spark_server.start()
            operation = ended(begin(text))
            assert operation.state == "succeeded", operation.to_dict()
            others = [f"other {number}" for number in range(200)]
            kafka.publish("batch", [each.encode() for each in others])
            await_received(mqtt_client, former[:left] + others)
            lost, start, end = (int(each) for each in re.findall(AGAIN_WITHOUT, spark_server.log)[0])
            assert left <= 120
            assert lost == end - max(start, left)
    finally:
        mqtt_client.close()
