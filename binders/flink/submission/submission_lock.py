"""Who may start a program on a JobManager: any number of jars at once, or one Python program by itself.

A Python program reaches Flink through threads of the JobManager that are not its main method's, and there
Flink hands out the context of whatever program was started last, a jar's as well.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """The turns of one JobManager within this process; who waits to be alone goes before who comes later."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._together = 0
        self._alone = False
        self.waiting = 0

    @contextmanager
    def together(self) -> Iterator[None]:
        """While the block runs, nobody is alone."""
        with self._changed:
            self._changed.wait_for(lambda: not self._alone and not self.waiting)
            self._together += 1
        try:
            yield
        finally:
            with self._changed:
                self._together -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """While the block runs, nobody else has a turn."""
        with self._changed:
            self.waiting += 1
            try:
                self._changed.wait_for(lambda: not self._alone and not self._together)
                self._alone = True
            finally:
                self.waiting -= 1
        try:
            yield
        finally:
            with self._changed:
                self._alone = False
                self._changed.notify_all()
