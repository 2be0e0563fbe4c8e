"""HTTP answers that do not end, or do not stop: each request ends in time, and takes a bounded memory."""

from __future__ import annotations

import gzip
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from speck.binder.bounded_http import FAILURE, LATE, NEVER_SENT, HttpClient, TooLarge
from speck.binder.deadline import limited, within
from speck.testing.wire_trouble import Listener
from testbed.servers.http import Handler, http_server

SECONDS = 0.5  # of a request
_OK = b"HTTP/1.1 200 OK\r\n"
_CHUNKED = _OK + b"Transfer-Encoding: chunked\r\n\r\n"

Sends = Callable[[socket.socket], None]


class Server(Listener):
    """Reads the beginning of a request, and then does what the test says."""

    def __init__(self, sends: Sends) -> None:
        super().__init__()
        self._sends = sends

    def serve(self, connection: socket.socket) -> None:
        connection.recv(1 << 16)
        self._sends(connection)


def again_and_again(first: bytes, then: bytes, pause: float = 0.0) -> Sends:
    """Send the first bytes, and the others without an end."""

    def send(connection: socket.socket) -> None:
        connection.sendall(first)
        while True:
            connection.sendall(then)
            time.sleep(pause)

    return send


@contextmanager
def served(sends: Sends) -> Iterator[str]:
    with Server(sends) as server:
        yield f"http://127.0.0.1:{server.port}/"


def ask(url: str, **how: Any) -> Any:
    with closing(HttpClient()) as client:
        return client.request("POST", url, **({"seconds": SECONDS} | how))


DRIPS = {
    "status line": again_and_again(b"HTTP/1.1 200", b" ", 0.05),
    "headers": again_and_again(_OK, b"X", 0.05),
    "interim answers": again_and_again(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.05),
    "body": again_and_again(_OK + b"Content-Length: 1000\r\n\r\n", b"x", 0.05),
    "body until the end of the connection": again_and_again(_OK + b"\r\n", b"x", 0.05),
    "chunks": again_and_again(_CHUNKED, b"1\r\n \r\n", 0.05),
    "size of a chunk": again_and_again(_CHUNKED, b"0", 0.05),
    "trailers": again_and_again(_CHUNKED + b"0\r\n", b"X: y\r\n", 0.05),
}


@pytest.mark.parametrize("part", DRIPS)
def test_an_answer_that_comes_byte_by_byte_is_given_up_in_time(part: str) -> None:
    with served(DRIPS[part]) as url:
        begun = time.monotonic()
        with pytest.raises(LATE):
            ask(url)
        assert SECONDS <= time.monotonic() - begun < SECONDS + 2


FLOODS = {
    "headers": again_and_again(_OK, b"X: " + b"x" * 60_000 + b"\r\n"),
    "interim answers": again_and_again(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
    "body": again_and_again(_OK + b"\r\n", b" " * 65_536),
    "chunks": again_and_again(_CHUNKED, b"10000\r\n%s\r\n" % (b" " * 65_536)),
    "size of a chunk": again_and_again(_CHUNKED, b"0" * 65_536),
    "a trailer": again_and_again(_CHUNKED + b"0\r\nX: ", b"x" * 65_536),
    "trailers": again_and_again(_CHUNKED + b"0\r\n", b"X: y\r\n" * 10_000),
}


_LONG = {each: pytest.mark.slow("sends a flood of small parts") for each in ("interim answers", "trailers")}


@pytest.mark.parametrize("part", [pytest.param(each, marks=_LONG.get(each, ())) for each in FLOODS])
def test_an_answer_that_never_stops_takes_a_bounded_memory(part: str) -> None:
    with served(FLOODS[part]) as url:
        tracemalloc.start()
        try:
            with pytest.raises(FAILURE) as caught:
                ask(url, seconds=20.0, most=256 << 10)  # and as much besides as any answer may have
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 8 << 20
    assert not isinstance(caught.value, LATE)


def test_an_answer_that_is_too_large_is_said_to_be() -> None:
    sends = again_and_again(_OK + b"Content-Length: 99999999999\r\n\r\n", b" " * 65_536)
    with served(sends) as url, pytest.raises(TooLarge, match="larger than 1,000 bytes"):
        ask(url, most=1000)


def test_a_small_answer_that_decodes_to_a_large_one_is_not_decoded() -> None:
    bomb = gzip.compress(bytes(50 << 20))
    head = _OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)

    def send(connection: socket.socket) -> None:
        connection.sendall(head + bomb)

    with served(send) as url:
        assert ask(url, most=1 << 20).body == bomb


def test_only_the_end_of_a_large_answer_is_retained() -> None:
    class Log(Handler):
        def do_POST(self) -> None:  # noqa: N802 - the name of the base class
            self.answer(200, b"a" * 3_000_000 + b"the end")

    with http_server(Log) as port:
        assert ask(f"http://127.0.0.1:{port}/", seconds=20.0, tail=100).body == b"a" * 93 + b"the end"


def test_a_server_that_takes_a_request_slowly_has_the_time_of_the_request() -> None:
    """The time-out for opening a connection is no limit of a large request on a slow link."""
    taken, size = [], 12_000_000

    class Slow(Handler):
        def do_POST(self) -> None:  # noqa: N802 - the name of the base class
            while sum(taken) < size:
                taken.append(len(self.rfile.read1(65_536)))
                time.sleep(0.01)
            self.answer(200, b"{}")

    with http_server(Slow) as port, pytest.MonkeyPatch.context() as patch:
        patch.setattr("speck.binder.bounded_http.CONNECT", 0.05)
        assert ask(f"http://127.0.0.1:{port}/", seconds=30.0, body=bytes(size)).status == 200


def test_a_request_that_is_not_taken_is_given_up_in_time() -> None:
    released = threading.Event()
    with served(lambda _: released.wait(60) and None) as url:
        begun = time.monotonic()
        with pytest.raises(LATE):
            ask(url, body=bytes(32 << 20))
        assert time.monotonic() - begun < SECONDS + 2
        released.set()


def test_requests_of_a_call_share_its_deadline() -> None:
    with served(DRIPS["chunks"]) as url, within(3 * SECONDS):
        begun = time.monotonic()
        for _ in range(20):
            with pytest.raises(LATE):
                ask(url)
        assert time.monotonic() - begun < 3 * SECONDS + 2


def test_an_inner_deadline_does_not_prolong_an_outer_one() -> None:
    with within(5):
        with within(100):
            assert limited(50) <= 5
        with within(1):
            assert limited(50) <= 1
        assert 1 < limited(50) <= 5
    assert limited(50) == 50


def test_connections_are_used_again_also_after_an_answer_that_was_late() -> None:
    seen = []

    class Counting(Handler):
        def do_POST(self) -> None:  # noqa: N802 - the name of the base class
            seen.append(self.client_address)
            if self.path == "/late":
                time.sleep(2 * SECONDS)
            self.answer(200, b"{}")

    with http_server(Counting) as port, closing(HttpClient()) as client:
        url = f"http://127.0.0.1:{port}"
        for _ in range(3):
            client.request("POST", f"{url}/", seconds=30.0)
        with pytest.raises(LATE):
            client.request("POST", f"{url}/late", seconds=SECONDS)
        assert client.request("POST", f"{url}/", seconds=30.0).status == 200
    assert len(set(seen[:4])) == 1
    assert len(set(seen)) == 2


def test_a_redirect_is_an_answer_and_leads_nowhere() -> None:
    asked = []

    class Redirecting(Handler):
        def do_POST(self) -> None:  # noqa: N802 - the name of the base class
            asked.append(self.path)
            self.send_response(307)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

    with http_server(Redirecting) as port:
        assert ask(f"http://127.0.0.1:{port}/").status == 307
    assert asked == ["/"]


@pytest.mark.parametrize(
    "url", ["ftp://127.0.0.1/", "127.0.0.1:80", "None", "", f"http://{'a' * 64}.example/"]
)
def test_what_is_no_address_is_never_sent(url: str) -> None:
    with pytest.raises(NEVER_SENT):
        ask(url)
