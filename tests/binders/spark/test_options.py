"""The settings of a job's session on Spark."""

from __future__ import annotations

from binders.spark.query.options import settings
from speck.core.runtime import Attempt
from tests.support.jobs_by_hand import make_job

ATTEMPT = Attempt(id="1" * 32, job_name="a", number=7, session="speck-a", incarnation=5, origin=3)


def test_the_sink_gets_the_numbers_of_its_stamps_from_the_session() -> None:
    found = settings(make_job("a"), ATTEMPT)
    assert (found["spark.speck.incarnation"], found["spark.speck.origin"]) == ("5", "3")


def test_a_shuffle_has_the_same_partitions_when_a_batch_is_run_again() -> None:
    found = settings(make_job("a", parallelism=3), ATTEMPT)
    assert (found["spark.sql.adaptive.enabled"], found["spark.sql.shuffle.partitions"]) == ("false", "3")
