"""The output of the demo: lines for its stages, and the statistics, live on a terminal."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from speck.cli import render

_PAUSE = 2.0  # s between two lines of statistics where there is no terminal

Data = Mapping[str, Any]


class View:
    """Writes to a console; as a context manager it shows the statistics meanwhile.

    Times are seconds since the view was created.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._begun = time.monotonic()
        self._printed = 0.0

    def line(self, text: str, style: str = "") -> None:
        """Print a line."""
        self._console.print(Text(text, style=style))

    def phase(self, text: str) -> None:
        """Print a heading."""
        self.line(f"\n{text}", "bold cyan")

    def plan(self, plan: Data, unchanged: bool = True) -> None:
        """Print a plan; the jobs to keep only if ``unchanged``."""
        shown = [each for each in plan["actions"] if unchanged or each["kind"] != "keep"]
        for line in render.plan_lines({**plan, "actions": shown}):
            self._console.print(line)

    def placement(self, proposal: Data) -> None:
        """Print a proposed placement."""
        for line in render.placement_lines(proposal):
            self._console.print(line)

    def decision(self, entry: Data) -> None:
        """Print a decision of the loop."""
        self._console.print(render.decision_line(entry))

    def step(self, step: Data) -> None:
        """Print a step of the loop, and what became of it."""
        self._console.print(render.step_line(step))

    def operation(self, operation: Data, printed: set[str]) -> None:
        """Print the ended actions of an operation that are not in ``printed``, and add them to it."""
        for action in operation["actions"]:
            if action["ended"] is not None and action["job"] not in printed:
                printed.add(action["job"])
                self._console.print(render.action_line(action))
        if operation["state"] != "running":
            self._console.print(render.operation_summary(operation))

    def statistics(self, totals: Data, note: str) -> None:
        """Show the statistics."""
        if self._live is not None:
            self._live.update(self._table(totals, note), refresh=True)
        elif totals and time.monotonic() - self._printed >= _PAUSE:
            self._printed = time.monotonic()
            self.line(f"{self._printed - self._begun:6.1f} s  {self._summary(totals)}  ({note})")

    def _table(self, totals: Data, note: str) -> Table:
        return statistics_table(totals, note)

    def _summary(self, totals: Data) -> str:
        return statistics_line(totals)

    def __enter__(self) -> View:
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None


def statistics_line(totals: Data) -> str:
    """The totals in one line."""
    local, overall = totals["local"], totals["overall"]
    return (
        f"at the sites {local['readings']:,} readings, {local['vehicles']:,} vehicles; "
        f"over all {overall['readings']:,}, {overall['vehicles']:,}"
    )


def statistics_table(totals: Data, note: str) -> Table:
    """The totals, and the newest window of each site."""
    table = Table(title=note, title_justify="left")
    for column in ("site", "readings", "vehicles", "window", "mean speed", "slowest segments"):
        table.add_column(
            column, justify="right" if column in {"readings", "vehicles", "mean speed"} else "left"
        )
    sites = {**totals.get("sites", {}), "*": totals["overall"]} if totals else {}
    for site, counted in sites.items():
        window = totals["latest"].get(site, {})
        table.add_row(
            "all" if site == "*" else site,
            f"{counted['readings']:,}",
            f"{counted['vehicles']:,}",
            _clock(window),
            "" if window.get("mean_speed") is None else f"{window['mean_speed']:.1f} km/h",
            ", ".join(window.get("slowest") or ()),
        )
    return table


def _clock(window: Data) -> str:
    return f"{window['start'][11:16]} to {window['end'][11:16]}" if window else ""
