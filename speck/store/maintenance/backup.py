"""A store in one file: a gzipped tar of its records and of the code kept beside it, never of a secret.

Members, in this order: ``backup.json`` (format, version, when), ``records/NUMBER`` (keys and values, each
after their two lengths), ``artifacts/HASH/NAME``, and ``end.json`` (how many there were of each), without
which a backup is not whole.
"""

from __future__ import annotations

import gzip
import io
import json
import logging
import re
import shutil
import struct
import tarfile
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from speck.core.durable_files import sync_directory, sync_file
from speck.errors import StoreError
from speck.store import kinds
from speck.store.artifacts import hash_of
from speck.store.codec import EPOCH_KEY, FIRST_KEY, FORMAT
from speck.store.leveldb.database import Database
from speck.store.maintenance.integrity import LEAP, artifacts_directory
from speck.store.opening import raised_epoch
from speck.store.transaction import Record

_log = logging.getLogger(__name__)

_LENGTHS = struct.Struct(">II")
_CHUNK = 1024 * 1024  # bytes of records in one member, and of a file read at once
_CODE = re.compile(r"artifacts/([0-9a-f]{64})/([^/]+)\Z")
_NOT_WHOLE = (
    tarfile.TarError,
    gzip.BadGzipFile,
    zlib.error,
    struct.error,
    EOFError,
    ValueError,
    KeyError,
    TypeError,
)
_GZIP = 16 + zlib.MAX_WBITS  # zlib's code for the gzip container


@dataclass(frozen=True)
class Restored:
    """The contents of a backup; ``at`` is the time at which it was made (Unix time, s)."""

    at: float
    records: int
    artifacts: int


def archive(records: Sequence[Record], directory: Path, at: float, version: str) -> Iterator[bytes]:
    """The backup, piece by piece, of these records and the code below ``directory``.

    A file that was harmed is left out: the backup would not be restored, and all of it be lost for one file.
    """
    code = sorted(each for each in artifacts_directory(directory).glob("*/*") if _is_intact(each))
    packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP)
    for piece in _tar(records, code, at, version):
        if packed := packer.compress(piece):
            yield packed
    yield packer.flush()


def _is_intact(path: Path) -> bool:
    if not path.is_file():
        return False
    if hash_of(path) == path.parent.name:
        return True
    _log.warning("%s does not match its hash, and is left out of the backup (see speck store check)", path)
    return False


def _tar(records: Sequence[Record], code: Sequence[Path], at: float, version: str) -> Iterator[bytes]:
    about = {"format": FORMAT, "speck": version, "at": at}
    yield from _member("backup.json", json.dumps(about).encode())
    for number, chunk in enumerate(_chunks(records)):
        yield from _member(f"records/{number:06}", chunk)
    for path in code:
        with path.open("rb") as file:
            name = f"artifacts/{path.parent.name}/{path.name}"
            yield from _file_member(name, file, path.stat().st_size)
    counts = {"records": len(records), "artifacts": len(code)}
    yield from _member("end.json", json.dumps(counts).encode())
    yield bytes(2 * tarfile.BLOCKSIZE)


def _chunks(records: Iterable[Record]) -> Iterator[bytes]:
    chunk = bytearray()
    for key, value in records:
        chunk += _LENGTHS.pack(len(key), len(value)) + key + value
        if len(chunk) >= _CHUNK:
            yield bytes(chunk)
            chunk.clear()
    yield bytes(chunk)


def _member(name: str, content: bytes) -> Iterator[bytes]:
    return _file_member(name, io.BytesIO(content), len(content))


def _file_member(name: str, file: IO[bytes], size: int) -> Iterator[bytes]:
    header = tarfile.TarInfo(name)
    header.size, header.mode = size, 0o600
    yield header.tobuf(tarfile.PAX_FORMAT)
    remaining = size
    while remaining:
        piece = file.read(min(remaining, _CHUNK))
        if not piece:
            raise StoreError(f"{name} became shorter while it was backed up (try again)")
        remaining -= len(piece)
        yield piece
    yield bytes(-size % tarfile.BLOCKSIZE)


def restore(file: IO[bytes], name: str, directory: Path) -> Restored:
    """Make a store of a backup; ``name`` is the file's.  Creates all of it, or nothing.

    Raises :class:`~speck.errors.StoreError` when there is something in the directory already, and for a
    file that is no whole backup.
    """
    try:
        if directory.exists() and any(directory.iterdir()):
            raise StoreError(
                f"{str(directory)!r} is not empty, so nothing was restored "
                "(move its contents away, or choose another directory with --data-dir)"
            )
        directory.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=directory.parent, prefix=f".{directory.name}-") as scratch:
            place = Path(scratch) / "store"
            restored = _unpack(file, place)
            for made in filter(Path.exists, (artifacts_directory(place), place)):
                sync_directory(made)
            place.replace(directory)
            sync_directory(directory.parent)
    except _NOT_WHOLE as error:
        raise StoreError(f"{name!r} is not a complete backup of a store ({error})") from error
    except OSError as error:
        raise StoreError(f"{name!r} cannot be restored to {str(directory)!r}: {error}") from error
    return restored


def _unpack(file: IO[bytes], place: Path) -> Restored:
    records = artifacts = 0
    about, end = {}, {}
    first = 0
    with (
        gzip.open(file) as unzipped,
        tarfile.open(fileobj=unzipped, mode="r|") as tar,
        closing(Database(place)) as database,
    ):
        for member in tar:
            content = tar.extractfile(member)
            if content is None:
                raise ValueError(f"{member.name!r} is not a file")
            if member.name == "backup.json":
                about = json.load(content)
            elif member.name == "end.json":
                end = json.load(content)
            elif member.name.startswith("records/"):
                found = list(_records(content.read()))
                database.write([_raised(key, value) for key, value in found])
                first = max([first, *(int(value) for key, value in found if key == FIRST_KEY)])
                records += len(found)
            else:
                _keep_code(member.name, content, place)
                artifacts += 1
        while unzipped.read(_CHUNK):  # to its very end, where its checksum stands
            pass
        # Also of jobs that came after the backup, whose numbers are not known here.
        database.write([(FIRST_KEY, str(first + LEAP).encode())])
    if about.get("format") != FORMAT:
        raise ValueError(f"its format is {about.get('format')!r}, this SpecK reads {FORMAT!r}")
    if end != {"records": records, "artifacts": artifacts}:
        raise ValueError("its end is missing")
    return Restored(about["at"], records, artifacts)


def _records(chunk: bytes) -> Iterator[Record]:
    start = 0
    while start < len(chunk):
        key, value = _LENGTHS.unpack_from(chunk, start)
        middle, end = start + _LENGTHS.size + key, start + _LENGTHS.size + key + value
        if end > len(chunk):
            raise ValueError("a record is cut")
        yield chunk[start + _LENGTHS.size : middle], chunk[middle:end]
        start = end


def _raised(key: bytes, value: bytes) -> Record:
    """Number a job's next attempt above all that were made since the backup (see :data:`LEAP`).

    It may start from a state behind what the job has written since, so it also begins new stamps.  Epochs are
    raised, too: agents refuse one that is lower than the last.
    """
    if key == EPOCH_KEY:
        return key, str(raised_epoch(int(value))).encode()
    if not key.startswith(kinds.JOB.beginning()):
        return key, value
    record = kinds.JOB.decoded(key, value)
    return key, kinds.JOB.encode(replace(record, attempts=record.attempts + LEAP, renumbers=True))


def _keep_code(name: str, content: IO[bytes], place: Path) -> None:
    match = _CODE.match(name)
    if match is None or match[2] in (".", ".."):
        raise ValueError(f"{name!r} does not belong in a backup")
    path = artifacts_directory(place) / match[1] / match[2]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as copy:
        shutil.copyfileobj(content, copy, _CHUNK)
    if hash_of(path) != match[1]:
        raise ValueError(f"{name!r} differs from what was backed up")
    sync_file(path)
    sync_directory(path.parent)
