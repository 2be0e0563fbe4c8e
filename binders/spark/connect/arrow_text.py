"""The text of an answer of one text, from Arrow's stream format, without Arrow's library.

That takes 40 MB of memory, and most answers that a site at rest gives are one text.  What is not of that form
is left to the library.  See the Arrow columnar format, "Serialization and Interprocess Communication".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_CONTINUED = 0xFFFFFFFF
_SCHEMA, _BATCH = 1, 3  # kinds of messages
_UTF8 = 5  # the type of a column


@dataclass(frozen=True, slots=True)
class _Table:
    """A table of a FlatBuffer, at a position of its bytes."""

    data: bytes
    at: int

    @classmethod
    def root(cls, data: bytes) -> _Table:
        return cls(data, _number("<I", data, 0))

    def field(self, number: int) -> int:
        """The position of a field; 0 for one that has its default."""
        head = self.at - _number("<i", self.data, self.at)
        place = 4 + 2 * number
        offset = _number("<H", self.data, head + place) if place < _number("<H", self.data, head) else 0
        return self.at + offset if offset else 0

    def number(self, number: int, form: str) -> int:
        """The number in a field."""
        at = self.field(number)
        return _number(form, self.data, at) if at else 0

    def reference(self, number: int) -> int:
        """The position of the table or vector that a field refers to; 0 for none."""
        at = self.field(number)
        return at + _number("<I", self.data, at) if at else 0


def one_text(stream: bytes) -> str | None:
    """The text of a stream of one row of one text; ``None`` for any other."""
    try:
        return _one_text(stream)
    except (struct.error, UnicodeDecodeError):
        return None


def _one_text(stream: bytes) -> str | None:
    at, is_text = 0, False
    while _number("<I", stream, at) == _CONTINUED and (size := _number("<i", stream, at + 4)) > 0:
        message = _Table.root(stream[at + 8 : at + 8 + size])
        header = _Table(message.data, message.reference(2))
        body = at + 8 + size
        length = message.number(3, "<q")
        if length < 0:
            return None
        at = body + length
        kind = message.number(1, "<B")
        if kind == _SCHEMA:
            is_text = _has_one_text(header)
        elif kind == _BATCH and is_text:
            return _text_of(header, stream[body:at])
        else:
            return None
    return None


def _has_one_text(schema: _Table) -> bool:
    fields = schema.reference(1)
    if not fields or _number("<I", schema.data, fields) != 1:
        return False
    column = _Table(schema.data, fields + 4 + _number("<I", schema.data, fields + 4))
    return column.number(2, "<B") == _UTF8


def _text_of(batch: _Table, body: bytes) -> str | None:
    nodes, buffers = batch.reference(1), batch.reference(2)
    if not nodes or not buffers or batch.field(3):  # the last is the compression
        return None
    rows, nulls = struct.unpack_from("<2q", batch.data, nodes + 4)
    if (rows, nulls) != (1, 0) or _number("<I", batch.data, buffers) != 3:
        return None
    # Offsets and lengths of three buffers: which values are there, where they end, and the texts.
    _, _, places, _, texts, length = struct.unpack_from("<6q", batch.data, buffers + 4)
    begin, end = _number("<i", body, places), _number("<i", body, places + 4)
    if not 0 <= begin <= end <= length or not 0 <= texts <= len(body) - length:
        return None
    return body[texts + begin : texts + end].decode()


def _number(form: str, data: bytes, at: int) -> int:
    if at < 0:
        raise struct.error("a position before the beginning")
    found: int = struct.unpack_from(form, data, at)[0]
    return found
