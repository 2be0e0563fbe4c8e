"""Requests of a pair over real sockets: pieces, tokens, refusals, and connections that end."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
import requests

from speck.server.pair.app import create_pair_app
from speck.server.process import listen
from speck.server.wsgi import WebServer
from speck.standby.messages import Answer, BadRequest, Handler, Header, NoAnswer, Refused
from speck.standby.wire import PIECE, HttpWire, url_fault
from testbed.servers.base import REFUSING_PORT

TOKEN = "a token that is long enough"


@contextmanager
def served(handle: Handler) -> Iterator[int]:
    """The port of a server that answers requests of the pair by ``handle``."""
    listener = listen("127.0.0.1", 0)
    state = {"detail": "this server is a standby", "role": "standby"}
    server = WebServer(create_pair_app(handle, TOKEN, lambda: dict(state)), listener)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.end()
        thread.join(30)


def echo(operation: str, header: Header, payload: bytes) -> Answer:
    if operation == "refuse":
        raise Refused("another server is the primary", 7, "b")
    if operation == "bad":
        raise BadRequest("no such operation")
    return {"operation": operation, "header": dict(header), "bytes": len(payload), "last": payload[-1:].hex()}


def wire_to(port: int, token: str = TOKEN) -> closing[HttpWire]:
    return closing(HttpWire(f"http://127.0.0.1:{port}", token, None, 30))


def test_requests_of_any_size_arrive_whole() -> None:
    with served(echo) as port, wire_to(port) as wire:
        for size in (0, 1, PIECE, 3 * PIECE + 5):
            answer = wire("write", {"epoch": 1}, bytes(size) + b"\x07")
            expected = {"operation": "write", "header": {"epoch": 1}, "bytes": size + 1, "last": "07"}
            assert answer == expected


def test_a_refusal_names_the_epoch() -> None:
    with served(echo) as port, wire_to(port) as wire:
        with pytest.raises(Refused, match="another server is the primary") as error:
            wire("refuse", {}, b"")
        assert (error.value.epoch, error.value.holder) == (7, "b")


def test_another_token_is_refused() -> None:
    with (
        served(echo) as port,
        wire_to(port, "another token of some length") as wire,
        pytest.raises(NoAnswer, match=r"401.*not that of the pair"),
    ):
        wire("write", {}, b"content" * 1000)


def test_a_bad_request_is_no_answer() -> None:
    with served(echo) as port, wire_to(port) as wire, pytest.raises(NoAnswer, match="no such operation"):
        wire("bad", {}, b"")


def test_a_server_that_is_away_is_no_answer() -> None:
    with wire_to(REFUSING_PORT) as wire, pytest.raises(NoAnswer, match="does not answer"):
        wire("write", {}, b"")


def test_a_connection_that_was_closed_is_opened_again() -> None:
    with served(echo) as port, wire_to(port) as wire:
        wire("write", {}, b"")
        assert wire._connection is not None
        wire._connection.sock.shutdown(socket.SHUT_RDWR)
        assert wire("write", {}, b"")["operation"] == "write"


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("https://b.example.org:8180", None),
        ("http://127.0.0.1:8180", None),
        ("http://b.example.org:8180", "without TLS"),
        ("b.example.org:8180", "expected https://HOST:PORT"),
        ("https://b.example.org", "expected https://HOST:PORT"),
        ("https://b.example.org:8180/api", "expected https://HOST:PORT"),
        ("https://b.example.org:port", "expected https://HOST:PORT"),
    ],
)
def test_urls_of_the_pair(url: str, fault: str | None) -> None:
    found = url_fault("--standby", url)
    assert found is None if fault is None else fault in str(found)


def test_other_requests_are_answered_with_the_primary() -> None:
    with served(echo) as port:
        answer = requests.get(f"http://127.0.0.1:{port}/compositions", timeout=30)
    assert answer.status_code == 503
    assert answer.json()["detail"] == "this server is a standby"
    assert answer.json()["role"] == "standby"
