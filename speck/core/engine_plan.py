"""The plan by which an engine executes one job, as a graph: operators, and the edges between them.

A composition's graph (:mod:`speck.core.graph`) ties jobs by topics; this one is inside a job, and its engine
made it.  Binders translate the words of their engines into the classes and strategies below.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class OperatorClass(StrEnum):
    """The kind of work of an operator; a closed list."""

    SOURCE = "source"  # reads messages
    MAP = "map"  # one row out for each row in: maps, projections, watermarks
    FLAT_MAP = "flat_map"  # any number of rows out for each row in
    FILTER = "filter"
    AGGREGATION = "aggregation"  # by key or of all rows, without windows
    WINDOWED_AGGREGATION = "windowed_aggregation"
    JOIN = "join"  # of two inputs, windowed or not
    UNION = "union"
    DEDUPLICATION = "deduplication"
    PROCESS = "process"  # code of the job with state or timers of its own
    SORT = "sort"
    SINK = "sink"  # writes messages
    OTHER = "other"  # none of these, or unknown to the parser


class ShipStrategy(StrEnum):
    """The way in which rows reach the subtasks of the next operator; a closed list."""

    FORWARD = "forward"  # to the subtask of the same number
    HASH = "hash"  # by key
    REBALANCE = "rebalance"  # evenly, whatever the rows are
    BROADCAST = "broadcast"  # to all subtasks
    SINGLE = "single"  # all rows to one subtask
    CUSTOM = "custom"  # by ranges, by the job's own partitioner, or unknown to the parser


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanNode:
    """One operator.  ``name`` and ``description`` are the engine's own words.

    ``parallelism`` is the number of its subtasks; ``None``: the engine does not report it.  ``task`` is the
    id of the task (Flink: vertex) that executes it, together with the operators that are chained to it.
    """

    id: str
    kind: OperatorClass
    name: str
    description: str = ""
    parallelism: int | None = None
    task: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanEdge:
    """Rows flow from the operator ``source`` to the operator ``target``.

    ``described`` is the engine's own name of the ``strategy``.  ``chained``: both are in one task, and a row
    is handed over by a call.
    """

    source: str
    target: str
    strategy: ShipStrategy
    described: str = ""
    chained: bool = False


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """The operators of a job by id, in data order where there is no cycle, and the edges between them.

    ``task_names`` are the engine's names of tasks by their ids.  ``notes`` are sentences for display, about
    parts of the plan that could not be read.
    """

    nodes: tuple[PlanNode, ...] = ()
    edges: tuple[PlanEdge, ...] = ()
    task_names: Mapping[str, str] | None = None
    notes: tuple[str, ...] = ()

    def count(self) -> Counter[OperatorClass]:
        """The number of operators of each class."""
        return Counter(each.kind for each in self.nodes)
