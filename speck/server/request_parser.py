"""Parses requests as waitress does, and refuses ambiguous ones that waitress accepts.

A request that can be understood in two ways is refused: a proxy before this server may have understood it in
the other way, and passed on as one request a text that is two here.  The body of an unauthenticated request
is discarded: its answer does not depend on the body, and many such requests could fill the disk.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from typing import Any

from waitress.parser import HTTPRequestParser, ParsingError
from waitress.utilities import BadRequest

LONGEST_LINE = 64 * 1024  # bytes, of what stands between the chunks of a body, and behind the last one

IsKnown = Callable[[str], bool]  # True if an ``Authorization`` header, "" for none, is accepted


class StrictParser(HTTPRequestParser):
    """One request.  ``is_known`` decides by its ``Authorization`` header if its body is received."""

    body_rcv: Any
    chunked: bool
    headers: dict[str, str]

    def __init__(self, is_known: IsKnown, adjustments: Any) -> None:
        super().__init__(adjustments)
        self._is_known = is_known

    def received(self, data: bytes) -> int:
        """Parse these bytes; returns the number of those that belong to this request."""
        taken = int(super().received(data))
        if self.chunked and not self.completed and self._has_long_line():
            detail = f"a line between chunks is too long (expected {LONGEST_LINE:,} bytes or less)"
            self.error, self.completed = BadRequest(detail), True
        return taken

    def parse_header(self, header_plus: bytes) -> None:
        """Read the whole header."""
        try:
            super().parse_header(header_plus)
        except ValueError as error:  # a length of thousands of digits, an address that is none
            raise ParsingError("a number or an address in the header is not valid") from error
        if (fault := self._ambiguity()) is not None:
            raise ParsingError(fault)
        if self.body_rcv is not None and not self._is_known(self.headers.get("AUTHORIZATION", "")):
            self.body_rcv.buf = _DiscardedBody()
            self.headers["CONTENT_LENGTH"] = "0"

    def _ambiguity(self) -> str | None:
        """The part that another server could read otherwise (RFC 9112, sections 3.2 and 6.1)."""
        if "TRANSFER_ENCODING" in self.headers:
            return "Transfer-Encoding is given in HTTP/1.0 (expected HTTP/1.1)"
        if self.chunked and "CONTENT_LENGTH" in self.headers:
            return "both Transfer-Encoding and Content-Length are given (expected one of them)"
        host = self.headers.get("HOST")
        if "," in (host or "") or (host is None and self.version == "1.1"):
            return "Host is given twice, or not at all (expected once)"
        return None

    def _has_long_line(self) -> bool:
        return len(self.body_rcv.control_line) + len(self.body_rcv.trailer) > LONGEST_LINE


class _DiscardedBody:
    """Takes the place of a body that is not read."""

    def append(self, data: bytes) -> None:
        """Discard a part of it."""

    def __len__(self) -> int:
        return 0

    def getfile(self) -> BytesIO:
        """An empty file."""
        return BytesIO()

    def close(self) -> None:
        """Do nothing."""
