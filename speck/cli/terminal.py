"""The consoles of the command line: colours for terminals, plain text of any length for pipes.

``NO_COLOR`` turns colours off, ``FORCE_COLOR`` turns them on where there is no terminal; with both set there
are none.  Bars and tables that are redrawn need a real terminal in any case.
"""

from __future__ import annotations

import io
import os
import sys

from rich.console import Console

_UNLIMITED = 100_000  # columns: nothing is truncated in a pipe


def _console(*, stderr: bool) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    return Console(
        stderr=stderr,
        soft_wrap=True,
        highlight=False,
        width=None if stream.isatty() else _UNLIMITED,
        color_system=None if os.environ.get("NO_COLOR") else "auto",
    )


out = _console(stderr=False)
err = _console(stderr=True)


def escape_unencodable() -> None:
    """Print characters outside of standard output's encoding as escapes, as standard error does."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def printable(text: str) -> str:
    """Text of a message with its control characters as escapes: it cannot steer the terminal."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text
    )


def is_interactive(console: Console) -> bool:
    """True if a console is a terminal whose lines can be redrawn."""
    return console.file.isatty() and not console.is_dumb_terminal
