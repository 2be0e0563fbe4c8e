"""A request of ours to a broker, which tells Kafka from servers of other protocols."""

from __future__ import annotations

import socket
import struct

_API_VERSIONS, _VERSION, _ID = 18, 0, 0x53504B
_CLIENT = b"speck"
_LARGEST = 1 << 16  # bytes of an answer


def answers(host: str, port: int, timeout: float) -> bool:
    """True if a broker of Kafka answers the request for the versions of its requests.

    Raises :class:`OSError` if nothing answers within ``timeout`` (s), and :class:`ValueError` for an answer
    of another protocol.
    """
    request = struct.pack(">hhih", _API_VERSIONS, _VERSION, _ID, len(_CLIENT)) + _CLIENT
    with socket.create_connection((host, port), timeout=timeout) as connection:
        connection.settimeout(timeout)
        connection.sendall(struct.pack(">i", len(request)) + request)
        length, correlation = struct.unpack(">ii", _read(connection, 8))
        if not 4 <= length <= _LARGEST or correlation != _ID:
            raise ValueError("the answer is not Kafka's")
        return True


def _read(connection: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        part = connection.recv(size - len(content))
        if not part:
            raise ConnectionResetError("the connection was closed")
        content += part
    return content
