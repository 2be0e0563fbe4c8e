"""Check and repair of a store's directory.  No process may have it open during a repair."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import plyvel

from speck.errors import StoreDamaged, StoreError, StoreLocked
from speck.store.artifacts import SCRATCH, hash_of
from speck.store.codec import FORMAT_KEY, INCOMPLETE, POSITION_KEY
from speck.store.leveldb import manifest
from speck.store.leveldb.database import Database, locked
from speck.store.maintenance.contents import Contents
from speck.store.maintenance.integrity import Finding, artifacts_directory, code_findings, findings
from speck.store.transaction import Record

_AT_ONCE = 1000  # records in one write
_ROUNDS = 10  # what is dropped may have been named by what is kept, a few steps deep


def check(records: Sequence[Record], directory: Path) -> list[Finding]:
    """Everything that is wrong with these records and with the code kept beside them."""
    contents = Contents.of(records)
    return findings(contents) + code_findings(contents, intact_code(directory))


def intact_code(directory: Path) -> dict[str, bool]:
    """Of each hash under which code is kept: whether that is what the hash says."""
    return {
        path.parent.name: hash_of(path) == path.parent.name
        for path in sorted(artifacts_directory(directory).glob("*/*"))
        if path.is_file()
    }


def records_of(directory: Path) -> list[Record]:
    """Every record of a store that no process has open."""
    _demand_store(directory)
    with closing(Database(directory)) as database:
        return database.all()


def check_directory(directory: Path) -> list[Finding]:
    """Check a store that no process has open."""
    return check(records_of(directory), directory)


def repair(directory: Path) -> tuple[Path, list[Finding]]:
    """Save what can be read, drop what cannot, and mend references; returns the copy made first, and all.

    Raises :class:`~speck.errors.StoreLocked` when a process has it open, and
    :class:`~speck.errors.StoreError` for a part of a store.
    """
    _demand_store(directory)
    with _alone(directory):
        manifest.end_replacement(directory)
    _refuse_incomplete(directory)
    with _alone(directory):
        copy = _set_aside(directory)
        plyvel.repair_db(str(directory))
        manifest.seal(directory)
    lost = _salvage(directory)
    _refuse_incomplete(directory)
    with closing(Database(directory)) as database:
        database.write([(POSITION_KEY, None)])  # a standby has what was dropped
        mended = lost + _mend(database)
        remaining = check(database.all(), directory)
    return copy, mended + remaining


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Keep others from opening the database in the block, whose errors are translated."""
    try:
        with manifest.locked(directory) as alone:
            if not alone:
                raise locked(directory)
            yield
    except (plyvel.Error, OSError) as error:
        raise StoreError(f"store {str(directory)!r} cannot be repaired: {error}") from error


def _refuse_incomplete(directory: Path) -> None:
    """Raise :class:`~speck.errors.StoreError` for a part of a store, as far as its format can be read."""
    try:
        with closing(Database(directory)) as database:
            form = database.get(FORMAT_KEY)
    except StoreLocked:
        raise
    except StoreError:
        return
    if form == INCOMPLETE.encode():
        raise StoreError(
            f"store {str(directory)!r} cannot be repaired: it is an {INCOMPLETE} (start this server as its "
            "standby again, or delete the directory)"
        )


def _salvage(directory: Path) -> list[Finding]:
    """Rebuild the database from what can be read, if some of it cannot."""
    readable: list[Record] = []
    with closing(Database(directory)) as database:
        try:
            with database.scan() as found:
                readable.extend(found)
        except StoreDamaged as error:
            lost = str(error.__cause__ or error)
        else:
            return []
    with tempfile.TemporaryDirectory(dir=directory, prefix=SCRATCH) as scratch:
        with closing(Database(Path(scratch) / "new")) as database:
            for start in range(0, len(readable), _AT_ONCE):
                database.write(readable[start : start + _AT_ONCE])
        with _alone(directory):
            manifest.replace(Path(scratch) / "new", directory)
    return [Finding("the database", f"a part of it cannot be read ({lost})", "the rest was rewritten")]


def _mend(database: Database) -> list[Finding]:
    mended: list[Finding] = []
    for _ in range(_ROUNDS):
        found = [each for each in findings(Contents.of(database.all())) if each.mends]
        if not found:
            break
        database.write([change for each in found for change in each.mends])
        mended += found
    return mended


def _set_aside(directory: Path) -> Path:
    """A copy of the database's files as they were found."""
    number = 1
    while (copy := directory / f"before-repair-{number}").exists():
        number += 1
    manifest.set_aside(directory, copy)
    return copy


def _demand_store(directory: Path) -> None:
    try:
        there = bool(manifest.database_files(directory)) or manifest.is_half_replaced(directory)
    except OSError as error:
        raise StoreError(f"store {str(directory)!r} cannot be read: {error}") from error
    if not there:
        raise StoreError(f"there is no store in {str(directory)!r} (name it with --data-dir)")
