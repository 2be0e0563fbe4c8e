"""Bearer tokens: the owner of each, and the role that it grants.

A server keeps no token, only the SHA-256 of each.  That is enough, because a token is long and random
(:func:`mint`), so it cannot be guessed.  A file of tokens has a line for each, ``NAME ROLE SHA256``.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import logging
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from speck.core.durable_files import rewrite_file
from speck.core.names import JOB_NAME, is_sha256
from speck.errors import Fault, InvalidInput

SHORTEST = 16  # characters
LOOP = "speck"  # the author of the reconciler's operations
_RESERVED = (LOOP, "placement")  # the authors of the server's own loops
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*\Z")  # RFC 6750, section 2.1
_LARGEST_FILE = 1 << 20  # bytes

_log = logging.getLogger(__name__)


class Role(enum.Enum):
    """The rights that a token grants: to read, or to write too."""

    READ = "read"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a token.  ``name`` is empty for the single token of a server without names."""

    name: str
    role: Role
    sha256: str = field(repr=False)


class Tokens:
    """The tokens that a server accepts."""

    def __init__(self, owners: Iterable[Owner]) -> None:
        self._owners = tuple(owners)

    @classmethod
    def single(cls, token: str) -> Tokens:
        """One token with all rights.  Raises :class:`~speck.errors.InvalidInput` if it is too short."""
        if len(token) < SHORTEST:
            raise _wrong(f"the token is too short (expected {SHORTEST} characters or more; {_HOW_TO_MAKE})")
        return cls([Owner("", Role.WRITE, digest(token.encode()))])

    def owner(self, token: bytes) -> Owner | None:
        """The owner of a token.  Takes constant time: every digest is compared, and in full."""
        given, found = digest(token), None
        for each in self.owners():
            if hmac.compare_digest(given, each.sha256):
                found = each
        return found

    def owners(self) -> tuple[Owner, ...]:
        """The owners of the tokens."""
        return self._owners


class TokenFile(Tokens):
    """The tokens of a file, which is read again when it changed: a removed token is refused at once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = _mark(path)
        self._logged = ""  # the fault of the file, as long as it has the same one
        super().__init__(read_owners(path))

    def owners(self) -> tuple[Owner, ...]:
        """The owners now; while the file cannot be read, those of the last time.

        Such a file is read again each time: what makes it readable, as ``chmod`` does, need not change it.
        """
        mark = _mark(self._path)
        if mark != self._seen:
            try:
                self._owners, self._seen, self._logged = read_owners(self._path), mark, ""
            except InvalidInput as error:
                self._note(str(error))
        return self._owners

    def _note(self, fault: str) -> None:
        if fault != self._logged:
            self._logged = fault
            _log.error("the tokens stay as they were: %s", fault)


def mint() -> str:
    """A new token of 256 random bits."""
    return secrets.token_urlsafe(32)


def digest(token: bytes) -> str:
    """The SHA-256 of a token, which is all that a server keeps."""
    return hashlib.sha256(token).hexdigest()


def token_of(environment: Mapping[str, str], file: Path | None = None) -> str | None:
    """The token that a file holds, or else ``SPECK_TOKEN_FILE`` or ``SPECK_TOKEN``; ``None`` without any.

    Raises :class:`~speck.errors.InvalidInput`, which names where it was looked for and not what is there.
    """
    named = file or (Path(environment["SPECK_TOKEN_FILE"]) if environment.get("SPECK_TOKEN_FILE") else None)
    if named is not None:
        return read_token(named)
    token = environment.get("SPECK_TOKEN")
    return _checked(token, "the token (SPECK_TOKEN)") if token else None


def read_token(path: Path) -> str:
    """The one token that a file holds.  Raises :class:`~speck.errors.InvalidInput`."""
    return _checked(_read_private(path, stat.S_IROTH, "read").strip(), f"the token in {str(path)!r}")


def read_owners(path: Path) -> tuple[Owner, ...]:
    """The owners that a file of tokens names.  Raises :class:`~speck.errors.InvalidInput`."""
    owners = _parsed(path, _text(path))
    if not owners:
        raise _wrong(f"{path} has no tokens (add one with: speck token add {path} NAME)")
    return owners


def _parsed(path: Path, text: str) -> tuple[Owner, ...]:
    owners: dict[str, Owner] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if words:
            owner = _owner(words, path, number)
            if owner.name in owners:
                raise _wrong(f"{path}, line {number}: name {owner.name!r} is given twice (expected once)")
            owners[owner.name] = owner
    return tuple(owners.values())


def add_owner(path: Path, owner: Owner) -> None:
    """Add a line to a file of tokens, which is made where it is not there, for its owner alone."""
    if not JOB_NAME.match(owner.name) or owner.name in _RESERVED:
        expected = f"letters, digits, '.', '_', '-'; not {' or '.join(map(repr, _RESERVED))}"
        raise _wrong(f"{owner.name!r} is not a name (expected {expected})")
    text = _text(path) if path.exists() else ""
    if any(each.name == owner.name for each in _parsed(path, text)):
        raise _wrong(f"{path} names {owner.name!r} already (remove that first)")
    before = f"{text}\n" if text and not text.endswith("\n") else text
    _replace(path, f"{before}{owner.name} {owner.role.value} {owner.sha256}\n")


def remove_owner(path: Path, name: str) -> None:
    """Remove the line of one owner from a file of tokens."""
    text = _text(path)
    if all(each.name != name for each in _parsed(path, text)):
        raise _wrong(f"{path} does not name {name!r}")
    lines = text.splitlines(keepends=True)
    _replace(path, "".join(line for line in lines if line.partition("#")[0].split()[:1] != [name]))


def _text(path: Path) -> str:
    return _read_private(path, stat.S_IWGRP | stat.S_IWOTH, "written to")


def _replace(path: Path, text: str) -> None:
    """Replace the content in one step, so that a server that reads the file sees the old or the new one.

    Owner and permissions stay: the server may read the file as another user, or as one of its group.
    """
    with _translated(path):
        rewrite_file(path, text.encode("ascii"), mode=stat.S_IRUSR | stat.S_IWUSR)


def _owner(words: list[str], path: Path, number: int) -> Owner:
    roles = {role.value: role for role in Role}
    if words[0] == LOOP:
        raise _wrong(f"{path}, line {number}: name {LOOP!r} is reserved (for the server's own reconciler)")
    if len(words) != 3 or not JOB_NAME.match(words[0]) or words[1] not in roles:
        # The text is not repeated: it may be a token, by mistake.
        raise _wrong(f"{path}, line {number} is not understood (expected NAME read|write SHA256)")
    if not is_sha256(words[2]):
        raise _wrong(f"{path}, line {number}: no SHA-256 (expected 64 hexadecimal digits, not the token)")
    return Owner(words[0], roles[words[1]], words[2])


def _checked(token: str, what: str) -> str:
    if not _TOKEN.match(token):
        raise _wrong(f"{what} is not valid (expected one line of letters, digits and -._~+/=)")
    return token


_HOW_TO_MAKE = "make one with: openssl rand -hex 32"


def _read_private(path: Path, forbidden: int, done: str) -> str:
    with _translated(path), path.open("rb") as file:
        status = os.fstat(file.fileno())
        if stat.S_ISREG(status.st_mode) and status.st_mode & forbidden:  # a pipe has no others
            raise _wrong(f"{path} can be {done} by others (expected its owner alone: chmod 600 {path})")
        return file.read(_LARGEST_FILE).decode("ascii")


def _mark(path: Path) -> tuple[int, int, int]:
    try:
        status = path.stat()
    except OSError:
        return (0, 0, 0)
    return (status.st_ino, status.st_size, status.st_mtime_ns)


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Translate errors of the file system and of decoding."""
    try:
        yield
    except OSError as error:
        raise _wrong(f"{path} cannot be used: {error.strerror or error}") from error
    except UnicodeDecodeError:  # which repeats what it could not read
        raise _wrong(f"{path} is not a token file (expected ASCII text)") from None


def _wrong(message: str) -> InvalidInput:
    return InvalidInput([Fault(message)], "token")
