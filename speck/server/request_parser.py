"""A request as it arrives: received by waitress's parser, but for what that takes and nobody should send.

What could be understood in two ways is refused: a server before this one may have understood it in the other,
and passed on as one request what is two here.  What a stranger sends beside the header is not kept: the
answer to a stranger does not depend on it, and room on the disk is what many strangers could take.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

from waitress.parser import HTTPRequestParser, ParsingError
from waitress.utilities import BadRequest

LONGEST_LINE = 64 * 1024  # bytes, of what stands between the chunks of a body, and behind the last one

Known = Callable[[str], bool]  # whether an ``Authorization`` header, or none (""), is of somebody let in


class Arrival(HTTPRequestParser):
    """One request.  ``known`` tells strangers from others by their ``Authorization`` header."""

    body_rcv: Any
    chunked: bool
    headers: dict[str, str]

    def __init__(self, known: Known, adjustments: Any) -> None:
        super().__init__(adjustments)
        self._known = known

    def received(self, data: bytes) -> int:
        """How many of these bytes belong to this request."""
        taken = int(super().received(data))
        if self.chunked and not self.completed and self._rambles():
            self.error, self.completed = BadRequest("a line between chunks is too long"), True
        return taken

    def parse_header(self, header_plus: bytes) -> None:
        """Read the whole header."""
        try:
            super().parse_header(header_plus)
        except ValueError as error:  # a length of thousands of digits, an address that is none
            raise ParsingError("a number or an address in the header is none") from error
        if (fault := self._ambiguity()) is not None:
            raise ParsingError(fault)
        if self.body_rcv is not None and not self._known(self.headers.get("AUTHORIZATION", "")):
            self.body_rcv.buf = _Dropped()
            self.headers["CONTENT_LENGTH"] = "0"

    def _ambiguity(self) -> str | None:
        """What the next server could read otherwise (RFC 9112, sections 3.2 and 6.1)."""
        if "TRANSFER_ENCODING" in self.headers:
            return "Transfer-Encoding is of HTTP/1.1"
        if self.chunked and "CONTENT_LENGTH" in self.headers:
            return "both Transfer-Encoding and Content-Length are given"
        host = self.headers.get("HOST")
        if "," in (host or "") or (host is None and self.version == "1.1"):
            return "Host is given twice, or not at all"
        return None

    def _rambles(self) -> bool:
        return len(self.body_rcv.control_line) + len(self.body_rcv.trailer) > LONGEST_LINE


class _Dropped:
    """In place of a body that nobody will read."""

    def append(self, data: bytes) -> None:
        """Take a part of it."""

    def __len__(self) -> int:
        return 0

    def getfile(self) -> BytesIO:
        """What there is to read."""
        return BytesIO()

    def close(self) -> None:
        """Let go of it."""
