"""Parses the physical plan of a query as Spark explains it.  Pure.

The plan is a text, a tree whose root is the sink and whose leaves are the sources.  An exchange is an edge
here, not an operator.  Spark executes one aggregation in several phases (partial, merge, final), with sorts
and its state store between them: they are one operator here.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from binders.common.plan_tree import TreeLine, tree_lines
from speck.core.engine_plan import EnginePlan, OperatorClass, PlanEdge, PlanNode, ShipStrategy, shortened

NO_BATCH = "Spark makes the plan with the first batch, and the query has executed none yet."
_WAITING = "No physical plan"
_HEAD = "== Physical Plan =="

# Of generated code, of streaming, and of columns that Spark misses in the inputs.
_MARKS = re.compile(r"^(?:[*~!] ?(?:\(\d+\) )?)+")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PARTITIONS = re.compile(
    r"(?:hashpartitioning|rangepartitioning|shufflepartitionidpassthrough)\(.*, (?P<keyed>\d{1,9})\)"
    r"|RoundRobinPartitioning\((?P<even>\d{1,9})\)"
)
_GLOBAL_SORT = re.compile(r"\], true, \d+$")
_WINDOW = re.compile(r"\b(?:session_)?window#\d")
_FUNCTIONS = re.compile(r"functions=\[(?P<functions>.*)\]")
_CALL = re.compile(r"[A-Za-z_]\w*\(")
_INNER = re.compile(r"partial_|merge_")
_MAX_LINE = 20_000  # characters that are searched
_HEADING = re.compile(r"(?P<indent>(?:[: ] {2})*)[:+]- == [A-Za-z ]+ ==$")
_INDENT = re.compile(r"(?:[: ] {2})+")
_REPLACED = "Initial"  # the plan before Spark adapted it

_STRATEGIES = {"hashpartitioning": ShipStrategy.HASH, "RoundRobinPartitioning": ShipStrategy.REBALANCE}
_WORDS: Mapping[OperatorClass, str] = {
    OperatorClass.SOURCE: (
        "MicroBatchScan ContinuousScan BatchScan Scan FileScan LocalTableScan Range RDDScan "
        "InMemoryTableScan StreamingRelation"
    ),
    OperatorClass.MAP: (
        "Project ArrowEvalPython BatchEvalPython EventTimeWatermark AppendColumns MapElements "
        "SerializeFromObject DeserializeToObject UpdateEventTimeWatermarkColumn"
    ),
    OperatorClass.FLAT_MAP: (
        "Generate Expand MapPartitions MapInPandas MapInArrow PythonMapInArrow "
        "ArrowEvalPythonUDTF BatchEvalPythonUDTF"
    ),
    OperatorClass.FILTER: "Filter Sample",
    OperatorClass.AGGREGATION: (
        "HashAggregate SortAggregate ObjectHashAggregate AggregateInPandas ArrowAggregatePython"
    ),
    OperatorClass.JOIN: (
        "BroadcastHashJoin SortMergeJoin ShuffledHashJoin StreamingSymmetricHashJoin "
        "BroadcastNestedLoopJoin CartesianProduct"
    ),
    OperatorClass.UNION: "Union",
    OperatorClass.DEDUPLICATION: "StreamingDeduplicate StreamingDeduplicateWithinWatermark",
    OperatorClass.PROCESS: (
        "FlatMapGroupsWithState FlatMapGroupsInPandasWithState TransformWithState "
        "TransformWithStateInPandas TransformWithStateInPySpark FlatMapGroupsInPandas "
        "FlatMapGroupsInArrow FlatMapCoGroupsInPandas FlatMapCoGroupsInArrow MapGroups CoGroup"
    ),
    OperatorClass.SORT: "Sort TakeOrderedAndProject",
    OperatorClass.SINK: (
        "WriteToDataSourceV2 WriteToContinuousDataSource WriteToMicroBatchDataSource AppendData"
    ),
}
_CLASSES = {word: kind for kind, words in _WORDS.items() for word in words.split()}
_AGGREGATES = frozenset(word for word, kind in _CLASSES.items() if kind is OperatorClass.AGGREGATION)
# Parts of Spark's execution that do nothing to a row, or that belong to the operator above them.
_PASSED = frozenset(
    (
        *("AdaptiveSparkPlan", "ResultQueryStage", "ShuffleQueryStage", "BroadcastQueryStage"),
        *("WholeStageCodegen", "InputAdapter", "ColumnarToRow", "RowToColumnar", "CollectMetrics"),
        *("AQEShuffleRead", "Final", "Current"),  # the last two are headings
        *("StateStoreSave", "StateStoreRestore", "SessionWindowStateStoreSave"),
        *("SessionWindowStateStoreRestore", "MergingSessions", "UpdatingSessions"),
    )
)
_EXCHANGES = frozenset(("Exchange", "ShuffleExchange", "BroadcastExchange", "Coalesce"))


@dataclass(frozen=True)
class _Way:
    """The way of rows from an operator of the tree to the one that takes them: the last exchange on it."""

    strategy: ShipStrategy = ShipStrategy.FORWARD
    described: str = ""
    partitions: int | None = None


_DIRECT = _Way()


@dataclass(frozen=True)
class _Operator:
    """A line of the tree: its operator without marks, the first word of it, and the lines of its inputs."""

    text: str
    word: str
    inputs: Sequence[int]


def engine_plan(text: str, source_partitions: int | None = None) -> EnginePlan:
    """The physical plan in a text of ``StreamingQuery.explain``.

    ``source_partitions`` is the number of partitions that the sources report, ``None`` if they differ.
    Without any batch the plan is empty, with a note that says so.  Lines of an unknown form are operators of
    the class ``other``.
    """
    body = text.rpartition(_HEAD)[2]
    if not body.strip() or body.strip().startswith(_WAITING):
        return EnginePlan(notes=(NO_BATCH,))
    operators = _operators(list(tree_lines(_nested(body.splitlines()))))
    nodes, ways = _graph(operators)
    plan = EnginePlan.of(nodes, [_edge(*ends, way) for ends, way in ways.items()])
    return _with_tasks(_with_parallelism(plan, ways, source_partitions))


def _nested(lines: Iterable[str]) -> Iterator[str]:
    """The lines with the plans below headings, as of a plan that Spark adapts, one level deeper.

    Spark prints the root of such a plan without a branch, so that it would be no child of the heading.
    """
    depth, first = 0, False
    for line in lines:
        if depth and _INDENT.fullmatch(line[:depth]):
            yield f"{line[:depth]}{'+- ' if first else '   '}{line[depth:]}"
            first = False
            continue
        heading = _HEADING.match(line)
        depth, first = (len(heading["indent"]) + 3, True) if heading is not None else (0, False)
        yield line


def source_partitions(report: str | None) -> int | None:
    """The number of partitions that all sources report in a progress report (JSON), if they agree."""
    try:
        sources = json.loads(report or "{}").get("sources", ())
        found = {str((each.get("metrics") or {}).get("partitions", "")) for each in sources}
    except (AttributeError, TypeError, ValueError):
        return None
    number = found.pop() if len(found) == 1 else ""
    return int(number) if re.fullmatch(r"[1-9][0-9]{0,8}", number) else None


def _operators(lines: Sequence[TreeLine]) -> list[_Operator]:
    inputs: list[list[int]] = [[] for _ in lines]
    for line in lines:
        if line.parent is not None:
            inputs[line.parent].append(line.number)
    texts = [_MARKS.sub("", line.text)[:_MAX_LINE] for line in lines]
    return [_Operator(text, _word(text), inputs[number]) for number, text in enumerate(texts)]


def _word(text: str) -> str:
    match = _WORD.match(text.removeprefix("== "))
    return match[0] if match is not None else ""


def _graph(operators: Sequence[_Operator]) -> tuple[list[PlanNode], dict[tuple[str, str], _Way]]:
    """The operators from the sources to the sink, and the ways between them by the ids of both ends."""
    nodes: list[PlanNode] = []
    ways: dict[tuple[str, str], _Way] = {}
    # A line, the operator that takes its rows, the way there, and that operator if it is an aggregation.
    pending: list[tuple[int, str, _Way, _Operator | None]] = [(0, "", _DIRECT, None)] if operators else []
    while pending:
        number, taker, way, aggregation = pending.pop()
        operator = operators[number]
        if operator.word == _REPLACED:
            continue
        if operator.word in _EXCHANGES:
            way = _exchange(operator) if way is _DIRECT else way
        elif not _is_passed(operator, aggregation):
            node = _node(operator, str(len(operators) - number))
            if taker:
                ways[node.id, taker] = way
            nodes.append(node)
            taker, way = node.id, _DIRECT
            aggregation = operator if operator.word in _AGGREGATES else None
        pending += [(each, taker, way, aggregation) for each in operator.inputs]
    return nodes[::-1], ways


def _is_passed(operator: _Operator, aggregation: _Operator | None) -> bool:
    """True for a part of Spark's execution, or of the aggregation above it, and not an operator."""
    if operator.word in _PASSED:
        return True
    if operator.word == "Sort":
        return not _GLOBAL_SORT.search(operator.text)
    if operator.word in _AGGREGATES and aggregation is not None:
        functions = _functions(operator)
        return all(map(_INNER.match, functions)) and (bool(functions) or not _functions(aggregation))
    return False


def _functions(operator: _Operator) -> list[str]:
    found = _FUNCTIONS.search(operator.text)
    return [each for each in found["functions"].split(", ") if _CALL.match(each)] if found is not None else []


def _exchange(operator: _Operator) -> _Way:
    text = operator.text
    found = _PARTITIONS.search(text)
    name = _WORD.match(text.partition(" ")[2])
    described = name[0] if name is not None else operator.word
    if operator.word == "BroadcastExchange":
        return _Way(ShipStrategy.BROADCAST, operator.word)
    if "SinglePartition" in text or text == "Coalesce 1":
        return _Way(ShipStrategy.SINGLE, described, 1)
    strategy = next((each for word, each in _STRATEGIES.items() if word in text), ShipStrategy.CUSTOM)
    return _Way(strategy, described, int(found["keyed"] or found["even"]) if found is not None else None)


def _node(operator: _Operator, identifier: str) -> PlanNode:
    kind = _CLASSES.get(operator.word, OperatorClass.OTHER)
    if kind is OperatorClass.AGGREGATION and _WINDOW.search(operator.text.partition("functions=")[0]):
        kind = OperatorClass.WINDOWED_AGGREGATION
    name = operator.word or shortened(operator.text)
    return PlanNode(id=identifier, kind=kind, name=name, description=shortened(operator.text))


def _edge(source: str, target: str, way: _Way) -> PlanEdge:
    return PlanEdge(
        source=source,
        target=target,
        strategy=way.strategy,
        described=way.described,
        chained=way.strategy is ShipStrategy.FORWARD,
    )


def _with_parallelism(
    plan: EnginePlan, ways: Mapping[tuple[str, str], _Way], source_partitions: int | None
) -> EnginePlan:
    """The plan with the number of partitions at each operator: that of the last exchange before it."""
    arriving: defaultdict[str, list[int | None]] = defaultdict(list)
    leaving = {each.source: each.target for each in plan.edges}  # of a tree
    nodes = []
    for node in plan.nodes:
        counts = arriving[node.id] or [source_partitions if node.kind is OperatorClass.SOURCE else None]
        known = [each for each in counts if each is not None]
        combined = sum(known) if node.kind is OperatorClass.UNION else max(known, default=0)
        count = combined if len(known) == len(counts) else None
        nodes.append(replace(node, parallelism=count))
        if (target := leaving.get(node.id)) is not None:
            way = ways[node.id, target]
            arriving[target].append(count if way.strategy is ShipStrategy.FORWARD else way.partitions)
    return replace(plan, nodes=tuple(nodes))


def _with_tasks(plan: EnginePlan) -> EnginePlan:
    """The plan with its stages, in data order: operators without an exchange between them."""
    leaving = {each.source: each for each in plan.edges}  # of a tree
    ends: dict[str, str] = {}  # the last operator of the stage of each operator
    for node in reversed(plan.nodes):
        edge = leaving.get(node.id)
        ends[node.id] = ends[edge.target] if edge is not None and edge.chained else node.id
    order = dict.fromkeys(ends[each.id] for each in plan.nodes)
    numbers = {end: str(number) for number, end in enumerate(order, 1)}
    nodes = tuple(replace(each, task=numbers[ends[each.id]]) for each in plan.nodes)
    return replace(plan, nodes=nodes, tasks={each: f"stage {each}" for each in numbers.values()})
