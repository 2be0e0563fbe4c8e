"""Draw the graph of a composition: sites as shaded boxes, jobs in them, data flowing from left to right.

All lengths are inches.  A job writes one topic, so the edges that leave it share a trunk, which carries the
topic's name once.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib as mpl
import networkx as nx
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path as Curve
from matplotlib.textpath import TextPath

from speck.cli.draw.grouping import SiteGroup
from speck.core.durable_files import rewrite_file
from speck.core.graph import Graph

TEXT, SMALL = 9.0, 7.5  # points
ROW, NODE_HEIGHT = 0.62, 0.34
PADDING, TITLE, GAP, SITE_GAP, LANE = 0.2, 0.36, 0.55, 0.9, 0.2
DECLARED_ROW = 0.19
MARGIN = 0.25
BOLD = 1.15  # width of bold letters against that of normal ones
FILLS = ("#e8f1fa", "#eaf5e6", "#fdf1dd", "#f3eaf7", "#fbe9e7", "#e6f4f3")
INK, LINE, PAPER = "#22303c", "#5b6b79", "#ffffff"
DOTS_PER_INCH = 150

# A free row at the foot of a site for edges into or out of a job that would else run behind other jobs.
Lane = tuple[str, str]
Point = tuple[float, float]
DeclaredTopics = Mapping[str, Mapping[str, str]]  # the blocks, by name: their topics with the descriptions


@dataclass(frozen=True)
class Box:
    """A rectangle: the x of its left edge, the y of its middle, its width and height."""

    left: float
    middle: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """The right edge."""
        return self.left + self.width


@dataclass(frozen=True)
class Layout:
    """The positions of sites, jobs and lanes; y grows upwards from the origin."""

    sites: Mapping[str, Box]
    jobs: Mapping[str, Box]
    lanes: Mapping[Lane, float]
    columns: Sequence[Sequence[Box]]
    width: float
    height: float

    def passages(self, left: Point, right: Point) -> Iterator[tuple[Point, Point]]:
        """The nearest horizontal passages between two points, one for each column of sites in between."""
        for column in self.columns:
            begin, end = column[0].left, max(box.right for box in column)
            if left[0] < begin and end < right[0]:
                share = ((begin + end) / 2 - left[0]) / (right[0] - left[0])
                straight = left[1] + share * (right[1] - left[1])
                at = min(_free_heights(column), key=lambda height: abs(height - straight))
                yield (begin, at), (end, at)


@dataclass(frozen=True)
class _SitePlan:
    """A site before its position is known: its jobs in columns, the widths of these and of their topics."""

    group: SiteGroup
    columns: tuple[tuple[str, ...], ...]
    job_widths: tuple[float, ...]
    topic_widths: tuple[float, ...]
    inlet: float
    lanes: tuple[Lane, ...]

    @property
    def width(self) -> float:
        inner = self.inlet + sum(self.job_widths) + sum(each + GAP for each in self.topic_widths)
        return max(inner + PADDING, BOLD * text_width(_title(self.group), TEXT) + 2 * PADDING)

    @property
    def height(self) -> float:
        return TITLE + ROW * max(len(column) for column in self.columns) + LANE * len(self.lanes)


@dataclass(frozen=True)
class Foot:
    """The declared topics below the sites: a row for the name of each block, and one for each of its topics.

    A row has an indent, a topic and its description; ``column`` is the x at which descriptions begin.
    """

    rows: tuple[tuple[float, str, str], ...]
    column: float
    width: float
    height: float

    @classmethod
    def of(cls, declared: DeclaredTopics) -> Foot:
        """The rows of the blocks, and the space that they take; none without a block."""
        rows: list[tuple[float, str, str]] = []
        for name, topics in declared.items():
            rows.append((0.0, name, ""))
            rows += [(PADDING, topic, text) for topic, text in topics.items()]
        if not rows:
            return cls((), 0.0, 0.0, 0.0)
        column = MARGIN + 2 * PADDING + _widest((topic for _, topic, _ in rows), SMALL)
        width = column + _widest((text for *_, text in rows), SMALL) + MARGIN
        return cls(tuple(rows), column, width, DECLARED_ROW * len(rows) + MARGIN)


def draw(graph: Graph, groups: Sequence[SiteGroup], path: Path, declared: DeclaredTopics) -> None:
    """Write the picture in the format of the suffix of ``path``, with the declared topics at its foot.

    Raises ``OSError``.
    """
    layout = lay_out(graph, groups)
    foot = Foot.of(declared)
    width, height = max(layout.width, foot.width), layout.height + foot.height
    figure = Figure(figsize=(width, height))
    axes: Axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(-foot.height, layout.height))
    axes.set_axis_off()
    _paint_foot(axes, foot)
    for index, group in enumerate(groups):
        _paint_site(axes, layout.sites[group.address], _title(group), FILLS[index % len(FILLS)])
    for name, box in layout.jobs.items():
        _paint_edges(axes, graph, name, layout)
        _paint_job(axes, name, box)
    with mpl.rc_context({"svg.hashsalt": "speck"}):  # the same ids in each run
        save(figure, path)


def save(figure: Figure, path: Path) -> None:
    """Write a figure in the format of the suffix of ``path``.  Raises ``OSError``."""
    form, content = path.suffix.lower().removeprefix("."), io.BytesIO()
    metadata: dict[str, Any] = {"Date": None} if form == "svg" else {}
    figure.savefig(content, format=form, dpi=DOTS_PER_INCH, metadata=metadata, facecolor=PAPER)
    rewrite_file(path, content.getvalue())


# --- layout -------------------------------------------------------------------------------------


def lay_out(graph: Graph, groups: Sequence[SiteGroup]) -> Layout:
    """Sites in columns by their distance from the sources, jobs in columns within their site."""
    plans = {group.address: _plan_site(graph, group) for group in groups}
    columns = [[plans[address] for address in column] for column in _site_columns(graph, groups)]
    height = max((_stack_height(column) for column in columns), default=ROW) + 2 * MARGIN
    sites: dict[str, Box] = {}
    left = MARGIN
    for column in columns:
        top = (height + _stack_height(column)) / 2
        width = max(plan.width for plan in column)
        for plan in column:
            sites[plan.group.address] = Box(left, top - plan.height / 2, width, plan.height)
            top -= plan.height + ROW / 2
        left += width + SITE_GAP
    jobs = {name: box for address, site in sites.items() for name, box in _place_jobs(plans[address], site)}
    lanes = {lane: at for address, site in sites.items() for lane, at in _place_lanes(plans[address], site)}
    boxes = [[sites[plan.group.address] for plan in column] for column in columns]
    return Layout(sites, jobs, lanes, boxes, max(left - SITE_GAP, ROW) + MARGIN, height)


def _free_heights(column: Sequence[Box]) -> list[float]:
    """The heights above, between and below the sites of a column, from the top down."""
    tops = [box.middle + box.height / 2 for box in column]
    bottoms = [box.middle - box.height / 2 for box in column]
    between = [(bottom + top) / 2 for bottom, top in zip(bottoms, tops[1:], strict=False)]
    return [tops[0] + MARGIN / 2, *between, bottoms[-1] - MARGIN / 2]


def _stack_height(column: Sequence[_SitePlan]) -> float:
    return sum(plan.height for plan in column) + ROW / 2 * (len(column) - 1)


def _site_columns(graph: Graph, groups: Sequence[SiteGroup]) -> Iterator[list[str]]:
    """Engine addresses, column by column; sites that feed each other share a column."""
    sites: nx.DiGraph[str] = nx.DiGraph()
    sites.add_nodes_from(group.address for group in groups)
    for job in graph.jobs.values():
        for reader in graph.readers_of(job):
            sites.add_edge(job.spe_address, graph.jobs[reader].spe_address)
    rank = {group.address: index for index, group in enumerate(groups)}
    condensed = nx.condensation(sites)
    for generation in nx.topological_generations(condensed):
        members = [address for node in generation for address in condensed.nodes[node]["members"]]
        yield sorted(members, key=rank.__getitem__)


def _plan_site(graph: Graph, group: SiteGroup) -> _SitePlan:
    columns = _job_columns(graph, group)
    jobs = [[graph.jobs[name] for name in column] for column in columns]
    fed_from_outside = [job.source_topic for job in jobs[0] if not graph.writers_of(job)]
    return _SitePlan(
        group,
        columns,
        tuple(_widest((job.job_name for job in column), TEXT) + 0.24 for column in jobs),
        tuple(_widest((job.sink_topic for job in column), SMALL) + 0.1 for column in jobs),
        _widest(fed_from_outside, SMALL) + GAP if fed_from_outside else GAP,
        tuple(_lanes(graph, columns)),
    )


def _lanes(graph: Graph, columns: Sequence[Sequence[str]]) -> Iterator[Lane]:
    place = {name: index for index, column in enumerate(columns) for name in column}
    for name, index in place.items():
        job = graph.jobs[name]
        if any(place.get(writer, -1) < index - 1 for writer in graph.writers_of(job)):
            yield ("in", name)
        if index < len(columns) - 1 and any(reader not in place for reader in graph.readers_of(job)):
            yield ("out", name)


def _job_columns(graph: Graph, group: SiteGroup) -> tuple[tuple[str, ...], ...]:
    """Jobs column by column, each near the mean height of its writers, so that few edges cross."""
    here: nx.DiGraph[str] = nx.DiGraph()
    here.add_nodes_from(group.jobs)
    here.add_edges_from(
        (name, reader)
        for name in group.jobs
        for reader in graph.readers_of(graph.jobs[name])
        if reader in here
    )
    columns: list[tuple[str, ...]] = []
    heights: dict[str, float] = {}
    for generation in nx.topological_generations(here):
        column = sorted(generation, key=lambda name: (_mean(heights, here.predecessors(name)), name))
        heights |= {name: index - (len(column) - 1) / 2 for index, name in enumerate(column)}
        columns.append(tuple(column))
    return tuple(columns)


def _mean(heights: Mapping[str, float], names: Iterable[str]) -> float:
    found = [heights[name] for name in names]
    return sum(found) / len(found) if found else 0.0


def _place_jobs(plan: _SitePlan, site: Box) -> Iterator[tuple[str, Box]]:
    left = site.left + plan.inlet
    middle = site.middle - (TITLE - LANE * len(plan.lanes)) / 2
    for column, width, topic_width in zip(plan.columns, plan.job_widths, plan.topic_widths, strict=True):
        for index, name in enumerate(column):
            at = middle + ((len(column) - 1) / 2 - index) * ROW
            yield name, Box(left, at, width, NODE_HEIGHT)
        left += width + topic_width + GAP


def _place_lanes(plan: _SitePlan, site: Box) -> Iterator[tuple[Lane, float]]:
    for index, lane in enumerate(plan.lanes):
        yield lane, site.middle - site.height / 2 + (index + 0.75) * LANE


def _title(group: SiteGroup) -> str:
    return group.name if group.address in ("", group.name) else f"{group.name}   {group.address}"


@cache
def text_width(text: str, points: float) -> float:
    if not text.strip():  # matplotlib has no path of it
        return 0.0
    # matplotlib would parse '$' as mathematics, here and below.
    return float(TextPath((0, 0), text.replace("$", "S"), size=points).get_extents().width) / 72


def _widest(texts: Iterable[str], points: float) -> float:
    return max((text_width(text, points) for text in texts), default=0.0)


# --- drawing ------------------------------------------------------------------------------------


def _paint_site(axes: Axes, box: Box, title: str, fill: str) -> None:
    paint_box(axes, box, fill, edge="#c3ccd4", rounding=0.08, zorder=0)
    at = (box.left + PADDING, box.middle + box.height / 2 - TITLE / 2)
    axes.text(*at, title, size=TEXT, weight="bold", color=INK, va="center", zorder=5, parse_math=False)


def _paint_job(axes: Axes, name: str, box: Box) -> None:
    paint_box(axes, box, PAPER, edge=INK, rounding=0.1, zorder=3)
    at = (box.left + box.width / 2, box.middle)
    axes.text(*at, name, size=TEXT, color=INK, ha="center", va="center_baseline", zorder=4, parse_math=False)


def paint_box(axes: Axes, box: Box, fill: str, *, edge: str, rounding: float, zorder: int) -> None:
    corner = (box.left, box.middle - box.height / 2)
    style = f"round,pad=0,rounding_size={rounding}"
    axes.add_patch(
        FancyBboxPatch(corner, box.width, box.height, boxstyle=style, fc=fill, ec=edge, lw=0.9, zorder=zorder)
    )


def _paint_edges(axes: Axes, graph: Graph, name: str, layout: Layout) -> None:
    job, box = graph.jobs[name], layout.jobs[name]
    end = box.right + text_width(job.sink_topic, SMALL) + 0.1
    _paint_topic(axes, job.sink_topic, box.right + 0.05, box.middle)
    readers = graph.readers_of(job)
    for reader in readers:
        paint_path(axes, curve_of([(box.right, box.middle), *_way(graph, name, reader, end, layout)]))
    if not readers:
        paint_path(axes, Curve([(box.right, box.middle), (end + 0.15, box.middle)]))
        _paint_outside(axes, end + 0.2, box.middle)
    if not graph.writers_of(job):
        start = box.left - text_width(job.source_topic, SMALL) - 0.25
        _paint_topic(axes, job.source_topic, start + 0.1, box.middle)
        if not graph.with_parked.writers_of(job):
            _paint_outside(axes, start, box.middle)
        paint_path(axes, Curve([(start + 0.05, box.middle), (box.left, box.middle)]))


def _paint_foot(axes: Axes, foot: Foot) -> None:
    style: dict[str, Any] = {"size": SMALL, "va": "center_baseline", "zorder": 4, "parse_math": False}
    for index, (indent, topic, text) in enumerate(foot.rows):
        height = -DECLARED_ROW * (index + 0.5)
        axes.text(MARGIN + indent, height, topic, color=INK, **style)
        axes.text(foot.column, height, text, color=LINE, **style)


def _paint_topic(axes: Axes, topic: str, left: float, middle: float) -> None:
    style: dict[str, Any] = {"size": SMALL, "color": LINE, "va": "bottom", "zorder": 4, "parse_math": False}
    axes.text(left, middle + 0.03, topic, **style)


def _paint_outside(axes: Axes, x: float, y: float) -> None:
    """The open circle at a topic without a writer, or without a reader, in the composition."""
    axes.add_patch(Circle((x, y), 0.045, fc=PAPER, ec=LINE, lw=1.0, zorder=3))


def _way(graph: Graph, name: str, reader: str, trunk_end: float, layout: Layout) -> Iterator[Point]:
    """The corners of an edge, from the end of its trunk to the reader."""
    start, to = layout.jobs[name], layout.jobs[reader]
    here, there = (layout.sites[graph.jobs[each].spe_address] for each in (name, reader))
    at = (trunk_end, start.middle)
    yield at
    if here is there:
        entry = (trunk_end + GAP, layout.lanes.get(("in", reader), to.middle))
    else:
        if ("out", name) in layout.lanes:
            yield (trunk_end + GAP, layout.lanes["out", name])
            yield (at := (here.right, layout.lanes["out", name]))
        entry = (there.left, layout.lanes.get(("in", reader), to.middle))
        for passage in layout.passages(at, entry):
            yield from passage
    if ("in", reader) in layout.lanes and entry[0] < to.left - 2 * GAP:
        yield entry
        yield (to.left - GAP, entry[1])
    yield (to.left, to.middle)


def curve_of(points: Sequence[Point]) -> Curve:
    """Straight lines between points of one height, and curves with horizontal ends between others."""
    corners, codes = [points[0]], [Curve.MOVETO]
    for before, after in pairwise(points):
        bend = max((after[0] - before[0]) / 2, 0.3)
        if before[1] == after[1] and after[0] >= before[0]:
            corners, codes = [*corners, after], [*codes, Curve.LINETO]
        else:
            corners += [(before[0] + bend, before[1]), (after[0] - bend, after[1]), after]
            codes += [Curve.CURVE4] * 3
    return Curve(corners, codes)


def paint_path(axes: Axes, curve: Curve) -> None:
    axes.add_patch(
        FancyArrowPatch(
            path=curve,
            arrowstyle="-|>",
            mutation_scale=8,
            lw=0.9,
            color=LINE,
            fc=LINE,
            zorder=2,
            capstyle="butt",
        )
    )
