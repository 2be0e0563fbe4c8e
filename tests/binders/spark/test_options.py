"""The settings of a job's session on Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from binders.spark.query.builder import _source_options
from binders.spark.query.options import settings, source_options
from binders.spark.query.spec import QuerySpec
from binders.spark.query.user_code import JobFault
from speck.core.inventory import Inventory
from speck.core.runtime import Attempt
from speck.core.split import Place, Split, expand
from tests.support.jobs_by_hand import make_job

ATTEMPT = Attempt(id="1" * 32, job_name="a", number=7, session="speck-a", incarnation=5, origin=3)


def test_the_sink_gets_the_numbers_of_its_stamps_from_the_session() -> None:
    found = settings(make_job("a"), ATTEMPT)
    assert (found["spark.speck.incarnation"], found["spark.speck.origin"]) == ("5", "3")


def test_the_zone_of_local_times_is_that_of_the_job() -> None:
    for job, zone in ((make_job("a"), "UTC"), (make_job("a", timezone="Asia/Tokyo"), "Asia/Tokyo")):
        assert settings(job, ATTEMPT)["spark.sql.session.timeZone"] == zone


def test_a_shuffle_has_the_same_partitions_when_a_batch_is_run_again() -> None:
    found = settings(make_job("a", parallelism=3), ATTEMPT)
    assert (found["spark.sql.adaptive.enabled"], found["spark.sql.shuffle.partitions"]) == ("false", "3")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, {}),
        ({"on_error": "skip"}, {"onError": "skip", "job": "a"}),
        (
            {"on_error": "park", "park_topic": "parked"},
            {"onError": "park", "job": "a", "parkTopic": "parked"},
        ),
    ],
    ids=["fail", "skip", "park"],
)
def test_the_source_is_told_what_becomes_of_messages_on_which_the_code_fails(
    fields: dict[str, str], expected: dict[str, str]
) -> None:
    options = source_options(make_job("a", **fields), ATTEMPT, Inventory())
    assert {name: options[name] for name in ("onError", "job", "parkTopic") if name in options} == expected


@pytest.mark.parametrize(
    ("partitioner", "measured", "controlled"),
    [("balanced", True, True), ("balanced", False, False), ("dalton-metrics", False, True)],
)
def test_a_partitioner_that_takes_measured_work_reads_control_messages(
    partitioner: str, measured: bool, controlled: bool
) -> None:
    split = Split(
        combiners=(Place(), Place()), partitioner=partitioner, window_us=1, slide_us=1, measured=measured
    )
    found = [source_options(job, ATTEMPT, Inventory()) for job in expand(make_job("a"), split)]
    topics = [options.get("controlTopic") for options in found]
    assert topics == ["speck/control/speck-a" if controlled else None, None, None, None]


def test_a_job_in_real_time_reads_in_one_task_and_commits_in_order() -> None:
    job = make_job("a", trigger="real-time")
    assert source_options(job, ATTEMPT, Inventory())["partitions"] == "1"
    assert source_options(replace(job, parallelism=3), ATTEMPT, Inventory())["partitions"] == "3"
    found = settings(job, ATTEMPT)
    assert found["spark.speck.trigger"] == "real-time"
    assert found["spark.sql.streaming.realTimeMode.asyncProgressTrackingByDefault.enabled"] == "false"
    assert "spark.speck.trigger" not in settings(make_job("a", trigger="2 seconds"), ATTEMPT)


def test_a_job_of_a_split_reads_texts() -> None:
    class Rows:
        value_type = "binary"

    options = {"topic": "in"}
    spec = QuerySpec(
        job_name="a",
        path="a.py",
        entry="Rows",
        checkpoint="",
        source_format="mqtt",
        sink_format="mqtt",
        source_options=options,
        sink_options={},
    )
    assert _source_options(Rows, spec) == {"topic": "in", "valueType": "binary"}
    assert _source_options(len, replace(spec, split={"role": "whole"})) == options
    with pytest.raises(
        JobFault, match=r"'binary' does not fit key_split \(expected a cast of 'value' to binary\)"
    ):
        _source_options(Rows, replace(spec, split={"role": "whole"}))
