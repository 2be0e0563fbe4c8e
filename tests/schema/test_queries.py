"""The blocks of SQL jobs: typed topics, queries in text and in files, and their faults by line."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import yaml

from binders.flink import QUERIES
from speck.binder import QueryRunner, Registry
from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.errors import InvalidInput
from speck.schema.compositions import Loaded, load_composition, load_job
from testbed.benches.examples import REGISTRY, one_site

TEXT = """name: sql
topics:
  sensors/+/speed:
    as: readings
    format: csv
    schema: {time: timestamp(ms) not null, town: string not null, speed: double}
    event_time: time
    watermark: 1 s
jobs:
- job_name: fast
  site: A
  sql: |
    SELECT town, speed
    FROM readings
    WHERE speed > :least
  arguments: {least: 50}
  sink_topic: results/fast
- job_name: towns
  site: A
  sql: SELECT town FROM fast
  sink_topic: results/towns
"""
INVENTORY = Inventory({"A": one_site("A", "http://edge:8081/", "tcp://edge:1883")})


@pytest.fixture(name="runner")
def runner_fixture(tmp_path: Path) -> Path:
    path = tmp_path / "runner.jar"
    path.write_bytes(b"the program")
    return path


def registry(runner: Path | None) -> Registry:
    queries = None if runner is None else QueryRunner(runner, "io.speck.Run")
    kinds = [replace(each, queries=queries) for each in REGISTRY.engines]
    return Registry(tuple(kinds), REGISTRY.brokers)


def load(text: str, runner: Path | None, root: Path) -> Loaded:
    return load_composition(
        text, inventory=INVENTORY, registry=registry(runner), root=root, default_name="sql"
    )


def jobs(text: str, runner: Path) -> dict[str, Job]:
    return dict(load(text, runner, runner.parent).composition.jobs)


def faults(text: str, runner: Path | None, root: Path) -> list[tuple[int | None, str]]:
    with pytest.raises(InvalidInput) as caught:
        load(text, runner, root)
    return [(each.line, each.message) for each in caught.value.faults]


def test_a_query_gives_the_topic_the_code_and_the_program_of_its_job(runner: Path) -> None:
    found = jobs(TEXT, runner)
    fast, towns = found["fast"], found["towns"]
    assert (fast.source_topic, towns.source_topic) == ("sensors/+/speed", "results/fast")
    assert fast.entry_class == "io.speck.Run" and fast.job_path == "~speck/runner.jar"
    assert len(fast.code_hash) == 64
    assert '"lit","bigint",50' in str(fast.query["program"])
    assert not fast.arguments
    assert fast.code_arguments == fast.query


def test_the_stored_form_of_a_job_is_read_again(runner: Path) -> None:
    for each in jobs(TEXT, runner).values():
        assert Job.from_dict(each.to_dict()) == each


def test_comments_and_layout_change_nothing(runner: Path) -> None:
    edited = TEXT.replace(
        "    SELECT town, speed\n", "    -- the fast ones\n    select  town, SPEED AS speed\n"
    )
    assert jobs(edited, runner) == jobs(TEXT, runner)


def test_a_query_may_be_in_a_file(runner: Path) -> None:
    (runner.parent / "fast.sql").write_text("SELECT town FROM fast")
    text = TEXT.replace("sql: SELECT town FROM fast", "sql: fast.sql")
    assert jobs(text, runner) == jobs(TEXT, runner)


def test_jobs_may_stand_in_any_order(runner: Path) -> None:
    head, first, second = TEXT.partition("- job_name: fast")
    one, mark, other = second.partition("- job_name: towns")
    assert jobs(f"{head}{mark}{other}{first}{one}", runner) == jobs(TEXT, runner)


FAULTS = {
    # (text, what is in its place): line of the fault, part of the message
    ("WHERE speed > :least", "WHERE sped > :least"): (
        15,
        "sql, line 3, column 7: column 'sped' is not known",
    ),
    ("arguments: {least: 50}", "arguments: {}"): (15, ":least has no value"),
    ("SELECT town FROM fast", "SELECT town FROM slow"): (20, "table 'slow' is not known"),
    ("SELECT town FROM fast", "missing.sql"): (20, "does not exist"),
    ("sql: SELECT town FROM fast", "sql: ''"): (20, "is empty"),
    ("sql: SELECT town FROM fast", "format: csv"): (20, "needs a query"),
    ("speed: double}", "speed: float}"): (6, "is not a type"),
    ("speed: double}", "topic: double}"): (6, "is the name of a column that SpecK adds"),
    ("speed: double}", "Town: double}"): (6, "is given twice"),
    ("event_time: time", "event_time: town"): (7, "is a column of type string"),
    ("event_time: time", "event_time: hour"): (7, "is not a column of the schema"),
    ("    event_time: time\n", ""): (7, "needs an event_time"),
    ("schema: {", "schem: {"): (6, "unknown field 'schem' (did you mean 'schema'?)"),
    ("as: readings", "as: 3 readings"): (4, "is not a name"),
    ("sink_topic: results/towns", "sink_topic: results/towns\n  job_path: x.jar"): (
        22,
        "conflicts with 'sql'",
    ),
    ("sink_topic: results/towns", "sink_topic: results/towns\n  source_topic: x"): (
        22,
        "conflicts with 'sql'",
    ),
    ("sink_topic: results/towns", "sink_topic: sensors/a/speed"): (
        20,
        "the messages of 'sensors/+/speed' are csv",
    ),
    ("sink_topic: results/towns", "sink_topic: results/towns\n  trigger: real-time"): (22, "does not fit"),
}


@pytest.mark.parametrize("edit", FAULTS, ids=lambda edit: edit[1][:40])
def test_a_fault_has_its_line_and_names_what_is_right(edit: tuple[str, str], runner: Path) -> None:
    line, part = FAULTS[edit]
    assert edit[0] in TEXT
    found = faults(TEXT.replace(*edit), runner, runner.parent)
    assert any(each[0] == line and part in each[1] for each in found), found


def test_faults_of_a_query_at_each_site_are_reported_once(runner: Path) -> None:
    entry = "job_name: towns-${each.site}\n  for_each: {site: [A, B, C]}"
    text = TEXT.replace("job_name: towns\n  site: A", entry).replace("results/towns", "results/${each.site}")
    sites = Inventory({name: one_site(name, f"http://{name}:8081/", f"tcp://{name}:1883") for name in "ABC"})
    load_at = partial(
        load_composition,
        inventory=sites,
        registry=registry(runner),
        root=runner.parent,
        default_name="sql",
    )
    assert len(load_at(text).composition.jobs) == 4
    with pytest.raises(InvalidInput) as caught:
        load_at(text.replace("SELECT town FROM", "SELECT twn, sped FROM"))
    others = "likewise 2 more jobs of its for_each"
    assert [each.message for each in caught.value.faults] == [
        f"sql, line 1, column 8: column 'twn' is not known (did you mean 'town'?); {others}",
        f"sql, line 1, column 13: column 'sped' is not known (did you mean 'speed'?); {others}",
    ]


def test_two_tables_of_one_name_or_of_one_topic_are_refused(runner: Path) -> None:
    other = "topics:\n  other/speed:\n    as: readings\n    schema: {n: bigint}\n"
    found = faults(TEXT.replace("topics:\n", other), runner, runner.parent)
    assert any("is the table of topic 'other/speed' too" in message for _, message in found)
    overlap = "topics:\n  sensors/a/speed:\n    schema: {n: bigint}\n"
    found = faults(TEXT.replace("topics:\n", overlap), runner, runner.parent)
    assert any("matches messages for which topic 'sensors/a/speed' has a schema" in each for _, each in found)


def test_an_engine_that_runs_no_queries_refuses_them(tmp_path: Path) -> None:
    found = faults(TEXT, None, tmp_path)
    assert any("sql does not run on engine 'flink'" in message for _, message in found), found


@pytest.mark.parametrize("sql", ["no\0such.sql", "no\ud800such.sql", "SELECT '\ud800' AS town FROM fast"])
def test_characters_that_no_query_and_no_file_can_have_are_one_fault(sql: str, runner: Path) -> None:
    document = yaml.safe_load(TEXT)
    document["jobs"][1]["sql"] = sql
    with pytest.raises(InvalidInput) as caught:
        load_composition(
            json.dumps(document),
            inventory=INVENTORY,
            registry=registry(runner),
            root=runner.parent,
            default_name="sql",
            format="json",
        )
    (fault,) = caught.value.faults
    assert fault.message.endswith("contains a control character or invalid Unicode")
    assert (fault.job, fault.field) == ("towns", "sql")


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    found = faults(TEXT, tmp_path / "none.jar", tmp_path)
    assert any("none.jar, which is missing" in message for _, message in found), found


def test_a_single_job_has_no_tables(tmp_path: Path) -> None:
    data = {"job_name": "x", "sql": "SELECT a FROM t", "site": "A", "sink_topic": "out"}
    with pytest.raises(InvalidInput, match="does not fit a single job"):
        load_job(data, inventory=INVENTORY, registry=REGISTRY, root=tmp_path)


def test_the_binders_name_their_programs() -> None:
    assert QUERIES.path.name == "speck-sql.jar"


def test_a_topic_with_an_entry_is_no_warning(runner: Path) -> None:
    warnings = [str(each) for each in load(TEXT, runner, runner.parent).warnings]
    assert [each.partition(": ")[2] for each in warnings] == [
        "job 'towns': sink_topic 'results/towns' is read by no job here: an external sink, or a mistake"
    ]


WRITER = """- job_name: raw
  site: A
  sql: SELECT * FROM readings
  sink_topic: SINK
"""


@pytest.mark.parametrize(
    ("read", "written", "warned"),
    [
        (
            "sensors/a/speed",
            "sensors/a/sped",
            "job 'fast': source_topic 'sensors/a/speed' is written by no job here: an external source, or a "
            "mistake (did you mean 'sensors/a/sped', which job 'raw' writes and no job here reads?)",
        ),
        ("sensors/a/speed", "somewhere/else", None),
    ],
    ids=["slip", "external"],
)
def test_a_topic_with_an_entry_is_a_warning_where_a_similar_one_is_not_read(
    runner: Path, read: str, written: str, warned: str | None
) -> None:
    text = TEXT.replace("sensors/+/speed", read)
    text += WRITER.replace("SINK", written)
    found = [str(each) for each in load(text, runner, runner.parent).warnings]
    about = [each.partition(": ")[2] for each in found if read in each]
    assert about == ([] if warned is None else [f"{warned} (read by 1 more job)"])
