"""Tells errors of an HTTP request that was never sent from those after which its outcome is unknown."""

from __future__ import annotations

from requests import ConnectTimeout, RequestException
from requests.exceptions import InvalidSchema, InvalidURL, MissingSchema
from urllib3.exceptions import ConnectTimeoutError, LocationParseError, MaxRetryError, NewConnectionError

# The errors that requests raises, and the one that it lets through: a host name that cannot be looked up.
FAILURES = (RequestException, LocationParseError)
_NO_ADDRESS = (InvalidSchema, InvalidURL, MissingSchema, LocationParseError)


def never_sent(error: BaseException) -> bool:
    """True if one of the ``FAILURES`` occurred before anything reached the other side."""
    if isinstance(error, (ConnectTimeout, *_NO_ADDRESS)):
        return True
    reason = error.args[0] if error.args else None
    if isinstance(reason, MaxRetryError):
        return isinstance(reason.reason, (NewConnectionError, ConnectTimeoutError))
    return False
