"""Draw the graph of a composition by site, as text or as a picture.

Pictures need matplotlib and networkx (the extra ``speck[graph]``), which no other command imports.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from speck.cli.draw.folding import folded
from speck.cli.draw.grouping import SiteGroup, by_site
from speck.cli.draw.picture_file import check_suffix, writing
from speck.core.graph import Graph
from speck.core.inventory import Inventory
from speck.core.job import Job

__all__ = ["declared_text", "draw_image", "draw_text", "folded"]

OUTSIDE = "(outside)"


def draw_text(jobs: Iterable[Job], inventory: Inventory) -> str:
    """A table for each site: each job with its source topic, its sink topic, and the readers of the latter.

    ``(outside)`` marks a topic that no job of the composition writes, or reads.

    Raises :class:`~speck.errors.InvalidInput` for a cycle.
    """
    graph = Graph.of(jobs)
    groups = by_site(graph, inventory)
    places = {name: group.name for group in groups for name in group.jobs}
    rows = {name: _row(graph, name, places) for name in graph.jobs}
    widths = [max((len(row[column]) for row in rows.values()), default=0) for column in range(3)]
    return "\n\n".join(_block(group, rows, widths) for group in groups)


def declared_text(blocks: Mapping[str, Mapping[str, str]]) -> str:
    """The declared sources and sinks with their descriptions, a line each; empty without any."""
    width = max((len(topic) for topics in blocks.values() for topic in topics), default=0)
    return "\n\n".join(
        "\n".join([name, *(f"  {topic:<{width}}  {text}".rstrip() for topic, text in topics.items())])
        for name, topics in blocks.items()
    )


def draw_image(
    jobs: Iterable[Job],
    inventory: Inventory,
    path: str | Path,
    declared: Mapping[str, Mapping[str, str]] | None = None,
) -> None:
    """Write an SVG or a PNG, by the suffix of ``path``; the same jobs make the same file.

    The ``declared`` sources and sinks stand below the sites, with their descriptions.

    Raises :class:`~speck.errors.InvalidInput` for another suffix, a cycle, or a path that cannot be written,
    and :class:`~speck.errors.SpeckError` where the extra ``speck[graph]`` is not installed.
    """
    target = Path(path)
    check_suffix(target)
    graph = Graph.of(jobs)
    with writing(target):
        from speck.cli.draw.picture import draw  # here, since matplotlib takes a second to import

        draw(graph, by_site(graph, inventory), target, declared or {})


def _row(graph: Graph, name: str, places: Mapping[str, str]) -> tuple[str, str, str, str]:
    job = graph.jobs[name]
    outside = "" if graph.with_parked.writers_of(job) else f"{OUTSIDE} "
    readers = _others(graph.readers_of(job), name, places) or OUTSIDE
    return (outside + job.source_topic, name, job.sink_topic, readers)


def _others(names: Sequence[str], here: str, places: Mapping[str, str]) -> str:
    """The names of the reading jobs, at most four, each with its site where that differs."""
    shown = [
        name if places[name] == places[here] else f"{name} @ {places[name].rpartition('://')[2].rstrip('/')}"
        for name in names
    ]
    return ", ".join(shown[:4]) + (f" and {len(shown) - 4} more" if len(shown) > 4 else "")


def _block(group: SiteGroup, rows: Mapping[str, tuple[str, ...]], widths: Sequence[int]) -> str:
    title = group.name if group.address in ("", group.name) else f"{group.name}  {group.address}"
    return "\n".join([title, *(_line(rows[name], widths) for name in group.jobs)])


def _line(row: tuple[str, ...], widths: Sequence[int]) -> str:
    columns = [text.ljust(width) for text, width in zip(row, widths, strict=False)]
    return "  " + " --> ".join([*columns, row[-1]])
