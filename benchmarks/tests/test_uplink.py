"""The uplink of a site, which is cut for the processes of the site alone."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator

import psutil
import pytest

from speck.testing.waiting import eventually
from testbed.servers.uplink import Uplink


@pytest.fixture(name="port")
def port_fixture() -> Iterator[int]:
    """The port of a server that greets."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(b"hello")

        thread = threading.Thread(target=greet, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        thread.join(20)


def answer(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 20) as connection:
        try:
            return connection.recv(5)
        except ConnectionError:
            return b""


@pytest.mark.parametrize(("own", "cut"), [(True, b""), (False, b"hello")])
def test_the_uplink_is_cut_for_the_processes_of_the_site(port: int, own: bool, cut: bytes) -> None:
    uplink = Uplink(lambda: [os.getpid()] if own else [])
    with uplink.way(port) as way:
        assert answer(way.port) == b"hello"
        uplink.cut()
        assert answer(way.port) == cut
        uplink.restore()
        assert answer(way.port) == b"hello"


def test_connections_that_ended_hold_no_files(port: int) -> None:
    process = psutil.Process()
    with Uplink(list).way(port) as way:
        answer(way.port)
        before = process.num_fds()
        for _ in range(50):
            answer(way.port)
        eventually(process.num_fds, lambda found: found < before + 20)
