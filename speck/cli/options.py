"""What several commands share: common options, how data are shown, how an operation is carried out."""

from __future__ import annotations

import getpass
import json
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import RenderableType

from speck.cli import render
from speck.cli.progress import INTERRUPTED, follow
from speck.cli.terminal import err, out
from speck.client import Client
from speck.errors import Fault

__all__ = ["INTERRUPTED", "err", "follow", "out"]

NOTHING_TO_DO, ERROR, CHANGES, WAITING = 0, 1, 2, 3
DEFAULT_DIRECTORY = Path(".speck")

_Function = TypeVar("_Function", bound=Callable[..., Any])

file_path = click.Path(exists=True, dir_okay=False, path_type=Path)
file_argument = click.argument("file", type=file_path)
inventory_option = click.option(
    "--sites",
    "inventory",
    type=file_path,
    help="The site inventory [default: that of `speck local up`, if there].",
)


def json_option(function: _Function) -> _Function:
    """The option of every command that reads."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def limit_option(most: int, default: int) -> Callable[[_Function], _Function]:
    """How many of a list that only its end is shown of."""
    return click.option(
        "-n",
        "--limit",
        type=click.IntRange(1, most),
        default=default,
        show_default=True,
        help="How many, the last ones.",
    )


def _user() -> str:
    """Who asks, for the history: the user and the machine."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # what it raises where nobody is logged in differs between versions
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


def leave_behind_option(function: _Function) -> _Function:
    """What is not to be asked, because it is gone."""
    return click.option(
        "--leave-behind",
        multiple=True,
        metavar="SITE_OR_ADDRESS",
        help="Do not ask this site, engine or broker: what is there and is wanted elsewhere, or no more, is "
        "left, and ended when it answers again (may be repeated).",
    )(function)


def author_option(function: _Function) -> _Function:
    """The option of who asks."""
    return click.option(
        "--author", default=_user, show_default="you, at this machine", help="Who asks; kept in the history."
    )(function)


def why_options(function: _Function) -> _Function:
    """The options of every command that changes what is wanted."""
    message = click.option("-m", "--message", default="", help="Why; kept in the history.")
    return message(author_option(function))


def show_json(data: Any) -> None:
    """Print data as JSON."""
    click.echo(json.dumps(data, indent=2))


def show_data(data: Any, lines: Iterable[RenderableType], as_json: bool) -> None:
    """Print data, as JSON or as these lines."""
    if as_json:
        show_json(data)
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
        err.print(f"warning: {fault_line(fault)}", style="yellow", markup=False)


def fault_data(fault: Fault | Mapping[str, Any]) -> dict[str, Any]:
    """What is wrong in a file, for programs."""
    told = fault if isinstance(fault, Mapping) else asdict(fault)
    return {name: told.get(name) for name in ("job", "field", "line", "message")}


def fault_line(fault: Mapping[str, Any]) -> str:
    """What is wrong in a file, with where."""
    line = f"line {fault['line']}: " if fault.get("line") else ""
    job = f"job {fault['job']!r}: " if fault.get("job") else ""
    return f"{line}{job}{fault['message']}"


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
