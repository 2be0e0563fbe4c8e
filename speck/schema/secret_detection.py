"""What looks like a secret that somebody wrote out.  A composition is stored and shown: it holds none."""

from __future__ import annotations

import re

# The last word of a name decides: `token_file` and `tokens_per_second` name no secret.
_NAME = re.compile(
    r"(?:^|[^a-z])(?:passwords?|passwd|passphrase|pwd|secrets?|token|credentials?"
    r"|(?:api|access|private|secret|client|account|signing|encryption)[^a-z]?key)\Z",
    re.IGNORECASE,
)
_PRIVATE_KEY = re.compile(r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----")
# From the slashes on: to look for a whole scheme takes the square of the text's length.
_LOGIN_IN_URL = re.compile(r"(?<=[a-z0-9+.-])://[^/\s:@]*:[^/\s@]+@", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

RIGHT = "expected the path of a file at the job's site, such as password_file: see docs/secrets.md"
WRITTEN_OUT = "looks like a secret, and what stands in a composition is stored and shown"


def names_secret(name: str) -> bool:
    """Whether what has this name is a secret, to all appearance."""
    return _NAME.search(_CAMEL.sub("_", name)) is not None


def is_secret(value: object) -> bool:
    """Whether this is a private key, or an address with a password in it."""
    return isinstance(value, str) and bool(_PRIVATE_KEY.search(value) or _LOGIN_IN_URL.search(value))


def secret_fault(name: str, value: object) -> str | None:
    """What is wrong with a value of this name in a composition; the value itself is not repeated."""
    filled = isinstance(value, str | int | float) and not isinstance(value, bool) and value != ""
    if is_secret(value) or (filled and names_secret(name)):
        return f"{WRITTEN_OUT} ({RIGHT})"
    return None
