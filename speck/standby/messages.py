"""Requests between the servers of a pair and their witness: a header of plain data, and bytes.

A request of a lower epoch, or of one that is not the primary of its epoch, is refused with the present one.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from speck.store.transaction import Record, Write

Header = Mapping[str, Any]
Answer = dict[str, Any]
Handler = Callable[[str, Header, bytes], Answer]

_LENGTHS = struct.Struct(">Iq")  # of a key and its value; -1: the key is deleted
_SIZE = struct.Struct(">I")


class NoAnswer(Exception):
    """The other side cannot be reached, or does not answer in time: the request may have been carried out."""


class Refused(Exception):
    """The other side does not accept the request; ``epoch`` and ``holder`` are those that it knows."""

    def __init__(self, reason: str, epoch: int = 0, holder: str = "") -> None:
        self.epoch, self.holder = epoch, holder
        super().__init__(reason)


class BadRequest(Exception):
    """A request that is not well-formed."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Times in s: between two renewals, of a lease from the sending of its renewal on, of silence before a
    take-over, for an answer, and for that to a part of a copy or a file.

    Nobody takes over before ``silence`` has passed since the last renewal that it received, which is longer
    than the ``lease`` of the primary that sent it.
    """

    renewal: float = 1.0
    lease: float = 4.0
    silence: float = 5.0
    answer: float = 2.0
    transfer: float = 10.0


def pack(changes: Iterable[Write]) -> bytes:
    """Changes as bytes."""
    packed = bytearray()
    for key, value in changes:
        packed += _LENGTHS.pack(len(key), -1 if value is None else len(value)) + key + (value or b"")
    return bytes(packed)


def unpack(packed: bytes) -> list[Write]:
    """The changes that :func:`pack` made bytes of.  Raises :class:`BadRequest`."""
    return list(_unpacked(packed))


def _unpacked(packed: bytes) -> Iterator[Write]:
    start = 0
    while start < len(packed):
        if start + _LENGTHS.size > len(packed):
            raise BadRequest("the changes are cut off")
        key, value = _LENGTHS.unpack_from(packed, start)
        middle = start + _LENGTHS.size + key
        end = middle + max(0, value)
        if end > len(packed) or value < -1:
            raise BadRequest("the changes are cut off")
        yield packed[start + _LENGTHS.size : middle], None if value < 0 else packed[middle:end]
        start = end


def chunks(records: Iterable[Record], size: int) -> Iterator[bytes]:
    """Records, packed in pieces of some ``size`` bytes."""
    gathered: list[Record] = []
    total = 0
    for key, value in records:
        gathered.append((key, value))
        total += len(key) + len(value)
        if total >= size:
            yield pack(gathered)
            gathered, total = [], 0
    yield pack(gathered)


def body_of(header: Header, payload: bytes = b"") -> bytes:
    """A request as the body of a message."""
    head = json.dumps(header).encode()
    return _SIZE.pack(len(head)) + head + payload


def parts_of(body: bytes) -> tuple[Header, bytes]:
    """The header and the bytes of a request.  Raises :class:`BadRequest`."""
    try:
        (size,) = _SIZE.unpack_from(body)
        head = json.loads(body[_SIZE.size : _SIZE.size + size])
    except (struct.error, ValueError) as error:
        raise BadRequest("the request has no header") from error
    if not isinstance(head, dict):
        raise BadRequest("the header is not an object")
    return head, body[_SIZE.size + size :]


def text_in(header: Header, name: str) -> str:
    """A text in a header.  Raises :class:`BadRequest`."""
    found = header.get(name)
    if not isinstance(found, str):
        raise BadRequest(f"{name} is {found!r} (expected text)")
    return found


def number_in(header: Header, name: str) -> int:
    """A number in a header, 0 or more.  Raises :class:`BadRequest`."""
    found = header.get(name)
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise BadRequest(f"{name} is {found!r} (expected a number, 0 or more)")
    return found


def flag_in(header: Header, name: str) -> bool:
    """A truth value in a header.  Raises :class:`BadRequest`."""
    found = header.get(name)
    if not isinstance(found, bool):
        raise BadRequest(f"{name} is {found!r} (expected true or false)")
    return found
