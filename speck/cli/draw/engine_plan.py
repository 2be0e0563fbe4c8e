"""Draw the plan by which an engine executes a job, as text or as a picture, and write it in graph formats."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from speck.cli.draw.picture_file import check_suffix, picture_error, writing
from speck.core.engine_plan import EnginePlan, PlanEdge, PlanNode, ShipStrategy
from speck.placement.plan_graph import to_networkx

MAX_DRAWN = 500  # operators of a picture


def plan_text(plan: EnginePlan) -> str:
    """A table for each task: each operator with its class, and the operators that it feeds.

    An edge that is not ``forward`` has its strategy in brackets.
    """
    names = labels(plan)
    leaving: defaultdict[str, list[str]] = defaultdict(list)
    for edge in plan.edges:
        leaving[edge.source].append(_target(edge, names))
    members: defaultdict[str, list[PlanNode]] = defaultdict(list)
    for node in plan.nodes:
        members[node.task].append(node)
    widths = [
        max((len(text) for text in texts), default=0)
        for texts in (names.values(), [each.kind.value for each in plan.nodes])
    ]
    blocks = [
        [
            _title(plan.tasks.get(task, task), nodes),
            *(_line(names[each.id], each.kind.value, widths, leaving[each.id]) for each in nodes),
        ]
        for task, nodes in members.items()
    ]
    return "\n\n".join("\n".join(block) for block in blocks)


def labels(plan: EnginePlan) -> dict[str, str]:
    """The names of operators by their ids; those that several have are numbered in data order."""
    shared, numbers = Counter(each.name for each in plan.nodes), Counter[str]()
    found = {}
    for node in plan.nodes:
        numbers[node.name] += 1
        found[node.id] = f"{node.name} {numbers[node.name]}" if shared[node.name] > 1 else node.name
    return found


def dot(plan: EnginePlan) -> str:
    """The plan in the language of Graphviz."""
    return "\n".join(["digraph plan {", "  rankdir=LR;", "  node [shape=box];", *_dot_lines(plan), "}"])


def graphml(plan: EnginePlan) -> str:
    """The plan in GraphML, with all fields as attributes.

    Raises :class:`~speck.errors.SpeckError` without networkx.
    """
    graph = to_networkx(plan)
    from networkx import generate_graphml

    return "\n".join(generate_graphml(graph))


def draw_plan(plan: EnginePlan, path: Path) -> None:
    """Write an SVG or a PNG, by the suffix of ``path``.

    Raises :class:`~speck.errors.InvalidInput` for another suffix, a plan of too many operators, or a path
    that cannot be written, and :class:`~speck.errors.SpeckError` where the extra ``speck[graph]`` is not
    installed.
    """
    check_suffix(path)
    if len(plan.nodes) > MAX_DRAWN:
        size = f"{len(plan.nodes)} operators (expected {MAX_DRAWN} at most; --format dot)"
        raise picture_error(path, f"would have {size}")
    with writing(path):
        from speck.cli.draw.plan_picture import draw  # here, since matplotlib takes a second to import

        draw(plan, labels(plan), path)


def _target(edge: PlanEdge, names: Mapping[str, str]) -> str:
    strategy = "" if edge.strategy is ShipStrategy.FORWARD else f"[{edge.strategy.value}] "
    return strategy + names[edge.target]


def _title(name: str, nodes: list[PlanNode]) -> str:
    known = sorted({each.parallelism for each in nodes if each.parallelism is not None})
    return f"{name}  x{'/'.join(map(str, known))}" if known else name


def _line(name: str, kind: str, widths: list[int], targets: list[str]) -> str:
    arrow = f" --> {', '.join(targets)}" if targets else ""
    return f"  {name:<{widths[0]}}  {kind:<{widths[1]}}{arrow}".rstrip()


def _dot_lines(plan: EnginePlan) -> Iterator[str]:
    for node in plan.nodes:
        parallelism = "" if node.parallelism is None else f" x{node.parallelism}"
        label = json.dumps(f"{node.name}\n{node.kind.value}{parallelism}", ensure_ascii=False)
        yield f"  {_quoted(node.id)} [label={label}];"
    for edge in plan.edges:
        yield f"  {_quoted(edge.source)} -> {_quoted(edge.target)} [label={_quoted(edge.strategy.value)}];"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
