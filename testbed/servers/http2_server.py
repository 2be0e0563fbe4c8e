"""A server of HTTP/2 of this process, whose answers may be malformed."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, StreamEnded

from speck.testing.wire_trouble import Listener

HEADERS = [(":status", "200"), ("content-type", "application/grpc")]
TRAILERS = [("grpc-status", "0")]
Answer = Callable[[H2Connection, int], bytes]


class Http2Server(Listener):
    """A server of HTTP/2 that gives each request the same answer, and then the bytes that this returns."""

    def __init__(self, answer: Answer, at: type[DataReceived] | type[StreamEnded] = StreamEnded) -> None:
        """It answers once a request has ended, or ``at`` its first data."""
        super().__init__()
        self.taken, self._answer, self._at = 0, answer, at

    def serve(self, connection: socket.socket) -> None:
        self.taken += 1
        state = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        state.initiate_connection()
        connection.sendall(state.data_to_send())
        answered = set[int]()
        while data := connection.recv(65536):
            more = b""
            for event in state.receive_data(data):
                if isinstance(event, DataReceived):
                    state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                if isinstance(event, self._at) and event.stream_id not in answered:
                    answered.add(event.stream_id)
                    more = self._answer(state, event.stream_id)
            connection.sendall(state.data_to_send() + more)


def framed(message: bytes) -> bytes:
    return struct.pack(">BI", 0, len(message)) + message


def answered(state: H2Connection, stream: int) -> bytes:
    """One empty message."""
    state.send_headers(stream, HEADERS)
    state.send_data(stream, framed(b""))
    state.send_headers(stream, TRAILERS, end_stream=True)
    return b""
