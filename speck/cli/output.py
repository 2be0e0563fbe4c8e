"""Output that several commands share: data as JSON or as lines, and warnings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import click
from rich.console import RenderableType

from speck.cli.terminal import err, out
from speck.errors import Fault


def show_json(data: Any) -> None:
    """Print data as JSON."""
    click.echo(json.dumps(data, indent=2))


def show_data(data: Any, lines: Iterable[RenderableType], as_json: bool) -> None:
    """Print data, as JSON or as these lines."""
    if as_json:
        show_json(data)
    else:
        show_lines(lines)


def show_lines(lines: Iterable[RenderableType]) -> None:
    """Print lines."""
    for line in lines:
        out.print(line)


def hint_at_nothing(data: Sequence[Any], as_json: bool) -> None:
    """Print how to deploy something, below a table without rows."""
    if not data and not as_json:
        err.print("nothing is deployed (speck apply FILE deploys a composition)", markup=False)


def warn(faults: Iterable[dict[str, Any]]) -> None:
    """Print warnings."""
    for fault in faults:
        err.print(f"warning: {fault_line(fault)}", style="yellow", markup=False)


def fault_data(fault: Fault | Mapping[str, Any]) -> dict[str, Any]:
    """A fault of a file as plain data."""
    data = fault if isinstance(fault, Mapping) else asdict(fault)
    return {name: data.get(name) for name in ("job", "field", "line", "message")}


def fault_line(fault: Mapping[str, Any]) -> str:
    """A fault of a file as text: its line, its job, its message."""
    line = f"line {fault['line']}: " if fault.get("line") else ""
    job = f"job {fault['job']!r}: " if fault.get("job") else ""
    return f"{line}{job}{fault['message']}"
