"""Records that are read and written when a store is opened: format, identity, epoch, the next numbers."""

from __future__ import annotations

import secrets
import time

from speck.errors import StoreDamaged, StoreError
from speck.store import kinds
from speck.store.agents import AgentRecord
from speck.store.codec import (
    EPOCH_KEY,
    FIRST_KEY,
    FORMAT,
    FORMAT_KEY,
    IDENTITY_KEY,
    POSITION_KEY,
)
from speck.store.leveldb.database import Database

_EPOCH_LEAP = 1_000_000  # more starts of a primary than there are in a year, one each minute


def check(database: Database) -> None:
    """Check that all records can be read.

    Raises :class:`~speck.errors.StoreError` for another format, or damage.
    """
    there = (database.get(FORMAT_KEY) or FORMAT.encode()).decode(errors="replace")
    if there != FORMAT:
        raise StoreError(
            f"store {str(database.directory)!r} has format {there!r}, this SpecK reads {FORMAT!r}"
        )
    with database.scan() as records:
        for _ in records:  # damage is reported now, not at the first use
            pass


def ensure_format(database: Database) -> None:
    """Write the format of a new store."""
    if database.get(FORMAT_KEY) is None:
        database.write([(FORMAT_KEY, FORMAT.encode())])


def agents_in(database: Database) -> list[AgentRecord]:
    """The agents of sites, before the store is opened.  Raises :class:`~speck.errors.StoreDamaged`."""
    with database.scan(kinds.AGENT.beginning()) as found:
        records = list(found)
    try:
        return [kinds.AGENT.decoded(key, value) for key, value in records]
    except Exception as error:  # whatever the bytes may bring about
        raise StoreDamaged(
            f"store {str(database.directory)!r} is damaged: the agents of sites cannot be read "
            f"({type(error).__name__}; stop the server, and see `speck store check`)"
        ) from error


def epoch_of(position: bytes | None) -> int:
    """The epoch in which a position was made; 0 without one."""
    return int((position or b"0").partition(b".")[0])


def writes_of(position: bytes | None) -> int:
    """The number of writes up to a position; 0 without one, and for one that an earlier version made."""
    _, _, rest = (position or b"").partition(b".")
    number, dot, _ = rest.partition(b".")
    return int(number) if dot and number.isdigit() else 0


def last_epoch(database: Database) -> int:
    """The highest epoch that the store has recorded; 0 if it was never that of a pair."""
    return max(int(database.get(EPOCH_KEY) or 0), epoch_of(database.get(POSITION_KEY)))


def claimed_from(database: Database) -> int:
    """The epoch above which the store's server claims one."""
    known = last_epoch(database)
    if not known and database.get(FIRST_KEY) is not None:  # a backup, perhaps from before there was a pair
        return raised_epoch(known)
    return known


def raised_epoch(epoch: int) -> int:
    """An epoch above those since a record of ``epoch``, which may be as old as a backup.

    It is the Unix time, s, which epochs do not reach: each takes a start of a server.
    """
    now = int(time.time())
    return now if now > epoch else epoch + _EPOCH_LEAP


def leave_pair(database: Database) -> int:
    """Forget the position in a copy, from which the store will differ; returns the store's epoch.

    It is above those of the pair, whose servers agents refuse from then on.
    """
    epoch = last_epoch(database)
    if database.get(POSITION_KEY) is not None:
        epoch = raised_epoch(epoch)
        database.write([(POSITION_KEY, None), (EPOCH_KEY, str(epoch).encode())])
    return epoch


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
