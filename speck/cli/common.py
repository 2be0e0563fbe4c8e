"""What several commands share: where they print, how they follow an operation, and common options."""

from __future__ import annotations

import getpass
import json
import socket
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from speck import render
from speck.client import Client

NOTHING_TO_DO, ERROR, CHANGES, WAITING, INTERRUPTED = 0, 1, 2, 3, 130
DEFAULT_DIRECTORY = Path(".speck")
_UNLIMITED = 100_000  # columns: nothing is cut where the output is piped

_Function = TypeVar("_Function", bound=Callable[..., Any])

out = Console(soft_wrap=True, width=None if sys.stdout.isatty() else _UNLIMITED, highlight=False)
err = Console(stderr=True, soft_wrap=True, highlight=False)

file_argument = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))


def json_option(function: _Function) -> _Function:
    """The option of every command that reads."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def _user() -> str:
    """Who asks, for the history: the user and the machine."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # what it raises where nobody is logged in differs between versions
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def why_options(function: _Function) -> _Function:
    """The options of every command that changes something."""
    author = click.option(
        "--author", default=_user, show_default="you, at this machine", help="Who asks; kept in the history."
    )
    return click.option("-m", "--message", default="", help="Why; kept in the history.")(author(function))


def show_data(data: Any, lines: Iterable[RenderableType], as_json: bool) -> None:
    """Print data, as JSON or as these lines."""
    if as_json:
        click.echo(json.dumps(data, indent=2))
        return
    for line in lines:
        out.print(line)


def default_sites() -> Path | None:
    """The site inventory of this machine's own sites, if there is one."""
    path = DEFAULT_DIRECTORY / "local" / "sites.yaml"
    return path if path.exists() else None


def warn(faults: Iterable[dict[str, Any]]) -> None:
    """Print warnings."""
    for fault in faults:
        line = f"line {fault['line']}: " if fault.get("line") else ""
        job = f"job {fault['job']!r}: " if fault.get("job") else ""
        err.print(f"warning: {line}{job}{fault['message']}", style="yellow", markup=False)


def follow(client: Client, identifier: str, *, quiet: bool) -> dict[str, Any]:
    """Show an operation's progress until it ends; Ctrl-C leaves it running."""
    hidden = quiet or not err.is_terminal
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    said: set[str] = set()
    operation: dict[str, Any] = {}
    try:
        with Progress(*columns, TimeElapsedColumn(), console=err, transient=True, disable=hidden) as bar:
            task = bar.add_task("working", total=None)
            for operation in client.follow(identifier):
                actions = [each for each in operation["actions"] if each["state"] != "kept"]
                ended = [each for each in actions if each["ended"] is not None]
                for action in ended:
                    if action["job"] not in said:
                        said.add(action["job"])
                        bar.console.print(render.action_line(action)) if not quiet else None
                bar.update(task, total=len(actions), completed=len(ended))
    except KeyboardInterrupt:
        err.print(f"\nThe operation goes on.  Look at it with: speck operation {identifier} --follow")
        raise SystemExit(INTERRUPTED) from None
    return operation


def carry_out(client: Client, begin: Callable[[], dict[str, Any]], as_json: bool) -> None:
    """Begin an operation, follow it, and say how it ended."""
    try:
        operation = begin()
    except KeyboardInterrupt:
        err.print("\nThe server may have begun already.  Look at it with: speck compositions")
        raise SystemExit(INTERRUPTED) from None
    end(follow(client, operation["id"], quiet=as_json), as_json)


def end(operation: dict[str, Any], as_json: bool) -> None:
    """Say how an operation ended, and exit accordingly."""
    show_data(operation, [render.operation_summary(operation)], as_json)
    if operation["state"] == "waiting":
        err.print("the server goes on with what waits; look at it with: speck jobs")
    raise SystemExit({"succeeded": 0, "waiting": WAITING}.get(operation["state"], ERROR))
