"""Warnings of a composition, and options that fit only some jobs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from speck.binder import Registry
from speck.errors import InvalidInput
from testbed.benches.examples import MQTT, PIPELINES, SPARK
from tests.schema.loading import CLEAN, FLINK, faults_of, load, load_data, read


def warnings_of(root: Path, *jobs: Any) -> list[str]:
    return [str(fault) for fault in load(root, *jobs).warnings]


def test_a_topic_misspelt_is_told_with_the_near_name(root: Path) -> None:
    first = FLINK | {"sink_broker": "A", "sink_topic": "T-C-filter"}
    second = FLINK | {
        "job_name": "C",
        "source_broker": "A",
        "source_topic": "T-C-fliter",
        "sink_topic": "end",
    }
    warnings = warnings_of(root, first, second)
    assert (
        "job 'C': source_topic 'T-C-fliter' is written by no job here: an external source, "
        "or a mistake (did you mean 'T-C-filter', which job 'A' writes and no job here reads?)"
    ) in warnings
    assert not any("sink_topic 'T-C-filter' is read by no job here" in each for each in warnings)
    assert len(warnings) == 3


def test_a_topic_written_at_one_broker_and_read_at_another(root: Path) -> None:
    second = FLINK | {
        "job_name": "C",
        "source_broker": "A",
        "source_topic": "T-C-filter",
        "sink_topic": "end",
    }
    warnings = warnings_of(root, FLINK, second)
    assert (
        "job 'C': source_topic 'T-C-filter' is written at tcp://172.16.192.18:1883 but read at "
        "tcp://10.0.0.1:1883: no data flows between them"
    ) in warnings


def test_a_dangling_topic_is_told_once(root: Path) -> None:
    warnings = warnings_of(root, FLINK, FLINK | {"job_name": "B"}, FLINK | {"job_name": "C", "site": "A"})
    assert [each.rpartition(" (")[2] for each in warnings] == [
        "read by 2 more jobs)",
        "written by 2 more jobs)",
    ]


def test_a_dangling_topic_at_several_brokers_is_told_once(root: Path) -> None:
    second = FLINK | {"job_name": "B", "source_broker": "A", "sink_broker": "A"}
    assert len(warnings_of(root, FLINK, second)) == 2


def test_a_filter_that_takes_in_fence_messages(root: Path) -> None:
    assert any("fence messages" in each for each in warnings_of(root, FLINK | {"source_topic": "#"}))


def test_a_warning_has_its_line(root: Path) -> None:
    text = (PIPELINES / "figure3.yaml").read_text()
    lines = text.splitlines()
    for fault in read(root, text).warnings:
        assert fault.line is not None
        assert str(fault.value) in lines[fault.line - 1]


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"on_error": "ignore"}, "on_error 'ignore' is not known (expected fail, skip or park)"),
        ({"on_error": "park"}, "park_topic is missing (expected the topic for parked messages"),
        ({"on_error": "skip", "park_topic": "p"}, "park_topic 'p' does not fit on_error 'skip'"),
        ({"park_topic": "p"}, "park_topic 'p' does not fit on_error 'fail' (expected on_error: park)"),
        ({"on_error": "park", "park_topic": "a/#"}, "park_topic 'a/#' has a wildcard"),
        (
            {"on_error": "park", "park_topic": "T-1"},
            "park_topic 'T-1' is among the topics that the job reads",
        ),
    ],
)
def test_treatments_of_errors_that_do_not_fit(root: Path, fields: dict[str, Any], fault: str) -> None:
    (found,) = faults_of(root, CLEAN | fields)
    assert fault in found


def test_a_python_program_on_flink_cannot_leave_messages_out(root: Path) -> None:
    found = faults_of(root, CLEAN | {"spe_address": "http://172.16.39.7:8081/", "on_error": "skip"})
    assert any("on_error 'skip' does not fit a Python program on Flink" in each for each in found)


def test_messages_on_which_the_code_fails_are_parked(root: Path) -> None:
    found = load(root, FLINK | {"on_error": "park", "park_topic": "T-1-parked"}).composition.jobs["A"]
    assert (found.on_error, found.park_topic) == ("park", "T-1-parked")
    assert load(root, FLINK).composition.jobs["A"].on_error == "fail"


def test_a_binder_that_does_not_name_the_treatments_of_failing_messages_knows_none(root: Path) -> None:
    old = Registry.of([replace(SPARK, on_error=("fail",)), MQTT])
    data = {"jobs": [CLEAN | {"on_error": "skip"}]}
    with pytest.raises(InvalidInput, match="on_error 'skip' is not supported by the binder of 'spark'"):
        load_data(root, data, old)


def test_results_may_be_retained_where_the_connector_can(root: Path) -> None:
    assert load(root, FLINK | {"retain": True}).composition.jobs["A"].retain
    assert not load(root, FLINK).composition.jobs["A"].retain
    (found,) = faults_of(root, FLINK | {"retain": "always"})
    assert "retain 'always'" in found
    old = Registry.of([replace(SPARK, retains=False), MQTT])
    with pytest.raises(InvalidInput, match="retain true is not supported by the binder of 'spark'"):
        load_data(root, {"jobs": [CLEAN | {"retain": True}]}, old)


def test_real_time_is_a_trigger_of_jobs_on_spark_connect(root: Path) -> None:
    fields = {"trigger": "real-time", "on_error": "park", "park_topic": "parked"}
    found = load(root, CLEAN | fields).composition.jobs["A"]
    assert (found.trigger, found.on_error) == ("real-time", "park")
    (fault,) = faults_of(root, CLEAN | {"trigger": "realtime"})
    assert fault.endswith("(expected, for example, '2 seconds' or '500 ms'; or 'real-time')")
    (fault,) = faults_of(root, FLINK | {"trigger": "real-time"})
    assert "trigger 'real-time' does not fit engine 'flink'" in fault
    standalone = Registry.of([replace(SPARK, real_time=False), MQTT])
    data = {"jobs": [CLEAN | {"trigger": "real-time"}]}
    right = "is not supported by the binder of 'spark' (expected an interval, or an engine on Spark Connect)"
    with pytest.raises(InvalidInput, match=re.escape(right)):
        load_data(root, data, standalone)


def test_real_time_fits_no_other_output_mode(root: Path) -> None:
    (found,) = faults_of(root, CLEAN | {"trigger": "real-time", "output_mode": "complete"})
    assert "output_mode 'complete' does not fit trigger 'real-time'" in found


@pytest.mark.parametrize("code", [CLEAN, FLINK], ids=["spark", "flink"])
def test_a_time_zone_is_a_name_of_the_database(root: Path, code: dict[str, Any]) -> None:
    assert load(root, code | {"timezone": "Europe/Berlin"}).composition.jobs["A"].timezone == "Europe/Berlin"
    assert load(root, code).composition.jobs["A"].timezone == "UTC"
    for wrong, right in (
        ("Berlin", "did you mean 'Europe/Berlin'?"),
        ("europe/berlin", "did you mean 'Europe/Berlin'?"),
        ("America/New York", "did you mean 'America/New_York'?"),
        ("EST", "such as Europe/Berlin or America/New_York, or UTC"),
        ("../../etc/passwd", "such as Europe/Berlin or America/New_York, or UTC"),
        ("+02:00", "such as Europe/Berlin or America/New_York, or UTC"),
    ):
        (found,) = faults_of(root, code | {"timezone": wrong})
        assert f"timezone {wrong!r} is not a time zone (expected a name of the IANA" in found
        assert right in found


def test_an_output_mode_is_that_of_a_spark_job(root: Path) -> None:
    assert load(root, CLEAN | {"output_mode": "complete"}).composition.jobs["A"].output_mode == "complete"
    assert load(root, CLEAN).composition.jobs["A"].output_mode is None
    (found,) = faults_of(root, CLEAN | {"output_mode": "sometimes"})
    assert "output_mode 'sometimes' is not known (expected append, update or complete)" in found
    (found,) = faults_of(root, FLINK | {"output_mode": "update"})
    assert "output_mode 'update' does not fit engine 'flink' (only Spark has output modes)" in found
    old = Registry.of([replace(SPARK, output_modes=False), MQTT])
    data = {"jobs": [CLEAN | {"output_mode": "update"}]}
    with pytest.raises(InvalidInput, match="output_mode 'update' is not supported by the binder of 'spark'"):
        load_data(root, data, old)
