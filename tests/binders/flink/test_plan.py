"""Plans as Flink reports them: those recorded of the programs of this tree, odd ones, and those of a cluster.

``plans.json`` has answers of ``/jobs/:id`` of Flink 2.3 by the programs (in Java: with parallelism 2).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binders.flink.plan import engine_plan, operator_class
from speck.core.engine_plan import EnginePlan, OperatorClass, ShipStrategy
from speck.core.job import Job, Scalar
from speck.core.runtime import JobState
from speck.testing import attempt_of, await_state, eventually
from speck.testing.engine_checks import profile_of
from testbed import ROOT
from testbed.benches.flink import FlinkBench
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import MosquittoServer
from tests.support.properties import tries

RECORDED: Mapping[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("plans.json").read_text(encoding="utf-8")
)

# Classes in data order; `>` is an edge by hash, `=` one that rebalances.
PLANS = {
    "clean": "source filter sink",
    "countbykey": "source > aggregation sink",
    "forward": "source map sink",
    "globalstats": "source windowed_aggregation sink",
    "localstats": "source windowed_aggregation sink",
    "nexmark-q0": "source map sink",
    "nexmark-q1": "source map flat_map sink",
    "nexmark-q11-sessions": "source process filter > windowed_aggregation = sort sink",
    "nexmark-q11-spans": "source process filter > windowed_aggregation = sort sink",
    "nexmark-q12": "source process filter > windowed_aggregation process sink",
    "nexmark-q12-sums": "source process filter > windowed_aggregation = sort sink",
    "nexmark-q2": "source map flat_map sink",
    "nexmark-q3-auctions": "source map flat_map sink",
    "nexmark-q3-join": "source process > join process sink",
    "nexmark-q3-persons": "source map flat_map sink",
    "nexmark-q4-auctions": "source map flat_map sink",
    "nexmark-q4-average": "source process filter > aggregation process sink",
    "nexmark-q4-rising": "source process filter flat_map > process process sink",
    "nexmark-q4-winning": "source process > join = sort sink",
    "nexmark-q5-counts": "source process filter > windowed_aggregation = sort sink",
    "nexmark-q5-hottest": "source process filter > windowed_aggregation > windowed_aggregation flat_map "
    "sort sink",
    "nexmark-q5-sums": "source process filter > windowed_aggregation = sort sink",
    "nexmark-q7": "source process filter > windowed_aggregation flat_map sort sink",
    "nexmark-q8-auctions": "source map flat_map sink",
    "nexmark-q8-join": "source process > join = sort sink",
    "nexmark-q8-persons": "source map flat_map sink",
    "pyflink-count_by_key": "source map > process sink",
    "pyflink-fast": "source filter sink",
    "pyflink-forward": "source map sink",
}
STREAMS = {
    "q3-join": 4,
    "q4-winning": 4,
    "q5-sums": 2,
    "q7": 2,
    "q8-join": 4,
    "q11-sessions": 2,
    "q12-sums": 2,
}
PROGRAMS = {
    "clean": ("Clean", {}),
    "forward": ("Forward", {"site": "C"}),
    "countbykey": ("CountByKey", {"field": 8}),
    "localstats": ("LocalStats", {"site": "C", "lateness": "36500 days"}),
    "globalstats": ("GlobalStats", {"lateness": "36500 days"}),
}
ARROWS = {ShipStrategy.HASH: "> ", ShipStrategy.REBALANCE: "= ", ShipStrategy.FORWARD: ""}


def shape(plan: EnginePlan) -> str:
    """A chain in words, as in :data:`PLANS`."""
    before = {each.target: ARROWS[each.strategy] for each in plan.edges}
    return " ".join(before.get(each.id, "") + each.kind.value for each in plan.nodes)


@pytest.mark.parametrize("name", RECORDED)
def test_a_recorded_plan(name: str) -> None:
    plan = engine_plan(RECORDED[name])
    assert shape(plan) == PLANS[name]
    assert plan.notes == ()
    assert len(plan.edges) == len(plan.nodes) - 1
    assert plan.depth() == len(plan.nodes)
    for edge in plan.edges:
        assert edge.chained == (edge.strategy is ShipStrategy.FORWARD) == (not edge.described)


def test_operators_have_their_own_names_and_those_of_flink() -> None:
    plan = engine_plan(RECORDED["nexmark-q5-hottest"])
    window = next(each for each in plan.nodes if each.kind is OperatorClass.WINDOWED_AGGREGATION)
    assert window.name == "counts"
    assert window.description == "Window(SlidingEventTimeWindows(10000, 2000), EventTimeTrigger, Sum, Row)"
    assert window.parallelism == 2
    assert plan.tasks[window.task] == "counts"
    assert sorted(plan.tasks.values())[0] == "Source: source -> process: progress -> filter: kind"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Source: source", "source"),
        ("Sink: Writer", "sink"),
        ("out: Writer", "sink"),
        ("out: Committer", "other"),
        ("Sink: Committer", "other"),
        ("Sink: Print to Std. Out", "sink"),
        ("Map", "map"),
        ("Timestamps/Watermarks", "map"),
        ("Flat Map", "flat_map"),
        ("Filter", "filter"),
        ("filter: clean", "filter"),
        ("Windowed aggregation: totals", "windowed_aggregation"),
        ("windowed_aggregation: totals", "windowed_aggregation"),
        ("flat-map: words", "flat_map"),
        ("join", "join"),
        ("clean", "other"),
        ("my filter", "other"),
        ("filters: many", "other"),
        ("Keyed Aggregation", "aggregation"),
        ("KeyedProcess", "process"),
        ("Window(TumblingEventTimeWindows(2000), EventTimeTrigger, Sum, Row)", "windowed_aggregation"),
        ("Window(TumblingEventTimeWindows(2000), EventTimeTrigger, CoGroupWindowFunction)", "join"),
        ("Interval Join", "join"),
        ("[3]:Calc(select=[a], where=[(a > 1)])", "filter"),
        ("[3]:Calc(select=[a])", "map"),
        ("GroupAggregate[5]", "aggregation"),
        ("[7]:GlobalWindowAggregate(groupBy=[k], window=[TUMBLE(size=[1 s])])", "windowed_aggregation"),
        ("[2]:Join(joinType=[InnerJoin])", "join"),
        ("Deduplicate[4]", "deduplication"),
        ("Map, Filter", "filter"),
        ("Map, Map", "map"),
        ("Filter, Flat Map", "other"),
        ("Map, mine", "other"),
        ("", "other"),
        (":", "other"),
    ],
)
def test_classes_by_name(name: str, expected: str) -> None:
    assert operator_class(name).value == expected


def vertex(name: str, description: str, *inputs: tuple[str, str], parallelism: object = 1) -> dict[str, Any]:
    """A node of Flink's plan."""
    found = [{"id": source, "ship_strategy": strategy} for source, strategy in inputs]
    return {"id": name, "description": description, "parallelism": parallelism, "inputs": found}


def plan_of(*vertices: object) -> EnginePlan:
    """The plan of an answer with these nodes."""
    return engine_plan({"plan": {"nodes": list(vertices)}})


@pytest.mark.parametrize(
    ("described", "strategy"),
    [
        ("FORWARD", "forward"),
        ("HASH", "hash"),
        ("REBALANCE", "rebalance"),
        ("RESCALE", "rebalance"),
        ("SHUFFLE", "rebalance"),
        ("BROADCAST", "broadcast"),
        ("GLOBAL", "single"),
        ("CUSTOM", "custom"),
        ("of tomorrow", "custom"),
        ("", "custom"),
    ],
)
def test_ship_strategies(described: str, strategy: str) -> None:
    (edge,) = plan_of(vertex("b", "Map", ("a", described)), vertex("a", "Source: a")).edges
    assert (edge.strategy.value, edge.described) == (strategy, described)
    assert not edge.chained


def test_a_chain_that_branches() -> None:
    tree = (
        "Source: a<br/>:- Filter<br/>:  +- Sink: one<br/>+- Map<br/>   :- Flat Map<br/>   +- Sink: two<br/>"
    )
    plan = plan_of(vertex("b", "Sink: three", ("a", "HASH")), vertex("a", tree))
    ends = {each.id: each.name for each in plan.nodes}
    assert {(ends[each.source], ends[each.target]) for each in plan.edges} == {
        ("Source: a", "Filter"),
        ("Filter", "Sink: one"),
        ("Source: a", "Map"),
        ("Map", "Flat Map"),
        ("Map", "Sink: two"),
        ("Flat Map", "Sink: three"),  # a sink feeds nothing
    }
    assert plan.notes == ()
    assert plan_of(vertex("a", "Source: a<br/>:- Map<br/>+- Filter<br/>")).notes == ()  # it feeds no vertex
    two = plan_of(
        vertex("b", "Sink: x", ("a", "HASH")), vertex("a", "Source: a<br/>:- Map<br/>+- Filter<br/>")
    )
    assert two.notes == (
        "Flink does not report which operator of the chain at 'Source: a' feeds the next vertex; the last is "
        "assumed.",
    )


def test_markup_is_read_as_text() -> None:
    (node,) = plan_of(vertex("a", "Map&lt;x&gt; &amp; &#92;")).nodes
    assert node.description == "Map<x> & \\"


def test_parts_that_are_missing() -> None:
    assert engine_plan({}) == engine_plan({"plan": None}) == plan_of(None, 1, {"id": 3}, {}) == EnginePlan()
    plan = plan_of({"id": "a"}, vertex("b", "Map", ("nowhere", "HASH"), parallelism="many"))
    assert {(each.name, each.kind.value, each.parallelism) for each in plan.nodes} == {
        ("a", "other", None),
        ("Map", "map", None),
    }
    assert plan.notes == ("1 edges name an operator that is not in the plan.",)


@pytest.mark.parametrize("parallelism", [0, -1, True, 1.5, None])
def test_a_parallelism_that_is_none(parallelism: object) -> None:
    assert plan_of(vertex("a", "Map", parallelism=parallelism)).nodes[0].parallelism is None


def test_names_of_a_chain_that_branches_are_those_of_the_description() -> None:
    node = vertex("a", "Source: a<br/>:- Map<br/>+- Filter<br/>")
    title = "Source: a -> (Map -> x, Filter)"
    plan = engine_plan({"plan": {"nodes": [node]}, "vertices": [{"id": "a", "name": title}]})
    assert [each.name for each in plan.nodes] == ["Source: a", "Map", "Filter"]
    assert plan.tasks == {"a": title}


def test_vertices_in_a_cycle() -> None:
    plan = plan_of(vertex("a", "Map", ("b", "HASH")), vertex("b", "Filter", ("a", "HASH")))
    assert plan.notes == ("2 operators are in a cycle, or behind one.",)


def test_ten_thousand_vertices() -> None:
    chain = [
        vertex("0", "Source: a"),
        *(vertex(str(n), "Map", (str(n - 1), "HASH")) for n in range(1, 10_000)),
    ]
    assert plan_of(*chain).depth() == 10_000


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 3)
    | st.text(max_size=8)
    | st.sampled_from(["a", "b", "HASH"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=8,
)
TREES = st.text(alphabet="ab:+- <br/>\n&;()[],", max_size=60)
NODES = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(["a", "b", "c", ""]) | JSON,
        "description": TREES | JSON,
        "operator": JSON,
        "parallelism": st.integers(-1, 4) | JSON,
        "inputs": JSON
        | st.lists(
            st.fixed_dictionaries({}, optional={"id": st.sampled_from("abcd") | JSON, "ship_strategy": JSON}),
            max_size=3,
        ),
    },
)
ANSWERS = st.fixed_dictionaries(
    {"plan": JSON | st.fixed_dictionaries({"nodes": JSON | st.lists(NODES | JSON, max_size=5)})},
    optional={"vertices": JSON | st.lists(st.fixed_dictionaries({"id": JSON, "name": JSON}), max_size=3)},
)


@given(ANSWERS)
@tries(300)
def test_any_answer_is_a_plan(answer: dict[str, Any]) -> None:
    plan = engine_plan(answer)
    ids = [each.id for each in plan.nodes]
    assert len(set(ids)) == len(ids)
    for edge in plan.edges:
        assert {edge.source, edge.target} <= set(ids)
    for node in plan.nodes:
        assert node.parallelism is None or node.parallelism > 0
        assert (node.name + node.description).isprintable()
        assert len(node.description) <= 300
    assert EnginePlan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


# -- a real cluster


@pytest.fixture(name="bench", scope="module")
def bench_fixture(
    flink_server: FlinkServer, flink_jobs: Path, site_brokers: Mapping[str, MosquittoServer]
) -> Iterator[FlinkBench]:
    bench = FlinkBench(flink_server, flink_jobs, site_brokers["A"])
    yield bench
    bench.close()


def program(bench: FlinkBench, name: str) -> Job:
    """The program of a recorded plan as a job."""
    job = bench.passing_job(f"plan-{name}")
    query = name.removeprefix("nexmark-")
    arguments: dict[str, Scalar] = {"part": query}
    if query in STREAMS:
        arguments["streams"] = STREAMS[query]
    entry, path = "io.speck.nexmark.Query", "nexmark/speck-nexmark.jar"
    if name in PROGRAMS:
        short, arguments = PROGRAMS[name][0], dict(PROGRAMS[name][1])  # type: ignore[arg-type]
        entry, path = f"io.speck.flink.jobs.{short}", "flink/speck-flink-jobs.jar"
    file = str(ROOT / "jars_and_apps" / path)
    return replace(job, entry_class=entry, job_path=file, arguments=arguments, parallelism=2)


@pytest.mark.parametrize("name", ["clean", "countbykey", "nexmark-q3-join", "nexmark-q5-hottest"])
def test_the_plan_of_a_running_program(bench: FlinkBench, name: str) -> None:
    engine, job = bench.binder(), program(bench, name)
    handle = engine.submit(job, attempt_of(job))
    plan = engine.engine_plan(handle)
    assert shape(plan) == PLANS[name]
    await_state(engine, handle, JobState.RUNNING)
    sample = eventually(lambda: profile_of(engine, handle), lambda found: bool(found.vertices))
    assert {each.name for each in sample.vertices} == set(plan.tasks.values())
    engine.stop(handle, keep_state=False)
