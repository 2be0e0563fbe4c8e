"""Jobs that go on in another form, from a state behind what they have written.

Each message is another text.  A job writes it as it is, or in another form twice, and a second job counts the
texts: a message is lost if neither form's output of it was counted.
"""

from __future__ import annotations

import io
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from speck.apply.operation import Operation
from speck.binder import EngineBinder, installed
from speck.coordinator import Coordinator, build
from speck.core.inventory import Engine, Inventory, Site
from speck.core.settings import Settings
from speck.schema.compositions import load_composition
from speck.store import Store
from speck.store.maintenance.backup import archive, restore
from testbed import ROOT
from testbed.benches import user
from testbed.benches.job_text import FLINK_CODE, SPARK_CODE, job
from testbed.faults.flow import Listener, Sender, client
from testbed.rivals.kafka_flow import producing
from testbed.servers.flink import FlinkServer
from testbed.servers.kafka import KafkaServer
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.spark import SparkServer
from testbed.waiting import PATIENCE, await_that
from tests.support.requirements import NEEDS_RIG
from tests.support.trials import trial

pytestmark = [pytest.mark.engine, NEEDS_RIG]

RATE = 200.0  # messages/s
POISON = 40  # one message of so many ends the new form: one of its first batch, which ends the watch
# The sink sends 64 KB at once, so that a task has mostly sent some of its messages when it ends.
PADDING = "x" * 4000
IMPATIENT = {"heartbeat.interval": "1 s", "heartbeat.timeout": "8 s"}
MULTIPLIED = "testbed/programs/spark/multiplied.py"


@dataclass
class Flow:
    """in -> written -> mid -> counted -> out; ``written`` is under test, ``counted`` a Spark job."""

    coordinator: Coordinator
    broker: str
    spark: str
    results: Listener

    def apply(
        self,
        engine: str,
        code: tuple[str, str],
        source: tuple[str, str] | None = None,
        fields: str = "upgrade: stateful",
    ) -> Operation:
        """Apply the job under test in this form; ``source`` is broker and topic, ``in`` by default."""
        broker = self.broker
        read, counting = source or (broker, "in"), (SPARK_CODE, "count")
        text = (
            "jobs:\n"
            + job("written", engine, read, (broker, "mid"), code).replace("}", f", {fields}}}")
            + job("counted", self.spark, (broker, "mid"), (broker, "out"), counting)
        )
        loaded = load_composition(
            text, inventory=self.coordinator.inventory, registry=installed(), root=ROOT, default_name="flow"
        )
        operation, _ = user.apply(self.coordinator, loaded.composition)
        assert operation.wait(PATIENCE)
        return operation

    def stamps(self, engine: str) -> object:
        """The kind of the stamps of the job under test, as its engine at this address reports it."""
        return self.details(engine, "written").get("stamps")

    def details(self, engine: str, name: str) -> Mapping[str, object]:
        """The metrics of a job as its engine at this address reports them."""
        (attempt,) = self.coordinator.store.attempts(name)
        assert attempt.handle is not None
        return self.engine(engine).metrics(attempt.handle).details

    def engine(self, address: str) -> EngineBinder:
        """The binder of an engine."""
        return self.coordinator.pool.engine_at("spark" if address == self.spark else "flink", address)

    def counts(self) -> Counter[str]:
        """The number of times that each text came from the job under test."""
        found: Counter[str] = Counter()
        for _, line in list(self.results.received):
            text, _, count = line.rpartition(" ")
            found[text] = max(found[text], int(count))
        return found

    def await_more(self, messages: int) -> None:
        """Wait until so many more texts were counted."""
        before = len(self.counts())
        await_that(lambda: len(self.counts()), lambda count: count >= before + messages)

    def final_counts(self, lost: Callable[[Counter[str]], set[str]]) -> Counter[str]:
        """The counts when nothing is lost, or nothing more has come for a while."""
        before, since = -1, time.monotonic()
        while lost(self.counts()) and time.monotonic() - since < 30:
            now = self.counts().total()
            if now != before:
                before, since = now, time.monotonic()
            time.sleep(0.2)
        time.sleep(2)  # what comes once too often comes at once
        return self.counts()


@contextmanager
def flow(
    directory: Path,
    mosquitto: MosquittoServer,
    spark: SparkServer,
    flink: FlinkServer | None = None,
    *,
    store: str = "store",
    deletes: bool = True,
) -> Iterator[Flow]:
    """A coordinator with a store of its own, and a listener to what the counting job writes.

    ``store`` is its folder; the jobs are deleted at the end if it ``deletes``.
    """
    engines = [Engine(spe_address=spark.address, checkpoint_dir=str(directory / "checkpoints"))]
    if flink is not None:
        engines.append(
            Engine(
                spe_address=flink.address,
                checkpoint_dir=flink.cluster.checkpoints.as_uri(),
                savepoint_dir=flink.cluster.savepoints.as_uri(),
            )
        )
    site = Site(name="A", engines=tuple(engines), broker_address=mosquitto.address)
    with Store(directory / store) as opened, client(mosquitto.address) as connection:
        settings = Settings(roots=(ROOT,), period=0, drain=PATIENCE)
        coordinator = build(opened, installed(), Inventory({"A": site}), settings).coordinator
        coordinator.start()
        try:
            yield Flow(coordinator, mosquitto.address, spark.address, Listener(connection, "out"))
            if deletes:
                assert user.delete_composition(coordinator, "flow").wait(PATIENCE)
        finally:
            coordinator.close()


@contextmanager
def load(
    broker: MosquittoServer | KafkaServer, text: Callable[[int], str], topic: str = "in"
) -> Iterator[Sender]:
    """Send numbered texts until the block ends."""
    connect = producing if isinstance(broker, KafkaServer) else client
    sender = Sender(broker.address, topic, RATE, text, connect=connect).start()
    try:
        yield sender
    finally:
        sender.stop()


@trial("StampsTest, and a query that dies at its first batch, of tests/promises/test_moves.py")
@pytest.mark.parametrize(
    ("former", "newer", "stamps"),
    [
        pytest.param("passed", "doubled", "derived", id="derived stamps"),
        pytest.param("shuffled", "shuffled_and_doubled", "counted", id="counted stamps"),
    ],
)
def test_a_failed_update_that_is_put_back_loses_nothing(
    former: str,
    newer: str,
    stamps: str,
    mosquitto: MosquittoServer,
    spark_server: SparkServer,
    tmp_path: Path,
) -> None:
    """The new form wrote two messages for each one, and died in its first batch."""

    def text(number: int) -> str:
        return f"{'poison' if number % POISON == POISON - 1 else 'm'}{number} {PADDING}"

    with flow(tmp_path, mosquitto, spark_server) as running:
        assert running.apply(running.spark, (MULTIPLIED, former)).state == "succeeded"
        with load(mosquitto, text) as sender:
            running.await_more(200)
            assert running.stamps(running.spark) == stamps
            for _ in range(3):
                operation = running.apply(running.spark, (MULTIPLIED, newer))
                assert "the previous version was restored and runs" in operation.actions["written"].error
                running.await_more(200)
                if any(each.endswith(("-a", "-b")) for each in running.counts()):
                    break  # the form that died had sent something
        sent = sender.sent

        def lost(counts: Counter[str]) -> set[str]:
            return {each for each in sent if not (counts[each] or counts[f"{each}-a"] or counts[f"{each}-b"])}

        counts = running.final_counts(lost)
    doubled = {each for each in sent if counts[each] + counts[f"{each}-a"] > 1}
    figures = {"messages": len(sent), "lost": len(lost(counts)), "doubled": len(doubled)}
    other = sum(text.endswith(("-a", "-b")) for text in counts)
    print(f"{stamps}: {figures}, {other} of the form that died")
    assert figures["lost"] == 0
    assert stamps == "counted" or figures["doubled"] == 0
    if not other:
        pytest.skip("the form that died had sent nothing yet, so that the trial proves little")


def test_a_job_that_died_and_goes_on_in_another_form_loses_nothing(
    mosquitto: MosquittoServer, spark_server: SparkServer, tmp_path: Path
) -> None:
    """Its JobManager is killed, so that its tasks write on behind its last checkpoint; then it filters."""

    def text(number: int) -> str:
        reading = f"OK,1,2,3,4,2014-08-01T07:50:00,5,{number},7"
        return reading if number % 3 else f"noise {number}"

    programs = "io.speck.flink.jobs"
    with (
        FlinkServer(tmp_path / "flink", slots=4, conf=IMPATIENT) as flink,
        flow(tmp_path, mosquitto, spark_server, flink) as running,
    ):
        started = running.apply(flink.address, (FLINK_CODE, f"{programs}.Forward"))
        assert started.state == "succeeded"
        with load(mosquitto, text) as sender:
            running.await_more(500)
            await_that(lambda: running.stamps(flink.address), lambda kind: kind == "derived")
            flink.kill_job_manager()  # its tasks write on until the TaskManager misses it
            changed = running.apply(flink.address, (FLINK_CODE, f"{programs}.Clean"))
            assert changed.state == "succeeded"
            running.await_more(500)
        readings = [each for each in sender.sent if each.startswith("OK")]
        counts = running.final_counts(lambda counts: {each for each in readings if not counts[each]})
    figures = {
        "messages": len(readings),
        "lost": sum(not counts[each] for each in readings),
        "doubled": sum(counts[each] > 1 for each in readings),
    }
    print(figures)
    assert (figures["lost"], figures["doubled"]) == (0, 0)


@trial("a job that died and goes on in another form")
def test_a_batch_that_is_broken_off_and_run_again_by_other_code_loses_nothing(
    mosquitto: MosquittoServer, spark_server: SparkServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each update ends its batch without a grace, when some of its messages are written.

    A batch takes most of the second that its trigger leaves it, and sends a part of its messages at a time.
    """
    fields = "trigger: 1 second"
    monkeypatch.setattr("binders.spark.connect.engine.STOP_GRACE", 0.0)
    with flow(tmp_path, mosquitto, spark_server) as running:
        assert running.apply(running.spark, (MULTIPLIED, "slow"), fields=fields).state == "succeeded"
        with load(mosquitto, lambda number: f"m{number} {PADDING}") as sender:
            for form in ("slow_and_doubled", "slow", "slow_and_doubled"):
                running.await_more(100)
                assert running.stamps(running.spark) == "derived"
                assert running.apply(running.spark, (MULTIPLIED, form), fields=fields).state == "succeeded"
        sent = sender.sent

        def lost(counts: Counter[str]) -> set[str]:
            return {each for each in sent if not (counts[each] or counts[f"{each}-a"])}

        counts = running.final_counts(lost)
        details = running.details(running.spark, "counted")
        repeated = [details.get(each) for each in ("duplicatesDropped", "changedRepetitions")]
    doubled = {each for each in sent if counts[each] + counts[f"{each}-a"] > 1}
    print({"messages": len(sent), "lost": len(lost(counts)), "doubled": len(doubled), "repeated": repeated})
    assert (lost(counts), doubled) == (set(), set())
    if not any(repeated):
        pytest.skip("no batch was broken off when it had sent something, so that the trial proves little")


@pytest.mark.timeout(1200)  # s
@trial("RecordsTest and RecordsOfKafkaTest")
@pytest.mark.parametrize(
    ("own", "elsewhere"),
    [
        pytest.param("kafka", "mqtt", id="of MQTT, at Kafka"),
        pytest.param("mqtt", "mqtt", id="of MQTT"),
        pytest.param("mqtt", "kafka", id="of Kafka"),
    ],
)
def test_a_reader_put_back_with_a_batch_of_another_session_loses_nothing(
    own: str,
    elsewhere: str,
    mosquitto: MosquittoServer,
    kafka: KafkaServer,
    spark_server: SparkServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A rewire whose new form dies in its first batch, of the other topic, is put back under load."""

    def other(number: int) -> str:
        return f"{'poison' if number % POISON == POISON - 1 else 'o'}{number} {PADDING}"

    # Else a form whose first batch takes longer, on a busy machine, counts as come up before it dies.
    monkeypatch.setattr("speck.apply.startup_probe.FIRST_WORK", PATIENCE)
    brokers: dict[str, MosquittoServer | KafkaServer] = {"mqtt": mosquitto, "kafka": kafka}
    topics = {each: f"{each}.{tmp_path.name}" for each in ("in", "other")}
    source = (brokers[own].address, topics["in"])
    with flow(tmp_path, mosquitto, spark_server) as running:
        for each in topics.values():
            running.coordinator.pool.broker(kafka.address).ensure_topic(each)
        await_that(  # an engine that starts on a busy machine may not answer in time
            lambda: running.apply(running.spark, (MULTIPLIED, "passed"), source).state,
            lambda state: state == "succeeded",
        )
        with load(brokers[own], lambda number: f"m{number} {PADDING}", topics["in"]) as sender:
            running.await_more(200)
            with load(brokers[elsewhere], other, topics["other"]) as others:
                await_that(lambda: len(others.sent), lambda count: count > POISON)  # it is connected by then
                operation = running.apply(
                    running.spark,
                    (MULTIPLIED, "slow_and_doubled"),
                    (brokers[elsewhere].address, topics["other"]),
                )
            assert "the previous version was restored and runs" in operation.actions["written"].error
            running.await_more(200)
        sent = sender.sent
        counts = running.final_counts(lambda counts: {each for each in sent if not counts[each]})
        details = running.details(running.spark, "written")
        dropped = details["lostMessages"]
    written = {text for text in counts if text.startswith(("o", "poison"))}
    lost, doubled = {each for each in sent if not counts[each]}, {each for each in sent if counts[each] > 1}
    print({"messages": len(sent), "lost": len(lost), "doubled": len(doubled), "dropped": dropped})
    print(f"{len(written)} of the other topic")
    assert (lost, doubled, dropped) == (set(), set(), 0)
    if not written:
        pytest.skip("the form that died had sent nothing yet, so that the trial proves little")


@pytest.mark.parametrize(
    "program",
    [
        pytest.param("Forward", id="derived stamps", marks=trial("counted stamps")),
        pytest.param("CountByKey", id="counted stamps"),
    ],
)
def test_what_is_written_after_the_restore_of_an_old_backup_arrives(
    program: str,
    mosquitto: MosquittoServer,
    spark_server: SparkServer,
    flink_server: FlinkServer,
    tmp_path: Path,
) -> None:
    """The job was started again and wrote more since, so that its counters begin behind that."""
    code = (FLINK_CODE, f"io.speck.flink.jobs.{program}")
    near = (tmp_path, mosquitto, spark_server, flink_server)
    with flow(*near, deletes=False) as running:
        assert running.apply(flink_server.address, code).state == "succeeded"
        with load(mosquitto, lambda number: f"before{number}"):
            running.await_more(200)
            store = running.coordinator.store
            backup = b"".join(archive(store.records(), store.directory, 0.0, "0"))
            (record,) = store.attempts("written")
            assert record.handle is not None
            running.engine(flink_server.address).stop(record.handle, keep_state=True)
            assert running.apply(flink_server.address, code).state == "succeeded"
            running.await_more(600)
    restore(io.BytesIO(backup), "backup", tmp_path / "restored")
    with flow(*near, store="restored") as running:
        assert running.apply(flink_server.address, code).state == "succeeded"
        with load(mosquitto, lambda number: f"after{number}") as sender:
            time.sleep(3)  # the length of the load: no condition tells that enough was sent

        def lost(counts: Counter[str]) -> set[str]:
            arrived = {text.partition(",")[0] for text in counts}
            return set(sender.sent) - arrived

        counts = running.final_counts(lost)
        collisions = running.details(running.spark, "counted")["collisions"]
    print({"messages": len(sender.sent), "lost": len(lost(counts)), "collisions": collisions})
    # A reader recognises collisions of the newest messages alone, and drops others as repetitions.
    assert (lost(counts), collisions) == (set(), 0)
