"""The critical path of a batch of a split in one job without Spark: the workers one after the other.

On Spark the seconds of a task have in them what the other tasks, the JVM and a cold process do to it; here
each worker's part is timed alone, the least of nine runs in turn.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa

from benchmarks.key_split.one_job import SECONDS, WORKERS, messages
from jars_and_apps.key_split.aggregation import Aggregation
from jars_and_apps.key_split.aggregations import Percentiles
from jars_and_apps.key_split.collector import combine
from jars_and_apps.key_split.hashing import mix64
from jars_and_apps.key_split.partitioners.protocol import Setting
from jars_and_apps.key_split.partitioners.table import PARTITIONERS
from jars_and_apps.key_split.settings import ReducerSetting
from jars_and_apps.key_split.slides import Windows

ROWS, BATCHES, RUNS = 8_000, 2, 9


def critical_path_ratio(partitioner: str, options: Mapping[str, float], z: float, workload: int) -> float:
    """The seconds of each batch's busiest worker, in all, over those of the mean worker."""
    window = SECONDS * 1_000_000
    aggregation = Aggregation(Percentiles(workload=workload))
    setting = ReducerSetting(Windows(window, window, 0), aggregation)
    texts, seconds = [*messages(z, BATCHES * ROWS)], list[list[float]]()
    for number in range(BATCHES):
        rows = _rows(texts[number * ROWS : (number + 1) * ROWS])
        workers = _workers(partitioner, options, rows, number)
        parts = [rows.take(pa.array(np.flatnonzero(workers == each))) for each in range(WORKERS)]
        runs = [[_seconds(setting, part) for part in parts] for _ in range(RUNS)]
        seconds.append(np.min(runs, axis=0).tolist())
    return sum(map(max, seconds)) * WORKERS / sum(map(sum, seconds))


def _rows(texts: Iterable[str]) -> pa.RecordBatch:
    found = [json.loads(text) for text in texts]
    keys = np.array([int(each["key"][1:]) + 1 for each in found], np.uint64)
    times = pa.array([round(each["time"] * 1e6) for each in found])
    return pa.RecordBatch.from_pydict(
        {
            "key": [each["key"] for each in found],
            "time": times,
            "_hash": mix64(keys).view(np.int64),
            "_arrival": times,
            "value": [each["value"] for each in found],
        }
    )


def _workers(
    partitioner: str, options: Mapping[str, float], rows: pa.RecordBatch, batch: int
) -> np.typing.NDArray[np.int32]:
    hashes = rows.column("_hash").to_numpy().view(np.uint64)
    begun = PARTITIONERS[partitioner].partitioner.begin(Setting(np.ones(WORKERS), 1, 1, options))
    return begun.route(hashes, batch).workers


def _seconds(setting: ReducerSetting, rows: pa.RecordBatch) -> float:
    began = time.process_time()
    combine(setting, rows, 1)
    return time.process_time() - began
