"""The settings of a job's session on Spark."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from binders.spark.query.builder import _RENAMING, _file_manager, _source_options
from binders.spark.query.options import SETTINGS, settings, sink_options, source_options
from binders.spark.query.spec import FILE_MANAGER, FILE_MANAGER_SETTING, QuerySpec
from binders.spark.query.user_code import JobFault
from speck.core.inventory import Broker, Engine, Inventory, Login, Secret
from speck.core.runtime import Attempt
from speck.core.split import Place, Split, expand
from testbed.benches.jobs_by_hand import make_job

ATTEMPT = Attempt(id="1" * 32, job_name="a", number=7, session="speck-a", incarnation=5, origin=3)
ENGINE = Engine(spe_address="sc://edge")


def test_the_sink_gets_the_numbers_of_its_stamps_from_the_session() -> None:
    found = settings(make_job("a"), ATTEMPT, ENGINE)
    assert (found["spark.speck.incarnation"], found["spark.speck.origin"]) == ("5", "3")


def test_the_zone_of_local_times_is_that_of_the_job() -> None:
    for job, zone in ((make_job("a"), "UTC"), (make_job("a", timezone="Asia/Tokyo"), "Asia/Tokyo")):
        assert settings(job, ATTEMPT, ENGINE)["spark.sql.session.timeZone"] == zone


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
    ("on_error", "expected"), [("fail", {}), ("skip", {"program": "p", "decoded": "true"})]
)
def test_the_source_of_a_query_decodes_where_it_leaves_messages_out(
    on_error: str, expected: dict[str, str]
) -> None:
    job = make_job("a", on_error=on_error, query={"program": "p"})
    options = source_options(job, ATTEMPT, Inventory())
    assert {name: options[name] for name in ("program", "decoded") if name in options} == expected


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


def test_the_sink_is_told_what_becomes_of_results_that_its_broker_does_not_accept() -> None:
    assert not {"onError", "parkTopic"} & sink_options(make_job("a"), Inventory()).keys()
    skipping = sink_options(make_job("a", on_error="skip"), Inventory())
    assert skipping["onError"] == "skip"
    assert not any(name.startswith("park") for name in skipping)


def test_the_sink_retains_results_if_the_job_says_so() -> None:
    assert "retain" not in sink_options(make_job("a"), Inventory())
    assert sink_options(make_job("a", retain=True), Inventory())["retain"] == "true"


def test_the_sink_gets_the_login_at_the_broker_of_the_parking_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("READER", "hunter2")
    job = make_job("a", on_error="park", park_topic="parked")
    login = Login(username="reader", password=Secret("${READER}"))
    inventory = Inventory(brokers={"source": Broker(broker_address=job.source_broker, broker_login=login)})
    options = sink_options(job, inventory)
    assert {name: value for name, value in options.items() if name.startswith("park")} == {
        "parkTopic": "parked",
        "parkBrokerUrl": job.source_broker,
        "parkUsername": "reader",
        "parkPassword": "hunter2",
    }


@pytest.mark.parametrize("name", ["password", "parkPassword"])
def test_no_password_of_a_job_is_shown_among_its_requests(name: str) -> None:
    # Python looks behind by a fixed width alone: the text before the password is matched as well.
    redacted = SETTINGS["spark.sql.redaction.string.regex"].replace('"(?<=', "(?:")
    assert re.fullmatch(redacted, f'key: "{name}"\n        value: "hunter2"')


def test_a_job_in_real_time_reads_in_one_task_and_commits_in_order() -> None:
    job = make_job("a", trigger="real-time")
    assert source_options(job, ATTEMPT, Inventory())["partitions"] == "1"
    assert source_options(replace(job, parallelism=3), ATTEMPT, Inventory())["partitions"] == "3"
    found = settings(job, ATTEMPT, ENGINE)
    assert found["spark.speck.trigger"] == "real-time"
    assert found["spark.sql.streaming.realTimeMode.asyncProgressTrackingByDefault.enabled"] == "false"
    assert "spark.speck.trigger" not in settings(make_job("a", trigger="2 seconds"), ATTEMPT, ENGINE)


@pytest.mark.parametrize(
    ("of_the_server", "set_for_the_job"),
    [(None, {FILE_MANAGER_SETTING: _RENAMING}), (FILE_MANAGER, {}), ("com.example.ForAnObjectStore", {})],
)
def test_a_server_keeps_its_own_manager_of_checkpoint_files(
    of_the_server: str | None, set_for_the_job: dict[str, str]
) -> None:
    configured = {} if of_the_server is None else {FILE_MANAGER_SETTING: of_the_server}
    assert _file_manager(SimpleNamespace(conf=configured)) == set_for_the_job
    assert FILE_MANAGER_SETTING not in settings(make_job("a"), ATTEMPT, ENGINE)


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


def test_a_job_requests_the_key_and_the_offset_by_an_attribute() -> None:
    def asking(value: object) -> type:
        return type("Job", (), {"message_metadata": value})

    names = {"job_name": "a", "path": "a.py", "entry": "Job", "checkpoint": ""}
    formats = {"source_format": "mqtt", "sink_format": "mqtt"}
    spec = QuerySpec(**names, **formats, source_options={"topic": "in"}, sink_options={})
    assert _source_options(asking(True), spec) == {"topic": "in", "metadata": "true"}
    assert _source_options(asking(True), replace(spec, split={"role": "whole"}))["metadata"] == "true"
    assert _source_options(asking(False), spec) == {"topic": "in"}
    with pytest.raises(JobFault, match=r"its message_metadata is 'yes' \(expected True or False\)"):
        _source_options(asking("yes"), spec)


def test_messages_that_a_broker_may_not_have_saved_lie_beside_the_checkpoints() -> None:
    known = Engine(spe_address="sc://edge", checkpoint_dir="/var/lib/speck/checkpoints/")
    assert settings(make_job("a"), ATTEMPT, known)["spark.speck.spool"] == "/var/lib/speck/checkpoints/~spool"
    assert settings(make_job("a"), ATTEMPT, ENGINE)["spark.speck.spool"] == "speck-checkpoints/~spool"
