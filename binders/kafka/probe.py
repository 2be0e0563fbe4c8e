"""Requests of ours to a broker, which tell Kafka from servers of other protocols, and name a refused login.

kafka-python repeats a login that is refused until its time is over, and then names no reason.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from binders.kafka.security import Sasl, Security

_HANDSHAKE, _API_VERSIONS, _AUTHENTICATE, _ID = 17, 18, 36, 0x53504B
_CLIENT = "speck"
_LARGEST = 1 << 16  # bytes of an answer
_UNSUPPORTED_MECHANISM, _ILLEGAL_STATE = 33, 34  # errors of the protocol
_NONE = "NONE"  # no mechanism of SASL: a listener with SASL answers with those that it offers

_Connection = socket.socket


class LoginRefused(Exception):
    """The reason for which a broker does not accept a login, as a predicate about the broker."""


def answers(host: str, port: int, timeout: float, security: Security | None = None) -> bool:
    """True if a broker of Kafka answers the request for the versions of its requests.

    Raises :class:`OSError` if nothing answers within ``timeout`` (s), and :class:`ValueError` for an answer
    of another protocol.
    """
    with _connected(host, port, timeout, security) as connection:
        _check(connection)
        return True


def check_login(host: str, port: int, timeout: float, security: Security) -> None:
    """Log in; raises :class:`LoginRefused`, and as :func:`answers`."""
    sasl = security.sasl
    with _connected(host, port, timeout, security) as connection:
        _check(connection)
        if sasl is None:
            _check_no_login(connection)
            return
        error, offered = _handshake(connection, sasl.mechanism)
        if error == _ILLEGAL_STATE:
            raise LoginRefused(
                "takes no login at this port (expected another port, or no username and password)"
            )
        if error:
            raise LoginRefused(
                f"does not offer {sasl.mechanism} (expected sasl to be one of {_listed(offered)})"
            )
        _authenticate(connection, sasl)


def _check_no_login(connection: _Connection) -> None:
    """Raise :class:`LoginRefused` where a login is required."""
    try:
        error, offered = _handshake(connection, _NONE)
    except OSError:  # some servers close a connection without SASL at such a request
        return
    if error == _UNSUPPORTED_MECHANISM:
        expected = "expected broker_login with username, password and sasl"
        raise LoginRefused(f"requires a login by {_listed(offered)} ({expected})")


def _listed(mechanisms: list[str]) -> str:
    return ", ".join(sorted(each.lower() for each in mechanisms))


@contextmanager
def _connected(host: str, port: int, timeout: float, security: Security | None) -> Iterator[_Connection]:
    with socket.create_connection((host, port), timeout=timeout) as plain:
        plain.settimeout(timeout)
        if security is None or security.context is None:
            yield plain
        else:
            with security.context.wrap_socket(plain, server_hostname=host) as encrypted:
                yield encrypted


def _check(connection: _Connection) -> None:
    _exchange(connection, _API_VERSIONS, 0, b"")


def _handshake(connection: _Connection, mechanism: str) -> tuple[int, list[str]]:
    """The error and the mechanisms offered, in answer to a request for one."""
    answer = _exchange(connection, _HANDSHAKE, 1, _string(mechanism))
    error, number = struct.unpack_from(">hi", answer)
    offered, at = [], 6
    for _ in range(number):
        (length,) = struct.unpack_from(">h", answer, at)
        offered.append(answer[at + 2 : at + 2 + length].decode(errors="replace"))
        at += 2 + length
    return error, offered


def _authenticate(connection: _Connection, sasl: Sasl) -> None:
    from kafka.net.sasl import get_sasl_mechanism

    mechanism = get_sasl_mechanism(sasl.mechanism)(**sasl.options())
    while not mechanism.is_done():
        token = mechanism.auth_bytes()
        answer = _exchange(connection, _AUTHENTICATE, 0, struct.pack(">i", len(token)) + token)
        error, length = struct.unpack_from(">hh", answer)
        text_end = 4 + max(0, length)
        if error:
            reason = answer[4:text_end].decode(errors="replace") or f"error {error}"
            raise LoginRefused(f"refused the login of user {sasl.username!r}: {reason}")
        try:
            mechanism.receive(answer[text_end + 4 :])
        except KeyError as missing:
            raise ValueError(f"its answer to the login has no {missing}") from missing


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def _exchange(connection: _Connection, api: int, version: int, body: bytes) -> bytes:
    request = struct.pack(">hhi", api, version, _ID) + _string(_CLIENT) + body
    connection.sendall(struct.pack(">i", len(request)) + request)
    length, correlation = struct.unpack(">ii", _read(connection, 8))
    if not 4 <= length <= _LARGEST or correlation != _ID:
        raise ValueError("the answer is not Kafka's")
    return _read(connection, length - 4)


def _read(connection: _Connection, size: int) -> bytes:
    content = b""
    while len(content) < size:
        part = connection.recv(size - len(content))
        if not part:
            raise ConnectionResetError("the connection was closed")
        content += part
    return content
