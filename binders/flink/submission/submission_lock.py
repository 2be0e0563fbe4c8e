"""A lock for starting programs on a JobManager: any number of jars at once, or one Python program alone.

A Python program calls Flink from threads of the JobManager other than its main method's, and there Flink
returns the context of the program that was started last, which may be a jar's.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class SubmissionLock:
    """A shared/exclusive lock of one JobManager within this process; waiting exclusive calls go first."""

    def __init__(self) -> None:
        self._changed = threading.Condition()  # of the three values below
        self._sharing = 0
        self._exclusive = False
        self.waiting = 0

    @contextmanager
    def shared(self) -> Iterator[None]:
        """While the block runs, no exclusive block does."""
        with self._changed:
            self._changed.wait_for(lambda: not self._exclusive and not self.waiting)
            self._sharing += 1
        try:
            yield
        finally:
            with self._changed:
                self._sharing -= 1
                self._changed.notify_all()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """While the block runs, no other block does."""
        with self._changed:
            self.waiting += 1
            try:
                self._changed.wait_for(lambda: not self._exclusive and not self._sharing)
                self._exclusive = True
            finally:
                self.waiting -= 1
        try:
            yield
        finally:
            with self._changed:
                self._exclusive = False
                self._changed.notify_all()
