"""The counts of queries' work out of Spark's progress reports."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from typing import Any

import psutil
import pytest

from binders.spark.connect.processor import listening
from binders.spark.query.history import BATCHES, BatchHistory
from binders.spark.query.profile import batch_of, job_sample
from speck.core.profile import AckSample, BatchSample, JobSample

BEGUN = 1795230640.71  # of the report below, Unix time, s

REPORT: dict[str, Any] = {
    "timestamp": "2026-11-21T03:10:40.710Z",
    "batchId": 2,
    "durationMs": {"triggerExecution": 255, "latestOffset": 155, "addBatch": 68},
    "stateOperators": [{"memoryUsedBytes": 3000}, {"memoryUsedBytes": 400}],
    "sources": [
        {
            "numInputRows": 19,
            "metrics": {"queued": "21", "received": "22", "receivedBytes": "2200", "partitions": "3"},
        }
    ],
    "sink": {
        "numOutputRows": 38,
        "metrics": {
            "messages": "40",
            "bytes": "4444",
            "broker": "tcp://b:1",
            "ackMillisMin": "0.5",
            "ackMillis": "2.0",
            "windowFull": "0.25",
        },
    },
}


def report(number: int, rows: int = 10, **more: object) -> str:
    """The report of a batch of so many rows, 1 ms each."""
    durations = {"triggerExecution": 500 + rows, "latestOffset": 400}
    sources = [{"numInputRows": rows, "metrics": {}}]
    return json.dumps({"batchId": number, "durationMs": durations, "sources": sources, **more})


def test_the_work_of_a_batch_in_real_time_is_without_the_time_of_waiting() -> None:
    source = {"numInputRows": 50, "metrics": {"waitedMillis": "19900"}}
    progress = {"batchId": 3, "durationMs": {"triggerExecution": 20100}, "sources": [source]}
    assert batch_of(json.dumps(progress)) == BatchSample(number=3, rows=50, work=0.2)


def test_counts_of_a_report() -> None:
    batches = (BatchSample(number=2, rows=19, work=0.1),)
    found = job_sample("id", json.dumps(REPORT), batches, 2, BEGUN + 9)
    assert found == JobSample(
        engine_id="id",
        observed=pytest.approx(BEGUN + 0.255),
        messages_in=20,
        messages_out=40,
        bytes_in=2200,
        bytes_out=4444,
        batches=batches,
        cores_used=2,
        state_bytes=3400,
        acks=(AckSample(broker="tcp://b:1", least=0.0005, median=0.002, window_full=0.25),),
    )


def test_the_wait_for_messages_is_no_work() -> None:
    batch = batch_of(json.dumps(REPORT))
    assert batch is not None
    assert (batch.number, batch.rows) == (2, 19)
    assert batch.work == pytest.approx(0.1)


def test_before_the_first_report() -> None:
    assert job_sample("id", None, (), 2, 7.0) == JobSample(engine_id="id", observed=7.0)


def test_acknowledgements_hold_for_a_minute() -> None:
    assert job_sample("id", json.dumps(REPORT), (), 2, BEGUN + 59).acks
    assert not job_sample("id", json.dumps(REPORT), (), 2, BEGUN + 61).acks


@pytest.mark.parametrize(
    ("cores", "partitions", "used"), [(2, "1", 1), (2, "2", 2), (2, "8", 2), (None, "8", 8), (2, None, 1)]
)
def test_the_cores_that_a_batch_uses(cores: int | None, partitions: str | None, used: int) -> None:
    source = {"numInputRows": 1, "metrics": {"partitions": partitions} if partitions else {}}
    assert job_sample("id", json.dumps(REPORT | {"sources": [source]}), (), cores, 0.0).cores_used == used


@pytest.mark.parametrize(
    "change",
    [
        {"sources": [{"numInputRows": 0}]},
        {"sources": []},
        {"batchId": None},
        {"durationMs": {}},
        {"durationMs": {"triggerExecution": "NaN"}},
        {"sources": [{"numInputRows": -1}]},
    ],
)
def test_reports_that_have_no_batch(change: Mapping[str, object]) -> None:
    assert batch_of(json.dumps(REPORT | change)) is None


def test_a_job_of_another_connector() -> None:
    other = REPORT | {"sources": [{"numInputRows": 5}], "sink": {"metrics": None}}
    found = job_sample("id", json.dumps(other), (), 2, BEGUN + 1)
    assert (found.messages_in, found.messages_out, found.bytes_in, found.bytes_out) == (None,) * 4
    assert (found.acks, found.cores_used) == ((), 1)


class Engine:
    """Counts the requests for reports."""

    def __init__(self) -> None:
        self.reports = [report(number, 10 + number) for number in range(5)]
        self.asked: list[str] = []

    def last(self) -> str | None:
        self.asked.append("last")
        return self.reports[-1]

    def recent(self) -> list[str | None]:
        self.asked.append("recent")
        return list(self.reports)

    def sample(self, history: BatchHistory) -> JobSample:
        return history.sample("run", "id", self.last, self.recent, 2)


def test_all_reports_are_requested_once() -> None:
    engine, history = Engine(), BatchHistory()
    assert [batch.rows for batch in engine.sample(history).batches] == [10, 11, 12, 13, 14]
    engine.reports.append(report(7, 50))
    assert [batch.number for batch in engine.sample(history).batches] == [0, 1, 2, 3, 4, 7]
    assert engine.asked == ["recent", "last"]


def test_a_report_for_metrics_serves_once() -> None:
    engine, history = Engine(), BatchHistory()
    history.note("run", report(9))  # of a job that is not profiled: not retained
    engine.sample(history)
    history.note("run", report(9))
    assert engine.sample(history).batches[-1].number == 9
    engine.sample(history)
    assert engine.asked == ["recent", "last"]


def test_the_number_of_batches_is_bounded() -> None:
    engine, history = Engine(), BatchHistory()
    engine.reports = [report(number) for number in range(2 * BATCHES)]
    numbers = [batch.number for batch in engine.sample(history).batches]
    assert numbers == list(range(BATCHES, 2 * BATCHES))
    history.forget("run")
    engine.sample(history)
    assert engine.asked == ["recent", "recent"]


def test_a_query_without_any_report() -> None:
    history = BatchHistory()
    assert history.sample("run", "id", lambda: None, list, 2).batches == ()
    assert history.sample("run", "id", lambda: None, list, 2).messages_in is None


def test_work_is_counted_for_batches_without_a_report_too() -> None:
    history = BatchHistory()
    assert history.worked("r") == 0

    def sample(*numbers: int) -> float:
        reports = [report(each) for each in numbers]
        history.sample("r", "s", lambda: reports[-1], lambda: reports, 2)
        return history.worked("r")

    assert sample(3, 4) == 0  # of those before the first sample the number is known, and not the time
    assert sample(5) == pytest.approx(0.11)
    assert sample(15) == pytest.approx(0.11 * 11)
    assert sample(15) == pytest.approx(0.11 * 11)
    history.forget("r")
    assert history.worked("r") == 0


def test_the_process_of_a_server_is_known_by_its_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = listening(os.getpid(), port)
        assert found is not None
        assert found.pid == os.getpid()
    assert listening(os.getpid(), port) is None
    with pytest.raises(psutil.NoSuchProcess):
        listening(2**22 + 1, port)
