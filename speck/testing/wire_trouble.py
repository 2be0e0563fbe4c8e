"""Faults between a client and a server, over real sockets.

A :class:`BrokenServer` never answers correctly; a :class:`Relay` stands in front of a working server, and is
slow or loses an answer; a :class:`MischiefRelay` applies a fault of the test's choice to each request.  All
are context managers, on free loopback ports.
"""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from enum import Enum
from types import TracebackType
from typing import Self


class Trouble(Enum):
    """The fault of a broken server."""

    SILENT = "silent"  # it takes connections and sends nothing
    RUBBISH = "rubbish"  # it answers in no protocol
    UNAVAILABLE = "unavailable"  # it answers as an HTTP proxy does whose server is down
    DRIPPING = "dripping"  # it sends its answer byte by byte, without an end
    ENDLESS = "endless"  # it sends its answer as fast as it can, without an end


_CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
# By trouble: the chunk that is sent again and again, and the pause after each, s.
_UNENDING = {
    Trouble.DRIPPING: (b"1\r\n \r\n", 0.1),
    Trouble.ENDLESS: (b"10000\r\n%s\r\n" % (b" " * 0x10000), 0.0),
}
_PAGE = b"<html><body>the server is down</body></html>"
_ANSWERS = {
    Trouble.RUBBISH: b"rubbish, and more rubbish\r\n\r\n",
    Trouble.UNAVAILABLE: b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/html\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(_PAGE), _PAGE),
}


class Listener:
    """Accepts connections in a thread, and hands each to :meth:`serve` in a thread of its own."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._ended = False
        self._guard = threading.Lock()
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        port: int = self._listener.getsockname()[1]
        return port

    def serve(self, connection: socket.socket) -> None:
        """Serve one connection."""
        raise NotImplementedError

    def keep(self, connection: socket.socket) -> socket.socket:
        """Close a socket at the end, or at once if that is over."""
        with self._guard:
            self._open.append(connection)
            ended = self._ended
        if ended:
            self.close_connections()
        return connection

    def reach(self, server_port: int, connection: socket.socket) -> socket.socket:
        """Connect to a server on behalf of ``connection``, which ends where the server refuses.

        Open and without an answer, it would have its client wait as no server that is down does.
        """
        try:
            server = self.keep(socket.create_connection(("127.0.0.1", server_port), 10))
        except OSError:
            connection.close()
            raise
        server.settimeout(None)
        return server

    def close_connections(self) -> None:
        """Close all open sockets."""
        with self._guard:
            closing, self._open = self._open, []
        for connection in closing:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.keep(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        # ValueError: of select, for a socket that close_connections has closed.
        with contextlib.suppress(OSError, ValueError):
            self.serve(connection)

    def _end(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._listener.close()
        with self._guard:
            self._ended = True
        self.close_connections()


class BrokenServer(Listener):
    """A server with one kind of fault."""

    def __init__(self, trouble: Trouble) -> None:
        super().__init__()
        self.trouble = trouble

    def serve(self, connection: socket.socket) -> None:
        answer = _ANSWERS.get(self.trouble)
        while connection.recv(1 << 16):
            if self.trouble in _UNENDING:
                self._send_without_end(connection, *_UNENDING[self.trouble])
            if answer is not None:
                connection.sendall(answer)
                connection.shutdown(socket.SHUT_WR)

    def _send_without_end(self, connection: socket.socket, chunk: bytes, pause: float) -> None:
        connection.sendall(_CHUNKED)
        while True:
            connection.sendall(chunk)
            time.sleep(pause)


class Relay(Listener):
    """Passes bytes to a server on a loopback port and back, each piece ``delay`` seconds late.

    ``lose_answer_to`` names bytes: when a client sends them, they are passed on, and with the server's first
    byte after them all connections break, and no new one is taken.
    """

    def __init__(self, server_port: int, *, delay: float = 0.0, lose_answer_to: bytes = b"") -> None:
        super().__init__()
        self.server_port, self.delay = server_port, delay
        self.lost = threading.Event()
        self.delayed = threading.Event()  # a piece has been late
        self._marker = lose_answer_to
        self._seen = threading.Event()

    def serve(self, connection: socket.socket) -> None:
        if self.lost.is_set():
            connection.close()
            return
        server = self.reach(self.server_port, connection)
        forth = threading.Thread(target=self._forth, args=(connection, server), daemon=True)
        forth.start()
        for piece in self._pieces(server):
            if self._seen.is_set():
                self.lost.set()
                self.close_connections()
                return
            connection.sendall(piece)
        self._hang_up(connection)

    def _forth(self, connection: socket.socket, server: socket.socket) -> None:
        tail = b""
        with contextlib.suppress(OSError):
            for piece in self._pieces(connection):
                tail = tail[-len(self._marker) :] + piece
                if self._marker and self._marker in tail:
                    self._seen.set()
                server.sendall(piece)
        self._hang_up(server)

    def _pieces(self, source: socket.socket) -> Iterator[bytes]:
        while piece := source.recv(1 << 16):
            if self.delay:
                self.delayed.set()
                time.sleep(self.delay)
            yield piece

    def _hang_up(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_WR)


class Mischief(Enum):
    """A fault of a request or its answer."""

    LOSE_REQUEST = "lose request"  # the connection breaks before it is passed on
    LOSE_ANSWER = "lose answer"  # it is passed on, and the connection breaks before the answer
    CUT_ANSWER = "cut answer"  # the connection breaks in the midst of the answer
    DELAY = "delay"  # it is passed on late
    TWICE = "twice"  # it is passed on twice; the second answer goes nowhere
    GARBLE = "garble"  # the answer is bytes that mean nothing


_DELAY = 0.3  # s

# The fault of an answer is chosen when its request is seen.
_OF_ANSWERS = frozenset({Mischief.LOSE_ANSWER, Mischief.CUT_ANSWER, Mischief.GARBLE})


class MischiefRelay(Listener):
    """Passes bytes to a server on a loopback port and back; ``choose`` returns the fault of a piece, if any.

    A piece is one chunk that a client sends: a request of HTTP, or some packets of MQTT or gRPC.  ``done``
    counts the faults.
    """

    def __init__(self, server_port: int, choose: Callable[[bytes], Mischief | None]) -> None:
        super().__init__()
        self.server_port, self.choose = server_port, choose
        self.done: Counter[Mischief] = Counter()

    def serve(self, connection: socket.socket) -> None:
        server = self.reach(self.server_port, connection)
        ends = (connection, server)
        coming: list[Mischief] = []
        forth = threading.Thread(target=self._forth, args=(*ends, coming), daemon=True)
        forth.start()
        with contextlib.suppress(OSError):
            while answer := server.recv(1 << 16):
                mischief = coming.pop() if coming else None
                if mischief is Mischief.LOSE_ANSWER:
                    break
                if mischief is Mischief.CUT_ANSWER:
                    connection.sendall(answer[: len(answer) // 2])
                    break
                connection.sendall(bytes(len(answer)) if mischief is Mischief.GARBLE else answer)
        _break(*ends)

    def _forth(self, connection: socket.socket, server: socket.socket, coming: list[Mischief]) -> None:
        with contextlib.suppress(OSError):
            while piece := connection.recv(1 << 16):
                mischief = self.choose(piece)
                if mischief is Mischief.TWICE and not _is_whole_request(piece):
                    mischief = None
                if mischief is not None:
                    self.done[mischief] += 1
                if mischief is Mischief.LOSE_REQUEST:
                    break
                if mischief is Mischief.DELAY:
                    time.sleep(_DELAY)
                if mischief is Mischief.TWICE:
                    threading.Thread(target=self._repeat, args=(piece,), daemon=True).start()
                if mischief in _OF_ANSWERS:
                    coming.append(mischief)
                server.sendall(piece)
        _break(connection, server)

    def _repeat(self, piece: bytes) -> None:
        with contextlib.suppress(OSError):
            server = self.keep(socket.create_connection(("127.0.0.1", self.server_port), 10))
            server.sendall(piece)
            server.recv(1 << 16)


def _is_whole_request(piece: bytes) -> bool:
    """True if this is one HTTP request with all of its body."""
    head, found, body = piece.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    return bool(found) and len(body) == (int(length[1]) if length else 0)


def _break(*ends: socket.socket) -> None:
    for each in ends:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
