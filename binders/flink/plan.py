"""Parses the plan of a job as Flink's REST interface reports it (``/jobs/:id``, ``/jobs/:id/plan``).  Pure.

A node of Flink's plan is a vertex: operators that are chained into one task.  Its description has their
names as a tree.  Flink reports no classes of operators, so they follow from names: those that Flink gives by
default, or a name that begins with a class, as ``filter: clean`` (Flink's own ``Source:`` and ``Sink:`` are
of that form).  The class of an operator with any other name is ``other``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from binders.common.plan_tree import TreeLine, tree_lines
from speck.core.engine_plan import EnginePlan, OperatorClass, PlanEdge, PlanNode, ShipStrategy, shortened

_STRATEGIES = {
    "FORWARD": ShipStrategy.FORWARD,
    "HASH": ShipStrategy.HASH,
    "REBALANCE": ShipStrategy.REBALANCE,
    "RESCALE": ShipStrategy.REBALANCE,
    "SHUFFLE": ShipStrategy.REBALANCE,
    "BROADCAST": ShipStrategy.BROADCAST,
    "GLOBAL": ShipStrategy.SINGLE,
}

# Default names of operators of the DataStream and Table interfaces (Flink 2.x), without their parameters.
_NAMES: Mapping[OperatorClass, str] = {
    OperatorClass.SOURCE: "tablesourcescan",
    OperatorClass.MAP: (
        "map|co-map|timestamps/watermarks|async wait operator|watermarkassigner|calc|pythoncalc|"
        "windowtablefunction|tabletodatasteam|datasteamtotable|"
        "streamrecordtimestampinserter|_stream_key_by_map_operator|minibatchassigner"
    ),
    OperatorClass.FLAT_MAP: "flat map|flat_map|co-flat map|expand|correlate|pythoncorrelate",
    OperatorClass.FILTER: "filter|dropupdatebefore|constraintenforcer",
    OperatorClass.AGGREGATION: (
        "keyed aggregation|keyed reduce|reduce|groupaggregate|overaggregate|"
        "globalgroupaggregate|localgroupaggregate|incrementalgroupaggregate|grouptableaggregate"
    ),
    OperatorClass.WINDOWED_AGGREGATION: (
        "window|triggerwindow|windowaggregate|globalwindowaggregate|localwindowaggregate|groupwindowaggregate"
    ),
    OperatorClass.JOIN: "join|interval join|intervaljoin|windowjoin|temporaljoin|lookupjoin|multijoin",
    OperatorClass.UNION: "union",
    OperatorClass.DEDUPLICATION: "deduplicate|windowdeduplicate|changelognormalize",
    OperatorClass.PROCESS: "process|keyedprocess|keyed process|co-process|co-keyed-process|match",
    OperatorClass.SORT: "sort|temporalsort|sortlimit",
}
_DEFAULTS = {name: kind for kind, names in _NAMES.items() for name in names.split("|")}
_DECLARED = {each.value.replace("_", " "): each for each in OperatorClass}
_COMMITTERS = ("committer", "global committer", "pre-writer", "pre-committer")  # around a sink's writer
_NUMBERED = re.compile(r"\[\d+\]:?")  # of an operator of the Table interface
_BREAK = re.compile(r"<br\s*/?>|\n")
_WHERE = re.compile(r"\bwhere=\[")
_TWO_INPUTS = re.compile(r"CoGroupWindowFunction|JoinFunction")


def engine_plan(answer: Mapping[str, Any]) -> EnginePlan:
    """The plan in an answer, with the names of the vertices if it has them.

    Reads as much as there is: a part of another structure is left out, or counts as unknown.
    """
    found = answer.get("plan")
    nodes = found.get("nodes") if isinstance(found, Mapping) else None
    names = _names(answer)
    found_vertices = (_vertex(each, names.get(str(each.get("id")), "")) for each in _mappings(nodes))
    vertices = [each for each in found_vertices if each is not None]
    by_id = {each.id: each for each in reversed(vertices)}  # of two of one id the first
    operators = [node for each in by_id.values() for node in each.operators]
    edges = [edge for each in by_id.values() for edge in (*each.chained, *each.inputs(by_id))]
    feeding = {str(given.get("id")) for each in by_id.values() for given in each.given}
    many = [each.operators[0].name for each in by_id.values() if each.branches and each.id in feeding]
    notes = [
        f"Flink does not report which operator of the chain at {name!r} feeds the next vertex; the last is "
        "assumed."
        for name in many[:3]
    ]
    return EnginePlan.of(operators, edges, names, notes)


def operator_class(name: str, description: str = "") -> OperatorClass:
    """The class of an operator by its name, of the Table interface with its description."""
    plain = _NUMBERED.sub("", name).strip().lower()
    head, _, tail = plain.partition(":")
    if tail.strip() in _COMMITTERS:
        return OperatorClass.OTHER
    if tail.strip() == "writer":
        return OperatorClass.SINK
    if tail and (declared := _DECLARED.get(re.sub(r"[\s_-]+", " ", head.strip()))) is not None:
        return declared
    return _by_default(plain, f"{name} {description}")


def _by_default(plain: str, whole: str) -> OperatorClass:
    base = plain.partition("(")[0].strip()
    if base in ("calc", "pythoncalc") and _WHERE.search(whole):
        return OperatorClass.FILTER
    if base in ("window", "triggerwindow") and _TWO_INPUTS.search(whole):
        return OperatorClass.JOIN
    declared = _DECLARED.get(base.replace("_", " "))
    return _DEFAULTS.get(base) or declared or _of_several(base)


def _of_several(base: str) -> OperatorClass:
    """The class of several Python functions that PyFlink joined into one operator, as ``Map, Filter``."""
    kinds = {_DEFAULTS.get(each.strip(), OperatorClass.OTHER) for each in base.split(",")}
    kinds.discard(OperatorClass.MAP) if len(kinds) > 1 else None
    return kinds.pop() if len(kinds) == 1 else OperatorClass.OTHER


@dataclass(frozen=True)
class _Vertex:
    """A vertex: its operators, the head first, the edges between them, and its inputs as Flink has them."""

    id: str
    operators: Sequence[PlanNode]
    chained: Sequence[PlanEdge]
    given: Sequence[Mapping[str, Any]]
    last: str
    branches: bool

    def inputs(self, vertices: Mapping[str, _Vertex]) -> Iterator[PlanEdge]:
        for each in self.given:
            before = vertices.get(str(each.get("id")))
            described = _text(each.get("ship_strategy"))
            yield PlanEdge(
                source=before.last if before is not None else f"{each.get('id')}.?",
                target=self.operators[0].id,
                strategy=_STRATEGIES.get(described.partition(" ")[0].upper(), ShipStrategy.CUSTOM),
                described=described,
            )


def _vertex(node: Mapping[str, Any], title: str) -> _Vertex | None:
    import html  # its table of entities takes 0.5 MB, and an agent reads few plans

    name = node.get("id")
    if not isinstance(name, str) or not name:
        return None
    text = _text(node.get("description"), limit=None) or _text(node.get("operator")) or name
    lines = list(tree_lines(html.unescape(line) for line in _BREAK.split(text))) or list(tree_lines([name]))
    given_names = _given_names(lines, title)
    parallelism = node.get("parallelism")
    known = isinstance(parallelism, int) and not isinstance(parallelism, bool) and parallelism > 0
    operators = [
        PlanNode(
            id=f"{name}.{line.number}",
            kind=_class_of(given_names[line.number], line.text),
            name=given_names[line.number],
            description=shortened(line.text),
            parallelism=parallelism if known else None,
            task=name,
        )
        for line in lines
    ]
    chained = [
        PlanEdge(
            source=f"{name}.{line.parent}",
            target=f"{name}.{line.number}",
            strategy=ShipStrategy.FORWARD,
            chained=True,
        )
        for line in lines
        if line.parent is not None
    ]
    feeding = {each.source for each in chained}
    ends = [each for each in operators if each.id not in feeding and each.kind is not OperatorClass.SINK]
    given = list(_mappings(node.get("inputs")))
    last = (ends or operators)[-1].id
    return _Vertex(name, operators, chained, given, last, len(ends) > 1)


def _given_names(lines: Sequence[TreeLine], title: str) -> list[str]:
    """The names of the operators of a vertex: those in its own name, ``a -> b``, if it is a mere chain.

    The description has the kind of a window, for example, in the place of the name that the program gave it.
    """
    parts = title.split(" -> ")
    straight = all(line.parent == (line.number - 1 if line.number else None) for line in lines)
    if straight and len(parts) == len(lines) and all(parts):
        return [shortened(each) for each in parts]
    return [shortened(_NUMBERED.sub("", each.text).partition("(")[0].strip() or each.text) for each in lines]


def _class_of(name: str, description: str) -> OperatorClass:
    """The class by the name that the program gave the operator, or else by Flink's description."""
    named = operator_class(name, description)
    return named if named is not OperatorClass.OTHER else operator_class(description)


def _names(answer: Mapping[str, Any]) -> dict[str, str]:
    return {
        str(each["id"]): shortened(str(each.get("name") or ""))
        for each in _mappings(answer.get("vertices"))
        if isinstance(each.get("id"), str)
    }


def _mappings(found: object) -> Iterable[Mapping[str, Any]]:
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def _text(found: object, limit: int | None = 1000) -> str:
    return found[:limit] if isinstance(found, str) else ""
