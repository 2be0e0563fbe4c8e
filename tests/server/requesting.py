"""Requests to a server, some of them by hand, and its answers."""

from __future__ import annotations

import json
import socket
from typing import Any

import requests

from testbed.servers.rest import RestServer

YAML = {"Content-Type": "application/yaml"}
JSON = {"Content-Type": "application/json"}


def problem_of(answer: requests.Response, status: int) -> dict[str, Any]:
    """The problem of an answer; it must be strict JSON."""
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    data: dict[str, Any] = json.loads(answer.text, parse_constant=refuse)
    assert data["status"] == status
    assert data["detail"]
    return data


def connect(server: RestServer) -> socket.socket:
    """A connection to the port of a server, for bytes that no client would send."""
    return socket.create_connection(("127.0.0.1", server.port), timeout=120)


def read_all(connection: socket.socket) -> bytes:
    received = b""
    while data := connection.recv(65536):
        received += data
    return received


def raw(server: RestServer, request_: bytes) -> bytes:
    """The answer to these bytes, until the server closes the connection."""
    with connect(server) as connection:
        connection.sendall(request_)
        return read_all(connection)
