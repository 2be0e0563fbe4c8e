"""The token of an engine's login, as it can be shown to an engine."""

from __future__ import annotations

import re

from speck.errors import Unreachable

# What a header of HTTP can carry, whatever its version ("ASCII-Value" of gRPC over HTTP/2): a library would
# only say that a header is illegal, and repeat it.
_TOKEN = re.compile(r"[\x20-\x7e]+\Z")


def checked_token(address: str, token: str) -> str:
    """The token.  Raises :class:`~speck.errors.Unreachable` when no header can carry it."""
    if not _TOKEN.match(token):
        message = f"engine_login.token of {address} is no token (expected one line of printable ASCII)"
        raise Unreachable(message, address=address)
    return token
