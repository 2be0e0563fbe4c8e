"""A thread that works beside a run, for both benches of real engines."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def in_background(work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Run ``work`` in a thread until the block ends, which sets its event."""
    ended = threading.Event()
    thread = threading.Thread(target=work, args=[ended], daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
