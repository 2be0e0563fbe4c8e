"""A model of the time of a slide: the busiest of the workers and the reducer."""

from __future__ import annotations

import numpy as np

from benchmarks.key_split.stream import Run


def speedup(run: Run, cost: float, reducers: int = 1) -> float:
    """The speed-up over one worker that only adds.

    A slide takes ``max(max over workers of rows + cost * partials, cost * partials reduced / reducers)``, in
    the time to add a row; ``cost`` is that of a merge in the same unit.
    """
    rows = sum(int(slide.loads.sum()) for slide in run.slides)
    times = (
        max(float((slide.loads + cost * slide.partials).max()), cost * slide.reduced / reducers)
        for slide in run.slides
    )
    return rows / sum(times)


def crossover(one: Run, other: Run) -> float:
    """The least cost of a merge, from 0.01 to 1000 by 5%, at which ``one`` is slower; infinite if none."""
    for cost in np.geomspace(0.01, 1000, 237):
        if speedup(one, float(cost)) < speedup(other, float(cost)):
            return float(cost)
    return float("inf")
