"""The measured cost of jobs on real engines, against a known burn of processor time and a broker's counts.

Each message carries the time that its burn took by the clock: engines measure that time too, which on a busy
machine is longer than the processor time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations, pairwise
from pathlib import Path
from statistics import mean, median
from typing import Protocol

import pytest

from binders.common.processor import MOST
from speck.binder import EngineBinder
from speck.core.job import Job
from speck.core.profile import BatchSample, JobSample
from speck.core.runtime import Handle, JobState
from speck.testing import attempt_of, await_state, eventually
from speck.testing.engine_checks import profile_of
from testbed.benches.flink import FlinkBench
from testbed.benches.mqtt_client import MqttClient
from testbed.benches.spark import SparkBench
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.spark import SparkServer

pytestmark = pytest.mark.engine

BURN = 2000  # µs of processor time for each message
TOGETHER = 5  # messages, between two gaps
COUNTERS = "$SYS/broker/publish/#"  # of the broker, once a second


class Bench(Protocol):
    """An engine with a broker."""

    broker: MosquittoServer | None

    def binder(self) -> EngineBinder: ...


class Observer:
    """Feeds a job that burns, and reads what it writes and what its broker counts."""

    def __init__(self, engine: EngineBinder, job: Job, port: int) -> None:
        self.engine, self.job = engine, job
        self.out, self.counters = MqttClient(port), MqttClient(port, COUNTERS)
        self.handle: Handle = engine.submit(job, attempt_of(job))
        self.sent: list[str] = []
        await_state(engine, self.handle, JobState.RUNNING)

    def close(self) -> None:
        for mqtt_client in (self.out, self.counters):
            mqtt_client.close()

    def pass_on(self, messages: int, gap: float) -> JobSample:
        """Send so many messages, at once or with a gap between them (s); the counts when all are written."""
        texts = [f"{len(self.sent) + number} {'x' * 60}" for number in range(messages)]
        self.sent += texts
        for start in range(0, messages, TOGETHER) if gap else (0,):
            self.out.send(self.job.source_topic, texts[start : start + TOGETHER] if gap else texts)
            time.sleep(gap)  # so that batches of several sizes come about: nothing announces a pause
        return eventually(partial(profile_of, self.engine, self.handle), self._has_all)

    def _has_all(self, sample: JobSample) -> bool:
        return sample.messages_in == sample.messages_out == len(self.sent)

    def burnt(self) -> list[float]:
        """The time (s) that each message took by the clock of the job."""
        return [int(text.rpartition(" ")[2]) / 1e6 for text in self.out.got(self.job)]

    def counted(self, counter: str, at_least: int) -> int:
        """A counter of the broker, once it has risen to a value."""
        topic = f"$SYS/broker/publish/{counter}"
        values = partial(self._values, topic)
        return max(eventually(values, lambda found: max(found, default=0) >= at_least))

    def _values(self, topic: str) -> list[int]:
        return [int(value) for name, value in list(self.counters.received) if name == topic]


def assert_counted_as_by_the_broker(observer: Observer, sample: JobSample) -> None:
    """The job's bytes and acknowledged messages are within 5% of the counts of its broker."""
    job = observer.job
    received = eventually(
        lambda: observer.out.got(job), lambda texts: len(texts) >= (sample.messages_out or 0)
    )
    topics = [len(sample_topic.encode()) for sample_topic in (job.source_topic, job.sink_topic)]
    payloads = [sum(map(len, texts)) for texts in (observer.sent, received)]
    counts = [len(observer.sent), len(received)]
    assert sample.messages_out == len(received)
    assert sample.bytes_in == payloads[0] + counts[0] * topics[0]
    assert sample.bytes_out == payloads[1] + counts[1] * topics[1]
    assert observer.counted("messages/received", sum(counts)) == pytest.approx(sum(counts), rel=0.05)
    assert observer.counted("bytes/received", sum(payloads)) == pytest.approx(sum(payloads), rel=0.05)
    (acks,) = sample.acks
    assert acks.broker == job.sink_broker
    assert acks.least is not None
    assert 0 < acks.least <= (acks.median or 0)


def assert_near(cost: float, burnt: Sequence[float]) -> None:
    """A cost (s a message) is within a factor of two of the burn."""
    assert min(burnt) >= BURN / 1e6
    assert 0.5 < cost / mean(burnt) < 2, (cost, mean(burnt))


def slope(batches: Sequence[BatchSample]) -> float:
    """The work of a row (s): the median slope of all pairs of batches (Theil and Sen)."""
    pairs = combinations(batches, 2)
    return median((b.work - a.work) / (b.rows - a.rows) for a, b in pairs if a.rows != b.rows)


@pytest.fixture(name="flink")
def flink_fixture(
    flink_server: FlinkServer, flink_jobs: Path, mosquitto: MosquittoServer
) -> Iterator[Observer]:
    bench = FlinkBench(flink_server, flink_jobs, mosquitto)
    job = bench.passing_job("costs-flink")
    job = replace(job, job_path=str(flink_jobs), entry_class="streets.Burning", arguments={"micros": BURN})
    observer = Observer(bench.binder(), job, mosquitto.port)
    yield observer
    observer.engine.stop(observer.handle, keep_state=False)
    observer.close()
    bench.close()


def test_flink_reports_the_busy_time_of_a_known_burn(flink: Observer) -> None:
    samples = [flink.pass_on(20, 0)]
    for messages, gap in ((200, 0.05), (300, 0.025), (400, 0.011)):
        samples.append(flink.pass_on(messages, gap))
    burnt = flink.burnt()
    for before, after in pairwise(samples):
        busy = sum(vertex.busy for vertex in after.vertices) - sum(vertex.busy for vertex in before.vertices)
        assert before.messages_in is not None
        assert after.messages_in is not None
        begin, end = before.messages_in, after.messages_in
        print(
            "PHASE",
            after.processor_share,
            busy / (end - begin),
            mean(burnt[begin:end]),
            after.observed - before.observed,
        )
        assert_near(busy / (end - begin), burnt[begin:end])
        assert before.observed < after.observed
        assert all(0 < vertex.busiest <= 1 for vertex in after.vertices)
        assert after.processor_share is not None
        assert 0 < after.processor_share <= MOST
    assert_counted_as_by_the_broker(flink, samples[-1])


@pytest.fixture(name="spark")
def spark_fixture(
    spark_server: SparkServer, mosquitto: MosquittoServer, tmp_path: Path
) -> Iterator[Observer]:
    bench = SparkBench(spark_server, mosquitto, tmp_path)
    job = replace(bench.job("costs-spark", "burning"), arguments={"micros": BURN})
    observer = Observer(bench.binder(), job, mosquitto.port)
    yield observer
    observer.engine.stop(observer.handle, keep_state=False)
    observer.close()
    bench.close()


def test_spark_reports_the_work_of_a_known_burn(spark: Observer) -> None:
    spark.pass_on(1, 0)  # starts a Python worker
    for _ in range(4):
        for messages in (10, 30, 90):
            sample = spark.pass_on(messages, 0)
    batches = [batch for batch in sample.batches if batch.number > 0]
    rows = [batch.rows for batch in batches]
    assert len(batches) >= 8
    assert max(rows) >= 2 * min(rows)
    assert sample.cores_used == 1
    assert sample.processor_share is not None
    assert 0 < sample.processor_share <= MOST
    assert_near(slope(batches), spark.burnt())
    assert_counted_as_by_the_broker(spark, sample)
