"""Features of the plan of a job for learned cost models; pure.

The first eleven are those of the flat-vector baseline of Costream (Heinrich et al., ICDE 2024; its public
code, ``costream-learning/baseline.py``): the number of hosts and of operators of six classes, and the mean
selectivity of the operators of four.  The others are properties of the plan, and the job's profile.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from speck.core.engine_plan import EnginePlan, OperatorClass, ShipStrategy
from speck.placement.profile import JobProfile

NO_TASKS: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Feature:
    """One column: its ``name``, its ``unit`` and its ``meaning``."""

    name: str
    unit: str
    meaning: str


FLAT = (
    Feature("hosts", "count", "sites that the job runs at: 1 for each job"),
    Feature("sources", "count", "operators of the class source"),
    Feature("filters", "count", "operators of the class filter"),
    Feature("filter_selectivity", "rows out/row in", "mean over the filters; 0 without any"),
    Feature("aggregations", "count", "operators of the class aggregation (without windows)"),
    Feature("aggregation_selectivity", "rows out/row in", "mean over the aggregations; 0 without any"),
    Feature("windowed_aggregations", "count", "operators of the class windowed_aggregation"),
    Feature(
        "windowed_aggregation_selectivity",
        "rows out/row in",
        "mean over the windowed aggregations; 0 without any",
    ),
    Feature("joins", "count", "operators of the class join"),
    Feature("join_selectivity", "rows out/row in", "mean over the joins; 0 without any"),
    Feature("sinks", "count", "operators of the class sink"),
)
"""The eleven features of Costream's baseline, in its order."""

PLAN = (
    Feature("operators", "count", "operators of any class"),
    Feature("exchanges", "count", "edges whose strategy is not forward"),
    Feature("depth", "count", "operators on the longest path; empty for a plan with a cycle"),
    Feature("parallelism", "subtasks", "the largest parallelism of an operator"),
)
"""Properties of the plan alone."""

MEASURED = (
    Feature("rate_in", "messages/s", "messages that the job takes in"),
    Feature("rate_out", "messages/s", "messages that the job sends"),
    Feature("bytes_in", "bytes/message", "mean size of a message in, topic included"),
    Feature("bytes_out", "bytes/message", "mean size of a message out, topic included"),
    Feature("cost", "core-s/message", "processor time of a reference core"),
    Feature("fixed", "cores", "use of the job without messages, of reference cores"),
    Feature("selectivity", "messages out/message in", "of the whole job"),
    Feature("state", "bytes", "size of the job's state"),
)
"""Values of the job's profile (:class:`speck.placement.profile.JobProfile`), of the same names."""

FEATURES = FLAT + PLAN + MEASURED

_CLASSES = (
    (OperatorClass.FILTER, "filters", "filter_selectivity"),
    (OperatorClass.AGGREGATION, "aggregations", "aggregation_selectivity"),
    (OperatorClass.WINDOWED_AGGREGATION, "windowed_aggregations", "windowed_aggregation_selectivity"),
    (OperatorClass.JOIN, "joins", "join_selectivity"),
)
# Classes whose operators pass on as many rows as they take in.
_EVEN = frozenset(
    (OperatorClass.SOURCE, OperatorClass.MAP, OperatorClass.UNION, OperatorClass.SORT, OperatorClass.SINK)
)


def features_of(
    plan: EnginePlan, profile: JobProfile, tasks: Mapping[str, float] = NO_TASKS
) -> dict[str, float | None]:
    """The value of each of :data:`FEATURES`; ``None``: unknown.

    ``tasks`` are the measured selectivities of tasks by their names.  Engines count the rows of a task, not
    of the operators chained in it: a selectivity belongs to an operator if no other of its task, or of the
    whole job, changes the number of rows.  A mean over operators of which one is unknown is unknown.
    """
    found: dict[str, float | None] = dict.fromkeys((each.name for each in FEATURES), None)
    found |= {name: value.value for name, value in profile.values().items() if name in found}
    found["hosts"] = 1.0
    if not plan.nodes:
        return found
    counted = plan.count()
    selectivities = _selectivities(plan, found["selectivity"], tasks)
    for kind, number, selectivity in _CLASSES:
        found[number] = float(counted[kind])
        found[selectivity] = _mean([selectivities.get(each.id) for each in plan.nodes if each.kind is kind])
    depth = plan.depth()
    known = [each.parallelism for each in plan.nodes if each.parallelism is not None]
    return found | {
        "sources": float(counted[OperatorClass.SOURCE]),
        "sinks": float(counted[OperatorClass.SINK]),
        "operators": float(len(plan.nodes)),
        "exchanges": float(sum(each.strategy is not ShipStrategy.FORWARD for each in plan.edges)),
        "depth": None if depth is None else float(depth),
        "parallelism": float(max(known)) if known else None,
    }


def _selectivities(plan: EnginePlan, whole: float | None, tasks: Mapping[str, float]) -> dict[str, float]:
    """The selectivity of each operator that can be distinguished, by its id."""
    changing = [each for each in plan.nodes if each.kind not in _EVEN]
    if len(changing) == 1 and whole is not None:
        return {changing[0].id: whole}
    of_task = Counter(each.task for each in changing)
    names = Counter(plan.tasks.values())
    measured = {task: tasks[name] for task, name in plan.tasks.items() if name in tasks and names[name] == 1}
    alone = (each for each in changing if of_task[each.task] == 1 and each.task in measured)
    return {each.id: measured[each.task] for each in alone}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    if len(known) < len(values):
        return None
    return sum(known) / len(known) if known else 0.0
