"""Physical plans as Spark explains them: recorded ones of jobs of this tree, odd ones, and those of a server.

``plans.json`` has texts of ``StreamingQuery.explain`` of Spark 4.3, and the partitions of the sources, by the
names of the jobs' functions.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binders.spark.query.plan import NO_BATCH, engine_plan, source_partitions
from speck.core.engine_plan import EnginePlan, OperatorClass, ShipStrategy
from speck.testing import attempt_of, eventually
from testbed.benches.spark import JOBS, SparkBench
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.spark import SparkServer
from tests.support.properties import tries

RECORDED: Mapping[str, dict[str, Any]] = json.loads(
    Path(__file__).with_name("plans.json").read_text(encoding="utf-8")
)

STATISTICS = "source filter map map filter map > windowed_aggregation sink"  # watermark: a map

# Classes in data order; `>` is an edge by hash.
PLANS = {
    "clean": "source filter map sink",
    "count": "source map > aggregation sink",
    "distinct": "source map map > deduplication map sink",
    "forward": "source map sink",
    "global_stats": STATISTICS,
    "local_stats": STATISTICS,
    "q1": "source filter map sink",
    "q2": "source filter map sink",
    "q7": "source filter map map filter map > windowed_aggregation flat_map map sink",
    "reverse": "source map map map sink",  # a Python function is evaluated between two projections
    "split_combiner": "source map > process sink",
    "split_partitioner": "source map map map > process sink",
    "split_reducer": "source map > process sink",
    "upper": "source map sink",
    "windowed": "source filter map > windowed_aggregation sink",
}


def read(name: str) -> EnginePlan:
    """A recorded plan."""
    found = RECORDED[name]
    return engine_plan("\n".join(found["explained"]), source_partitions(json.dumps(found["progress"])))


def shape(plan: EnginePlan) -> str:
    """A chain in words, as in :data:`PLANS`."""
    before = {each.target: "> " * (each.strategy is ShipStrategy.HASH) for each in plan.edges}
    return " ".join(before.get(each.id, "") + each.kind.value for each in plan.nodes)


@pytest.mark.parametrize("name", PLANS)
def test_a_recorded_plan(name: str) -> None:
    plan = read(name)
    assert shape(plan) == PLANS[name]
    assert plan.notes == ()
    assert {each.parallelism for each in plan.nodes} == {1}
    stages = PLANS[name].count(">") + 1
    assert list(plan.tasks.values()) == [f"stage {number}" for number in range(1, stages + 1)]
    assert [each.chained for each in plan.edges].count(False) == stages - 1


def test_a_split_in_one_job() -> None:
    plan = read("split_whole")
    assert shape(plan) == "source map map map flat_map map flat_map map > process sink"
    assert [each.parallelism for each in plan.nodes] == [1, 1, 1, 1, 1, 3, 3, 3, 2, 2]
    assert [each.described for each in plan.edges if each.strategy is ShipStrategy.CUSTOM] == [
        "shufflepartitionidpassthrough"  # to the worker that the partitioner chose
    ]


def test_a_union_of_the_messages_with_themselves() -> None:
    plan = read("united")
    counted = plan.count()
    assert {
        kind: counted[kind] for kind in (OperatorClass.SOURCE, OperatorClass.UNION, OperatorClass.SINK)
    } == {
        OperatorClass.SOURCE: 2,
        OperatorClass.UNION: 1,
        OperatorClass.SINK: 1,
    }
    union, sink = (each for each in plan.nodes if each.kind in (OperatorClass.UNION, OperatorClass.SINK))
    assert (union.parallelism, sink.parallelism) == (2, 2)
    (edge,) = (each for each in plan.edges if each.target == sink.id)
    assert (edge.source, edge.strategy, edge.chained) == (union.id, ShipStrategy.REBALANCE, False)
    assert edge.described == "RoundRobinPartitioning"
    assert {each.task for each in plan.nodes if each is not sink} == {"1"}


def explained(*lines: str) -> EnginePlan:
    """The plan of these lines."""
    return engine_plan("\n".join(("== Physical Plan ==", *lines)), 3)


def test_joins_and_the_ways_to_them() -> None:
    plan = explained(
        "WriteToDataSourceV2 x",
        "+- *(5) SortMergeJoin [a#1], [b#2], Inner",
        "   :- *(2) Sort [a#1 ASC NULLS FIRST], false, 0",
        "   :  +- Exchange hashpartitioning(a#1, 4), ENSURE_REQUIREMENTS, [plan_id=1]",
        "   :     +- MicroBatchScan[a#1] mqtt",
        "   +- BroadcastExchange HashedRelationBroadcastMode(List(b#2)), [plan_id=2]",
        "      +- LocalTableScan [b#2]",
    )
    kinds = {each.id: each.kind.value for each in plan.nodes}
    assert sorted(kinds.values()) == ["join", "sink", "source", "source"]
    assert sorted((kinds[each.target], each.strategy.value) for each in plan.edges) == [
        ("join", "broadcast"),
        ("join", "hash"),
        ("sink", "forward"),
    ]
    assert {each.name: each.parallelism for each in plan.nodes} == {
        "WriteToDataSourceV2": None,
        "SortMergeJoin": None,  # a broadcast has no partitions
        "MicroBatchScan": 3,
        "LocalTableScan": 3,
    }


@pytest.mark.parametrize("stage", [["ResultQueryStage 1", "+- "], []])
@pytest.mark.parametrize("heading", ["Final", "Current"])
def test_an_adapted_plan_counts_once(heading: str, stage: list[str]) -> None:
    first, deeper = (stage[:1], ("+- ", "   ")) if stage else ([], ("", ""))
    plan = explained(
        "AdaptiveSparkPlan isFinalPlan=true",
        f"+- == {heading} Plan ==",
        *(f"   {each}" for each in first),
        f"   {deeper[0]}WriteToDataSourceV2 x",
        f"   {deeper[1]}+- AQEShuffleRead coalesced",
        f"   {deeper[1]}   +- ShuffleQueryStage 0",
        f"   {deeper[1]}      +- Exchange RoundRobinPartitioning(2), REPARTITION_BY_NUM, [plan_id=1]",
        f"   {deeper[1]}         +- *(1) MicroBatchScan[a#1] mqtt",
        "+- == Initial Plan ==",
        "   WriteToDataSourceV2 x",
        "   +- Exchange RoundRobinPartitioning(2), REPARTITION_BY_NUM, [plan_id=1]",
        "      +- MicroBatchScan[a#1] mqtt",
    )
    assert [each.kind.value for each in plan.nodes] == ["source", "sink"]
    assert [each.strategy.value for each in plan.edges] == ["rebalance"]
    assert [each.parallelism for each in plan.nodes] == [3, 2]


@pytest.mark.parametrize(
    ("exchange", "strategy", "partitions"),
    [
        ("Exchange hashpartitioning(a#1, b(c#2, 7), 5), ENSURE_REQUIREMENTS", "hash", 5),
        ("Exchange SinglePartition, ENSURE_REQUIREMENTS, [plan_id=1]", "single", 1),
        ("Exchange RoundRobinPartitioning(6), REPARTITION_BY_NUM", "rebalance", 6),
        ("Exchange rangepartitioning(a#1 ASC NULLS FIRST, 8), ENSURE_REQUIREMENTS", "custom", 8),
        ("Exchange of tomorrow", "custom", None),
        ("Coalesce 1", "single", 1),
        ("Coalesce 2", "custom", None),
    ],
)
def test_exchanges(exchange: str, strategy: str, partitions: int | None) -> None:
    plan = explained("WriteToDataSourceV2 x", f"+- {exchange}", "   +- MicroBatchScan[a#1] mqtt")
    (edge,) = plan.edges
    assert edge.strategy.value == strategy
    assert [each.parallelism for each in plan.nodes] == [3, partitions]


def test_two_aggregations_that_follow_each_other() -> None:
    plan = explained(
        "WriteToDataSourceV2 x",
        "+- HashAggregate(keys=[], functions=[count(1)])",
        "   +- Exchange SinglePartition, ENSURE_REQUIREMENTS",
        "      +- HashAggregate(keys=[], functions=[partial_count(1)])",
        "         +- HashAggregate(keys=[a#1], functions=[sum(b#2), max(c#3)])",
        "            +- Exchange hashpartitioning(a#1, 2), ENSURE_REQUIREMENTS",
        "               +- HashAggregate(keys=[a#1], functions=[partial_sum(b#2), partial_max(c#3)])",
        "                  +- MicroBatchScan[a#1] mqtt",
    )
    assert [each.kind.value for each in plan.nodes] == ["source", "aggregation", "aggregation", "sink"]
    ends = {each.target: each.strategy.value for each in plan.edges}
    assert [ends[each.id] for each in plan.nodes[1:]] == ["hash", "single", "forward"]


def test_distinct_values_that_are_counted() -> None:
    plan = explained(
        "WriteToDataSourceV2 x",
        "+- HashAggregate(keys=[], functions=[count(1)])",
        "   +- HashAggregate(keys=[], functions=[partial_count(1)])",
        "      +- HashAggregate(keys=[a#1], functions=[])",
        "         +- Exchange hashpartitioning(a#1, 2), ENSURE_REQUIREMENTS",
        "            +- HashAggregate(keys=[a#1], functions=[])",
        "               +- MicroBatchScan[a#1] mqtt",
    )
    assert [each.kind.value for each in plan.nodes] == ["source", "aggregation", "aggregation", "sink"]


def test_only_a_global_sort_is_an_operator() -> None:
    lines = "WriteToDataSourceV2 x", "+- Sort [a#1 ASC NULLS FIRST], {}, 0", "   +- MicroBatchScan[a#1] mqtt"
    assert [
        len(explained(lines[0], lines[1].format(each), lines[2]).nodes) for each in ("true", "false")
    ] == [3, 2]


def test_unknown_operators_and_texts_of_several_lines() -> None:
    plan = explained("WriteToDataSourceV2 x", "+- Teleport [a", "b c", "+ d]", "   +- ?!", "")
    assert [(each.kind.value, each.name) for each in plan.nodes] == [
        ("other", "?!"),
        ("other", "Teleport"),
        ("sink", "WriteToDataSourceV2"),
    ]


@pytest.mark.parametrize("text", ["", "\n", "No physical plan. Waiting for data.", "== Physical Plan ==\n"])
def test_before_the_first_batch(text: str) -> None:
    assert engine_plan(text) == EnginePlan(notes=(NO_BATCH,))


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        (None, None),
        ("rubbish", None),
        ("[]", None),
        ('{"sources": null}', None),
        ('{"sources": [{"metrics": {"partitions": "4"}}]}', 4),
        ('{"sources": [{"metrics": {"partitions": "4"}}, {"metrics": {"partitions": "4"}}]}', 4),
        ('{"sources": [{"metrics": {"partitions": "4"}}, {"metrics": {"partitions": "2"}}]}', None),
        ('{"sources": [{"metrics": null}]}', None),
        ('{"sources": [{"metrics": {"partitions": "0"}}]}', None),
    ],
)
def test_partitions_of_the_sources(report: str | None, expected: int | None) -> None:
    assert source_partitions(report) == expected


def test_a_line_of_a_megabyte_takes_no_time() -> None:
    begun = time.process_time()
    plan = explained(
        "WriteToDataSourceV2 x", "+- Exchange " + "hashpartitioning(a, 1, " * 50_000, "   +- Scan"
    )
    assert [each.strategy.value for each in plan.edges] == ["hash"]
    assert time.process_time() - begun < 5


def test_a_tree_of_two_thousand_levels() -> None:
    lines = [f"{'   ' * level}+- Project [a#1]" for level in range(1_999)]
    assert explained("WriteToDataSourceV2 x", *lines).depth() == 2_000


WORDS = st.sampled_from(
    (
        *("Project [a#1]", "HashAggregate(keys=[window#1], functions=[count(1)])", "Sort [a], true, 0"),
        *(
            "HashAggregate(keys=[], functions=[])",
            "Exchange hashpartitioning(a, 2)",
            "MicroBatchScan",
            "Union",
        ),
        *("StateStoreSave", "BroadcastExchange", "Exchange", "*(", "~", "ä\x00", "Filter (a", "Coalesce 1"),
        "== Initial",
    )
)
LINES = st.builds(
    lambda level, branch, word: f"{'   ' * level}{branch}{word}",
    st.integers(0, 5),
    st.sampled_from(["+- ", ":- ", "", ":  +- "]),
    WORDS | st.text(max_size=10),
)


@given(
    st.lists(LINES, max_size=15) | st.lists(st.text(max_size=20), max_size=5), st.none() | st.integers(1, 9)
)
@tries(300)
def test_any_text_is_a_plan(lines: list[str], partitions: int | None) -> None:
    plan = engine_plan("\n".join(["== Physical Plan ==", *lines]), partitions)
    ids = [each.id for each in plan.nodes]
    assert len(set(ids)) == len(ids)
    roots = set(ids) - {each.source for each in plan.edges}
    assert len(plan.edges) == len(ids) - len(roots)  # trees: several if the root is no operator
    assert plan.depth() is not None
    assert {each.task for each in plan.nodes} == set(plan.tasks)
    assert all(each.parallelism is None or each.parallelism > 0 for each in plan.nodes)
    assert EnginePlan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan


# -- a real server


@pytest.fixture(name="bench", scope="module")
def bench_fixture(
    spark_server: SparkServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkBench]:
    directory = tmp_path_factory.mktemp("plans")
    with MosquittoServer(directory / "mosquitto") as broker:
        bench = SparkBench(spark_server, broker, directory)
        yield bench
        bench.close()


@pytest.mark.parametrize(
    ("file", "entry", "expected"),
    [
        ("simple", "upper", PLANS["upper"]),
        ("simple", "windowed", PLANS["windowed"]),
        ("plans", "distinct", PLANS["distinct"]),
        ("simple", "active_session", "source source filter map join map sink"),
    ],
)
def test_the_plan_of_a_running_query(bench: SparkBench, file: str, entry: str, expected: str) -> None:
    engine = bench.binder()
    job = bench.job(f"plan-{entry}".replace("_", "-"), entry, JOBS / f"{file}.py")
    handle = engine.submit(job, attempt_of(job))
    assert engine.engine_plan(handle).notes in ((), (NO_BATCH,))
    bench.mqtt.send(job.source_topic, ["a"])
    plan = eventually(lambda: engine.engine_plan(handle), lambda found: bool(found.nodes))
    assert sorted(shape(plan).split()) == sorted(expected.split()), shape(plan)
    engine.stop(handle, keep_state=False)
