"""Where the command line prints: colours for terminals, plain text of any length for pipes.

``NO_COLOR`` turns colours off, ``FORCE_COLOR`` turns them on where there is no terminal; with both set there
are none.  What moves (bars, tables that are drawn again) needs a real terminal, whatever they say.
"""

from __future__ import annotations

import io
import os
import sys

from rich.console import Console

_UNLIMITED = 100_000  # columns: nothing is cut where the output is piped


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


def take_any_text() -> None:
    """Have standard output show what its encoding has no letter for as an escape, as standard error does."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def moves(console: Console) -> bool:
    """Whether a console is a terminal on which lines can be drawn again."""
    return console.file.isatty() and not console.is_dumb_terminal
