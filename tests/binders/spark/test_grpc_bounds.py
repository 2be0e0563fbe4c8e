"""Streams of a Connect server that do not end: each call ends in time, and takes a bounded memory."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import grpc  # type: ignore[import-untyped]
import pyspark.sql.connect.proto as pb2
import pytest

from binders.spark.connect import grpc_client
from binders.spark.connect.grpc_client import ConnectClient, endpoint_of
from speck.binder.deadline import within
from speck.errors import OutcomeUnknown
from testbed.servers.grpc_server import grpc_server

SESSION = str(uuid.UUID(int=1))
RELATION = pb2.Relation(range=pb2.Range(start=0, end=1, step=1))
PLAN = pb2.Plan(root=RELATION)


@contextmanager
def connected(
    size: int, pause: float, *, end: bool = False, host: str = "127.0.0.1"
) -> Iterator[ConnectClient]:
    """A client of a server that sends messages of this size (bytes) without an end, or (``end``) one."""
    message = pb2.ExecutePlanResponse(
        session_id=SESSION, arrow_batch=pb2.ExecutePlanResponse.ArrowBatch(row_count=1, data=bytes(size))
    )

    def answer(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        while context.is_active():
            yield message
            if end:
                return
            time.sleep(pause)

    handler = grpc.unary_stream_rpc_method_handler(
        answer,
        request_deserializer=pb2.ExecutePlanRequest.FromString,
        response_serializer=pb2.ExecutePlanResponse.SerializeToString,
    )
    service = "spark.connect.SparkConnectService"
    with grpc_server(grpc.method_handlers_generic_handler(service, {"ExecutePlan": handler})) as port:
        address = f"sc://{host}:{port}"
        with closing(ConnectClient(address, endpoint_of(address))) as client:
            yield client


def test_a_stream_that_goes_on_slowly_ends_at_the_deadline() -> None:
    with connected(1, 0.05) as client:
        begun = time.monotonic()
        with pytest.raises(OutcomeUnknown, match="did not answer"):
            client.rows(SESSION, RELATION, 0.5)
        assert time.monotonic() - begun < 3


def test_calls_share_the_deadline_of_the_call_that_makes_them() -> None:
    with connected(1, 0.05) as client, within(1.0):
        begun = time.monotonic()
        for _ in range(10):
            with pytest.raises(OutcomeUnknown, match="did not answer"):
                client.rows(SESSION, RELATION, 0.5)
        assert time.monotonic() - begun < 4


def test_a_stream_that_does_not_stop_is_cancelled() -> None:
    words = r"its answer is too large \(expected 10,000,000 bytes"
    with connected(1 << 20, 0.0) as client, pytest.raises(OutcomeUnknown, match=words):
        client.rows(SESSION, RELATION, 60.0, most=10_000_000)


def test_a_stream_of_empty_messages_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_client, "_MESSAGES", 1000)
    with connected(0, 0.0) as client, pytest.raises(OutcomeUnknown, match="its answer is too large"):
        client.rows(SESSION, RELATION, 60.0)
