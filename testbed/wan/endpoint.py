"""The ends of a measured path: ``serve``, ``rtt`` or ``bulk``, each with ADDRESS and PORT, the last two with
a number: of times, or of seconds.

``serve`` answers many connections; ``rtt`` and ``bulk`` print a number: the median round trip of one byte, s,
and the received payload, bit/s, without the first fifth of the time, in which TCP finds its pace.
"""

from __future__ import annotations

import contextlib
import socket
import socketserver
import statistics
import struct
import sys
import threading
import time

_ECHO, _BULK = b"e", b"b"
_WARMING = 0.2  # share of the time
_PATIENCE = 5.0  # s, for a connection


class _Handler(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        connection: socket.socket = self.request
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if connection.recv(1) == _ECHO:
            while byte := connection.recv(1):
                connection.sendall(byte)
            return
        (seconds,) = struct.unpack("d", _exactly(connection, 8))
        connection.sendall(struct.pack("d", _received(connection, seconds)))


def _received(connection: socket.socket, seconds: float) -> float:
    begun = time.monotonic()
    measured_from, total = begun + _WARMING * seconds, 0
    while (now := time.monotonic()) < begun + seconds:
        size = len(connection.recv(1 << 18))
        if now >= measured_from:
            total += size
    return 8 * total / (time.monotonic() - measured_from)


def _exactly(connection: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        piece = connection.recv(size - len(found))
        if not piece:
            raise EOFError
        found += piece
    return found


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


def serve(address: str, port: int) -> None:
    """Answer until killed; a line on standard output says that it listens."""
    with _Server((address, port), _Handler) as server:
        print("listening", flush=True)
        server.serve_forever()


def round_trip(address: str, port: int, times: int) -> float:
    """The median time of a byte there and back, s."""
    with socket.create_connection((address, port), _PATIENCE) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(_ECHO)
        found = []
        for _ in range(times):
            begun = time.monotonic()
            connection.sendall(b"x")
            _exactly(connection, 1)
            found.append(time.monotonic() - begun)
        return statistics.median(found)


def bulk(address: str, port: int, seconds: float) -> float:
    """The payload that arrives, bit/s."""
    with socket.create_connection((address, port), _PATIENCE) as connection:
        connection.sendall(_BULK + struct.pack("d", seconds))
        ended = threading.Event()

        def send() -> None:
            block = bytes(1 << 16)
            with contextlib.suppress(OSError):  # the other end has closed
                while not ended.is_set():
                    connection.send(block)

        connection.settimeout(seconds + 30)
        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        (rate,) = struct.unpack("d", _exactly(connection, 8))
        ended.set()
        return float(rate)


def accepts(address: str, port: int) -> bool:
    """True if a connection is accepted."""
    try:
        with socket.create_connection((address, port), 1):
            return True
    except OSError:
        return False


def main() -> None:
    """Run one end."""
    what, address, port, *rest = sys.argv[1:]
    if what == "serve":
        serve(address, int(port))
    elif what == "rtt":
        print(round_trip(address, int(port), int(rest[0])))
    else:
        print(bulk(address, int(port), float(rest[0])))


if __name__ == "__main__":
    main()
