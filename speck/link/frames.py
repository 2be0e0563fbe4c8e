"""Messages of a connection: one JSON object each, in one text frame, or in binary pieces if it is large.

Pieces of several messages may alternate, so that a large one delays no other.  A piece begins with the number
of its message and a byte that is 1 in the last one.
"""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PROTOCOL = 1  # raised when an end could misread the other's messages
LARGEST_FRAME = 1 << 18  # bytes
LARGEST = 160 << 20  # bytes of one message: a state of 64 MiB is 86 MiB as base64, a jar may have more
MOST_BEGUN = 8  # messages in pieces at a time
MOST_VALUES = 2_000_000  # in one message; in memory, each takes some 20 times its bytes

_PIECE = 1 << 16  # bytes
_HEAD = struct.Struct(">QB")


class BadFrame(ValueError):
    """A frame that no end of this protocol sends."""


def frames(message: dict[str, Any], number: int) -> Iterator[str | bytes]:
    """The frames of a message; ``number`` is unique among the messages of one direction."""
    packed = pack(message)
    if isinstance(packed, str):
        yield packed
    else:
        yield from pieces(packed, number)


def pack(message: dict[str, Any]) -> str | bytes:
    """The text frame of a message, or the content of a large one.  Raises :class:`BadFrame`."""
    text = json.dumps(message, separators=(",", ":"))
    if len(text) < LARGEST_FRAME:  # JSON as written here is ASCII
        return text
    content = text.encode()
    if len(content) > LARGEST:
        raise BadFrame(f"a message has {len(content):,} bytes (expected at most {LARGEST:,})")
    _check_values(content)
    return content


def pieces(content: bytes, number: int) -> Iterator[bytes]:
    """The frames of a large message."""
    for begin in range(0, len(content), _PIECE):
        last = begin + _PIECE >= len(content)
        yield _HEAD.pack(number, last) + content[begin : begin + _PIECE]


class Room:
    """The room that the other end has for large messages under way in one direction; see :class:`Assembly`.

    With more of them, that would end the connection, and so each of these messages would fail.
    """

    def __init__(self) -> None:
        self._number = self._bytes = 0

    def take(self, size: int) -> bool:
        """Take room for a message of this size (bytes); false if there is none now."""
        if self._number >= MOST_BEGUN or self._bytes + size > LARGEST:
            return False
        self._number, self._bytes = self._number + 1, self._bytes + size
        return True

    def free(self, size: int) -> None:
        """Give the room of a message back, whose last piece was sent."""
        self._number, self._bytes = self._number - 1, self._bytes - size


class SharedRoom:
    """The same for several threads."""

    def __init__(self) -> None:
        self._room, self._changed = Room(), threading.Condition()

    @contextmanager
    def taken(self, size: int) -> Iterator[None]:
        """Wait for the room of a message, and have it in the block."""
        with self._changed:
            self._changed.wait_for(lambda: self._room.take(size))
        try:
            yield
        finally:
            with self._changed:
                self._room.free(size)
                self._changed.notify_all()


class Assembly:
    """The messages of one direction, put together from their frames."""

    def __init__(self) -> None:
        self._begun: dict[int, bytearray] = {}

    def add(self, frame: str | bytes) -> dict[str, Any] | None:
        """The message that this frame completes, if any.  Raises :class:`BadFrame`."""
        if isinstance(frame, str):
            return _parsed(frame)
        if len(frame) < _HEAD.size:
            raise BadFrame(f"a piece has {len(frame)} bytes (expected {_HEAD.size} or more)")
        number, last = _HEAD.unpack_from(frame)
        content = self._begun.setdefault(number, bytearray())
        content += frame[_HEAD.size :]
        held = sum(map(len, self._begun.values()))
        if held > LARGEST or len(self._begun) > MOST_BEGUN:
            raise BadFrame(f"{len(self._begun)} messages in pieces have {held:,} bytes")
        return _parsed(self._begun.pop(number)) if last else None


def _check_values(content: bytes | bytearray) -> None:
    """Raise :class:`BadFrame` for a large message that would fill the memory of the other end."""
    number = sum(content.count(mark) for mark in b",[{")  # or fewer, as texts have such marks
    if number > MOST_VALUES:
        raise BadFrame(f"a message has {number:,} values (expected at most {MOST_VALUES:,})")


def _parsed(text: str | bytearray) -> dict[str, Any]:
    if not isinstance(text, str):
        _check_values(text)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadFrame("a message is not JSON") from error
    if not isinstance(found, dict):
        raise BadFrame("a message is not a JSON object")
    return found
