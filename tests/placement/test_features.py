"""Features of plans for learned cost models."""

from __future__ import annotations

import pytest

from speck.core.engine_plan import EnginePlan, OperatorClass, PlanEdge, PlanNode, ShipStrategy
from speck.placement.features import FEATURES, FLAT, features_of
from speck.placement.profile import JobProfile, Known, Value

KINDS = {each.value: each for each in OperatorClass}


def plan(*tasks: str, parallelism: int | None = 2) -> EnginePlan:
    """A chain of tasks, each a chain of operators such as ``source filter``; by hash from task to task."""
    nodes: list[PlanNode] = []
    edges: list[PlanEdge] = []
    for task in tasks:
        for kind in task.split():
            name = str(len(nodes))
            found = PlanNode(id=name, kind=KINDS[kind], name=kind, parallelism=parallelism, task=task)
            if nodes:
                chained = nodes[-1].task == task
                strategy = ShipStrategy.FORWARD if chained else ShipStrategy.HASH
                ends = nodes[-1].id, name
                edges.append(PlanEdge(source=ends[0], target=ends[1], strategy=strategy, chained=chained))
            nodes.append(found)
    return EnginePlan.of(nodes, edges, {task: task for task in tasks})


def measured(**values: float) -> JobProfile:
    """A profile."""
    return JobProfile(**{name: Value(value, Known.MEASURED) for name, value in values.items()})


def test_the_eleven_are_those_of_the_baseline_in_its_order() -> None:
    assert [each.name for each in FLAT] == [
        "hosts",
        "sources",
        "filters",
        "filter_selectivity",
        "aggregations",
        "aggregation_selectivity",
        "windowed_aggregations",
        "windowed_aggregation_selectivity",
        "joins",
        "join_selectivity",
        "sinks",
    ]
    assert len({each.name for each in FEATURES}) == len(FEATURES)
    assert all(each.unit and each.meaning for each in FEATURES)


def test_counts_and_properties_of_the_plan() -> None:
    found = features_of(plan("source filter filter map", "windowed_aggregation", "join sink"), JobProfile())
    assert {name: value for name, value in found.items() if value is not None} == {
        "hosts": 1,
        "sources": 1,
        "filters": 2,
        "aggregations": 0,
        "aggregation_selectivity": 0,
        "windowed_aggregations": 1,
        "joins": 1,
        "sinks": 1,
        "operators": 7,
        "exchanges": 2,
        "depth": 7,
        "parallelism": 2,
    }
    assert list(found) == [each.name for each in FEATURES]


def test_the_profile_gives_what_was_measured() -> None:
    profile = measured(rate_in=500, rate_out=490, bytes_out=110, cost=8e-6, state=4096, selectivity=0.98)
    found = features_of(plan("source filter sink"), profile)
    assert [found[name] for name in ("rate_in", "rate_out", "bytes_out", "cost", "state", "bytes_in")] == [
        *(500, 490, 110, 8e-6, 4096),
        None,
    ]


@pytest.mark.parametrize(
    ("tasks", "rates", "expected"),
    [
        (("source filter sink",), {}, 0.5),  # the job's own: nothing else changes the number of rows
        (("source map filter sort union sink",), {}, 0.5),
        (("source filter flat_map sink",), {}, None),
        (("source filter process sink",), {"source filter process sink": 0.2}, None),
        (("source filter", "join sink"), {"source filter": 0.1, "join sink": 3.0}, 0.1),
        (("source filter", "filter join sink"), {"source filter": 0.1, "filter join sink": 3.0}, None),
        (("source", "filter", "filter sink"), {"filter": 0.1, "filter sink": 0.3}, 0.2),
        (("source", "filter", "filter sink"), {"filter": 0.1}, None),
    ],
)
def test_a_selectivity_belongs_to_one_operator_or_to_none(
    tasks: tuple[str, ...], rates: dict[str, float], expected: float | None
) -> None:
    found = features_of(plan(*tasks), measured(selectivity=0.5), rates)["filter_selectivity"]
    assert found == (None if expected is None else pytest.approx(expected))


def test_tasks_of_one_name_are_not_told_apart() -> None:
    two = plan("source", "filter", "filter sink")
    same = EnginePlan(two.nodes, two.edges, {"source": "s", "filter": "f", "filter sink": "f"})
    assert features_of(same, JobProfile(), {"f": 0.5})["filter_selectivity"] is None


def test_without_a_plan_only_the_profile_is_known() -> None:
    found = features_of(EnginePlan(), measured(rate_in=1))
    assert {name for name, value in found.items() if value is not None} == {"hosts", "rate_in"}


def test_what_the_engine_does_not_report_is_unknown() -> None:
    cycle = EnginePlan.of(
        plan("source", "map").nodes,
        [PlanEdge(source=a, target=b, strategy=ShipStrategy.HASH) for a, b in (("0", "1"), ("1", "0"))],
    )
    assert features_of(cycle, JobProfile())["depth"] is None
    assert features_of(plan("source", parallelism=None), JobProfile())["parallelism"] is None
