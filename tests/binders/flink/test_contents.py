"""The contents of messages on their way through a Flink job."""

from __future__ import annotations

from dataclasses import replace

import pytest

from speck.testing import attempt_of, eventually
from testbed.benches.contents import CONTENTS, OTHERS, TEXTS
from testbed.benches.flink import FlinkBench
from testbed.benches.mqtt_client import MqttClient

pytestmark = pytest.mark.engine


def test_contents_pass_unchanged(flink_bench: FlinkBench, job_name: str) -> None:
    assert flink_bench.broker is not None
    job, engine = flink_bench.passing_job(job_name), flink_bench.binder()
    mqtt_client = MqttClient(flink_bench.broker.port)
    handle = engine.submit(job, attempt_of(job))
    mqtt_client.send(job.source_topic, CONTENTS)
    got = eventually(lambda: mqtt_client.got_bytes(job), lambda got: len(got) == len(CONTENTS))
    assert got == list(CONTENTS)
    engine.stop(handle, keep_state=False)
    mqtt_client.close()


@pytest.mark.parametrize("on_error", ["fail", "skip", "park"])
def test_contents_that_are_no_text(flink_bench: FlinkBench, job_name: str, on_error: str) -> None:
    assert flink_bench.broker is not None
    job, engine = flink_bench.passing_job(job_name), flink_bench.binder()
    park = f"out/parked/{job_name}" if on_error == "park" else None
    job = replace(job, arguments={"site": "A"}, on_error=on_error, park_topic=park)
    mqtt_client = MqttClient(flink_bench.broker.port)
    handle = engine.submit(job, attempt_of(job))
    mqtt_client.send(job.source_topic, CONTENTS)
    if on_error == "fail":
        status = eventually(lambda: engine.status(handle), lambda found: "InvalidText" in found.message)
        assert f"on message 2 of topic '{job.source_topic}': " in status.message
        assert "byte 0xFF at position 1 of 2 is not UTF-8" in status.message
    else:
        expected = len(TEXTS) if park is None else len(CONTENTS)
        eventually(lambda: mqtt_client.received, lambda found: len(found) == expected)
        assert mqtt_client.got_bytes(job) == [text + b",A" for text in TEXTS]
        assert park is None or mqtt_client.got_bytes(replace(job, sink_topic=park)) == list(OTHERS)
        key = {"skip": "skipped", "park": "parked"}[on_error]
        metrics = eventually(lambda: engine.metrics(handle), lambda found: bool(found.details.get(key)))
        assert metrics.details[key] == len(OTHERS)
    engine.stop(handle, keep_state=False)
    mqtt_client.close()
