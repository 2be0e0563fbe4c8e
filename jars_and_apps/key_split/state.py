"""The state of a part as one blob: arrays by name and a JSON value, as an Arrow stream in a zstd block."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from jars_and_apps.key_split.frames import DAMAGE, from_stream, to_stream
from jars_and_apps.key_split.slides import Windows

LARGEST = 2**30
_HEAD = struct.Struct(">4sQ")
_MARK = b"KST1"
Values = NDArray[Any] | Sequence[str] | Sequence[bytes]


def pack(kind: str, windows: Windows, meta: Mapping[str, Any], values: Mapping[str, Values]) -> bytes:
    """The blob of a part of this kind: JSON, numpy arrays (no objects), lists of text or of bytes."""
    shapes = {name: each.shape for name, each in values.items() if isinstance(each, np.ndarray)}
    columns = {name: _column(each) for name, each in values.items()}
    batch = pa.RecordBatch.from_arrays([*columns.values()], names=[*columns])
    form = {"kind": kind, "window_us": windows.window_us, "slide_us": windows.slide_us}
    stream = to_stream(batch, {**form, "meta": meta, "shapes": shapes})
    return _HEAD.pack(_MARK, len(stream)) + bytes(pa.compress(stream, codec="zstd"))


def unpack(kind: str, windows: Windows, data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """The JSON value and the values of the blob; ValueError for another kind, window or slide, or damage."""
    try:
        mark, size = _HEAD.unpack_from(data)
        if mark != _MARK or size > LARGEST:
            raise ValueError(f"mark {mark!r}, {size} bytes (expected {_MARK!r}, at most {LARGEST})")
        block = memoryview(data)[_HEAD.size :]
        batch, form = from_stream(pa.decompress(block, decompressed_size=size, codec="zstd"))
        values = {
            name: _values(batch.column(name)[0].values, form["shapes"].get(name)) for name in _names(batch)
        }
    except DAMAGE as error:
        raise ValueError(f"state of a {kind} of {len(data)} bytes is damaged: {error}") from error
    expected = {"kind": kind, "window_us": windows.window_us, "slide_us": windows.slide_us}
    found = {name: form.get(name) for name in expected}
    if found != expected:
        raise ValueError(f"state is of {found} (expected {expected}; upgrade: stateless starts without it)")
    return form["meta"], values


def _names(batch: pa.RecordBatch) -> list[str]:
    names: list[str] = batch.schema.names
    return names


def _column(values: Values) -> pa.ListArray:
    if isinstance(values, np.ndarray):
        flat = pa.array(values.ravel())
    else:
        flat = pa.array(values, pa.binary() if values and isinstance(values[0], bytes) else pa.utf8())
    return pa.ListArray.from_arrays(pa.array([0, len(flat)], pa.int32()), flat)


def _values(values: pa.Array, shape: list[int] | None) -> Any:
    if shape is None:
        return values.to_pylist()
    return values.to_numpy(zero_copy_only=False).reshape(shape).copy()
