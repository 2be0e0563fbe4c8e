"""How a command fails: in readable lines on standard error, and by its exit code."""

from __future__ import annotations

import click

from speck.cli.common import ERROR, INTERRUPTED, err, fault_line
from speck.client import RequestRefused
from speck.errors import InvalidInput, SpeckError


def report(error: Exception) -> int:
    """Say what went wrong, a line for each fault; answers the exit code.

    It is 1 for all errors, since 2 means that a plan has changes.
    """
    if isinstance(error, click.Abort):
        err.print("interrupted")
        return INTERRUPTED
    for line in lines_of(error):
        err.print(f"error: {line}", style="red", markup=False)
    return ERROR


def lines_of(error: Exception) -> list[str]:
    """What went wrong, for people; of faults in a file a line for each."""
    if isinstance(error, click.ClickException):
        return [_usage(error)]
    if isinstance(error, RequestRefused) and error.faults:
        return [fault_line(fault) for fault in error.faults]
    if isinstance(error, InvalidInput) and error.faults:
        return [str(fault) for fault in error.faults]
    if isinstance(error, SpeckError):
        return [str(error)]
    if isinstance(error, OSError):
        # A file or directory that a user named, of which nobody below knows more than the system says.
        return [f"{error.filename or 'the system'}: {error.strerror or error}"]
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return [f"{text} (a fault inside SpecK; SPECK_DEBUG=1 shows where)"]


def _usage(error: click.ClickException) -> str:
    message = " ".join(error.format_message().split())
    context = getattr(error, "ctx", None)
    return f"{message} (see {context.command_path} --help)" if context is not None else message
