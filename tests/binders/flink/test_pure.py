"""Pure parts of the Flink binder: causes, rates, code, requests, states."""

from __future__ import annotations

import dataclasses
import os
import struct
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binders.flink.metrics.rates import (
    BACKPRESSURED,
    BUSY,
    CONNECTORS,
    IDLE,
    RECORDS_IN,
    RECORDS_OUT,
    SENT,
    Sample,
    VertexSample,
    emitted_metric,
    is_newer,
    is_restart,
    named,
    rates,
    rows,
    sample_of,
)
from binders.flink.rest.overviews import JobLine
from binders.flink.rest.stack_trace import MAX_LENGTH, root_cause
from binders.flink.state.locations import missing, newest_on_disk, newest_state, stop_savepoint, unshared
from binders.flink.submission.code_check import check_code
from binders.flink.submission.job_config import (
    attempt_directories,
    login_settings,
    program_arguments,
    run_body,
)
from binders.flink.submission.labels import found, labels_of
from speck.core.inventory import Engine, Inventory, JobLogin, Login, Secret
from speck.core.job import form_fingerprint, session_fingerprint
from speck.core.runtime import State
from speck.observe import losses
from speck.testing import attempt_of
from testbed.benches.examples import job, make_jar, one_site
from testbed.benches.sessions import OWNER
from tests.support.properties import property_test

# -- causes

BUILD = """org.apache.flink.runtime.rest.handler.RestHandlerException: Could not execute application.
\tat org.apache.flink.runtime.webmonitor.handlers.JarRunHandler.lambda$handleRequest$2(JarRunHandler.java:112)
\tat java.base/java.util.concurrent.CompletableFuture.uniHandle(CompletableFuture.java:934)
Caused by: java.util.concurrent.CompletionException: a.FlinkRuntimeException: Could not execute application.
\t... 1 more
Caused by: org.apache.flink.client.ProgramInvocationException: The main method caused an error: no such
\tat org.apache.flink.client.program.PackagedProgram.callMainMethod(PackagedProgram.java:371)
\t... 4 more
Caused by: java.lang.IllegalStateException: no such street
\tat java.base/java.util.Objects.requireNonNull(Objects.java:233)
\tat streets.Counting$FailsAtBuild.main(Counting.java:112)
\tat org.apache.flink.client.program.PackagedProgram.callMainMethod(PackagedProgram.java:355)
\t... 8 more
"""
RUN = """java.lang.NullPointerException
\tat streets.Clean.map(Clean.java:7)
\tat org.apache.flink.streaming.api.operators.StreamMap.processElement(StreamMap.java:38)
"""
LINES = """<Exception on server side:
org.apache.flink.table.api.ValidationException: A table of these columns:
  a INT
  b STRING
was not found
\tat org.apache.flink.table.Planner.plan(Planner.java:1)

End of exception on server side>"""
SUPPRESSED = """java.lang.RuntimeException: outer
\tat streets.Clean.map(Clean.java:7)
\tSuppressed: java.lang.RuntimeException: at closing
\t\tat streets.Clean.close(Clean.java:9)
Caused by: java.io.IOException: broker gone
\tat org.eclipse.paho.Client.connect(Client.java:90)
"""
NAMELESS = """java.lang.RuntimeException: street 'Ring' is closed
\tat streets.Clean.map(Clean.java:7)
Caused by: java.util.NoSuchElementException
\tat java.base/java.util.Optional.get(Optional.java:143)
"""


@pytest.mark.parametrize(
    ("trace", "line"),
    [
        (
            f"Internal server error.\n{BUILD}",
            "IllegalStateException: no such street (Counting.java, line 112)",
        ),
        (RUN, "NullPointerException (Clean.java, line 7)"),
        (LINES, "ValidationException: A table of these columns: a INT b STRING was not found"),
        (SUPPRESSED, "IOException: broker gone (Client.java, line 90)"),
        (NAMELESS, "RuntimeException: street 'Ring' is closed (Clean.java, line 7)"),
        ("Unable to load requested file /jars.", "Unable to load requested file /jars."),
        ("", ""),
    ],
    ids=[
        "build",
        "no-message",
        "several-lines",
        "suppressed",
        "cause-without-message",
        "no-trace",
        "nothing",
    ],
)
def test_root_cause(trace: str, line: str) -> None:
    assert root_cause(trace) == line


@property_test
@given(st.text())
def test_a_cause_is_one_line_whatever_it_is_made_of(trace: str) -> None:
    for each in (root_cause(trace), root_cause(f"a.B: {trace}\n\tat c.D.e(D.java:1)")):
        assert len(each.splitlines()) <= 1
        assert len(each) <= MAX_LENGTH + 60


# -- rates


def vertex(
    emitted: float, seconds: float, *, busy: float = 0.1, source: bool = True, tasks: int = 1
) -> VertexSample:
    """A vertex whose tasks have run so long, busy for this share of the time."""
    time = seconds * 1000 * tasks
    return VertexSample(source, tasks, emitted, time * busy, time * (1 - busy), 0.0)


def test_rates_are_by_the_job_own_clock() -> None:
    before = {"s": vertex(100, 10), "k": vertex(100, 10, busy=0.2, source=False)}
    after = {"s": vertex(600, 20), "k": vertex(600, 20, busy=0.35, source=False)}
    found = rates(before, after)
    assert found.input == pytest.approx(50)
    assert found.busy == pytest.approx(0.5)
    assert found.processing == pytest.approx(100)
    assert found.backpressured == 0
    assert rows(after) == 600


def test_rates_of_several_sources_and_tasks_add_up() -> None:
    before = {"a": vertex(0, 10, tasks=4), "b": vertex(0, 5)}
    after = {"a": vertex(400, 20, tasks=4), "b": vertex(30, 20)}
    assert rates(before, after).input == pytest.approx(42)


@pytest.mark.parametrize("busy", [0.0, 0.01])
def test_a_job_at_rest_tells_no_processing_rate(busy: float) -> None:
    found = rates({"s": vertex(0, 1, busy=busy)}, {"s": vertex(0, 2, busy=busy)})
    assert (found.input, found.processing) == (0, None)


@pytest.mark.parametrize(
    ("after", "newer", "restarted"),
    [
        ({"s": vertex(2, 3)}, True, False),
        ({"s": vertex(1, 2)}, False, False),
        ({"s": vertex(0, 1)}, False, True),
        ({"s": vertex(0, 3)}, True, True),
        ({"s": dataclasses.replace(vertex(2, 3), sent=0.0)}, True, True),
        ({"t": vertex(9, 9)}, False, True),
    ],
    ids=["newer", "the-same", "clock-went-back", "count-went-back", "sent-went-back", "another-vertex"],
)
def test_which_samples_can_be_compared(after: Sample, newer: bool, restarted: bool) -> None:
    before = {"s": dataclasses.replace(vertex(1, 2), sent=1.0)}
    assert is_newer(before, after) is newer
    assert is_restart(before, after) is restarted


def test_what_the_sinks_send_is_counted_wherever_they_are() -> None:
    names = [
        "0.x",
        "Sink__Writer.numRecordsSend",
        "b.numRecordsSend",
        "numRecordsSend",
        "numRecordsSendErrors",
    ]
    assert named(names, SENT) == ("Sink__Writer.numRecordsSend", "b.numRecordsSend")
    sums = {RECORDS_IN: 9.0, BUSY: 0.0, IDLE: 2000.0, BACKPRESSURED: 0.0, "a.s": 3.0, "b.s": 4.0}
    after = sample_of(sums, RECORDS_IN, ["a.s", "b.s"], source=False, subtasks=1)
    assert after is not None
    assert after.sent == 7
    assert sample_of(sums, RECORDS_IN, ["c.s"], source=False, subtasks=1) is None
    before = dataclasses.replace(after, idle=0.0, sent=1.0)
    source = {"s": vertex(0, 1)}, {"s": vertex(6, 3)}
    assert rates(source[0] | {"k": before}, source[1] | {"k": after}).output == pytest.approx(3)
    assert rates(*source).output is None


def test_a_sample_needs_all_counters() -> None:
    sums = {RECORDS_OUT: 3.0, BUSY: 1.0, IDLE: 2.0, BACKPRESSURED: 0.0}
    assert sample_of(sums, RECORDS_OUT, source=True, subtasks=1) == VertexSample(True, 1, 3.0, 1.0, 2.0, 0.0)
    del sums[IDLE]
    assert sample_of(sums, RECORDS_OUT, source=True, subtasks=1) is None


def test_which_counter_counts_rows() -> None:
    chained = ["numRecordsOut", "Source__mqtt.numRecordsOut", "Sink__Writer.numRecordsOut"]
    assert emitted_metric(chained, source=True) == "Source__mqtt.numRecordsOut"
    assert emitted_metric(["numRecordsOut"], source=True) == RECORDS_OUT
    assert emitted_metric(chained, source=False) == RECORDS_IN


# -- code


@pytest.mark.parametrize(
    ("entry_class", "fault"),
    [
        ("streets.Clean", None),
        ("streets.Clean$Fast", None),
        ("streets.Clean.Fast", "expected 'streets.Clean$Fast': a nested class is written with $"),
        ("roads.Clean", "has no class 'roads.Clean' (it has streets.Clean)"),
        ("streets.Claen", "(it has streets.Clean)"),
        ("streets.", "is not a class name"),
        ("", "is not a class name"),
    ],
)
def test_code_of_a_jar(tmp_path: Path, entry_class: str, fault: str | None) -> None:
    jar = make_jar(tmp_path / "streets.jar", "streets.Clean", "streets.Clean$Fast")
    found = check_code(jar, entry_class)
    assert found is None if fault is None else fault in (found or "")


def test_files_that_are_no_jars(tmp_path: Path) -> None:
    (tmp_path / "a.jar").write_text("no jar")
    with zipfile.ZipFile(tmp_path / "empty.jar", "w"):
        pass
    assert "cannot be read as a jar" in (check_code(tmp_path / "a.jar", "a.B") or "")
    assert "cannot be read as a jar" in (check_code(tmp_path / "none.jar", "a.B") or "")
    assert "(it has no classes)" in (check_code(tmp_path / "empty.jar", "a.B") or "")
    assert "expected a .jar" in (check_code(tmp_path / "a.zip", "a.B") or "")


# -- requests


def test_the_body_of_a_run() -> None:
    desired = job("clean", parallelism=2, arguments={"rate": 2.5, "all": False, "session": "mine"})
    attempt = attempt_of(desired, 3, State("flink-savepoint", "file:/s/1"))
    known = Engine(spe_address=desired.spe_address, checkpoint_dir="/var/checkpoints/")
    body = run_body(desired, attempt, "c0de", known, Inventory())
    settings = body.pop("flinkConfiguration")
    arguments = body.pop("programArgsList")
    assert body == {
        "entryClass": "package.ExampleJob",
        "jobId": attempt.id,
        "parallelism": 2,
        "savepointPath": "file:/s/1",
        "claimMode": "NO_CLAIM",
        "allowNonRestoredState": False,
    }
    assert settings["pipeline.name"] == "clean"
    assert settings["execution.checkpointing.dir"] == "file:///var/checkpoints"
    reads = session_fingerprint(desired.source_broker, "speck-clean")
    labels = dict(each.split(":") for each in settings["pipeline.global-job-parameters"].split(","))
    assert labels == {
        "speck.job": "clean",
        "speck.code": "c0de",
        "speck.reads": reads,
        "speck.hash": "c0de",
        "speck.number": "3",
        "speck.form": form_fingerprint(desired),
        "speck.owner": OWNER,
        "speck.stamps": "0.0",
    }
    assert "speck.lineage" not in settings
    assert not any("password" in key for key in settings)
    # What SpecK says of the wiring is not for a job's own arguments to change.
    assert arguments[-4:] == ["--rate", "2.5", "--all", "false"]
    assert arguments[arguments.index("--session") + 1] == "speck-clean"
    assert arguments.count("--session") == 1


def test_a_minimal_body() -> None:
    desired = job("clean")
    body = run_body(desired, attempt_of(desired), "c0de", Engine(spe_address="http://edge"), Inventory())
    assert body.keys() == {"entryClass", "programArgsList", "jobId", "flinkConfiguration"}
    assert "execution.checkpointing.dir" not in body["flinkConfiguration"]


def test_a_run_says_what_becomes_of_messages_on_which_it_fails() -> None:
    desired = job("clean", on_error="park", park_topic="parked")
    engine = Engine(spe_address="http://edge")
    settings = run_body(desired, attempt_of(desired), "c0de", engine, Inventory())["flinkConfiguration"]
    assert (settings["speck.on-error"], settings["speck.park-topic"]) == ("park", "parked")


@pytest.mark.parametrize(
    ("checkpoints", "spool"),
    [
        ("file:///var/checkpoints/", "/var/checkpoints/~spool"),
        ("file:///a%20b", "/a b/~spool"),
        ("hdfs://name/checkpoints", None),
        ("", None),
    ],
)
def test_messages_that_a_broker_may_not_have_saved_lie_beside_local_checkpoints(
    checkpoints: str, spool: str | None
) -> None:
    desired, known = job("clean"), Engine(spe_address="http://edge")
    body = run_body(desired, attempt_of(desired), "c0de", known, Inventory(), checkpoints)
    assert body["flinkConfiguration"].get("speck.spool") == spool


@pytest.mark.parametrize(
    ("savepoints", "folder"),
    [
        ("file:///var/savepoints/clean/0a1b", "/var/savepoints/clean/0a1b"),
        ("hdfs://name/savepoints/clean/0a1b", None),
        ("", None),
    ],
)
def test_a_run_knows_the_folder_of_its_savepoints_on_a_local_disk(
    savepoints: str, folder: str | None
) -> None:
    desired, known = job("clean"), Engine(spe_address="http://edge")
    body = run_body(desired, attempt_of(desired), "c0de", known, Inventory(), "hdfs://name/a", savepoints)
    assert body["flinkConfiguration"].get("speck.savepoints") == folder


def test_a_run_has_the_time_zone_of_its_job() -> None:
    engine = Engine(spe_address="http://edge")
    for desired, zone in ((job("clean"), "UTC"), (job("clean", timezone="Asia/Tokyo"), "Asia/Tokyo")):
        settings = run_body(desired, attempt_of(desired), "c0de", engine, Inventory())["flinkConfiguration"]
        assert settings["table.local-time-zone"] == zone


@pytest.mark.parametrize(("retain", "expected"), [(True, "true"), (False, None)])
def test_a_run_says_if_its_results_are_retained(retain: bool, expected: str | None) -> None:
    desired = job("clean", retain=retain)
    engine = Engine(spe_address="http://edge")
    settings = run_body(desired, attempt_of(desired), "c0de", engine, Inventory())["flinkConfiguration"]
    assert settings.get("speck.retain") == expected


def test_all_counts_of_losses_are_read_from_the_connectors() -> None:
    assert set(losses.COUNTERS) <= set(CONNECTORS)


def test_a_run_says_whose_it_is_and_whose_stamps_it_goes_on_with() -> None:
    desired = job("clean")
    attempt = dataclasses.replace(
        attempt_of(desired), lineage="ab" * 16, owner="c0ffee", incarnation=5, origin=3
    )
    settings = run_body(desired, attempt, "c0de", Engine(spe_address="http://edge"), Inventory())[
        "flinkConfiguration"
    ]
    assert settings["speck.lineage"] == "ab" * 16
    assert (settings["speck.incarnation"], settings["speck.origin"]) == ("5", "3")
    labels = dict(each.split(":") for each in settings["pipeline.global-job-parameters"].split(","))
    assert labels["speck.owner"] == "c0ffee"
    listed = found(JobLine("1", "clean", "RUNNING", 0.0, {}), labels_of(labels))
    assert (listed.owner, listed.incarnation, listed.origin, listed.lineage) == ("c0ffee", 5, 3, "ab" * 16)


@pytest.mark.parametrize("stamps", ["", "5", "5.x", "5.3.", "-1.0", "5.3.AB"])
def test_stamps_that_are_none_are_unknown(stamps: str) -> None:
    """As those of a job that an earlier version has started."""
    labels = {"speck.job": "clean", "speck.stamps": stamps}
    assert found(JobLine("1", "clean", "RUNNING", 0.0, {}), labels_of(labels)).incarnation is None


def test_logins_go_into_settings_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKER", "hunter2")
    login = Login(username="speck", password=Secret("${BROKER}"))
    site = one_site("A", "http://edge:8081/", "tcp://edge:1883", login)
    desired = job("clean", sink_broker="tcp://cloud:1883")
    body = run_body(desired, attempt_of(desired), "c0de", site.engines[0], Inventory({"A": site}))
    settings = {key: value for key, value in body["flinkConfiguration"].items() if key.startswith("speck.")}
    assert settings == {"speck.source.username": "speck", "speck.source.password": "hunter2"}
    assert not any("hunter2" in each for each in program_arguments(desired, attempt_of(desired), Inventory()))
    assert login_settings("speck.sink", JobLogin(ca_file="/ca.pem")) == {"speck.sink.ca-file": "/ca.pem"}


def test_places_are_the_site_or_the_cluster() -> None:
    desired = job("clean")
    attempt = attempt_of(desired)
    engine = Engine(spe_address="http://edge")
    assert dataclasses.astuple(attempt_directories(engine, {}, attempt)) == ("", "")
    cluster = {"execution.checkpointing.dir": "s3://c/", "state.savepoints.dir": "s3://s"}
    assert dataclasses.astuple(attempt_directories(engine, cluster, attempt)) == (
        "s3://c",
        f"s3://s/clean/{attempt.id}",
    )
    own = dataclasses.replace(engine, savepoint_dir="/var/s", checkpoint_dir="hdfs:///c")
    assert dataclasses.astuple(attempt_directories(own, cluster, attempt)) == (
        "hdfs:///c",
        f"file:///var/s/clean/{attempt.id}",
    )


# -- states


HERE, THERE = "http://10.0.0.1:8081/", "http://10.0.0.2:8081/"


@pytest.mark.parametrize(
    ("location", "own", "reader", "seen"),
    [
        ("s3://states/a/1", ["s3://states"], THERE, True),
        ("s3://states/a/1", ["file:///var/s", "s3://states/c"], THERE, True),
        ("s3://states/a/1", ["s3://others"], THERE, False),
        ("s3://states/a/1", ["hdfs://states/"], THERE, False),
        ("s3://states/a/1", ["", "file:///var/s"], THERE, False),
        ("file:///var/s/a/1", ["file:///var/s"], THERE, True),
        ("file:/var/s/a/1", ["file:///var/s/"], THERE, True),
        ("file:///var/s/a/1", ["file:///var/other"], THERE, False),
        ("file:///var/s2/a/1", ["file:///var/s"], THERE, False),
        ("file:///var/s/a/1", ["s3://states"], THERE, False),
        ("file:///var/s/a/1", ["file:///var/other"], "http://10.0.0.1:8082", True),
    ],
)
def test_which_places_another_cluster_is_taken_to_see(
    location: str, own: list[str], reader: str, seen: bool
) -> None:
    fault = unshared(State("flink-savepoint", location, HERE), own, reader)
    assert (fault is None) == seen
    if fault is not None:
        assert location in fault
        assert all(each in fault for each in own)


def checkpoint(
    number: int, path: str, kind: str = "CHECKPOINT", *, discarded: bool = False
) -> dict[str, object]:
    return {"id": number, "external_path": path, "checkpoint_type": kind, "discarded": discarded}


def test_the_newest_state_that_is_there() -> None:
    completed, savepoint = checkpoint(7, "file:/c/chk-7"), checkpoint(5, "file:/s/5", "SAVEPOINT")
    assert newest_state({"latest": {"completed": completed, "savepoint": savepoint}}) == "file:/c/chk-7"
    gone = checkpoint(7, "file:/c/chk-7", discarded=True)
    assert newest_state({"latest": {"completed": gone, "savepoint": savepoint}}) == "file:/s/5"
    in_memory = checkpoint(7, "<checkpoint-not-externally-addressable>")
    assert newest_state({"latest": {"completed": in_memory, "savepoint": None}}) is None
    assert newest_state({"latest": None}) is None


def test_a_savepoint_that_did_not_end_the_job() -> None:
    assert stop_savepoint({"latest": {"savepoint": checkpoint(5, "file:/s/5", "SAVEPOINT")}}) is None
    assert (
        stop_savepoint({"latest": {"savepoint": checkpoint(5, "file:/s/5", "SYNC_SAVEPOINT")}}) == "file:/s/5"
    )


def test_what_a_forgotten_job_left(tmp_path: Path) -> None:
    def leave(place: str) -> Path:
        folder = tmp_path / place
        folder.mkdir(parents=True)
        (folder / "_metadata").write_text("state")
        return folder

    at = (f"file://{tmp_path}/s/clean/1", f"file://{tmp_path}/c", "abc")
    assert newest_on_disk(*at) is None
    leave("c/abc/chk-3")
    (tmp_path / "c/abc/chk-4").mkdir()  # not complete
    leave("c/other/chk-9")
    assert newest_on_disk(*at) == f"file:{tmp_path}/c/abc/chk-3"
    savepoint = leave("s/clean/1/savepoint-abc-1")
    assert newest_on_disk(*at) == f"file:{savepoint}"
    assert newest_on_disk("s3://s/clean/1", "s3://c", "abc") is None


def test_the_newest_state_is_that_of_the_highest_number(tmp_path: Path) -> None:
    """A board without a clock is behind after a loss of power: the newest file may have the oldest time."""

    def leave(place: str, number: int, time: int) -> str:
        folder = tmp_path / place
        folder.mkdir(parents=True)
        (folder / "_metadata").write_bytes(struct.pack(">iiq", 0x4960672D, 4, number) + b"state")
        os.utime(folder / "_metadata", (time, time))
        return f"file:{folder}"

    at = (f"file://{tmp_path}/s/clean/1", f"file://{tmp_path}/c", "abc")
    leave("c/abc/chk-9", 9, 8000)
    tenth = leave("c/abc/chk-10", 10, 5000)
    assert newest_on_disk(*at) == tenth
    leave("s/clean/1/savepoint-abc-1", 8, 9000)  # Flink wrote it, and the job ran on
    assert newest_on_disk(*at) == tenth
    last = leave("s/clean/1/savepoint-abc-2", 11, 4000)
    assert newest_on_disk(*at) == last
    torn = tmp_path / "s/clean/1/savepoint-abc-3"
    torn.mkdir()
    (torn / "_metadata").write_bytes(b"\x49")
    assert newest_on_disk(*at) == f"file:{torn}"


def test_states_that_are_missing(tmp_path: Path) -> None:
    folder = tmp_path / "save points" / "savepoint-1"
    folder.mkdir(parents=True)
    assert "no savepoint" in (missing(f"file:{folder}") or "")
    (folder / "_metadata").write_text("state")
    for location in (folder.as_uri(), str(folder), f"{folder.as_uri()}/_metadata"):
        assert missing(location) is None
    for elsewhere in ("s3://bucket/savepoint-1", "hdfs://host/a/b", "file:/no/such/folder/here"):
        assert missing(elsewhere) is None  # not for this machine to tell
