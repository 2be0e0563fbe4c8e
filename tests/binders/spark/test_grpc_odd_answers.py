"""Servers of HTTP/2 that give no proper answer of gRPC: each call ends at once, with an error of SpecK's."""

from __future__ import annotations

import socket
import struct
import time
from contextlib import closing

import pytest
from h2.connection import H2Connection
from h2.events import DataReceived

from binders.spark.connect.grpc_client import LARGEST, ServerRefused
from binders.spark.connect.http2 import Http2Connection
from speck.errors import BinderError, OutcomeUnknown
from speck.testing.waiting import eventually
from speck.testing.wire_trouble import Listener
from testbed.servers.http2_server import HEADERS, TRAILERS, Answer, Http2Server, answered, framed
from tests.binders.spark.test_grpc_channel import SESSION, SETTINGS, client_of


def in_odd_frames(state: H2Connection, stream: int) -> bytes:
    state.send_headers(stream, [(":status", "103"), ("link", "x")])
    state.send_headers(stream, HEADERS)
    state.send_data(stream, b"")
    for byte in framed(b""):
        state.send_data(stream, bytes([byte]), pad_length=3)
    unknown = bytes([0, 0, 1, 0xFA, 0, 0, 0, 0, 0, 7])
    found = state.data_to_send() + unknown
    state.send_headers(stream, TRAILERS, end_stream=True)
    return found + state.data_to_send()


def without_trailers(state: H2Connection, stream: int) -> bytes:
    state.send_headers(stream, HEADERS)
    state.send_data(stream, framed(b""), end_stream=True)
    return b""


def without_a_message(state: H2Connection, stream: int) -> bytes:
    state.send_headers(stream, HEADERS)
    state.send_headers(stream, TRAILERS, end_stream=True)
    return b""


def cut_off(state: H2Connection, stream: int) -> bytes:
    state.send_headers(stream, HEADERS)
    state.send_data(stream, framed(b"12345")[:-1])
    state.send_headers(stream, TRAILERS, end_stream=True)
    return b""


def compressed(state: H2Connection, stream: int) -> bytes:
    state.send_headers(stream, HEADERS)
    state.send_data(stream, b"\x01" + framed(b"12345")[1:])
    return b""


def not_decodable(state: H2Connection, stream: int) -> bytes:
    state.send_headers(stream, HEADERS)
    state.send_data(stream, framed(b"\xff\xff"))
    state.send_headers(stream, TRAILERS, end_stream=True)
    return b""


def too_long(state: H2Connection, stream: int) -> bytes:
    state.send_headers(stream, HEADERS)
    state.send_data(stream, struct.pack(">BI", 0, LARGEST + 1))
    return b""


def a_page(state: H2Connection, stream: int) -> bytes:
    state.send_headers(stream, [(":status", "200"), ("content-type", "text/html")])
    state.send_data(stream, b"<html></html>", end_stream=True)
    return b""


def of_http(status: int) -> Answer:
    def answer(state: H2Connection, stream: int) -> bytes:
        state.send_headers(stream, [(":status", str(status))], end_stream=True)
        return b""

    return answer


def reset(state: H2Connection, stream: int) -> bytes:
    state.reset_stream(stream, 2)
    return b""


def going_away(state: H2Connection, stream: int) -> bytes:
    state.close_connection(11, b"too_many_pings")
    return b""


def garbled(state: H2Connection, stream: int) -> bytes:
    return bytes(100)


def full(state: H2Connection, stream: int) -> bytes:
    state.send_headers(stream, [*HEADERS, ("grpc-status", "8"), ("grpc-message", "full")], end_stream=True)
    return b""


def in_latin_1(state: H2Connection, stream: int) -> bytes:
    details = ("grpc-status-details-bin", b"\xe6")
    found = [*HEADERS, ("x", b"\xe6"), ("grpc-status", "2"), ("grpc-message", b"\xe6"), details]
    state.send_headers(stream, found, end_stream=True)
    return b""


FOREIGN = "gave an answer that is not Spark Connect's"


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (without_trailers, OutcomeUnknown, rf"{FOREIGN} \(it has no status; is it that server's port"),
        (without_a_message, OutcomeUnknown, rf"{FOREIGN} \(it has no message"),
        (cut_off, OutcomeUnknown, rf"{FOREIGN} \(its last message is not complete"),
        (compressed, OutcomeUnknown, rf"{FOREIGN} \(a message is compressed"),
        (not_decodable, OutcomeUnknown, rf"{FOREIGN} \(a message cannot be decoded"),
        (too_long, OutcomeUnknown, r"its answer is too large \(expected 67,108,864 bytes at most"),
        (a_page, OutcomeUnknown, rf"{FOREIGN} \(its content type is not that of gRPC"),
        (of_http(404), OutcomeUnknown, rf"{FOREIGN} \(HTTP status 404"),
        (of_http(500), OutcomeUnknown, rf"{FOREIGN} \(HTTP status 500"),
        (of_http(503), OutcomeUnknown, r"did not answer \(unavailable: HTTP status 503"),
        (of_http(401), ServerRefused, "rejects the login"),
        (reset, OutcomeUnknown, r"connection lost: the server ended the call \(internal_error\)"),
        (going_away, OutcomeUnknown, r"ended the connection \(enhance_your_calm\) too_many_pings"),
        (garbled, OutcomeUnknown, "did not answer"),
        (in_latin_1, ServerRefused, "\N{LATIN SMALL LETTER AE}"),
    ],
)
def test_answers_of_other_forms(answer: Answer, kind: type[BinderError], words: str) -> None:
    with Http2Server(answer) as server, client_of(server.port) as client:
        begun = time.monotonic()
        for _ in range(2):  # the connection is used again, or replaced
            with pytest.raises(kind, match=words):
                client.session_exists(SESSION)
        assert time.monotonic() - begun < 2  # s; no answer is waited for until the deadline


def test_frames_that_carry_nothing_are_passed_over() -> None:
    with Http2Server(in_odd_frames) as server, client_of(server.port) as client:
        assert client.session_exists(SESSION)


def test_an_early_answer_ends_an_upload() -> None:
    with Http2Server(full, at=DataReceived) as server, client_of(server.port) as client:
        for _ in range(2):
            with pytest.raises(ServerRefused, match=r": full$"):
                client.upload(SESSION, {"large": bytes(1 << 20)}, 20.0)
        assert server.taken == 1


def with_a_goodbye(state: H2Connection, stream: int) -> bytes:
    answered(state, stream)
    state.close_connection()
    return b""


def test_a_connection_that_the_server_ends_after_an_answer_is_replaced() -> None:
    with Http2Server(with_a_goodbye) as server, client_of(server.port) as client:
        for _ in range(3):
            assert client.session_exists(SESSION)
        assert server.taken == 3


class Flooding(Listener):
    """Sends pings for as long as they are taken."""

    def serve(self, connection: socket.socket) -> None:
        ping = bytes([0, 0, 8, 6, 0, 0, 0, 0, 0]) + bytes(8)
        connection.sendall(SETTINGS)
        ends = time.monotonic() + 20  # s, within which the test has ended
        while time.monotonic() < ends:
            connection.sendall(1000 * ping)


def test_a_server_that_sends_pings_without_end_is_given_up() -> None:
    with Flooding() as server:
        connection = Http2Connection(socket.create_connection(("127.0.0.1", server.port)))
        with closing(connection):
            connection.begin(time.monotonic() + 20)
            begun = time.monotonic()
            # A look that is faster than the server takes all pings that there are.
            eventually(connection.is_usable, lambda usable: not usable)
            assert time.monotonic() - begun < 10  # s
