"""Frames: what the parts of a split send one another, as Arrow IPC in one zstd block of known size.

A frame is a head of fixed size (big-endian: number, mark, version, shard, size of the block's contents,
CRC-32 of all else) and a block.  The contents are an Arrow stream of one batch, with the header as JSON in
its schema. Nothing in it is executed, and nothing is allocated for more than ``LARGEST`` bytes.

The times of the windows are a separate entry of the schema, since readers of earlier versions refuse other
headers.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from jars_and_apps.key_split.slides import NEVER

VERSION = 1
LARGEST = 16 * 2**20
"""Bytes of a frame's contents, at most."""
PIECE = 64 * 2**10
"""Bytes of rows or states in a frame; one that is larger has a frame of its own."""
SHARD = slice(12, 14)
"""The place of the shard (big-endian) in a frame."""
_MARK = b"KS"
_HEAD = struct.Struct(">Q2sBxHII")
_HEADER, _WINDOWS = b"header", b"windows"

ROWS = {"key": pa.utf8(), "hash": pa.uint64(), "slide": pa.int64(), "off_owner": pa.bool_()}
"""Columns of groups of rows, beside ``rows`` (a list of structures); without a key: a notice."""
PARTIALS = {"key": pa.utf8(), "window": pa.int64(), "state": pa.binary()}
"""Columns of the states of windows, named by their ends."""
STATES = {
    "key": pa.utf8(),
    "hash": pa.uint64(),
    "slide": pa.int64(),
    "count": pa.int64(),
    "state": pa.binary(),
}
"""Columns of the states of slides, of one partition of one batch."""

DAMAGE = (
    *(pa.ArrowException, OSError, EOFError, StopIteration, struct.error),
    *(ValueError, TypeError, KeyError, RecursionError),
)


class BadFrame(ValueError):
    """Bytes that are no frame of this version, or a damaged one."""


@dataclass(frozen=True, slots=True)
class Header:
    """The position of a frame in the stream of its writer.

    ``origin`` names the state that the writer's numbers count in; ``worker`` is the combiner that reads the
    rows or wrote the partials, ``source`` the writer's shard.  ``shards``: those of each combiner.  Slides
    and ends of windows: ``closed_before`` and ``closed_after`` the frame, the ``newest`` slide seen, and
    ``shared_until`` (all slides up to it are shared).  ``late`` and ``bad`` rows were dropped.  All of them
    count slides of ``slide_us`` in windows of ``window_us`` (0: not known, in frames of versions before 0.2).
    """

    origin: str = ""
    worker: int = 0
    source: int = 0
    shards: tuple[int, ...] = ()
    closed_before: int = NEVER
    closed_after: int = NEVER
    newest: int = NEVER
    shared_until: int = NEVER
    late: int = 0
    bad: int = 0
    window_us: int = 0
    slide_us: int = 0


_TIMES = ("window_us", "slide_us")
_FIELDS = tuple(field.name for field in fields(Header) if field.name not in _TIMES)


class Frame(NamedTuple):
    """A frame: its number among those of its writer to this shard, header and batch."""

    number: int
    shard: int
    header: Header
    batch: pa.RecordBatch


def encode(frame: Frame) -> bytes:
    """The frame's bytes; ValueError if its contents are over ``LARGEST`` bytes."""
    header, windows = ({name: getattr(frame.header, name) for name in names} for names in (_FIELDS, _TIMES))
    contents = to_stream(frame.batch, header, windows if frame.header.slide_us else None)
    if len(contents) > LARGEST:
        raise ValueError(
            f"frame of {len(contents)} bytes (expected at most {LARGEST}: smaller rows or states)"
        )
    block = pa.compress(contents, codec="zstd", asbytes=True)
    head = _HEAD.pack(frame.number, _MARK, VERSION, frame.shard, len(contents), 0)[:-4]
    return bytes(head + zlib.crc32(block, zlib.crc32(head)).to_bytes(4, "big") + block)


def decode(data: bytes, columns: Mapping[str, pa.DataType]) -> Frame:
    """The frame, whose batch has these columns, and ``rows`` if they are ROWS; BadFrame if it is not one."""
    if len(data) < _HEAD.size:
        raise BadFrame(f"{len(data)} bytes (expected a head of {_HEAD.size})")
    number, mark, version, shard, size, check = _HEAD.unpack_from(data)
    block = memoryview(data)[_HEAD.size :]
    if mark != _MARK or version != VERSION:
        raise BadFrame(f"mark {mark!r}, version {version} (expected {_MARK!r} and {VERSION})")
    if size > LARGEST or number >= 2**63:
        raise BadFrame(f"number {number}, contents of {size} bytes (expected at most {LARGEST})")
    if zlib.crc32(block, zlib.crc32(data[: _HEAD.size - 4])) != check:
        raise BadFrame("the checksum is not that of the contents")
    try:
        batch, header = from_stream(pa.decompress(block, decompressed_size=size, codec="zstd"))
        window_us, slide_us = _windows(batch)
        checked = replace(_header(header), window_us=window_us, slide_us=slide_us)
        _check_columns(batch, columns)
    except DAMAGE as error:
        raise BadFrame(str(error)) from error
    return Frame(number, shard, checked, batch)


def to_stream(
    batch: pa.RecordBatch, header: Mapping[str, Any], windows: Mapping[str, int] | None = None
) -> pa.Buffer:
    """An Arrow stream of one batch, not compressed, with the header, and windows if given, in its schema."""
    entries = {_HEADER: header} if windows is None else {_HEADER: header, _WINDOWS: windows}
    texts = {name: json.dumps(each, separators=(",", ":")) for name, each in entries.items()}
    batch = batch.replace_schema_metadata(texts)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def from_stream(data: pa.Buffer) -> tuple[pa.RecordBatch, Any]:
    """The batch and header of ``to_stream``, checked in full; ValueError or ArrowException if it is none."""
    messages = pa.ipc.MessageReader.open_stream(data)
    first = messages.read_next_message()
    schema = pa.ipc.read_schema(first)
    message = messages.read_next_message()
    if message.type != "record batch" or _compressed(message.metadata):
        raise ValueError(f"a {message.type}, or compressed buffers in it (expected a plain record batch)")
    batch = pa.ipc.read_record_batch(message, schema)
    batch.validate(full=True)
    return batch, json.loads((schema.metadata or {})[_HEADER])


def _compressed(metadata: pa.Buffer) -> bool:
    """True if the buffers of a record batch are compressed, to a size that nothing bounds.

    PyArrow does not tell; the field is number 3 of RecordBatch in Arrow's Message.fbs, whose header is field
    2.
    """
    data = metadata.to_pybytes()
    header = _field(data, struct.unpack_from("<I", data)[0], 2)
    return bool(header and _field(data, header + struct.unpack_from("<I", data, header)[0], 3))


def _field(data: bytes, table: int, number: int) -> int:
    """The position of a field of a FlatBuffers table, 0 if it is not there."""
    entries = table - struct.unpack_from("<i", data, table)[0]
    if 4 + 2 * number >= struct.unpack_from("<H", data, entries)[0]:
        return 0
    offset = struct.unpack_from("<H", data, entries + 4 + 2 * number)[0]
    return table + offset if offset else 0


def _header(values: Any) -> Header:
    if not isinstance(values, dict) or set(values) != set(_FIELDS):
        raise ValueError("the header has not the fields of this version")
    values["shards"] = tuple(values["shards"])
    numbers = [value for name, value in values.items() if name not in ("origin", "shards")]
    for number in (*numbers, *values["shards"]):
        if type(number) is not int or not NEVER <= number <= -NEVER:
            raise ValueError(f"header: {number!r} is not a number in range")
    if not isinstance(values["origin"], str) or values["worker"] < 0 or values["source"] < 0:
        raise ValueError("header: no origin, worker and source")
    return Header(**values)


def _windows(batch: pa.RecordBatch) -> tuple[int, int]:
    text = (batch.schema.metadata or {}).get(_WINDOWS)
    if text is None:
        return 0, 0
    values = json.loads(text)
    if not isinstance(values, dict) or set(values) != set(_TIMES):
        raise ValueError("the windows have not the fields of this version")
    if any(type(each) is not int or not 0 < each <= -NEVER for each in values.values()):
        raise ValueError("windows: no times in range")
    return values["window_us"], values["slide_us"]


def _check_columns(batch: pa.RecordBatch, columns: Mapping[str, pa.DataType]) -> None:
    for name, kind in columns.items():
        index = batch.schema.get_field_index(name)
        if index < 0 or batch.schema.field(index).type != kind:
            raise BadFrame(f"no column {name!r} of type {kind}")
        nullable = name == "key" and columns is ROWS
        if batch.column(index).null_count and not nullable:
            raise BadFrame(f"column {name!r} has nulls")
    if columns is ROWS:
        _check_rows(batch)


def _check_rows(batch: pa.RecordBatch) -> None:
    index = batch.schema.get_field_index("rows")
    kind = batch.schema.field(index).type if index >= 0 else None
    if kind is None or not pa.types.is_list(kind) or not pa.types.is_struct(kind.value_type):
        raise BadFrame("no column 'rows' of lists of structures")
    rows = kind.value_type
    if rows.get_field_index("time") < 0 or rows.field("time").type != pa.int64():
        raise BadFrame("no column 'time' in 'rows'")
    for at in range(rows.num_fields):
        if not is_column(rows.field(at).type):
            raise BadFrame(
                f"column {rows.field(at).name!r} of 'rows' is no number, text, binary or timestamp"
            )
    if len({field.name for field in rows}) < rows.num_fields:  # a name that is not UTF-8 raises an error
        raise BadFrame("two columns of 'rows' have one name")
    if batch.column(index).null_count or batch.column(index).flatten().null_count:
        raise BadFrame("column 'rows' has nulls")


def columns_of(rows: Iterable[pa.Field]) -> tuple[str, ...]:
    """The names and types of the columns of rows, sorted."""
    return tuple(sorted(f"{field.name}: {field.type}" for field in rows))


def is_column(kind: pa.DataType) -> bool:
    """True if numpy has this type of a user's column."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_timestamp)
    return any(test(kind) for test in tests) or kind in (pa.utf8(), pa.binary())


def cut(batch: pa.RecordBatch, widths: NDArray[np.int64]) -> list[pa.RecordBatch]:
    """The batch in pieces of up to ``PIECE`` bytes, its rows being of these widths; at least one."""
    total = np.concatenate(([0], np.cumsum(widths)))
    bounds = [0]
    while bounds[-1] < batch.num_rows:
        end = int(np.searchsorted(total, total[bounds[-1]] + PIECE, side="right")) - 1
        bounds.append(max(bounds[-1] + 1, end))
    pieces = [batch.slice(start, end - start) for start, end in pairwise(bounds)]
    return pieces or [batch]


def sequence(
    pieces: Sequence[pa.RecordBatch], number: int, shard: int, header: Header, closed: int
) -> list[bytes]:
    """The frames of these pieces, from this number on; ``closed`` is the end after the last."""
    made: list[bytes] = []
    for remaining, piece in zip(range(len(pieces) - 1, -1, -1), pieces, strict=True):
        own = replace(header, closed_after=header.closed_before if remaining else closed)
        made.append(encode(Frame(number + len(made), shard, own, piece)))
    return made
