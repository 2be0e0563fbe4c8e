"""Which errors of an HTTP request mean that nobody was asked anything."""

from __future__ import annotations

from requests import ConnectTimeout, RequestException
from requests.exceptions import InvalidSchema, InvalidURL, MissingSchema
from urllib3.exceptions import ConnectTimeoutError, LocationParseError, MaxRetryError, NewConnectionError

# What requests raises, and what it lets through: of a host that no name server could be asked for.
FAILURES = (RequestException, LocationParseError)
_NO_ADDRESS = (InvalidSchema, InvalidURL, MissingSchema, LocationParseError)


def never_asked(error: BaseException) -> bool:
    """Whether one of the ``FAILURES`` came before the other side had heard anything."""
    if isinstance(error, (ConnectTimeout, *_NO_ADDRESS)):
        return True
    reason = error.args[0] if error.args else None
    if isinstance(reason, MaxRetryError):
        return isinstance(reason.reason, (NewConnectionError, ConnectTimeoutError))
    return False
