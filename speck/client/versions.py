"""Errors that a server of another version than the command may explain."""

from __future__ import annotations

from http import HTTPStatus

import speck
from speck.client.client import Client
from speck.client.transport import RequestRefused
from speck.errors import ServerError

_DEVELOPMENT = ".dev"  # in the version of code that changes without a new version
# What a server says of a path, a method or a parameter that a later version has.
_UNKNOWN: dict[int, str] = {
    HTTPStatus.NOT_FOUND: "no such path",
    HTTPStatus.METHOD_NOT_ALLOWED: "method not allowed",
    HTTPStatus.UNPROCESSABLE_ENTITY: "unknown query parameter",
}


def explained(error: Exception, client: Client) -> ServerError | None:
    """The error with the versions of both; ``None`` if they are the same, or say nothing about it.

    It is asked of the server, which does not change anything there.
    """
    refused = isinstance(error, RequestRefused)
    if not (_is_unknown(error) if isinstance(error, RequestRefused) else _is_defect(error, client)):
        return None
    ours, theirs = speck.__version__, client.server_version()
    text = str(error) if refused else " ".join(f"{type(error).__name__}: {error}".split())
    if theirs is not None and theirs != ours:
        what = text if refused else f"the answer of the server is not as expected ({text})"
        versions = f"the server at {client.url} runs SpecK {theirs}, and this command is SpecK {ours}"
        return ServerError(f"{what}: {versions} (upgrade the older of the two)")
    if refused or theirs is None or _DEVELOPMENT not in ours:
        return None
    other = f"the server at {client.url} runs other code of {ours}: restart it"
    return ServerError(f"{text} (a fault inside SpecK, or {other}; SPECK_DEBUG=1 shows where)")


def _is_unknown(refusal: RequestRefused) -> bool:
    """True for the refusal of a request whose form the server does not know."""
    words = _UNKNOWN.get(refusal.status)
    return words is not None and words in str(refusal)


def _is_defect(error: Exception, client: Client) -> bool:
    """True for an error after an answer of the server that no command expects, such as a missing key."""
    return client.answered and isinstance(error, LookupError | TypeError | ValueError | AttributeError)
