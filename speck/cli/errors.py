"""Errors of commands: readable lines on standard error, and the exit code."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import click
from click.exceptions import NoArgsIsHelpError

from speck.cli.options import ERROR, INTERRUPTED
from speck.cli.output import fault_data, fault_line
from speck.cli.terminal import err
from speck.client import RequestRefused
from speck.errors import InvalidInput, SpeckError


def report(error: Exception, *, as_json: bool = False) -> int:
    """Print an error, a line for each fault, with ``as_json`` on standard output too; returns the exit code.

    That is 1 for all errors, since 2 means that a plan has changes, and 130 for an interrupt.
    """
    if isinstance(error, click.Abort):
        err.print("interrupted")
        return INTERRUPTED
    if isinstance(error, NoArgsIsHelpError):
        err.print(error.format_message(), markup=False)
        return ERROR
    if as_json:
        with suppress(BrokenPipeError):  # the reader of the pipe has ended
            click.echo(json.dumps(_data(error)))
    for line in lines_of(error):
        err.print(f"error: {line}", style="red", markup=False)
    return ERROR


def _data(error: Exception) -> dict[str, Any]:
    """An error as plain data: its text, and the faults of a file one by one."""
    faults = error.faults if isinstance(error, RequestRefused | InvalidInput) else ()
    return {"error": "\n".join(lines_of(error)), "faults": list(map(fault_data, faults))}


def lines_of(error: Exception) -> list[str]:
    """An error as text: one line, or one for each fault of a file."""
    if isinstance(error, click.ClickException):
        return [_usage(error)]
    if isinstance(error, RequestRefused) and error.faults:
        return [fault_line(fault) for fault in error.faults]
    if isinstance(error, InvalidInput) and error.faults:
        return [str(fault) for fault in error.faults]
    if isinstance(error, SpeckError):
        return [str(error)]
    if isinstance(error, OSError):
        # Of a file or directory that the user named; the system's message is all that is known.
        return [f"{error.filename or 'the system'}: {error.strerror or error}"]
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return [f"{text} (a fault inside SpecK; SPECK_DEBUG=1 shows where)"]


# Kinds of values in the words of the library, the longer ones first, and in a user's.
_KINDS = {
    "integer range": "a whole number",
    "float range": "a number",
    "integer": "a whole number",
    "float": "a number",
}
_SERVER_HAS_THEM = "the sites are those of the server: speck serve --sites FILE"
_NO_SUCH_OPTION = {
    **{(name, "--sites"): _SERVER_HAS_THEM for name in ("plan", "apply", "place")},
    ("apply", "--dry-run"): "speck plan FILE shows the plan",
    ("rollback", "--revision"): "speck rollback NAME REVISION",
    ("rollback", "--to"): "speck rollback NAME REVISION",
    **{
        (name, option): "--yes does not ask"
        for name in ("apply", "rollback", "delete", "adopt")
        for option in ("--force", "--auto-approve")
    },
    **{
        (name, option): f"speck {name} FILE"
        for name in ("plan", "apply", "place", "validate")
        for option in ("-f", "--file", "--filename")
    },
    **{("delete", option): "speck delete NAME" for option in ("-f", "--file", "--filename")},
    **{(name, "--follow"): "speck watch shows changes as they happen" for name in ("jobs", "show", "events")},
}


def _usage(error: click.ClickException) -> str:
    message = " ".join(error.format_message().split()).removesuffix(".")
    for library, plain in _KINDS.items():
        message = message.replace(f"is not a valid {library}", f"is not {plain}")
    context = getattr(error, "ctx", None)
    if isinstance(error, click.NoSuchOption) and context is not None:
        hint = _NO_SUCH_OPTION.get((context.command.name or "", error.option_name))
        message = message if hint is None else f"No such option {error.option_name!r}: {hint}"
    return f"{message} (see {context.command_path} --help)" if context is not None else message
