"""The operators of a split in Spark's Python workers: pandas and Arrow in, messages and state out.

The functions of this module travel by value, with the package ``jars_and_apps.key_split``: a site needs
numpy, pandas and pyarrow, and no copy of SpecK.  So it imports names from that package, and not its modules.

The state of an operator is one BINARY of Spark's own state store, in ``applyInPandasWithState`` without a
time-out.  Spark repeats a batch from the state before it, with the same rows; after a shuffle they may be in
another order, so the rows are sorted by a hash of all of their columns (``ORDER``), and the operators sort
their frames by number.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark import TaskContext

from jars_and_apps.key_split.collector import combine
from jars_and_apps.key_split.partitioners.protocol import Partitioner, Setting
from jars_and_apps.key_split.reports import measurement
from jars_and_apps.key_split.settings import Output, ReducerSetting

ORDER = "_order"  # bigint: xxhash64 of all other columns
WORKER = "_worker"

# Local properties of the tasks of a streaming query.  The id of a query stays with its checkpoint, also where
# that is copied to another site, and so with the state.
_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"

Step = Callable[[tuple[Any, ...], Iterator[pd.DataFrame], Any], Iterator[pd.DataFrame]]
Batches = Iterator[pa.RecordBatch]
RowsMapping = Callable[[Batches], Batches]


class Operator(Protocol):
    """Router, Combiner, Reducer and Collector of :mod:`jars_and_apps.key_split`."""

    def step(self, batch: pa.RecordBatch) -> list[Output]:
        """The messages for the rows or frames of the next batch."""

    def report(self, busy: float, wall: float) -> Output:
        """The report of the last step, with its processor time and wall time, s."""

    def dump(self) -> bytes:
        """The state."""


Load = Callable[[int, str, bytes | None], Operator]
"""The operator of a shard, by the id of its query and its state; ``None`` in its first batch."""


def stateful_step(
    load: Load, shards: Mapping[int, int], schema: pa.Schema, timestamps: frozenset[str], prefix: str
) -> Step:
    """The function for ``applyInPandasWithState`` that runs an operator, with the state ``(state BINARY)``.

    ``shards`` has the shard of each group by its key; ``schema`` and ``timestamps`` are those of the rows.
    Outputs go to topics below ``prefix``, but for those to the sink's own (``NULL``).
    """

    def step(key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
        took = _Stopwatch()
        batch = batch_of(_batches(frames, schema), timestamps)
        found = state.getOption
        operator = load(shards[int(key[0])], _property(_QUERY_ID), None if found is None else bytes(found[0]))
        outputs = [] if batch is None else operator.step(batch)
        state.update((operator.dump(),))
        outputs.append(operator.report(*took.seconds()))
        yield _messages(outputs, prefix)

    return step


def combining(setting: ReducerSetting, shards: int, timestamps: frozenset[str]) -> RowsMapping:
    """The function for ``mapInArrow`` that makes frames of partial states of the rows of a partition,
    and a measurement of that."""

    def step(batches: Batches) -> Batches:
        took = _Stopwatch()
        rows = batch_of(batches, timestamps)
        if rows is not None:
            frames = combine(setting, rows, shards)
            yield frames
            shard, value = pa.array([0], pa.int32()), measurement(rows.num_rows, *took.seconds())
            yield pa.RecordBatch.from_arrays([shard, pa.array([value], pa.binary())], schema=frames.schema)

    return step


class _Stopwatch:
    """The seconds since it was made, of this process's processor time and of wall time."""

    def __init__(self) -> None:
        self._busy, self._wall = time.process_time(), time.perf_counter()

    def seconds(self) -> tuple[float, float]:
        return time.process_time() - self._busy, time.perf_counter() - self._wall


def routing(partitioner: type[Partitioner], setting: Setting) -> RowsMapping:
    """The function for ``mapInArrow`` that adds the worker of each row, as the column ``WORKER`` (int).

    Each partition of the source is routed by a partitioner of its own that has seen nothing: all counts of
    the batch are there before the first row is given away, and a batch that is run again is routed as before.
    """

    def step(batches: Batches) -> Batches:
        rows = _joined(batches)
        if rows is not None:
            hashes = rows.column("_hash").to_numpy(zero_copy_only=False).view(np.uint64)
            workers = partitioner.begin(setting).route(hashes, int(_property(_BATCH_ID) or 0)).workers
            yield rows.append_column(WORKER, pa.array(workers, pa.int32()))

    return step


def batch_of(batches: Iterable[pa.RecordBatch], timestamps: frozenset[str]) -> pa.RecordBatch | None:
    """The rows as the operators take them, in an order of their own; ``None`` without rows."""
    rows = _joined(batches)
    if rows is None:
        return None
    table = pa.Table.from_batches([rows])
    if ORDER in table.column_names:
        order = np.argsort(table.column(ORDER).to_numpy(), kind="stable")
        table = table.take(order).drop_columns([ORDER])
    for name in timestamps:
        index = table.column_names.index(name)
        table = table.set_column(index, name, table.column(name).cast(pa.timestamp("us")))
    return table.combine_chunks().to_batches()[0]


def _joined(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch | None:
    found = [each for each in batches if each.num_rows]
    return pa.concat_batches(found) if found else None


def _batches(frames: Iterable[pd.DataFrame], schema: pa.Schema) -> Batches:
    for frame in frames:
        yield pa.RecordBatch.from_pandas(frame[schema.names], schema, preserve_index=False)


def _property(name: str) -> str:
    task = TaskContext.get()
    return (task.getLocalProperty(name) if task is not None else None) or ""


def _messages(outputs: list[Output], prefix: str) -> pd.DataFrame:
    topics = [prefix + each.topic if each.topic else None for each in outputs]
    return pd.DataFrame({"topic": topics, "value": [each.value for each in outputs]})
