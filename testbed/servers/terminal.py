"""The command ``speck`` in a separate process, on a terminal or in a pipe."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from subprocess import PIPE
from typing import Any

from speck.testing.waiting import eventually
from testbed.servers.forked import Forked

_OF_PROCESS = ("cwd", "stdin", "stdout", "stderr")
COLOUR = "\x1b["
_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x07")
_DECIDING = ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "COLORTERM", "SPECK_TOKEN")


def environment(**more: str) -> dict[str, str]:
    """The environment of this process without the variables that decide on colours, with ``more``."""
    inherited = {name: value for name, value in os.environ.items() if name not in _DECIDING}
    return inherited | {"TERM": "xterm-256color", "COLUMNS": "160", "LINES": "40"} | more


def command(url: str, *arguments: str) -> list[str]:
    """The command line for a new interpreter.

    It resets interrupts, which a parent of the tests may ignore.
    """
    speck = [sys.executable, "-m", "speck.cli", "--server", url, *arguments]
    return ["env", "--default-signal=INT,PIPE", *speck]


def started(url: str, *arguments: str, **others: Any) -> Forked:
    """A command; ``others`` are streams (``stdin`` and so on), ``cwd``, and variables of its environment."""
    variables = {name: others.pop(name) for name in [*others] if name not in _OF_PROCESS}
    return Forked("speck.cli", ["--server", url, *arguments], env=environment(**variables), **others)


def piped(
    url: str, *arguments: str, cwd: Path | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run a command in pipes, without a terminal."""
    with started(url, *arguments, stdout=PIPE, stderr=PIPE, cwd=cwd, **more) as process:
        out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess(["speck", *arguments], process.wait(), out, err)


class Terminal:
    """A command on a terminal of 160 columns; ``text`` is its output so far."""

    def __init__(self, start: Callable[..., subprocess.Popen[Any] | Forked]) -> None:
        """``start`` starts the command, and is given its streams as those of :class:`subprocess.Popen`."""
        self._controller, terminal = pty.openpty()
        self.process = start(stdin=terminal, stdout=terminal, stderr=terminal)
        os.close(terminal)
        self._parts: list[bytes] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    @property
    def text(self) -> str:
        return b"".join(self._parts).decode(errors="replace")

    @property
    def words(self) -> str:
        """The text without colours, cursor movements and bells."""
        return _SEQUENCE.sub("", self.text)

    def shows(self, words: str) -> None:
        """Wait until these words have been drawn."""
        eventually(lambda: self.words, lambda shown: words in shown)

    def type(self, text: str) -> None:
        """Send the bytes of keys."""
        os.write(self._controller, text.encode())

    def interrupt(self) -> None:
        """Send the signal of Ctrl-C."""
        self.process.send_signal(signal.SIGINT)

    def end(self) -> int:
        """Wait until the command has ended; returns its exit code."""
        code = self.process.wait(60)
        self._reader.join(60)
        return code

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join(60)
        os.close(self._controller)

    def _read(self) -> None:
        with suppress(OSError):  # Linux reports the end of the last writer so
            while part := os.read(self._controller, 65536):
                self._parts.append(part)


@contextmanager
def terminal(url: str, *arguments: str, **more: str) -> Iterator[Terminal]:
    """A command on a terminal, ended with the block."""
    shown = Terminal(partial(started, url, *arguments, **more))
    try:
        yield shown
    finally:
        shown.close()
