"""SIGINT, SIGTERM and SIGHUP as requests to end the server in good order."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any


class Signals:
    """Handles SIGINT, SIGTERM and SIGHUP from here on to the end of the process.

    The former handlers come back when the block raises.

    The first signal, even if it came earlier, calls ``on_first``; later ones are answered with a line that
    says so.  A handler runs between any two steps of the main thread, whatever locks that holds, so it only
    writes to a pipe.
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        self._ready = threading.Event()
        self._on_first: Callable[[], None] = _nothing
        self._former: dict[int, Any] = {}

    @property
    def on_first(self) -> Callable[[], None]:
        """The action of the first signal, which runs in a thread of its own."""
        return self._on_first

    @on_first.setter
    def on_first(self, action: Callable[[], None]) -> None:
        self._on_first = action
        self._ready.set()

    def __enter__(self) -> Signals:
        threading.Thread(target=self._watch, name="signals", daemon=True).start()
        for number in _ENDING:
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # not under nohup
                self._former[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for number, former in self._former.items():
            # After a good end the process exits now; one more signal must not make a failure of it.
            signal.signal(number, signal.SIG_IGN if kind is None else former)
        os.close(self._writer)

    def _note(self, number: int, frame: FrameType | None) -> None:
        os.write(self._writer, bytes([number]))

    def _watch(self) -> None:
        first = True
        while number := os.read(self._reader, 1):
            name = signal.Signals(number[0]).name
            doing = "finishing the running operations" if first else f"still finishing ({_HOW_TO_KILL})"
            print_error(f"{name}: {doing}")
            if first:
                threading.Thread(target=self._act, name="ending", daemon=True).start()
            first = False
        os.close(self._reader)

    def _act(self) -> None:
        self._ready.wait()
        self._on_first()


_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


_HOW_TO_KILL = "SIGKILL ends the server at once; it resumes at its next start"


def _nothing() -> None:
    """Do nothing."""


def print_error(text: str) -> None:
    """Print a line on standard error, if that is still there."""
    with contextlib.suppress(OSError):  # the terminal may be gone
        print(text, file=sys.stderr, flush=True)
