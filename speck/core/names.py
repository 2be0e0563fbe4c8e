"""The form of the names of jobs, compositions, sites and contents; light, since every command imports it."""

from __future__ import annotations

import re

JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")


def is_sha256(text: str) -> bool:
    """True for a SHA-256 in hexadecimal, lower case: the name of a content, safe as that of a folder."""
    return _SHA256.match(text) is not None
