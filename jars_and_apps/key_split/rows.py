"""The rows of a batch, as all parts that read the source take them: checked, repeated, in numpy."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jars_and_apps.key_split.frames import columns_of, is_column

KEY_BYTES = 1024
ROW_BYTES = 2**20
MOST_TIMES = 10_000
DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of keys, hashes (uint64) and times (int64, microseconds), and the user's columns of them."""

    keys: pa.Array
    hashes: NDArray[np.uint64]
    times: NDArray[np.int64]
    columns: Mapping[str, pa.Array]

    def __len__(self) -> int:
        return len(self.times)

    def take(self, positions: NDArray[np.int64]) -> Rows:
        """The rows at these positions, in their order."""
        columns = {name: values.take(pa.array(positions)) for name, values in self.columns.items()}
        keys = self.keys.take(pa.array(positions))
        return Rows(keys, self.hashes[positions], self.times[positions], columns)

    def structures(self) -> pa.StructArray:
        """The time and the user's columns, one structure a row."""
        columns = {"time": pa.array(self.times), **self.columns}
        return pa.StructArray.from_arrays([*columns.values()], names=[*columns])

    def widths(self) -> NDArray[np.int64]:
        """The bytes of each row beside its key."""
        return 8 + sum(map(_widths, self.columns.values()), np.zeros(len(self), np.int64))


def read(batch: pa.RecordBatch) -> tuple[Rows, int, list[bytes]]:
    """The good rows of a batch, the number of bad ones, and the control messages; TypeError for a column."""
    columns = {name: batch.column(name) for name in batch.schema.names}
    controls = columns.pop("_control", None)
    counted = np.ones(batch.num_rows, bool) if controls is None else _numpy(pc.is_null(controls))
    times = columns.pop("times", None)
    rows, good = _rows(columns)
    if times is not None:
        good &= _numpy(
            pc.fill_null(pc.and_(pc.less_equal(0, times), pc.less_equal(times, MOST_TIMES)), False)
        )
    positions = np.flatnonzero(good & counted)
    bad = int(counted.sum()) - len(positions)
    if times is not None:
        positions = np.repeat(positions, _numpy(times.take(pa.array(positions))).astype(np.int64))
    messages = [] if controls is None else [_bytes(each) for each in controls.drop_null().to_pylist()]
    return (rows if len(positions) == len(good) else rows.take(positions)), bad, messages


def arrays(structures: pa.StructArray, columns: Collection[str] = ()) -> dict[str, NDArray[Any]]:
    """The columns of the rows as an aggregation takes them: those that ``columns_of`` so names, or all."""
    return {
        field.name: _numpy(values)
        for field, values in zip(structures.type, structures.flatten(), strict=True)
        if not columns or columns_of([field])[0] in columns
    }


def _rows(columns: dict[str, pa.Array]) -> tuple[Rows, NDArray[np.bool_]]:
    keys, times, arrival = columns.pop("key"), columns.pop("time"), columns.pop("_arrival")
    hashes = _numpy(pc.fill_null(columns.pop("_hash"), 0)).astype(np.int64, copy=False).view(np.uint64)
    for name, values in columns.items():
        if not is_column(values.type):
            raise TypeError(
                f"column {name!r} is {values.type} (expected numbers, text, binary or timestamps)"
            )
    good = _good_times(times, arrival) & _numpy(
        pc.fill_null(pc.less_equal(pc.binary_length(keys), KEY_BYTES), False)
    )
    rows = Rows(keys, hashes, _numpy(pc.fill_null(times, 0)), columns)
    for values in columns.values():
        if values.null_count and (pa.types.is_integer(values.type) or pa.types.is_boolean(values.type)):
            good &= _numpy(pc.is_valid(values))
    return rows, good & (rows.widths() <= ROW_BYTES)


def _good_times(times: pa.Array, arrival: pa.Array) -> NDArray[np.bool_]:
    latest = pc.add(arrival, DAY_US)
    return _numpy(pc.fill_null(pc.and_(pc.less_equal(0, times), pc.less_equal(times, latest)), False))


def _widths(values: pa.Array) -> NDArray[np.int64]:
    if values.type in (pa.utf8(), pa.binary()):
        return _numpy(pc.fill_null(pc.binary_length(values), 0)).astype(np.int64) + 4
    return np.full(len(values), max(1, values.type.bit_width // 8), np.int64)


def _numpy(values: pa.Array) -> NDArray[Any]:
    return np.asarray(values.to_numpy(zero_copy_only=False))


def _bytes(message: str | bytes) -> bytes:
    return message.encode() if isinstance(message, str) else message
