"""TLS connections that are read and written at the same time."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from speck.link.tls import shared
from speck.testing.waiting import eventually
from testbed.servers.certificates import Authority

PATIENCE = 60.0


@pytest.fixture(name="authority")
def authority_fixture(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture(name="ends")
def ends_fixture(authority: Authority) -> Iterator[tuple[ssl.SSLSocket, ssl.SSLSocket]]:
    """Both ends of a connection."""
    made = authority.certificate("server", "127.0.0.1")
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(made.file, made.key)
    trusting = shared(ssl.create_default_context(cafile=authority.file))
    with ExitStack() as stack:
        near, far = (stack.enter_context(each) for each in socket.socketpair())
        threads = stack.enter_context(ThreadPoolExecutor(1))
        accepting = threads.submit(shared(serving).wrap_socket, far, server_side=True)
        connected = stack.enter_context(trusting.wrap_socket(near, server_hostname="127.0.0.1"))
        yield connected, stack.enter_context(accepting.result(PATIENCE))


def received(end: ssl.SSLSocket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count and (piece := end.recv(65536)):
        found += piece
    return bytes(found)


class Watched:
    """The OpenSSL object of a connection, which notes calls that overlap."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.inside, self.most = inner, 0, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def read(self, *arguments: Any) -> Any:
        return self.call(self.inner.read, arguments)

    def write(self, *arguments: Any) -> Any:
        return self.call(self.inner.write, arguments)

    def call(self, method: Any, arguments: tuple[Any, ...]) -> Any:
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            return method(*arguments)
        finally:
            self.inside -= 1


def test_openssl_gets_one_call_at_a_time(ends: tuple[ssl.SSLSocket, ssl.SSLSocket]) -> None:
    near, far = ends
    watched = Watched(near._sslobj)  # type: ignore[attr-defined]
    near._sslobj = watched  # type: ignore[attr-defined]
    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(received, near, 7)  # takes the session tickets, and waits for more
        eventually(lambda: watched.most, bool)
        near.sendall(b"request")
        assert received(far, 7) == b"request"
        far.sendall(b"answers")
        assert reading.result(PATIENCE) == b"answers"
    assert watched.most == 1


def test_both_directions_carry_their_bytes_at_once(ends: tuple[ssl.SSLSocket, ssl.SSLSocket]) -> None:
    sent = [os.urandom(2_000_000), os.urandom(2_000_000)]
    with ThreadPoolExecutor(4) as threads:
        found = [threads.submit(received, end, 2_000_000) for end in ends]
        for end, data in zip(ends, sent, strict=True):
            threads.submit(end.sendall, data)
        assert [each.result(PATIENCE) for each in found] == sent[::-1]


def test_a_call_waits_for_its_time_at_most(ends: tuple[ssl.SSLSocket, ssl.SSLSocket]) -> None:
    near, _ = ends
    near.settimeout(0.01)
    with pytest.raises(TimeoutError):
        near.recv(1)
    with pytest.raises(TimeoutError):
        near.sendall(bytes(10_000_000))


def test_a_call_ends_when_the_socket_is_closed(
    ends: tuple[ssl.SSLSocket, ssl.SSLSocket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speck.link.tls._LOOK", 0.01)
    near, _ = ends
    with ThreadPoolExecutor(1) as threads:
        reading = threads.submit(received, near, 1)
        near.close()
        with contextlib.suppress(OSError):
            assert reading.result(PATIENCE) == b""
