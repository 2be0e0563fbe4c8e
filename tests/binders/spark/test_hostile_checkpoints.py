"""Checkpoints as a hostile server lists them: no name leads out of the place where it is written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc  # type: ignore[import-untyped]
import pyarrow
import pyspark.sql.connect.proto as pb2
import pytest

from binders.spark.connect.checkpoint_files import unknown
from binders.spark.connect.checkpoint_transfer import CheckpointFiles
from binders.spark.connect.grpc_client import ConnectClient, endpoint_of
from binders.spark.connect.probe import ServerProbe
from speck.binder import StateFiles
from speck.errors import OutcomeUnknown, Rejected
from testbed.servers.grpc_server import grpc_server

ROOT = "file:/checkpoints/a/1"

OF_SPARK = [
    "metadata",
    "offsets/0",
    "commits/17",
    "sources/0/0",
    "sources/0/mqtt-batches/7.batch",
    "sources/1/speck_seen-2/stamps.v2.bin",
    "state/0/0/1.delta",
    "state/0/0/left-keyToNumValues/12.snapshot",
    "state/0/_metadata/metadata",
    "state/0/_stateSchema/default/0_5f1c9d3e-1c1a-4a0e-9e0b-3f5f3a8f9b11",
    "state/0/0/SSTs/000008-5f1c9d3e-1c1a-4a0e-9e0b-3f5f3a8f9b11.sst",
    "state/0/0/3_2b1c.zip",
    "state/0/0/3.changelog",
]

HOSTILE = [
    *("../../evil", "offsets/../../evil", "state/0/../../../evil", "sources/..", "state/./0", "offsets//0"),
    *("/etc/passwd", "file:/etc/passwd", "offsets/file:/x", "offsets/", "offsets", "", ".", ".."),
    *("evil", "notes.txt", "jars/a.jar", "metadata/x", "Metadata", "state/a b", "state/a\\b", "state/a\nb"),
    *(
        "state/%2e%2e/evil",
        "state/\u2024\u2024/evil",
        "state/\x00",
        "state/" + "a" * 300,
        "state/" + "a/" * 20 + "b",
    ),
    *("state/~", "state/$HOME", "state/*", "sources/0/.hidden"),
]


@pytest.mark.parametrize("name", OF_SPARK)
def test_files_of_a_checkpoint(name: str) -> None:
    assert unknown([name]) is None


@pytest.mark.parametrize("name", HOSTILE)
def test_names_that_no_file_of_a_checkpoint_has(name: str) -> None:
    assert unknown([*OF_SPARK, name]) == name


@dataclass
class HostileServer:
    """A Connect server that lists what it likes; ``asked`` are the methods that were called."""

    rows: Any
    asked: list[str] = field(default_factory=list)

    def execute(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        self.asked.append("ExecutePlan")
        data = self.rows if isinstance(self.rows, bytes) else _arrow(self.rows)
        batch = pb2.ExecutePlanResponse.ArrowBatch(row_count=1, data=data)
        yield pb2.ExecutePlanResponse(session_id=request.session_id, arrow_batch=batch)

    def add(self, requests: Iterator[Any], context: grpc.ServicerContext) -> Any:
        self.asked.append("AddArtifacts")
        return pb2.AddArtifactsResponse()


def _arrow(rows: list[dict[str, Any]]) -> bytes:
    table = pyarrow.Table.from_pylist(rows)
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    found: bytes = sink.getvalue().to_pybytes()
    return found


@contextmanager
def files_at(rows: Any) -> Iterator[tuple[CheckpointFiles, HostileServer]]:
    hostile = HostileServer(rows)
    handlers = {
        "ExecutePlan": grpc.unary_stream_rpc_method_handler(
            hostile.execute,
            request_deserializer=pb2.ExecutePlanRequest.FromString,
            response_serializer=pb2.ExecutePlanResponse.SerializeToString,
        ),
        "AddArtifacts": grpc.stream_unary_rpc_method_handler(
            hostile.add,
            request_deserializer=pb2.AddArtifactsRequest.FromString,
            response_serializer=pb2.AddArtifactsResponse.SerializeToString,
        ),
    }
    service = "spark.connect.SparkConnectService"
    with grpc_server(grpc.method_handlers_generic_handler(service, handlers)) as port:
        address = f"sc://127.0.0.1:{port}"
        with closing(ConnectClient(address, endpoint_of(address))) as client:
            yield CheckpointFiles(address, client, ServerProbe(address, client), "/checkpoints"), hostile


def listed(*names: str) -> list[dict[str, Any]]:
    return [{"path": f"{ROOT}/{name}", "value": 5} for name in ("metadata", *names)]


@pytest.mark.parametrize("name", ["../../evil", "state/0/../../../evil", "evil"])
def test_a_checkpoint_with_a_name_that_leads_out_is_not_read(name: str) -> None:
    with files_at(listed("offsets/0", name)) as (files, hostile):
        for call in (files.read, files.size):
            with pytest.raises(Rejected, match="is not one of a checkpoint") as caught:
                call("/checkpoints/a/1")
            assert repr(name) in str(caught.value)
        assert set(hostile.asked) == {"ExecutePlan"}


def test_a_checkpoint_with_a_name_that_leads_out_is_not_written() -> None:
    snapshot = StateFiles("spark-checkpoint", {"metadata": b"{}", "../../evil": b"x"})
    with files_at(listed()) as (files, hostile):
        with pytest.raises(Rejected, match=r"has a file '\.\./\.\./evil'"):
            files.write("/checkpoints/a/1", snapshot)
        assert hostile.asked == []


@pytest.mark.parametrize(
    "rows",
    [
        b"no rows",
        [{"nothing": 1}],
        [{"path": 5, "value": 5}],
        [{"path": "/metadata", "value": 5}],
        [{"path": f"{ROOT}/metadata", "value": "many"}],
    ],
    ids=["no rows", "other columns", "a path that is a number", "no path", "a size that is a text"],
)
def test_rows_of_another_form_are_an_error_of_the_server(rows: Any) -> None:
    with files_at(rows) as (files, _):
        for call in (files.read, files.size):
            with pytest.raises(OutcomeUnknown) as caught:
                call("/checkpoints/a/1")
            assert files.address in str(caught.value)
            assert "\n" not in str(caught.value)
