"""Jobs without ``key_split``: percentiles by key and window, in Python or by Spark itself.

A message is ``{"key": TEXT, "time": S, "value": NUMBER}``.  The file imports no module of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

CENTROIDS = 200  # as of jars_and_apps/key_split/aggregations.py


def keyed_pandas(messages: DataFrame, seconds: int, workload: int, log: str) -> DataFrame:
    """Digests by key and window with ``applyInPandasWithState``: a key is one task.

    The processor seconds of each call go to the file ``log``: batch, partition, rows, seconds.
    """

    def step(key: tuple[Any, ...], frames: Iterator[Any], state: Any) -> Iterator[Any]:
        import time
        from pathlib import Path

        import pandas as pd
        from fastdigest import TDigest
        from pyspark import TaskContext

        began = time.process_time()
        rows = pd.concat(list(frames))
        start, digest = (
            (state.get[0], TDigest.from_bytes(bytes(state.get[1]))) if state.exists else (None, None)
        )
        done = []
        for window, group in rows.groupby(rows.time // seconds, sort=True):
            for _ in range(workload):
                new = TDigest.from_values(group.value.tolist(), max_centroids=CENTROIDS)
            if window == start and digest is not None:
                digest = digest.merge(new)
            else:
                if digest is not None:
                    done.append(f"{key[0]},{start},{digest.percentile(50)}")
                start, digest = int(window), new
        if digest is not None:
            state.update((start, digest.to_bytes()))
        task: Any = TaskContext.get()
        batch = task.getLocalProperty("streaming.sql.batchId")
        with Path(log).open("a", encoding="utf-8") as file:
            file.write(f"{batch},{task.partitionId()},{len(rows)},{time.process_time() - began}\n")
        yield pd.DataFrame({"value": done}, dtype="object")

    grouped = _rows(messages).groupBy("key")
    return grouped.applyInPandasWithState(
        step, "value string", "start long, state binary", "append", "NoTimeout"
    )


def native_groupby(messages: DataFrame, seconds: int) -> DataFrame:
    """Percentiles by key and window, by Spark's own functions."""
    rows = _rows(messages).withColumn("time", F.timestamp_seconds("time")).withWatermark("time", "0 seconds")
    windows = rows.groupBy("key", F.window("time", f"{seconds} seconds"))
    found = windows.agg(F.expr("approx_percentile(value, array(0.1, 0.5, 0.9), 200)").alias("found"))
    return found.select(F.to_json(F.struct("key", "window", "found")).alias("value"))


def _rows(messages: DataFrame) -> DataFrame:
    found = F.from_json("value", "key string, time double, value double").alias("row")
    return messages.select(found).select("row.*")
