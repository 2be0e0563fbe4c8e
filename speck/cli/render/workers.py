"""Workers of engines that scale: a line for each engine, and a row for each worker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from speck.cli.render.placements import size, span
from speck.cli.render.tables import table
from speck.cli.render.values import Data, clock

_ENGINES = ("SITE", "ENGINE", "STATE", "WORKERS", "DESIRED", "BOUNDS", "NEXT RETRY", "MESSAGE")
_WORKERS = ("SITE", "WORKER", "STATE", "IDLE FOR", "SLOTS", "CORES", "BUSY", "MEMORY")


def workers_lines(groups: Iterable[Data]) -> Iterator[RenderableType]:
    """A row for each engine, and a row for each of their workers."""
    found = list(groups)
    yield table(_ENGINES, map(_engine, found))
    rows = [_worker(each["site"], worker) for each in found for worker in each["workers"]]
    if rows:
        yield Text("")
        yield table(_WORKERS, rows)


def _engine(group: Data) -> tuple[Any, ...]:
    bounds = f"{group['least']} to {group['most']}"
    due = None if group["next_try"] is None else clock(group["next_try"])
    counts = (group["present"], group["desired"], bounds)
    return (group["site"], group["engine"], group["state"], *counts, due, group["message"])


def _worker(site: str, worker: Data) -> tuple[Any, ...]:
    slots, free = worker["slots"], worker["slots_free"]
    used = None if slots is None or free is None else f"{slots - free} of {slots}"
    busy = None if worker["busy_cores"] is None else f"{worker['busy_cores']:.2f}"
    memory = None if worker["memory"] is None else size(worker["memory"])
    since = None if worker["free_for"] is None else span(worker["free_for"])
    cores = None if worker["cores"] is None else f"{worker['cores']:g}"
    state = "stopped" if worker.get("stopped") else "free" if worker["free"] else "busy"
    return (site, worker["id"], state, since, used, cores, busy, memory)
