"""Queries with a cut: the jobs that they become, and their faults by line."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from speck.binder import QueryRunner, Registry
from speck.core.inventory import Engine, Inventory
from speck.core.job import Job
from speck.core.topic import filter_fault
from speck.errors import InvalidInput
from speck.schema.compositions import Loaded, load_composition
from speck.sql.program import Program
from testbed.benches.examples import REGISTRY, one_site

TEXT = """name: q
topics:
  bid/+:
    as: bids
    at: [A, B]
    format: csv
    schema: {time: timestamp(ms) not null, auction: bigint not null, price: bigint}
    event_time: time
    watermark: 1 s
jobs:
- job_name: q5
  engine: flink
  cut: filter
  rest: D
  sql: |
    SELECT window_end, auction, COUNT(*) AS n
    FROM HOP(bids, time, INTERVAL '2' SECOND, INTERVAL '10' SECOND)
    WHERE price >= :least
    GROUP BY window_start, window_end, auction
  arguments: {least: 3}
  parallelism: 2
  sink_topic: results/q5
- job_name: best
  site: D
  sql: SELECT auction FROM q5 WHERE n > 5
  sink_topic: results/best
"""
INVENTORY = Inventory(
    {name: one_site(name, f"http://{name.lower()}:8081/", f"tcp://{name.lower()}:1883") for name in "ABD"}
    | {"S": one_site("S", "sc://s:15002", "tcp://s:1883")}
)
INPUTS = ("q5.bids-a", "q5.bids-b")


@pytest.fixture(name="root")
def root_fixture(tmp_path: Path) -> Path:
    (tmp_path / "runner.jar").write_bytes(b"the program")
    return tmp_path


def load(text: str, root: Path, inventory: Inventory = INVENTORY) -> Loaded:
    kinds = [
        replace(each, queries=QueryRunner(root / "runner.jar", "io.speck.Run", panes=each.engine == "flink"))
        for each in REGISTRY.engines
    ]
    registry = Registry(tuple(kinds), REGISTRY.brokers)
    return load_composition(text, inventory=inventory, registry=registry, root=root, default_name="q")


def jobs(text: str, root: Path) -> dict[str, Job]:
    return dict(load(text, root).composition.jobs)


def program(job: Job) -> Program:
    return Program.from_json(str(job.query["program"]))


def test_a_query_becomes_an_input_job_for_each_site_and_a_rest(root: Path) -> None:
    found = jobs(TEXT, root)
    assert list(found) == [*INPUTS, "q5.rest", "best"]
    one, other, rest = (found[name] for name in (*INPUTS, "q5.rest"))
    assert (one.site, other.site, rest.site) == ("A", "B", "D")
    assert (one.source_broker, one.source_topic) == ("tcp://a:1883", "bid/+")
    assert (one.sink_broker, other.sink_broker, rest.source_broker) == ("tcp://d:1883",) * 3
    topics = one.sink_topic.removesuffix("/bids-a")
    assert (other.sink_topic, rest.source_topic) == (f"{topics}/bids-b", f"{topics}/+")
    assert topics.startswith("speck/sql/q5/")
    assert (rest.sink_broker, rest.sink_topic) == ("tcp://d:1883", "results/q5")
    assert (one.parallelism, rest.parallelism) == (1, 2)
    assert [program(each).sends.cut for each in (one, other) if program(each).sends] == ["filter"] * 2
    assert rest.code_arguments.keys() == {"program"}


def test_the_jobs_are_stored_and_read_again(root: Path) -> None:
    for each in jobs(TEXT, root).values():
        assert Job.from_dict(each.to_dict()) == each


def test_no_warning_names_the_topics_between_the_jobs(root: Path) -> None:
    assert not any("speck/" in each.message for each in load(TEXT, root).warnings)


def test_another_cut_changes_the_input_jobs_alone(root: Path) -> None:
    before, after = jobs(TEXT, root), jobs(TEXT.replace("cut: filter", "cut: partials"), root)
    assert {name for name in before if before[name] != after[name]} == set(INPUTS)
    one = jobs(TEXT.replace("cut: filter", "cut: {bids: filter, bids-b: columns}"), root)
    assert {name for name in before if before[name] != one[name]} == {"q5.bids-b"}


def test_another_argument_keeps_the_topics(root: Path) -> None:
    before, after = jobs(TEXT, root), jobs(TEXT.replace("least: 3", "least: 4"), root)
    assert {each.source_topic for each in before.values()} == {each.source_topic for each in after.values()}
    assert before["q5.rest"] != after["q5.rest"]


STATELESS = TEXT.replace("  cut: filter\n  rest: D\n", "  sink_broker: D\n").replace(
    """    SELECT window_end, auction, COUNT(*) AS n
    FROM HOP(bids, time, INTERVAL '2' SECOND, INTERVAL '10' SECOND)
    WHERE price >= :least
    GROUP BY window_start, window_end, auction
""",
    "    SELECT auction, price AS n FROM bids WHERE price >= :least\n",
)


def test_a_query_without_windows_runs_where_its_table_is_published(root: Path) -> None:
    found = jobs(STATELESS, root)
    assert list(found) == [*INPUTS, "best"]
    for name, site in zip(INPUTS, "AB", strict=True):
        job = found[name]
        assert (job.site, job.sink_broker, job.sink_topic) == (site, "tcp://d:1883", "results/q5")
        assert program(job).sends is None


def test_a_topic_that_parts_of_one_query_write_is_not_shared(root: Path) -> None:
    declared = STATELESS.replace("topics:\n", "sources: {bid/+: bids}\ntopics:\n", 1)
    assert load(declared, root).composition.jobs


def test_a_query_at_one_site_reads_there(root: Path) -> None:
    text = TEXT.replace("at: [A, B]", "at: B").replace("  cut: filter\n  rest: D\n", "  site: D\n")
    job = jobs(text, root)["q5"]
    assert (job.site, job.source_broker) == ("D", "tcp://b:1883")
    alone = text.partition("- job_name: best")[0]
    moved = jobs(alone.replace("  site: D\n  sql: |", "  sites: [A, D]\n  sql: |"), root)["q5"]
    assert moved.source_broker == "tcp://b:1883" and "source_broker" not in moved.placed


def test_one_site_may_have_a_cut(root: Path) -> None:
    assert list(jobs(TEXT.replace("at: [A, B]", "at: B"), root)) == ["q5.bids-b", "q5.rest", "best"]


JOIN = """name: q
topics:
  person/+:
    as: persons
    at: [A, B]
    schema: {time: timestamp(ms) not null, id: bigint, state: string}
    event_time: time
    watermark: 1 s
  auction/+:
    as: auctions
    at: B
    format: csv
    schema: {time: timestamp(ms) not null, seller: bigint not null}
    event_time: time
    watermark: 1 s
jobs:
- job_name: q3
  engine: flink
  cut: filter
  rest: D
  sql: |
    SELECT p.id AS id, p.state AS state FROM persons AS p JOIN auctions AS a
    ON p.id = a.seller AND a.time BETWEEN p.time AND p.time + INTERVAL '1' HOUR
  sink_topic: results/q3
"""


def test_a_join_becomes_input_jobs_of_both_tables(root: Path) -> None:
    found = jobs(JOIN, root)
    assert list(found) == ["q3.persons-a", "q3.persons-b", "q3.auctions-b", "q3.rest"]
    one, other, rest = (found[f"q3.{name}"] for name in ("persons-b", "auctions-b", "rest"))
    assert (one.source_topic, other.source_topic) == ("person/+", "auction/+")
    assert one.source_broker == other.source_broker == "tcp://b:1883"
    # No row of an auction is left out by a condition, so its cut is an earlier one.
    assert [program(each).sends.cut for each in (one, other) if program(each).sends] == ["filter", "columns"]
    takes = program(rest).takes
    assert takes is not None and takes.inputs == ("persons-a", "persons-b", "auctions-b")
    again = jobs(JOIN.replace("cut: filter", "cut: columns"), root)
    assert again["q3.rest"] == rest and again["q3.persons-a"] != found["q3.persons-a"]


@pytest.mark.parametrize(
    ("edit", "part"),
    [
        (
            ("  cut: filter\n", ""),
            "cut is missing (expected auto, columns, filter: the query reads tables 'persons' and",
        ),
        (("cut: filter", "cut: none"), "cut 'none' does not fit (expected auto, columns, filter"),
        (
            ("cut: filter", "cut: partials"),
            "cut 'partials' is not a cut of this query (expected auto, columns, filter)",
        ),
        (
            ("cut: filter", "cut: {persons: columns, auctions: filter}"),
            "cut.auctions 'filter' is not a cut of this ",
        ),
        (("cut: filter", "cut: {persons: columns}"), "cut is missing for auctions-b"),
        (("    at: B\n", ""), "needs the site where table 'auctions' is published"),
        (
            ("engine: flink\n  cut: filter\n  rest: D", "cut: filter\n  rest: S"),
            "does not run a join by time on",
        ),
    ],
)
def test_a_fault_of_a_join_names_what_is_right(edit: tuple[str, str], part: str, root: Path) -> None:
    assert edit[0] in JOIN
    with pytest.raises(InvalidInput) as caught:
        load(JOIN.replace(*edit), root)
    assert any(part in each.message for each in caught.value.faults), caught.value.faults


def at_each(*addresses: str) -> Inventory:
    """The sites of :data:`INVENTORY` with other engines: their addresses, in which SITE is the site."""
    return Inventory(
        {
            name: replace(
                each,
                engines=tuple(Engine(spe_address=one.replace("SITE", name.lower())) for one in addresses),
            )
            for name, each in INVENTORY.sites.items()
        }
    )


@pytest.mark.parametrize(
    ("addresses", "edit", "message"),
    [
        (
            ("http://SITE:8081/", "sc://SITE:15002"),
            ("  engine: flink\n", ""),
            "engine is missing: site 'A' has http://a:8081/ and sc://a:15002 (expected flink or spark)",
        ),
        (
            ("http://SITE:8081/", "http://SITE:8082/"),
            ("", ""),
            "engine 'flink' fits several engines of site 'A': http://a:8081/ and http://a:8082/ (expected a "
            "site with one of this kind, or a pool)",
        ),
        (
            ("sc://SITE:15002", "sc://SITE:15003"),
            ("", ""),
            "engine 'flink' is not at site 'A', which has sc://a:15002 and sc://a:15003",
        ),
    ],
)
def test_a_fault_of_several_sites_of_a_join_is_reported_once(
    addresses: tuple[str, ...], edit: tuple[str, str], message: str, root: Path
) -> None:
    with pytest.raises(InvalidInput) as caught:
        load(JOIN.replace(*edit), root, at_each(*addresses))
    assert [each.message for each in caught.value.faults] == [f"{message}; likewise at B, D"]


def test_a_fault_of_sites_with_different_numbers_of_engines_is_reported_once(root: Path) -> None:
    sites = at_each("sc://SITE:15002", "sc://SITE:15003").sites
    more = replace(sites["B"], engines=(*sites["B"].engines, Engine(spe_address="sc://b:15004")))
    with pytest.raises(InvalidInput) as caught:
        load(JOIN, root, Inventory({**sites, "B": more}))
    message = "engine 'flink' is not at site 'A', which has sc://a:15002 and sc://a:15003"
    assert [each.message for each in caught.value.faults] == [f"{message}; likewise at B, D"]


def test_a_cut_that_is_chosen_later_has_its_options(root: Path) -> None:
    text = TEXT.replace("at: [A, B]", "at: [S, A]").replace("  engine: flink\n", "")
    found = jobs(text.replace("cut: filter", "cut: auto"), root)
    assert [found[f"q5.bids-{each}"].cuts for each in "sa"] == [
        ("columns", "filter"),
        ("columns", "filter", "partials"),
    ]
    one = jobs(TEXT.replace("at: [A, B]", "at: B").replace("cut: filter", "cut: auto"), root)
    assert one["q5.bids-b"].cuts == ("none", "columns", "filter", "partials")
    mixed = jobs(TEXT.replace("cut: filter", "cut: {bids: filter, bids-b: auto}"), root)
    assert [bool(mixed[each].cuts) for each in INPUTS] == [False, True]
    with pytest.raises(InvalidInput, match="cut 'auto' needs the site where table 'bids' is published"):
        load(TEXT.replace("cut: filter", "cut: auto").replace("    at: [A, B]\n", ""), root)


FAULTS = {
    ("  cut: filter\n", ""): (
        11,
        "cut is missing (expected auto, columns, filter, partials: table 'bids' is ",
    ),
    ("cut: filter", "cut: none"): (13, "cut 'none' does not fit (expected auto, columns, filter, par"),
    ("cut: filter", "cut: rows"): (13, "cut 'rows' is not a cut of this query (expected auto, columns, fil"),
    ("cut: filter", "cut: panes"): (13, "cut 'panes' is not a cut (expected auto, columns, filter, rows, "),
    ("cut: filter", "cut: {bids: rows}"): (13, "cut.bids 'rows' is not a cut of this query"),
    ("cut: filter", "cut: {bid: filter}"): (13, "cut names 'bid' (expected one of bids, bids-a, bids-b)"),
    ("cut: filter", "cut: {bids-a: filter}"): (13, "cut is missing for bids-b (expected auto, columns, fil"),
    ("cut: filter", "cut: {bids: x}"): (
        13,
        "cut.bids 'x' is not a cut (expected auto, columns, filter, rows, partials)",
    ),
    ("  rest: D\n", ""): (11, "rest is missing (expected the site of the windows)"),
    ("rest: D", "rest: E"): (14, "rest 'E' is not a site of the inventory (known: A, B, D, S)"),
    ("rest: D", "rest: D\n  site: D"): (15, "site does not fit a query that runs at several sites"),
    ("rest: D", "rest: D\n  sites: [A]"): (15, "sites does not fit a query that runs at several sites"),
    ("rest: D", "rest: D\n  source_broker: D"): (15, "source_broker does not fit a query that runs at sev"),
    ("at: [A, B]", "at: [A, X]"): (5, "topics: 'bid/+': at.1 'X' is not a site of the inventory (known: A"),
    ("    at: [A, B]\n", ""): (
        12,
        "cut 'filter' needs the site where table 'bids' is published (expected 'at",
    ),
    ("    schema: {time", "    scheme: {time"): (7, "unknown field 'scheme'"),
    ("job_name: best", "job_name: q5.rest"): (
        23,
        "is the name of a part of the query 'q5' (expected another",
    ),
    ("job_name: best", "job_name: best\n  apart: q5"): (24, "apart 'q5' is not a job of this composition"),
    ("job_name: best", "job_name: best\n  cut: filter"): (24, "cut 'filter' needs the site where table 'q5'"),
    ("job_name: best", "job_name: best\n  rest: D"): (24, "rest 'D' needs a cut"),
    ("job_name: q5", f"job_name: {'q' * 61}"): (
        11,
        "is too long for a query with a cut (expected at most 60",
    ),
    ("sink_topic: results/best", "sink_topic: speck/sql/q5/x"): (26, "starts with 'speck/sql/'"),
}


@pytest.mark.parametrize("edit", FAULTS, ids=lambda edit: edit[1][:40])
def test_a_fault_has_its_line_and_names_what_is_right(edit: tuple[str, str], root: Path) -> None:
    line, part = FAULTS[edit]
    assert edit[0] in TEXT
    with pytest.raises(InvalidInput) as caught:
        load(TEXT.replace(*edit), root)
    found = [(each.line, each.message) for each in caught.value.faults]
    assert any(each[0] == line and part in each[1] for each in found), found


def test_a_cut_that_does_not_exist_is_one_fault(root: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        load(TEXT.replace("cut: filter", "cut: panes"), root)
    assert len(caught.value.faults) == 1, caught.value.faults


def test_jobs_that_a_fault_of_their_query_leaves_unmade_are_not_unknown(root: Path) -> None:
    text = TEXT.replace("site: D\n  sql", "site: D\n  with: q5.rest\n  apart: q5.bids-a\n  sql")
    assert {"q5.rest", "best"} <= jobs(text, root).keys()
    with pytest.raises(InvalidInput) as caught:
        load(text.replace("price >= :least", "prize >= :least"), root)
    assert {each.job for each in caught.value.faults} == {"q5"}, caught.value.faults
    with pytest.raises(InvalidInput, match=r"apart 'q5.bids-z' is not a job of this composition"):
        load(text.replace("q5.bids-a", "q5.bids-z"), root)


# --- a rest without windows

WITH_REST = STATELESS.replace("  sink_broker: D\n", "  cut: filter\n  rest: D\n")


def test_a_query_without_windows_may_have_a_rest(root: Path) -> None:
    found = jobs(WITH_REST, root)
    assert list(found) == [*INPUTS, "q5.rest", "best"]
    one, rest = found["q5.bids-a"], found["q5.rest"]
    assert [found[name].site for name in (*INPUTS, "q5.rest")] == ["A", "B", "D"]
    assert (one.sink_broker, rest.source_broker, rest.sink_broker) == ("tcp://d:1883",) * 3
    topics = one.sink_topic.removesuffix("/bids-a")
    assert topics.startswith("speck/sql/q5/") and rest.source_topic == f"{topics}/+"
    assert (rest.sink_topic, rest.parallelism, one.parallelism) == ("results/q5", 2, 1)
    sends, takes = program(one).sends, program(rest).takes
    assert sends is not None and (sends.cut, sends.step_ms, sends.rows) == ("filter", 300, 64)
    assert takes is not None and takes.inputs == ("bids-a", "bids-b")
    assert program(one).input.columns[sends.time].name == "time"
    for job in found.values():
        assert Job.from_dict(job.to_dict()) == job


def test_another_condition_keeps_the_topics_of_a_rest_without_windows(root: Path) -> None:
    before = jobs(WITH_REST, root)
    for edit in (("least: 3", "least: 4"), ("price >= :least", "price >= :least AND auction > 0")):
        after = jobs(WITH_REST.replace(*edit), root)
        assert {name for name in before if before[name] != after[name]} == set(INPUTS)
        assert [each.sink_topic for each in after.values()] == [each.sink_topic for each in before.values()]
    computed = jobs(WITH_REST.replace("price AS n", "price + 1 AS n"), root)
    assert computed["q5.rest"].source_topic != before["q5.rest"].source_topic


def test_the_cuts_of_a_query_without_windows_do_not_have_its_whole(root: Path) -> None:
    text = WITH_REST.replace("cut: filter", "cut: auto").replace("at: [A, B]", "at: A")
    found = jobs(text, root)
    assert list(found) == ["q5.bids-a", "q5.rest", "best"] and found["q5.bids-a"].cuts == ("filter",)
    computed = jobs(text.replace("price AS n", "price + 1 AS n"), root)
    assert computed["q5.bids-a"].cuts == ("filter", "rows")


@pytest.mark.parametrize(
    ("edit", "line", "part"),
    [
        (
            ("  rest: D\n", ""),
            13,
            "cut 'filter' needs a 'rest' in a query without windows (expected 'rest: S",
        ),
        (("  cut: filter\n", ""), 11, "cut is missing (expected auto, filter: the query has a 'rest')"),
        (("cut: filter", "cut: none"), 13, "cut 'none' does not fit (expected auto, filter: the query has a"),
        (("cut: filter", "cut: columns"), 13, "cut 'columns' is not a cut of this query (expected auto, fil"),
        (
            ("cut: filter", "cut: partials"),
            13,
            "cut 'partials' is not a cut of this query (expected auto, fi",
        ),
        (("cut: filter", "cut: {bids: columns}"), 13, "cut.bids 'columns' is not a cut of this query"),
        (("rest: D", "rest: E"), 14, "rest 'E' is not a site of the inventory"),
        (
            ("rest: D", "rest: D\n  site: D"),
            15,
            "site does not fit a query that runs at several sites (expected ",
        ),
        (
            ("    event_time: time\n    watermark: 1 s\n", ""),
            12,
            "rest 'D' needs the event time of table 'bids' (expected 'event_time: COLUMN' for topic 'bid/+' ",
        ),
    ],
)
def test_a_fault_of_a_rest_without_windows_names_what_is_right(
    edit: tuple[str, str], line: int, part: str, root: Path
) -> None:
    assert edit[0] in WITH_REST
    with pytest.raises(InvalidInput) as caught:
        load(WITH_REST.replace(*edit), root)
    found = [(each.line, each.message) for each in caught.value.faults]
    assert len(found) == 1 and found[0][0] == line and part in found[0][1], found


# --- frames

FRAME = ("  rest: D\n", "  rest: D\n  frame: 0.05 s\n")


def test_rows_wait_for_others_of_their_frame_as_long_as_the_job_says(root: Path) -> None:
    for text, changed in ((WITH_REST, set(INPUTS)), (JOIN, set(jobs(JOIN, root)))):
        before, after = jobs(text, root), jobs(text.replace(*FRAME), root)
        assert {name for name in before if before[name] != after[name]} == changed
        assert [each.sink_topic for each in after.values()] == [each.sink_topic for each in before.values()]
        sends = [found for each in after.values() if each.query and (found := program(each).sends)]
        assert {each.step_ms for each in sends} == {50}
    join = program(jobs(JOIN.replace(*FRAME), root)["q3.rest"]).join
    assert join is not None and join.windows.slide_ms == 50


@pytest.mark.parametrize(
    ("text", "frame", "part"),
    [
        (TEXT, "50 ms", "does not fit a query with windows (expected none: rows wait for these)"),
        (
            WITH_REST.replace("  rest: D\n", "").replace("  cut: filter\n", ""),
            "50 ms",
            "needs a query with a 'r",
        ),
        (WITH_REST, "9 ms", "frame '9 ms' is out of range (expected from 0.01 to 60 s)"),
        (WITH_REST, "2 minutes", "frame '2 minutes' is out of range (expected from 0.01 to 60 s)"),
        (WITH_REST, "50", "frame 50 has no unit (expected, for example, "),
        (
            WITH_REST.replace("q5\n  engine: flink", "q5"),
            "[]",
            "frame [] is not a quantity (expected, for exam",
        ),
    ],
)
def test_a_fault_of_a_frame_names_what_is_right(text: str, frame: str, part: str, root: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        load(text.replace("  sink_topic: results/q5", f"  frame: {frame}\n  sink_topic: results/q5"), root)
    found = [each.message for each in caught.value.faults]
    assert len(found) == 1 and part in found[0], found


def test_partials_need_an_engine_with_panes(root: Path) -> None:
    text = TEXT.replace("at: [A, B]", "at: [S, A]").replace("  engine: flink\n", "")
    assert jobs(text, root)["q5.bids-s"].engine == "spark"
    with pytest.raises(InvalidInput, match="cut partials does not run on engine 'spark' at site 'S'"):
        load(text.replace("cut: filter", "cut: partials"), root)
    assert jobs(text.replace("cut: filter", "cut: {bids-s: filter, bids-a: partials}"), root)


def test_the_rest_runs_on_any_engine_that_runs_queries(root: Path) -> None:
    text = TEXT.replace("rest: D", "rest: S").replace("  engine: flink\n", "")
    assert jobs(text, root)["q5.rest"].engine == "spark"


@pytest.mark.parametrize("field", ["cut: filter", "frame: 50 ms"])
def test_code_has_no_cut_and_no_frames(field: str, root: Path) -> None:
    (root / "x.jar").write_bytes(b"x")
    text = TEXT.replace("  sql: SELECT auction FROM q5 WHERE n > 5\n", f"  {field}\n  job_path: x.jar\n")
    with pytest.raises(InvalidInput, match="needs a query"):
        load(text, root)


def test_nobody_else_reads_frames() -> None:
    assert filter_fault("speck/sql/q5/+/+") == (
        "starts with 'speck/sql/', between the jobs of a query (expected the topic of its results)"
    )
