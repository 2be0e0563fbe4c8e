"""Detection of secrets in plain text.  A composition is stored and shown, and must not contain any."""

from __future__ import annotations

import re
from collections.abc import Mapping

# Only the last word of a name counts: `token_file` and `tokens_per_second` are no secrets.
_NAME = re.compile(
    r"(?:^|[^a-z])(?:passwords?|passwd|passphrase|pwd|secrets?|token|credentials?"
    r"|(?:api|access|private|secret|client|account|signing|encryption)[^a-z]?key)\Z",
    re.IGNORECASE,
)
_PRIVATE_KEY = re.compile(r"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----")
# Matches from the slashes on: a pattern for the whole scheme takes quadratic time.  The slashes are first, as
# Python finds a pattern that begins with a literal many times as fast in a text of megabytes.
_LOGIN_IN_URL = re.compile(r"://(?<=[a-z0-9+.-]://)[^/\s:@]*:[^/\s@]+@", re.IGNORECASE)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

EXPECTED = "expected the path of a file at the job's site, such as password_file: see docs/secrets.md"
PLAIN_TEXT = "looks like a secret, but compositions are stored and shown"


def names_secret(name: str) -> bool:
    """True if a field, argument or variable of this name probably holds a secret."""
    return _NAME.search(_CAMEL.sub("_", name)) is not None


def is_secret(value: object) -> bool:
    """True for a private key, or text with an address that contains a password."""
    return isinstance(value, str) and bool(_PRIVATE_KEY.search(value) or _LOGIN_IN_URL.search(value))


def holds_secret(name: str, value: object) -> bool:
    """True if a value of this name, or a value inside of it, is probably a secret."""
    if isinstance(value, Mapping) and any(holds_secret(str(key), inner) for key, inner in value.items()):
        return True
    if isinstance(value, list) and any(holds_secret("", inner) for inner in value):
        return True
    filled = value is not None and not isinstance(value, bool) and value != ""
    return is_secret(value) or (filled and names_secret(name))


def secret_fault(name: str, value: object) -> str | None:
    """The fault of a secret in a composition, as a predicate without the value; ``None`` for no secret."""
    return f"{PLAIN_TEXT} ({EXPECTED})" if holds_secret(name, value) else None
