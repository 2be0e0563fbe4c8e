"""Spark's progress reports and failures of a query, as SpecK reads them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from binders.spark.query.progress import failure_line, metrics_of, report_line
from speck.core.runtime import JobMetrics

REPORT = {
    "timestamp": "2026-11-21T03:10:40.710Z",
    "batchId": 2,
    "durationMs": {"triggerExecution": 255, "addBatch": 68},
    "stateOperators": [{"numRowsTotal": 3}, {"numRowsTotal": 4}],
    "sources": [
        {
            "numInputRows": 19,
            "inputRowsPerSecond": 18.5,
            "processedRowsPerSecond": 74.5,
            "metrics": {"queued": "21", "received": "22", "redelivered": "0", "connected": "true"},
        }
    ],
    "sink": {"numOutputRows": 38, "metrics": {"stamps": "derived"}},
}

PYTHON_FAILURE = """\
org.apache.spark.sql.streaming.StreamingQueryException: [PYTHON_EXCEPTION] thrown: Traceback \
(most recent call last):
  File "/opt/pyspark/python/lib/pyspark.zip/pyspark/worker.py", line 4207, in invoke_udf
    func, profiler, deserializer, serializer = read_udfs(
  File "/jobs/clean.py", line 58, in _fail
    raise RuntimeError(f"no such street: {text[:3]}")
RuntimeError: no such street: a
 SQLSTATE: 38000
=== Streaming Query ===
Identifier: fails [id = 1, runId = 2]
\tat org.apache.spark.sql.execution.streaming.runtime.StreamExecution.run(StreamExecution.scala:236)
Caused by: org.apache.spark.api.python.PythonException: something else
"""

JAVA_FAILURE = """\
org.apache.spark.sql.streaming.StreamingQueryException: outer words
=== Streaming Query ===
\tat org.apache.spark.sql.execution.streaming.runtime.StreamExecution.run(StreamExecution.scala:236)
Caused by: org.apache.spark.SparkException: Job aborted
\tat org.apache.spark.Other.run(Other.scala:1)
Caused by: io.speck.mqtt.TakenOverException: the session was taken over by attempt 2
\tat io.speck.mqtt.Fence.check(Fence.java:35)
"""


def test_metrics_of_a_report() -> None:
    assert metrics_of(json.dumps(REPORT), 7.0) == JobMetrics(
        7.0,
        input_rate=18.5,
        output_rate=37.0,
        processing_rate=74.5,
        batch_duration_ms=255.0,
        state_rows=7,
        input_rows=20,
        counted_at=1795230640.71,
        waiting=2,
        batch_id=2,
        details={
            "batch_at": "2026-11-21T03:10:40.710Z",
            "batch_rows": 19,
            "queued": 21,
            "received": 22,
            "redelivered": 0,
            "connected": "true",
            "stamps": "derived",
            "duration_ms.triggerExecution": 255,
            "duration_ms.addBatch": 68,
        },
    )


def at_rest(second: int, **more: object) -> str:
    """A report of a query without messages, as Spark makes one every 10 s."""
    source = {
        "numInputRows": 0,
        "inputRowsPerSecond": 0.0,
        "processedRowsPerSecond": 0.0,
        "metrics": {"queued": "0", "received": "22", "connected": "true", "waitedMillis": str(second)},
    }
    report = {
        "timestamp": f"2026-11-21T03:10:{second}.{second}0Z",
        "batchId": 3,
        "durationMs": {"latestOffset": 500 + second, "triggerExecution": 501 + second},
        "sources": [source],
        "sink": {"numOutputRows": 0, "metrics": {"ackMillis": "1.5"}},
    }
    return json.dumps(report | more)


def test_of_a_job_at_rest_only_times_change() -> None:
    first, then = (metrics_of(at_rest(second), second) for second in (10, 30))
    assert first.counted_at is not None
    assert then == replace(first, observed_at=30, counted_at=first.counted_at + 20.2)
    assert first.details == {
        "batch_rows": 0,
        "queued": 0,
        "received": 22,
        "connected": "true",
        "ackMillis": 1.5,
    }
    assert (first.input_rate, first.input_rows, first.batch_duration_ms) == (0, 22, None)


def test_of_a_job_in_real_time_at_rest_only_the_number_and_the_times_of_batches_change() -> None:
    reports = [
        at_rest(second, batchId=second, durationMs={"addBatch": second, "triggerExecution": 20_000 + second})
        for second in (10, 30)
    ]
    first, then = (metrics_of(report, 7.0) for report in reports)
    assert (first.batch_duration_ms, then.batch_duration_ms) == (20_010, 20_030)
    passing = {"counted_at": 0.0, "batch_id": 0, "batch_duration_ms": 0.0}
    assert replace(first, **passing) == replace(then, **passing)


def test_metrics_before_the_first_report() -> None:
    assert metrics_of(None, 7.0) == JobMetrics(7.0)


@pytest.mark.parametrize("sink", [{"numOutputRows": -1}, {}, None])
def test_a_sink_that_does_not_count_tells_no_rate(sink: object) -> None:
    assert metrics_of(json.dumps(REPORT | {"sink": sink}), 7.0).output_rate is None


@pytest.mark.parametrize("rate", ["NaN", "Infinity", None])
def test_rates_that_are_no_numbers_are_not_told(rate: object) -> None:
    report = {"batchId": 0, "sources": [{"inputRowsPerSecond": rate}]}
    metrics = metrics_of(json.dumps(report), 7.0)
    assert (metrics.input_rate, metrics.input_rows) == (None, None)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (PYTHON_FAILURE, "RuntimeError: no such street: a (clean.py, line 58)"),
        (JAVA_FAILURE, "io.speck.mqtt.TakenOverException: the session was taken over by attempt 2"),
        ("org.apache.spark.sql.streaming.StreamingQueryException: only this\n\tat x", "only this"),
        ("", ""),
    ],
)
def test_the_line_that_helps(text: str, line: str) -> None:
    assert failure_line(text) == line


def test_importing_the_binder_does_not_import_pyspark() -> None:
    code = "import sys, binders.spark; sys.exit('pyspark' in sys.modules or 'grpc' in sys.modules)"
    environment = {"PYTHONPATH": ":".join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


def test_a_report_as_a_line() -> None:
    assert report_line(json.dumps(REPORT)) == "2026-11-21T03:10:40.710Z batch 2: 19 rows in 0.255 s"
    assert report_line("{}") == " batch ?: 0 rows in 0.000 s"
