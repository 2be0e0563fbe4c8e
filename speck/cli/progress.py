"""How an operation is followed: bars on a terminal, a line for each ended action elsewhere."""

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
from speck.cli.terminal import err, moves
from speck.client import Client, RequestRefused
from speck.errors import ServerError

INTERRUPTED = 130

_BUSY = frozenset((429, 502, 503))  # a server that is there, and asks for patience, or waits for an engine
_PATIENCE = 60.0  # s, for a server that has gone; what it began goes on when it is back
_PAUSE = 0.25  # s between two looks


@dataclass
class Bars:
    """One bar for all actions of an operation, and below it a line for each that is at work.

    What has ended is printed for good above, once.  ``clock`` tells seconds.
    """

    console: Console
    quiet: bool = False
    clock: Callable[[], float] = time.monotonic
    _said: set[str] = field(default_factory=set)
    _since: dict[str, float] = field(default_factory=dict)
    _operation: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        self._bar = Progress(*columns, TimeElapsedColumn(), console=self.console)
        self._all = self._bar.add_task("working", total=None)

    def update(self, operation: dict[str, Any]) -> None:
        """Take up how the operation stands now."""
        self._operation = operation
        actions = [each for each in operation["actions"] if each["state"] != "kept"]
        ended = [each for each in actions if each["ended"] is not None]
        for action in actions:
            if action["state"] == "running":
                self._since.setdefault(action["job"], self.clock())
        for action in ended:
            self._say(action)
        failed = sum(each["state"] == "failed" for each in ended)
        description = f"{operation['kind']} {operation['composition']}"
        if failed:
            description += f" [red]{failed} failed[/]"
        self._bar.update(self._all, description=description, total=len(actions), completed=len(ended))

    def _say(self, action: dict[str, Any]) -> None:
        if action["job"] not in self._said and not self.quiet:
            self.console.print(render.action_line(action))
        self._said.add(action["job"])

    def __rich__(self) -> RenderableType:
        lines = render.running_lines(self._operation.get("actions", ()), self._since, self.clock())
        return Group(self._bar, *lines)


def passing(error: ServerError) -> str:
    """In words what may pass if one waits; raises the error that will not."""
    if isinstance(error, RequestRefused) and error.status not in _BUSY:
        raise error
    return str(error)


def _looks(client: Client, identifier: str) -> Iterator[dict[str, Any]]:
    """The operation again and again, the last time when it has ended; a server may go and come back."""
    gone_since: float | None = None
    while True:
        try:
            operation = client.operation(identifier)
        except ServerError as error:
            trouble, now = passing(error), time.monotonic()
            if gone_since is None:
                err.print(f"{trouble}; asking again for {_PATIENCE:g} s", style="yellow", markup=False)
                gone_since = now
            elif now - gone_since > _PATIENCE:
                again = f"once it is back: speck operation {identifier} --follow"
                raise ServerError(f"the server at {client.url} went away ({again})") from error
        else:
            if gone_since is not None:
                err.print("the server answers again", style="green")
            gone_since = None
            yield operation
            if operation["state"] != "running":
                return
        time.sleep(_PAUSE)


def follow(client: Client, identifier: str, *, quiet: bool) -> dict[str, Any]:
    """Show an operation's progress until it ends; Ctrl-C leaves it running."""
    bars = Bars(err, quiet)
    operation: dict[str, Any] = {}
    try:
        if quiet or not moves(err):
            for operation in _looks(client, identifier):
                bars.update(operation)
            return operation
        with Live(bars, console=err, transient=True, refresh_per_second=8):
            for operation in _looks(client, identifier):
                bars.update(operation)
    except KeyboardInterrupt:
        err.print(f"\nThe operation goes on.  Look at it with: speck operation {identifier} --follow")
        raise SystemExit(INTERRUPTED) from None
    return operation
