"""Splits by keys on a real Spark Connect server: in one job, and as jobs, beside Spark's own groupBy."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
import paho.mqtt.client as paho
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from binders.spark.connect.engine import ConnectEngine
from binders.spark.query.split.groups import hash_of
from jars_and_apps.key_split import frames
from speck.core.job import Job
from speck.core.runtime import Handle, JobState, State
from speck.core.split import Place, Split, expand, part_of
from speck.errors import Rejected
from speck.testing import attempt_of, await_state, eventually
from testbed.benches.mqtt_client import MqttClient
from testbed.benches.spark import JOBS, SparkBench
from testbed.servers.local_spark import connect_session
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.spark import SparkServer
from tests.support.trials import trial

pytestmark = pytest.mark.engine

CODE = JOBS / "key_split.py"
BEGIN = 1_700_000_000  # s
WINDOW, SLIDE = 10, 5  # s
ROWS_A_SECOND = 50

FIELDS = ("count", "sum", "least", "greatest")

Result = dict[tuple[str, int], dict[str, Any]]


@pytest.fixture(name="site", scope="module")
def site_fixture(spark_server: SparkServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkBench]:
    directory = tmp_path_factory.mktemp("key-split")
    with MosquittoServer(directory / "mosquitto") as broker:
        bench = SparkBench(spark_server, broker, directory)
        yield bench
        bench.close()


def messages(seconds: int, seed: int) -> list[str]:
    """Messages in the order of their times; of 40 keys one has a third of the rows."""
    chance = np.random.default_rng(seed)
    times = BEGIN + np.sort(chance.uniform(0, seconds, seconds * ROWS_A_SECOND))
    keys = np.where(chance.random(len(times)) < 1 / 3, 0, chance.integers(0, 40, len(times)))
    amounts = chance.integers(-1000, 1000, len(times))
    return [f"k{key},{time:.6f},{amount}" for key, time, amount in zip(keys, times, amounts, strict=True)]


def last_messages(seconds: int) -> list[str]:
    """A row that closes all windows of the rows up to this second."""
    return [f"last,{BEGIN + seconds + WINDOW + SLIDE + 1},0"]


WINDOWS = """
    SELECT key, unix_seconds(window.start), count(amount), sum(amount), min(amount), max(amount)
    FROM (SELECT split(value, ',')[0] AS key, timestamp_seconds(CAST(split(value, ',')[1] AS DOUBLE)) AS time,
                 CAST(split(value, ',')[2] AS BIGINT) AS amount FROM {rows})
    GROUP BY key, window(time, {window}, {slide})
"""


def reference(session: SparkSession, texts: Iterable[str]) -> Result:
    """Spark's own windows of the messages."""
    rows = session.createDataFrame([(text,) for text in texts], "value string")
    windows = session.sql(WINDOWS, rows=rows, window=f"{WINDOW} seconds", slide=f"{SLIDE} seconds")
    found = windows.collect()
    return {(row[0], row[1]): dict(zip(FIELDS, row[2:], strict=True)) for row in found}


def results(site: SparkBench, job: Job) -> list[tuple[tuple[str, int], dict[str, Any]]]:
    """The results that a split has written so far."""
    rows = [json.loads(text) for text in site.mqtt.got(job)]
    starts = (round(datetime.fromisoformat(row["start"]).timestamp()) for row in rows)
    sums = ({name: row[name] for name in FIELDS} for row in rows)
    return list(zip(zip((row["key"] for row in rows), starts, strict=True), sums, strict=True))


def assert_complete(site: SparkBench, job: Job, expected: Result) -> None:
    """The split writes each window once, as Spark itself has it."""
    eventually(lambda: len(results(site, job)), lambda number: number >= len(expected))
    found = results(site, job)
    assert max(Counter(window for window, _ in found).values()) == 1
    assert dict(found) == expected


class Running:
    """Jobs that run at an engine; each can be stopped, and started again from its state."""

    def __init__(self, engine: ConnectEngine) -> None:
        self._engine = engine
        self._handles: dict[str, Handle] = {}
        self._numbers: Counter[str] = Counter()

    def start(self, job: Job, state: State | None = None) -> None:
        self._numbers[job.job_name] += 1
        attempt = attempt_of(job, self._numbers[job.job_name], state)
        handle = self._engine.submit(job, attempt)
        await_state(self._engine, handle, JobState.RUNNING)
        self._handles[job.job_name] = handle

    def stop(self, job: Job) -> State:
        state = self._engine.stop(self._handles.pop(job.job_name), keep_state=True)
        assert state is not None
        return state

    def rows(self, job: Job) -> int:
        """The rows that a job has worked off."""
        return self._engine.metrics(self._handles[job.job_name]).input_rows or 0

    def close(self) -> None:
        for handle in self._handles.values():
            self._engine.stop(handle, keep_state=False)


@pytest.fixture(name="running")
def running_fixture(site: SparkBench) -> Iterator[Running]:
    running = Running(site.binder())
    yield running
    running.close()


@pytest.fixture(name="session", scope="module")
def session_fixture(site: SparkBench) -> Iterator[SparkSession]:
    with connect_session(site.server.address) as session:
        yield session


def split_job(site: SparkBench, name: str, split: Split, entry: str = "Sums") -> tuple[Job, ...]:
    """The jobs of a split, with their sessions."""
    jobs = expand(site.job(name, entry, CODE), split)
    for job in jobs:
        site.ensure_session(job)
    return jobs


def split_of(combiners: int | tuple[Place, ...], partitioner: str, reducer: Place | None = None) -> Split:
    return Split(
        combiners=combiners,
        partitioner=partitioner,
        reducer=reducer or Place(),
        window_us=WINDOW * 1_000_000,
        slide_us=SLIDE * 1_000_000,
    )


@pytest.mark.parametrize(
    ("partitioner", "parallelism"),
    [pytest.param("shuffle", None, marks=trial("[balanced-2]")), ("balanced", 2)],
)
def test_a_split_in_one_job_is_that_of_spark(
    site: SparkBench,
    session: SparkSession,
    running: Running,
    job_name: str,
    partitioner: str,
    parallelism: int | None,
) -> None:
    (job,) = split_job(site, job_name, split_of(3, partitioner))
    job = replace(job, parallelism=parallelism)
    texts = messages(40, 1)
    half = len(texts) // 2
    site.mqtt.send(job.source_topic, texts[:half])
    running.start(job)
    eventually(lambda: running.rows(job), lambda rows: rows == half)
    state = running.stop(job)
    site.mqtt.send(job.source_topic, texts[half:] + last_messages(40))
    running.start(job, state)
    assert_complete(site, job, reference(session, texts))


class Reports(MqttClient):
    """The reports of a part of a split."""

    def __init__(self, site: SparkBench, job: Job) -> None:
        part = part_of(job)
        assert part is not None
        super().__init__(site.broker.port, part.report_topic)

    def total(self, field: str) -> int:
        """The sum of a number over all reports."""
        return sum(json.loads(text)[field] for _, text in list(self.received))

    def faults(self) -> Counter[str]:
        """The faults that each shard counted last, added up."""
        reports = [json.loads(text) for _, text in list(self.received)]
        last = {each["shard"]: Counter(each["faults"]) for each in reports}
        return sum(last.values(), Counter())

    def _receive(self, client: paho.Client, data: object, message: paho.MQTTMessage) -> None:
        self.received.append((message.topic, message.payload.removeprefix(b"\xff").decode()))


def frame_without_amounts() -> bytes:
    """A frame with a right checksum, whose rows have not the column that the class adds up."""
    rows = pa.array([[{"time": BEGIN * 1_000_000}]], pa.list_(pa.struct([("time", pa.int64())])))
    columns = {**frames.ROWS, "rows": rows.type}
    values = {"key": ["k0"], "hash": [7], "slide": [BEGIN // SLIDE], "off_owner": [False], "rows": rows}
    batch = pa.RecordBatch.from_pydict(values, pa.schema(columns))
    return frames.encode(frames.Frame(0, 0, frames.Header("crafted", shards=(2, 1, 1)), batch))


def test_a_split_over_jobs_is_that_of_spark(
    site: SparkBench, session: SparkSession, running: Running
) -> None:
    places = (Place(parallelism=2), Place(weight=2.0), Place())
    split = split_of(places, "balanced", reducer=Place(parallelism=2))
    partitioner, *combiners, reducer = split_job(site, "sites", split)
    reports, damaged = Reports(site, reducer), Reports(site, combiners[0])
    site.mqtt.send(combiners[0].source_topic, [frame_without_amounts()])
    texts = messages(40, 2)
    half = len(texts) // 2
    site.mqtt.send(partitioner.source_topic, texts[:half])
    for job in (reducer, *combiners, partitioner):
        running.start(job)
    eventually(lambda: running.rows(partitioner), lambda rows: rows == half)
    stopped = (partitioner, combiners[1], reducer)
    states = [running.stop(job) for job in stopped]
    site.mqtt.send(partitioner.source_topic, texts[half:] + last_messages(40))
    for job, state in zip(stopped, states, strict=True):
        running.start(job, state)
    assert_complete(site, reducer, reference(session, texts))
    assert reports.total("partials") > 0  # the key with a third of the rows is too large for one combiner
    assert {json.loads(text)["shard"] for _, text in reports.received} == {0, 1}
    assert damaged.faults() == {"bad_frames": 1}
    for each in (reports, damaged):
        each.close()


def test_rows_are_chosen_and_repeated(site: SparkBench, session: SparkSession, running: Running) -> None:
    (job,) = split_job(site, "twice", split_of(2, "shuffle"), "Twice")
    texts = messages(20, 3)
    site.mqtt.send(job.source_topic, texts + last_messages(20))
    running.start(job)
    chosen = [text for text in texts if not text.rpartition(",")[2].startswith("-")]
    assert_complete(site, job, reference(session, chosen * 2))


def test_groups_are_hashed_as_spark_does(session: SparkSession) -> None:
    found = session.sql("SELECT hash(CAST(id AS INT)) FROM range(100)").collect()
    assert [row[0] for row in found] == [hash_of(number) for number in range(100)]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("NoKey", r"rows\(\) of NoKey returned no key \(it has time\)"),
        ("BadTime", r"rows\(\) of BadTime: 'time' is of type string \(expected a timestamp"),
        ("WithMap", r"rows\(\) of WithMap: 'tags' is of type map<string,string> \(expected a number"),
        ("no_class", r"no_class is a function \(key_split expects a class with rows, add, merge, finish\)"),
    ],
)
def test_a_class_that_is_no_aggregation_is_refused(site: SparkBench, entry: str, message: str) -> None:
    (job,) = split_job(site, f"refused-{entry}", split_of(2, "shuffle"), entry)
    with pytest.raises(Rejected, match=message):
        site.binder().submit(job, attempt_of(job))


def test_rows_that_leave_out_control_messages_are_refused(site: SparkBench, running: Running) -> None:
    split = replace(split_of((Place(), Place()), "balanced"), measured=True)
    partitioner, *_ = split_job(site, "words", split, "Words")
    words = r"rows\(\) of Words: explode leaves out messages without a value.*expected explode_outer"
    with pytest.raises(Rejected, match=words):
        site.binder().submit(partitioner, attempt_of(partitioner))
    partitioner, *_ = split_job(site, "outer-words", split, "OuterWords")
    running.start(partitioner)


def test_an_error_of_the_aggregation_is_located(site: SparkBench) -> None:
    (job,) = split_job(site, "fails-in-add", split_of(2, "shuffle"), "Fails")
    engine = site.binder()
    handle = engine.submit(job, attempt_of(job))
    site.mqtt.send(job.source_topic, ["a,1700000000,7"])
    said = await_state(engine, handle, JobState.FAILED).message
    assert "RuntimeError: no such amount: 7" in said
    assert "key_split.py, line" in said
    engine.stop(handle, keep_state=False)
