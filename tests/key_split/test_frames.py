"""Frames and states: as they were after a round trip, and refused if they are anything else."""

from __future__ import annotations

import json
import pickle
import struct
import zlib
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jars_and_apps.key_split.aggregation import Aggregation
from jars_and_apps.key_split.combiner import Combiner
from jars_and_apps.key_split.frames import (
    LARGEST,
    PARTIALS,
    PIECE,
    ROWS,
    BadFrame,
    Frame,
    Header,
    decode,
    encode,
)
from jars_and_apps.key_split.frames import to_stream as stream_of
from jars_and_apps.key_split.router import Router
from jars_and_apps.key_split.settings import CombinerSetting, RouterSetting
from jars_and_apps.key_split.slides import Windows
from jars_and_apps.key_split.state import pack, unpack
from tests.key_split.examples import protocol_test
from tests.key_split.pipeline import Ids, values_of

WINDOWS = Windows(5_000_000, 1_000_000)
HEADER = Header(origin="begun", worker=0, shards=(1,), closed_before=3, closed_after=4, newest=9)

slides = st.integers(0, 10_000)
numbers = st.integers(0, 2**62)


@st.composite
def groups(draw: st.DrawFn) -> pa.RecordBatch:
    """Groups of rows with columns of all types, and notices."""
    counts = draw(st.lists(st.integers(0, 4), max_size=5))
    size = sum(counts)
    columns = {
        "time": pa.array(draw(st.lists(numbers, min_size=size, max_size=size)), pa.int64()),
        "number": pa.array(draw(st.lists(st.floats(), min_size=size, max_size=size)), pa.float64()),
        "text": pa.array(draw(st.lists(st.none() | st.text(), min_size=size, max_size=size)), pa.utf8()),
        "data": pa.array(draw(st.lists(st.binary(), min_size=size, max_size=size)), pa.binary()),
        "flag": pa.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)), pa.bool_()),
        "moment": pa.array([0] * size, pa.timestamp("us")),
    }
    rows = pa.StructArray.from_arrays([*columns.values()], names=[*columns])
    keys = [draw(st.text(max_size=9)) if count else None for count in counts]
    offsets = pa.array(np.concatenate(([0], np.cumsum(counts, dtype=np.int64))), pa.int32())
    values = [
        pa.array(keys, pa.utf8()),
        pa.array([draw(st.integers(0, 2**64 - 1)) for _ in counts], pa.uint64()),
        pa.array([draw(slides) for _ in counts], pa.int64()),
        pa.array([draw(st.booleans()) for _ in counts], pa.bool_()),
        pa.ListArray.from_arrays(offsets, rows),
    ]
    return pa.RecordBatch.from_arrays(values, names=[*ROWS, "rows"])


def _frame() -> bytes:
    rows = pa.StructArray.from_arrays(
        [pa.array([1, 2, 3]), pa.array([0.5, 1.5, 2.5])], names=["time", "speed"]
    )
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 3], pa.int32()), rows)
    flags = pa.array([False, True])
    values = [pa.array(["a", "b"]), pa.array([1, 2], pa.uint64()), pa.array([5, 6]), flags, lists]
    return encode(Frame(0, 0, HEADER, pa.RecordBatch.from_arrays(values, names=[*ROWS, "rows"])))


def _wrapped(contents: Any, size: int | None = None) -> bytes:
    """A frame with any contents, whose head and checksum are right."""
    block = pa.compress(contents, codec="zstd", asbytes=True)
    head = struct.pack(">Q2sBxHI", 0, b"KS", 1, 0, len(contents) if size is None else size)
    return head + struct.pack(">I", zlib.crc32(block, zlib.crc32(head))) + block


def _bomb() -> bytes:
    """80 MB of zeros in a column of some kB."""
    batch = pa.RecordBatch.from_arrays([pa.array(np.zeros(10_000_000))], names=["key"])
    batch = batch.replace_schema_metadata({"header": json.dumps({})})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    return _wrapped(sink.getvalue())


class _Trap:
    def __reduce__(self) -> tuple[Any, ...]:
        return pytest.fail, ("a pickle was loaded",)


def _with(name: str, values: Any) -> bytes:
    batch = decode(_frame(), ROWS).batch
    changed = batch.set_column(batch.schema.get_field_index(name), name, values)
    return encode(Frame(0, 0, HEADER, changed))


def _with_windows(windows: dict[str, Any]) -> bytes:
    header = {name: value for name, value in asdict(HEADER).items() if not name.endswith("_us")}
    return _wrapped(stream_of(decode(_frame(), ROWS).batch, header, windows))


BAD = {
    "nothing": b"",
    "text": b"some text that is longer than the head of a frame",
    "zeros": bytes(10_000_000),
    "a pickle": pickle.dumps(_Trap()),
    "a pickle as contents": _wrapped(pickle.dumps(_Trap())),
    "a column that decompresses to 80 MB": _bomb(),
    "a block that decompresses to 80 MB": _wrapped(bytes(80_000_000), LARGEST),
    "a size over the largest": _wrapped(bytes(LARGEST + 1)),
    "a size that is not that of the contents": _wrapped(bytes(1000), 10),
    "another version": _frame()[:10] + b"\x02" + _frame()[11:],
    "a cut end": _frame()[:-5],
    "a cut head": _frame()[:15],
    "nested JSON": _wrapped(stream_of(decode(_frame(), ROWS).batch, json.loads("[" * 900 + "]" * 900))),
    "a header without fields": _wrapped(stream_of(decode(_frame(), ROWS).batch, {})),
    "windows without times": _with_windows({}),
    "windows of no time": _with_windows({"window_us": 1, "slide_us": 0}),
    "windows of text": _with_windows({"window_us": "1", "slide_us": 1}),
    "a slide that is null": _with("slide", pa.array([None, 1], pa.int64())),
    "slides as text": _with("slide", pa.array(["1", "2"])),
    "rows that are null": _with(
        "rows", pa.array([None, []], decode(_frame(), ROWS).batch.schema.field("rows").type)
    ),
    "rows without a time": _with("rows", pa.array([[{"speed": 1}], []])),
    "rows of lists": _with("rows", pa.array([[{"time": 1, "speed": [1]}], []])),
    "a frame of partials": encode(
        Frame(0, 0, HEADER, pa.RecordBatch.from_pylist([], schema=pa.schema(list(PARTIALS.items()))))
    ),
}


@protocol_test
@given(
    number=numbers,
    shard=st.integers(0, 65_535),
    batch=groups(),
    ends=st.lists(slides, min_size=4, max_size=4),
    window_us=st.sampled_from([0, 60_000_000]),
)
def test_round_trip(number: int, shard: int, batch: pa.RecordBatch, ends: list[int], window_us: int) -> None:
    """A frame is read as it was written."""
    header = Header("begun", 3, 1, (1, 2, 3, 4), *ends, window_us=window_us, slide_us=window_us)
    frame = Frame(number, shard, header, batch)
    found = decode(encode(frame), ROWS)
    assert found[:3] == frame[:3]
    assert found.batch.equals(batch) or repr(found.batch.to_pydict()) == repr(batch.to_pydict())  # NaN


def test_frames_are_read_by_readers_of_before_and_the_other_way_round() -> None:
    """The header in JSON is that of before, which its readers compare; the windows are beside it."""
    header = replace(HEADER, window_us=5_000_000, slide_us=1_000_000)
    data = encode(Frame(0, 0, header, decode(_frame(), ROWS).batch))
    metadata = decode(data, ROWS).batch.schema.metadata
    former = ["origin", "worker", "source", "shards", "closed_before", "closed_after", "newest"]
    assert list(json.loads(metadata[b"header"])) == [*former, "shared_until", "late", "bad"]
    assert decode(data, ROWS).header == header
    assert decode(_frame(), ROWS).header == HEADER
    combiner = Combiner.begin(CombinerSetting(WINDOWS, Aggregation(Speeds()), 0))
    combiner.step(values_of([_frame()]))
    assert json.loads(combiner.report(0, 0).value[1:])["faults"] == {}


@pytest.mark.parametrize("kind", BAD)
def test_bytes_that_are_no_frame(kind: str) -> None:
    """Refused, in little memory, and counted by a combiner, which goes on."""
    before = pa.default_memory_pool().bytes_allocated()
    with pytest.raises(BadFrame):
        decode(BAD[kind], ROWS)
    assert pa.default_memory_pool().bytes_allocated() - before <= LARGEST
    combiner = Combiner.begin(CombinerSetting(WINDOWS, Aggregation(Ids()), 0))
    combiner.step(values_of([BAD[kind]]))
    assert json.loads(combiner.report(0, 0).value[1:])["faults"] == {"bad_frames": 1}


@protocol_test
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit(place: float, bit: int) -> None:
    """The checksum finds it."""
    data = bytearray(_frame())
    data[int(place * len(data))] ^= 1 << bit
    with pytest.raises(BadFrame):
        decode(bytes(data), ROWS)


@protocol_test
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_flipped_bit_below_a_checksum_that_is_right(place: float, bit: int) -> None:
    """Refused, or a frame whose columns are what they should be."""
    contents = bytearray(
        pa.decompress(_frame()[22:], struct.unpack_from(">I", _frame(), 14)[0], "zstd", asbytes=True)
    )
    contents[int(place * len(contents))] ^= 1 << bit
    combiner = Combiner.begin(CombinerSetting(WINDOWS, Aggregation(Speeds()), 0))
    combiner.step(values_of([_wrapped(bytes(contents))]))
    Combiner.load(CombinerSetting(WINDOWS, Aggregation(Speeds()), 0), combiner.dump())


class Speeds(Ids):
    """The number of rows."""

    def add(self, columns: Any) -> list[int]:
        """The rows."""
        return [len(columns["time"])]


def test_rows_are_cut_into_frames() -> None:
    """A batch becomes frames of 64 KiB of rows, the last of which closes what the batch closes."""
    count = 20_000
    columns = {
        "key": pa.array([f"key-{number % 7}" for number in range(count)]),
        "time": pa.array(np.arange(count) * 300),
        "_arrival": pa.array(np.arange(count) * 300),
        "_hash": pa.array(np.arange(count) % 7, pa.int64()),
        "speed": pa.array(np.random.default_rng(1).random(count)),
    }
    batch = pa.RecordBatch.from_arrays([*columns.values()], names=[*columns])
    from jars_and_apps.key_split.partitioners.simple import Hash

    router = Router.begin(RouterSetting(WINDOWS, "hash", Hash, (1.0,)))
    found = [decode(output.value, ROWS) for output in router.step(batch)]
    assert [frame.number for frame in found] == list(range(len(found)))
    assert len(found) >= count * 16 // PIECE
    sizes = [frame.batch.get_total_buffer_size() for frame in found]
    assert max(sizes) < 2 * PIECE
    assert [frame.header.closed_after for frame in found[:-1]] == [found[0].header.closed_before] * (
        len(found) - 1
    )
    assert found[-1].header.closed_after == 5
    assert sum(len(frame.batch.column("rows").flatten()) for frame in found) == count


def test_a_state_of_another_form() -> None:
    """Refused with both forms named; a damaged one is called so."""
    data = pack("router", WINDOWS, {}, {"a": np.arange(3)})
    assert unpack("router", WINDOWS, data)[1]["a"].tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match=r"state is of .*5000000.*expected .*7000000.*stateless"):
        unpack("router", Windows(7_000_000, 1_000_000), data)
    for damaged in (b"", data[:20], bytes(len(data)), pickle.dumps(_Trap())):
        with pytest.raises(ValueError, match="is damaged"):
            unpack("router", WINDOWS, damaged)
