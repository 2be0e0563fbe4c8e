"""The row-by-row references of the published partitioners, as a benchmark."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from benchmarks.key_split.stream import WINDOW, Stream, imbalance
from jars_and_apps.key_split.hashing import homes
from testbed.key_split.sequential import Sequential, SequentialDaGreedy, SequentialDalton


def measured(stream: Stream, workers: int) -> Iterator[tuple[str, float]]:
    """The figures of both references on a stream."""
    at_home = homes(stream.hashes(), np.ones(workers), stream.seed).tolist()
    references: dict[str, Sequential] = {
        "dagreedy": SequentialDaGreedy(at_home, workers, WINDOW),
        "dalton-original-cap-n": SequentialDalton(at_home, workers, WINDOW, stream.seed),
    }
    for name, reference in references.items():
        loads, began = [], time.process_time()
        for ranks in stream.ranks():
            rows = [reference.row(rank) for rank in ranks.tolist()]
            loads.append(np.bincount(rows, minlength=workers))
            reference.advance()
        seconds = time.process_time() - began
        slides = range(WINDOW + 1, len(loads) + 1)
        key = f"reference.{name}.n{workers}.z{stream.z:g}"
        windows = [imbalance(np.sum(loads[end - WINDOW : end], axis=0)) for end in slides]
        yield f"{key}.slide_imbalance", float(np.mean([imbalance(loads[end - 1]) for end in slides]))
        yield f"{key}.window_imbalance", float(np.mean(windows))
        yield f"{key}.rows_per_s", stream.slides * stream.rows / seconds
