"""Draw the plan of a job: operators in columns by their distance from the sources, coloured by task.

All lengths are inches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from speck.cli.draw.picture import (
    FILLS,
    INK,
    LINE,
    MARGIN,
    NODE_HEIGHT,
    PADDING,
    ROW,
    SMALL,
    TEXT,
    Box,
    curve_of,
    paint_box,
    paint_path,
    save,
    text_width,
)
from speck.core.engine_plan import EnginePlan, PlanEdge, PlanNode, ShipStrategy

COLUMN_GAP = 0.9
TALL = NODE_HEIGHT + 0.14  # of an operator: its name, and its class below


def draw(plan: EnginePlan, names: Mapping[str, str], path: Path) -> None:
    """Write the picture in the format of the suffix of ``path``.  Raises ``OSError``."""
    boxes, width, height = lay_out(plan, names)
    figure = Figure(figsize=(width, height))
    axes: Axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(0, height))
    axes.set_axis_off()
    tasks = list(dict.fromkeys(each.task for each in plan.nodes))
    fills = {task: FILLS[number % len(FILLS)] for number, task in enumerate(tasks)}
    for edge in plan.edges:
        _paint_edge(axes, edge, boxes)
    for node in plan.nodes:
        _paint_operator(axes, node, names[node.id], boxes[node.id], fills[node.task])
    with mpl.rc_context({"svg.hashsalt": "speck"}):  # the same ids in each run
        save(figure, path)


def lay_out(plan: EnginePlan, names: Mapping[str, str]) -> tuple[dict[str, Box], float, float]:
    """The boxes of operators by id, and the width and height of the picture."""
    columns: defaultdict[int, list[PlanNode]] = defaultdict(list)
    levels = _levels(plan)
    for node in plan.nodes:
        columns[levels[node.id]].append(node)
    most = max((len(each) for each in columns.values()), default=1)
    height = most * ROW + 2 * MARGIN
    boxes: dict[str, Box] = {}
    left = MARGIN
    for _, members in sorted(columns.items()):
        wide = max(_width(each, names[each.id]) for each in members)
        for row, node in enumerate(members):
            boxes[node.id] = Box(left, height / 2 + ((len(members) - 1) / 2 - row) * ROW, wide, TALL)
        left += wide + COLUMN_GAP
    return boxes, max(left - COLUMN_GAP, ROW) + MARGIN, height


def _levels(plan: EnginePlan) -> dict[str, int]:
    """The number of operators before each on the longest path; edges against the data order count not."""
    place = {each.id: number for number, each in enumerate(plan.nodes)}
    leaving: defaultdict[str, list[str]] = defaultdict(list)
    for edge in plan.edges:
        leaving[edge.source].append(edge.target)
    levels = dict.fromkeys(place, 0)
    for node in plan.nodes:
        for target in leaving[node.id]:
            if place[target] > place[node.id]:
                levels[target] = max(levels[target], levels[node.id] + 1)
    return levels


def _subtitle(node: PlanNode) -> str:
    return node.kind.value if node.parallelism is None else f"{node.kind.value}  x{node.parallelism}"


def _width(node: PlanNode, name: str) -> float:
    return max(text_width(name, TEXT), text_width(_subtitle(node), SMALL)) + 2 * PADDING


def _paint_operator(axes: Axes, node: PlanNode, name: str, box: Box, fill: str) -> None:
    paint_box(axes, box, fill, edge=INK, rounding=0.1, zorder=3)
    middle = box.left + box.width / 2
    style: dict[str, Any] = {"ha": "center", "va": "center", "zorder": 4, "parse_math": False}
    axes.text(middle, box.middle + 0.09, name, size=TEXT, color=INK, **style)
    axes.text(middle, box.middle - 0.11, _subtitle(node), size=SMALL, color=LINE, **style)


def _paint_edge(axes: Axes, edge: PlanEdge, boxes: Mapping[str, Box]) -> None:
    before, after = boxes[edge.source], boxes[edge.target]
    paint_path(axes, curve_of([(before.right, before.middle), (after.left, after.middle)]))
    if edge.strategy is not ShipStrategy.FORWARD:
        at = (before.right + 0.06, before.middle + 0.04)
        style: dict[str, Any] = {"size": SMALL, "color": LINE, "va": "bottom", "zorder": 4}
        axes.text(*at, edge.strategy.value, **style)
