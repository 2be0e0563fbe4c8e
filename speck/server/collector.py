"""The collector of reference cycles in the process of the server, which holds the values of many jobs."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

NEW = 20_000  # new containers, after which the collector runs; 700 by default


@contextmanager
def collected_seldom() -> Iterator[None]:
    """Run the garbage collector for new values less often in this process, until the block ends.

    A round of the reconciler makes some ten values a job, which live until its end, and are part of no cycle.
    By default the collector would visit all values of the process in each round of 10,000 jobs, for more than
    half of its processor time.  The cycles that wait meanwhile take some MB at most.
    """
    before = gc.get_threshold()
    gc.set_threshold(max(NEW, before[0]), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
