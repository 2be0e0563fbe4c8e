"""Marks of queries as properties of a server's Java process."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest

from binders.spark.connect.engine import ConnectEngine
from binders.spark.connect.running import marks_by_run
from binders.spark.query.marks import Marks
from speck.core.inventory import Inventory
from speck.core.runtime import Attempt, Handle, JobState, JobStatus
from testbed.benches.examples import job as make_job
from testbed.benches.sessions import OWNER, named

RUN = "0b5c3bb8-6f5c-4f0a-9d4e-0123456789ab"
JOB = make_job("a", engine="spark")
ATTEMPT = Attempt(id="a" * 32, job_name="a", number=7, session=named("a"), owner=OWNER, incarnation=5)


@pytest.mark.parametrize("place", ["/data/a", 'hdfs://h:9/a b/"c"/%25,}&=+\''])
def test_marks_are_read_as_they_were_written(place: str) -> None:
    marks = Marks.of(JOB, ATTEMPT, place)
    written = urlencode(marks.present(), safe="")
    assert not set(written) & set("',} \"\\")  # which end a text of SQL, or a property in a list
    listed = f'["speck.query.{RUN}={written}","speck.query.none=attempt=1"]'
    assert marks_by_run(listed) == {RUN: marks}


@pytest.mark.parametrize("text", ["", "attempt=1", "job=a", f"attempt={'A' * 32}&job=a"])
def test_marks_without_an_attempt_are_none(text: str) -> None:
    assert marks_by_run(f'["speck.query.{RUN}={text}"]') == {}


@pytest.mark.parametrize(
    ("state", "message"), [(JobState.RUNNING, ""), (JobState.STARTING, "said"), (JobState.FAILED, "said")]
)
def test_what_a_running_query_does_is_no_word_of_its_engine(
    state: JobState, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent reports no job of which its engine says something; of several jobs, it says nothing."""
    engine = ConnectEngine("sc://127.0.0.1:9", Inventory())
    handle = Handle("sc://127.0.0.1:9", "s", {"query": "q", "run": RUN, "job": "a"})
    monkeypatch.setattr(engine, "status", lambda _: JobStatus(state, 1.0, "said"))
    assert engine.statuses([handle]) == {"s": JobStatus(state, 1.0, message)}
    engine.close()
