"""Begin and follow operations: bars on a terminal, a line for each ended action elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from speck.cli import render
from speck.cli.options import ERROR, INTERRUPTED, WAITING
from speck.cli.output import show_data
from speck.cli.terminal import err, is_interactive
from speck.cli.waiting import waiting
from speck.client import Client, RequestRefused
from speck.errors import ServerError

_TRANSIENT = frozenset((429, 502, 503))  # too many requests, an engine without an answer, overload
_RETRY_TIME = 60.0  # s, for an unreachable server; the operation continues once it is back
_FIRST_PAUSE, _PAUSE = 0.03, 0.25  # s between two polls of an operation: many end immediately


@dataclass
class Bars:
    """One bar for all actions of an operation, and below it a line for each running one.

    An ended action is printed above the bar, once.  ``clock`` returns seconds.
    """

    console: Console
    quiet: bool = False
    clock: Callable[[], float] = time.monotonic
    _printed: set[str] = field(default_factory=set)
    _since: dict[str, float] = field(default_factory=dict)
    _operation: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self._bar = Progress(*columns, TimeElapsedColumn(), console=self.console)
        self._all = self._bar.add_task("working", total=None)

    def update(self, operation: dict[str, Any]) -> None:
        """Show the operation's current state."""
        self._operation = operation
        actions = [each for each in operation["actions"] if each["state"] != "kept"]
        ended = [each for each in actions if each["ended"] is not None]
        for action in actions:
            if action["state"] == "running":
                self._since.setdefault(action["job"], self.clock())
        for action in ended:
            self._print(action)
        failed = sum(each["state"] == "failed" for each in ended)
        description = f"{operation['kind']} {operation['composition']}"
        if failed:
            description += f" [red]{failed} failed[/]"
        if operation.get("wave"):
            description += f", wave {operation['wave']} of {len(operation['waves']) + 1}"
        self._bar.update(self._all, description=description, total=len(actions), completed=len(ended))

    def _print(self, action: dict[str, Any]) -> None:
        if action["job"] not in self._printed and not self.quiet:
            self.console.print(render.action_line(action))
        self._printed.add(action["job"])

    def __rich__(self) -> RenderableType:
        lines = render.running_lines(self._operation.get("actions", ()), self._since, self.clock())
        return Group(self._bar, *lines)


def transient(error: ServerError) -> str:
    """The text of a transient error; raises any other."""
    if isinstance(error, RequestRefused) and error.status not in _TRANSIENT:
        raise error
    return str(error)


def _poll(client: Client, identifier: str) -> Iterator[dict[str, Any]]:
    """The operation's successive states up to its end; outages of the server are waited out."""
    unreachable_since: float | None = None
    pause = _FIRST_PAUSE
    while True:
        try:
            operation = client.operation(identifier)
        except ServerError as error:
            problem, now = transient(error), time.monotonic()
            if unreachable_since is None:
                err.print(f"{problem}; retrying for {_RETRY_TIME:g} s", style="yellow", markup=False)
                unreachable_since = now
            elif now - unreachable_since > _RETRY_TIME:
                hint = f"once it is back: speck operation {identifier} --follow"
                named = " or ".join(client.urls)
                raise ServerError(f"the server at {named} does not answer any more ({hint})") from error
        else:
            if unreachable_since is not None:
                err.print("the server responds again", style="green")
            unreachable_since = None
            yield operation
            if operation["state"] != "running":
                return
        time.sleep(pause)
        pause = min(2 * pause, _PAUSE)


def follow(client: Client, identifier: str, *, quiet: bool) -> dict[str, Any]:
    """Show an operation's progress until it ends; Ctrl-C does not stop the operation."""
    bars = Bars(err, quiet)
    operation: dict[str, Any] = {}
    try:
        if quiet or not is_interactive(err):
            for operation in _poll(client, identifier):
                bars.update(operation)
            return operation
        with Live(bars, console=err, transient=True, refresh_per_second=8):
            for operation in _poll(client, identifier):
                bars.update(operation)
    except KeyboardInterrupt:
        err.print(f"\nThe operation continues.  Follow it with: speck operation {identifier} --follow")
        raise SystemExit(INTERRUPTED) from None
    return operation


def carry_out(client: Client, begin: Callable[[], dict[str, Any]], as_json: bool) -> None:
    """Begin an operation, follow it, print its outcome, and exit accordingly."""
    try:
        with waiting("preparing the operation"):
            operation = begin()
    except KeyboardInterrupt:
        err.print("\nThe server may have begun the operation.  The last ones are listed by: speck operations")
        raise SystemExit(INTERRUPTED) from None
    operation = follow(client, operation["id"], quiet=as_json)
    if operation["atomic"] and operation["replaced_by"]:
        err.print(render.operation_summary(operation))
        follow(client, operation["replaced_by"], quiet=as_json)
        err.print(
            f"{operation['composition']} was rolled back to the previous revision; see speck history",
            markup=False,
        )
    _conclude(operation, as_json)


def _conclude(operation: dict[str, Any], as_json: bool) -> None:
    show_data(operation, [render.operation_summary(operation)], as_json)
    if operation["state"] == "waiting":
        err.print("the server retries the waiting actions; list them with: speck jobs")
    raise SystemExit({"succeeded": 0, "waiting": WAITING}.get(operation["state"], ERROR))
