"""A line that moves while a command waits, so that a slow answer is not taken for a command that hangs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from speck.cli.terminal import err, is_interactive

_SILENCE = 1.0  # s before the line appears: most answers have arrived by then


@contextmanager
def waiting(text: str) -> Iterator[None]:
    """Show a text and the time that has passed; on a terminal only, and once a second has passed.

    Lines that are printed meanwhile stay above it.  It is removed at the end.
    """
    if not is_interactive(err):
        yield
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    shown = Progress(*columns, console=err, transient=True, redirect_stdout=False, redirect_stderr=False)
    shown.add_task(text, total=None)
    timer = threading.Timer(_SILENCE, shown.start)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        shown.stop()
