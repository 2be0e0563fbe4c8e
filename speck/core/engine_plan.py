"""The plan by which an engine executes one job, as a graph: operators, and the edges between them.

A composition's graph (:mod:`speck.core.graph`) ties jobs by topics; this one is inside a job, and its engine
made it.  Binders translate the words of their engines into the classes and strategies below.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any

MAX_OPERATORS = 20_000  # of a plan; further ones are left out, and a note says so
MAX_TEXT = 300  # characters of a name or a description


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
    id of the task that executes it, together with the operators that are chained to it: a vertex of Flink, a
    stage of Spark.
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
    is handed over without a network.
    """

    source: str
    target: str
    strategy: ShipStrategy
    described: str = ""
    chained: bool = False


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """The operators of a job and the edges between them, as :meth:`of` makes it.

    ``tasks`` are the engine's names of tasks by their ids.  ``notes`` are sentences for display, about parts
    of the plan that the engine does not report, or that could not be read.
    """

    nodes: tuple[PlanNode, ...] = ()
    edges: tuple[PlanEdge, ...] = ()
    tasks: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        nodes: Iterable[PlanNode],
        edges: Iterable[PlanEdge],
        tasks: Mapping[str, str] | None = None,
        notes: Iterable[str] = (),
    ) -> EnginePlan:
        """A plan in data order: each operator after those that feed it, as far as there is no cycle.

        Of operators with one id the first counts.  Edges from or to an unknown operator are left out; notes
        name what is left out, and a cycle.
        """
        named: dict[str, PlanNode] = {}
        for node in nodes:
            named.setdefault(node.id, node)
        remarks, found = list(notes), len(named)
        if found > MAX_OPERATORS:
            named = dict(list(named.items())[:MAX_OPERATORS])
            remarks.append(f"The plan has {found} operators, of which the first {MAX_OPERATORS} were read.")
        given = list(edges)
        inside = [each for each in given if each.source in named and each.target in named]
        if len(inside) < len(given) and found <= MAX_OPERATORS:
            remarks.append(f"{len(given) - len(inside)} edges name an operator that is not in the plan.")
        order, cyclic = _order(named, inside)
        if cyclic:
            remarks.append(f"{cyclic} operators are in a cycle, or behind one.")
        return cls(tuple(named[each] for each in order), tuple(inside), dict(tasks or {}), tuple(remarks))

    def count(self) -> Counter[OperatorClass]:
        """The number of operators of each class."""
        return Counter(each.kind for each in self.nodes)

    def depth(self) -> int | None:
        """The number of operators on the longest path; ``None`` for a plan with a cycle."""
        reach = dict.fromkeys((each.id for each in self.nodes), 1)
        place = {each.id: number for number, each in enumerate(self.nodes)}
        leaving = _by_source(self.edges)
        for node in self.nodes:
            for target in leaving[node.id]:
                if place[target] <= place[node.id]:
                    return None
                reach[target] = max(reach[target], reach[node.id] + 1)
        return max(reach.values(), default=0)

    def to_dict(self) -> dict[str, Any]:
        """The plan as plain data; :meth:`from_dict` reads it."""
        return {
            "nodes": [asdict(each) for each in self.nodes],
            "edges": [asdict(each) for each in self.edges],
            "tasks": dict(self.tasks),
            "notes": list(self.notes),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> EnginePlan:
        """The plan in plain data; classes, strategies and fields that are unknown here are passed over.

        Raises ``KeyError`` and ``TypeError`` for other data.
        """
        nodes = (PlanNode(**_known(PlanNode, each, "kind", OperatorClass.OTHER)) for each in data["nodes"])
        custom = ShipStrategy.CUSTOM
        edges = (PlanEdge(**_known(PlanEdge, each, "strategy", custom)) for each in data["edges"])
        return cls(tuple(nodes), tuple(edges), dict(data["tasks"]), tuple(data["notes"]))


def shortened(text: str) -> str:
    """A text of an engine in one line of at most :data:`MAX_TEXT` characters, all printable."""
    line = " ".join("".join(each if each.isprintable() else " " for each in text[: 4 * MAX_TEXT]).split())
    return line if len(line) <= MAX_TEXT else line[: MAX_TEXT - 1] + "…"


def _known(made: type, data: Mapping[str, Any], choice: str, unknown: StrEnum) -> dict[str, Any]:
    """The fields of a class in plain data, with the member of an enumeration for its value."""
    names = {each.name for each in fields(made)}
    values = {name: value for name, value in data.items() if name in names}
    members = {each.value: each for each in type(unknown)}
    return values | {choice: members.get(values[choice], unknown)}


def _by_source(edges: Iterable[PlanEdge]) -> defaultdict[str, list[str]]:
    leaving: defaultdict[str, list[str]] = defaultdict(list)
    for each in edges:
        leaving[each.source].append(each.target)
    return leaving


def _order(names: Iterable[str], edges: Sequence[PlanEdge]) -> tuple[list[str], int]:
    """The names in data order (Kahn's algorithm), and the number of those that a cycle holds back.

    Operators keep the order of ``names`` where data leave it open; those held back come last.
    """
    leaving = _by_source(edges)
    awaited = Counter(each.target for each in edges)
    given = list(names)
    ready = deque(each for each in given if not awaited[each])
    order: list[str] = []
    while ready:
        name = ready.popleft()
        order.append(name)
        for target in leaving[name]:
            awaited[target] -= 1
            if not awaited[target]:
                ready.append(target)
    passed = set(order)
    rest = [each for each in given if each not in passed]
    return order + rest, len(rest)
