"""The bearer token of an engine's login."""

from __future__ import annotations

import re

from speck.errors import Unreachable

# The values that an HTTP header can carry in every version ("ASCII-Value" of gRPC over HTTP/2).  They are
# checked here, since an error of a library would repeat the value, which is a secret.

_TOKEN = re.compile(r"[\x20-\x7e]+\Z")


def checked_token(address: str, token: str) -> str:
    """Return the token; raise :class:`~speck.errors.Unreachable` if no HTTP header can carry it."""
    if not _TOKEN.match(token):
        message = (
            f"engine_login.token of {address} is not a bearer token (expected one line of printable ASCII)"
        )
        raise Unreachable(message, address=address)
    return token
