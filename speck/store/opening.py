"""Records that are read and written when a store is opened: its format, its identity, the next numbers."""

from __future__ import annotations

import secrets
from pathlib import Path

from speck.errors import StoreError
from speck.store.codec import FORMAT, FORMAT_KEY, IDENTITY_KEY, POSITION_KEY
from speck.store.leveldb.database import Database


def check(database: Database, directory: Path) -> None:
    """Check that all records can be read, and write the format of a new store.

    Raises :class:`~speck.errors.StoreError` for another format, or damage.
    """
    found = database.get(FORMAT_KEY)
    there = FORMAT if found is None else found.decode(errors="replace")
    if there != FORMAT:
        raise StoreError(f"store {str(directory)!r} has format {there!r}, this SpecK reads {FORMAT!r}")
    with database.scan() as records:
        for _ in records:  # damage is reported now, not at the first use
            pass
    if found is None:
        database.write([(FORMAT_KEY, FORMAT.encode())])


def forget_position(database: Database) -> None:
    """Forget the position in a copy, from which the store will differ."""
    if database.get(POSITION_KEY) is not None:
        database.write([(POSITION_KEY, None)])


def identity_of(database: Database) -> str:
    """The identity by which attempts name this store; a copy restored from a backup has the same."""
    found = database.get(IDENTITY_KEY)
    if found is None:
        found = new_identity().encode()
        database.write([(IDENTITY_KEY, found)])
    return found.decode()


def new_identity() -> str:
    """The identity of a new store."""
    return secrets.token_hex(8)


def next_number(database: Database, prefix: bytes) -> int:
    """The number after the last one of a kind of numbered records."""
    with database.scan(prefix, reverse=True) as found:
        last, _ = next(found, (b"/-1", b""))
    return int(last.rsplit(b"/", 1)[1]) + 1
