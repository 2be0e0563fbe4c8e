"""A store whose changes reach the disk late, as on a slow card."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from speck.errors import StoreError
from speck.store import Store
from speck.store.transaction import Write


class DelayedStore(Store):
    """A store whose changes of a key reach the disk late: when they are released, or after a pause, s."""

    def __init__(self, directory: Path, pause: Callable[[], float] = lambda: 0.0) -> None:
        super().__init__(directory)
        self.reached, self.released = threading.Event(), threading.Event()
        self.key, self.error, self.pause = b"", "", pause
        self._to_disk, self._database.write = self._database.write, self._late  # type: ignore[method-assign]

    def _late(self, changes: Sequence[Write]) -> None:
        time.sleep(self.pause())
        if self.key in {key for key, _ in changes}:
            self.reached.set()
            assert self.released.wait(30)
            if self.error:
                raise StoreError(self.error)
        self._to_disk(changes)
