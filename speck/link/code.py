"""Codes with which a site joins: the site, a secret, and the server to which they belong."""

from __future__ import annotations

import base64
import binascii
import hashlib
import secrets
import struct
import zlib
from dataclasses import dataclass, field

from speck.errors import Fault, InvalidInput

SECRET = 16  # bytes: 128 random bits
_PREFIX = "speck-"
_FORMAT = 1
_HEAD = struct.Struct(">B16s4sB")  # format, secret, server, length of the fingerprint
_SUM = struct.Struct(">I")
_FINGERPRINTS = (0, 32)  # bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinCode:
    """A code with which one site joins one server; ``server`` identifies its store.

    ``fingerprint`` is the SHA-256 of the server's certificate; empty for a server without TLS of its own.
    """

    site: str
    server: bytes
    fingerprint: bytes = b""
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(SECRET), repr=False)

    @property
    def sha256(self) -> str:
        """The hash of the secret, which is all that a server keeps of it."""
        return hashlib.sha256(self.secret).hexdigest()

    def text(self) -> str:
        """The code as it is printed, with a checksum."""
        head = _HEAD.pack(_FORMAT, self.secret, self.server, len(self.fingerprint))
        content = head + self.fingerprint + self.site.encode()
        packed = base64.urlsafe_b64encode(content + _SUM.pack(zlib.crc32(content)))
        return _PREFIX + packed.decode().rstrip("=")

    @classmethod
    def parse(cls, text: str) -> JoinCode:
        """The inverse of :meth:`text`.  Raises :class:`~speck.errors.InvalidInput`; never shows the code."""
        content = _content(text.strip())
        version, secret, server, length = _HEAD.unpack_from(content)
        if version != _FORMAT:
            raise _wrong(f"the code has format {version} (expected {_FORMAT}: update the older of the two)")
        if length not in _FINGERPRINTS:
            raise _damaged()
        end = _HEAD.size + length
        try:
            site = content[end:].decode()
        except UnicodeDecodeError:
            raise _damaged() from None
        return cls(site=site, server=server, fingerprint=content[_HEAD.size : end], secret=secret)


def server_mark(identity: str) -> bytes:
    """The mark of a store in its codes."""
    return hashlib.sha256(identity.encode()).digest()[:4]


def _content(text: str) -> bytes:
    if not text.startswith(_PREFIX):
        raise _wrong(
            f"this is not a code to join (expected {_PREFIX}..., as printed by: speck sites add NAME)"
        )
    packed = text.removeprefix(_PREFIX)
    try:
        found = base64.b64decode(packed + "=" * (-len(packed) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        raise _damaged() from None
    content, total = found[: -_SUM.size], found[-_SUM.size :]
    # The last letter may have bits that say nothing.
    whole = base64.urlsafe_b64encode(found).decode().rstrip("=") == packed.rstrip("=")
    if not whole or len(content) < _HEAD.size or _SUM.pack(zlib.crc32(content)) != total:
        raise _damaged()
    return content


def _damaged() -> InvalidInput:
    return _wrong("the code is damaged or not complete (expected it as printed by: speck sites add NAME)")


def _wrong(message: str) -> InvalidInput:
    return InvalidInput([Fault(message)], "code")
