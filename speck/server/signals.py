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
    """SIGINT, SIGTERM and SIGHUP as the word to end, from here on to the end of the process.

    When the block raises, they mean again what they meant before.

    The first one, even if it came before, calls ``on_first``; those that follow are told to wait.  A handler
    runs between any two steps of the main thread, whatever locks that holds, so it only writes to a pipe.
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        self._ready = threading.Event()
        self._on_first: Callable[[], None] = _nothing
        self._former: dict[int, Any] = {}

    @property
    def on_first(self) -> Callable[[], None]:
        """What the first signal has done, in a thread."""
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
            # When all went well the process ends now, and one more word must not make a failure of it.
            signal.signal(number, signal.SIG_IGN if kind is None else former)
        os.close(self._writer)

    def _note(self, number: int, frame: FrameType | None) -> None:
        os.write(self._writer, bytes([number]))

    def _watch(self) -> None:
        first = True
        while word := os.read(self._reader, 1):
            name = signal.Signals(word[0]).name
            _say(f"{name}: finishing what is in hand" if first else f"{name}: still at it ({_HOW_TO_KILL})")
            if first:
                threading.Thread(target=self._act, name="ending", daemon=True).start()
            first = False
        os.close(self._reader)

    def _act(self) -> None:
        self._ready.wait()
        self._on_first()


_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


_HOW_TO_KILL = "SIGKILL ends it at once; it goes on where it was when it is started again"


def _nothing() -> None:
    """Nothing is to be done yet."""


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # the terminal may be gone
        print(text, file=sys.stderr, flush=True)
