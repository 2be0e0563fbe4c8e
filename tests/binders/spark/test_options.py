"""The settings of a job's session on Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from binders.spark.query.options import settings, source_options
from speck.core.inventory import Engine, Inventory
from speck.core.runtime import Attempt
from speck.core.split import Place, Split, expand
from tests.support.jobs_by_hand import make_job

ATTEMPT = Attempt(id="1" * 32, job_name="a", number=7, session="speck-a", incarnation=5, origin=3)
ENGINE = Engine(spe_address="sc://edge")


def test_the_sink_gets_the_numbers_of_its_stamps_from_the_session() -> None:
    found = settings(make_job("a"), ATTEMPT, ENGINE)
    assert (found["spark.speck.incarnation"], found["spark.speck.origin"]) == ("5", "3")


def test_a_shuffle_has_the_same_partitions_when_a_batch_is_run_again() -> None:
    found = settings(make_job("a", parallelism=3), ATTEMPT, ENGINE)
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
    found = settings(job, ATTEMPT, ENGINE)
    assert found["spark.speck.trigger"] == "real-time"
    assert found["spark.sql.streaming.realTimeMode.asyncProgressTrackingByDefault.enabled"] == "false"
    assert "spark.speck.trigger" not in settings(make_job("a", trigger="2 seconds"), ATTEMPT, ENGINE)


def test_messages_that_a_broker_may_not_have_saved_lie_beside_the_checkpoints() -> None:
    known = Engine(spe_address="sc://edge", checkpoint_dir="/var/lib/speck/checkpoints/")
    assert settings(make_job("a"), ATTEMPT, known)["spark.speck.spool"] == "/var/lib/speck/checkpoints/~spool"
    assert settings(make_job("a"), ATTEMPT, ENGINE)["spark.speck.spool"] == "speck-checkpoints/~spool"
