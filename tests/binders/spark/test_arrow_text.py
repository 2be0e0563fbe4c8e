"""Answers of one text, which are read without Arrow's library, against what the library writes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binders.spark.connect.arrow_text import one_text

_CLIENT = """
import sys
from binders.spark.connect.grpc_client import ConnectClient
from binders.spark.connect.protocol import pb2
class Answered(ConnectClient):
    def _execute(self, session, plan, result, deadline, most=0):
        return [pb2.ExecutePlanResponse.ArrowBatch(data=bytes.fromhex(sys.argv[1]))]
print(Answered.text(Answered.__new__(Answered), "s", pb2.Relation()))
print("pyarrow" in sys.modules)
"""


def stream(columns: Mapping[str, Any], batches: int = 1, compression: str | None = None) -> bytes:
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        for _ in range(batches):
            writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def of(value: object, kind: pa.DataType | None = None) -> pa.Array:
    return pa.array([value], type=kind)


@given(st.text())
def test_a_text_is_read(text: str) -> None:
    assert one_text(stream({"value": of(text, pa.string())})) == text


@pytest.mark.parametrize(
    "other",
    [
        stream({"value": of(None, pa.string())}),
        stream({"value": pa.array(["a", "b"])}),
        stream({"value": pa.array([], type=pa.string())}),
        stream({"a": of("a"), "b": of("b")}),
        stream({"value": of("a", pa.large_string())}),
        stream({"value": of(b"a")}),
        stream({"value": of(7)}),
        stream({"value": of("a" * 1000)}, compression="lz4"),
        stream({"value": of("a").dictionary_encode()}),
        b"",
        b"\xff" * 64,
    ],
)
def test_what_is_no_text_is_left_to_the_library(other: bytes) -> None:
    assert one_text(other) is None


@given(st.text(max_size=40), st.data())
def test_a_damaged_answer_ends_in_no_error(text: str, data: st.DataObject) -> None:
    whole = bytearray(stream({"value": of(text, pa.string())}))
    cut = data.draw(st.integers(0, len(whole)))
    assert one_text(bytes(whole[:cut])) in (None, text)
    for place in data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=8)):
        whole[place] = data.draw(st.integers(0, 255))
    found = one_text(bytes(whole))
    assert found is None or isinstance(found, str)


@pytest.mark.slow("starts a new interpreter")
def test_the_client_reads_a_text_without_the_library() -> None:
    given_text = stream({"value": of("17,4")})
    command = [sys.executable, "-c", _CLIENT, given_text.hex()]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    assert found.stdout.split() == ["17,4", "False"]
