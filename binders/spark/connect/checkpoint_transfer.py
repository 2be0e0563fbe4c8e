"""Transfers checkpoints as files through Spark Connect, for sites without shared storage.

Spark's data source for binary files lists and reads them.  They are written as artifacts that a server
forwards to its default file system (to a local one only if it was started with
``spark.sql.artifact.copyFromLocalToFs.allowDestLocal=true``).  A folder is deleted by dropping a database
that has it as its location.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from binders.spark.connect.checkpoint_files import KNOWN, needed, unknown
from binders.spark.connect.grpc_client import LARGEST, ConnectClient, ServerRefused
from binders.spark.connect.probe import ServerProbe
from binders.spark.connect.protocol import pb2
from binders.spark.query.options import STATE_KIND
from speck.binder import StateFiles
from speck.errors import OutcomeUnknown, Rejected

DEADLINE = 120.0  # s, for one request
GROUP = 16 << 20  # bytes of files that are read in one request, unless one file is larger
GROUP_FILES = 500  # files of a request: a message of gRPC has a bound
PART = 2 << 20  # bytes of a file in one row: a row that is larger than a gRPC message is rejected

_LARGEST_FILE = 1 << 30  # the greatest state that the server may be set to carry
_HIDDEN = "state/*/_stateSchema"  # not listed by Spark, as its name begins with an underscore
_GONE = ("PATH_NOT_FOUND", "FAILED_READ_FILE")  # errors of a file that was deleted after it was listed
_TRIES = 3  # a file may be replaced by a batch while it is read
_FORWARD = "forward_to_fs"
_OFFSET_HEADER = 2  # lines
_TRIAL = "speck-check"
_NOWHERE = "speck-none-such"
# Files that contain their own location (in JSON) are read with a placeholder, replaced when they are written.
_HAS_LOCATION = "/_metadata/"
_PLACEHOLDER = b"speck:place-of-the-checkpoint"


class CheckpointFiles:
    """The checkpoints that are visible to one server; ``base`` is its checkpoint directory.

    All methods raise :class:`~speck.errors.Rejected`, :class:`~speck.errors.Unreachable` and
    :class:`~speck.errors.OutcomeUnknown`.
    """

    def __init__(self, address: str, client: ConnectClient, probe: ServerProbe, base: str) -> None:
        self.address = address
        self._client, self._probe, self._base = client, probe, base.rstrip("/")

    def size(self, location: str) -> int:
        """The size of the files that a query needs to resume, as they are now (bytes)."""
        with self._validated(location):
            _, lengths = self._needed(location)
            return sum(lengths.values())

    def read(self, location: str) -> StateFiles:
        """The files that a query needs to resume, verified by the server's hashes of them."""
        for _ in range(_TRIES - 1):
            try:
                return self._read(location)
            except ServerRefused as error:
                # The state store may delete old files again after its query has ended.
                if not error.error_class.startswith(_GONE):
                    raise
        return self._read(location)

    @contextmanager
    def _validated(self, location: str) -> Iterator[None]:
        """Translate the errors of rows of another form than that of the request."""
        try:
            yield
        except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError) as error:
            message = f"{self.address} does not list the checkpoint at {location!r} as Spark does"
            raise OutcomeUnknown(message, address=self.address) from error

    def sources(self, location: str) -> int | None:
        """The number of sources whose offsets the newest batch has; ``None`` if there is no batch yet.

        A file of the offsets has a line for its version, one for its metadata, and one for each source.
        """
        try:
            rows = self._rows(_select(_files(f"{location}/offsets", recursive=True), ["path", "content"]))
        except ServerRefused as error:
            if error.error_class != "PATH_NOT_FOUND":
                raise
            return None
        batches = {name: row["content"] for row in rows if (name := row["path"].rpartition("/")[2]).isdigit()}
        if not batches:
            return None
        newest = batches[max(batches, key=int)]
        return len(bytes(newest).strip().splitlines()) - _OFFSET_HEADER

    def location(self, job_name: str, name: str) -> str:
        """The location of a checkpoint of this name."""
        return f"{self._base}/{job_name}/{name}"

    def check_writable(self) -> None:
        """Check that files can be written below the directory, by writing a small one, which stays there."""
        try:
            self._write(self._base, {_TRIAL: b"Files can be written here.\n"})
        except Rejected as error:
            raise Rejected(
                f"{error} (expected checkpoint_dir on the server's default file system, and a server started "
                "with spark.sql.artifact.copyFromLocalToFs.allowDestLocal=true where that is a local one; or "
                "a checkpoint_dir that both sites see)",
                address=self.address,
            ) from error

    def write(self, location: str, snapshot: StateFiles) -> None:
        """Write a snapshot, and compare the server's hashes of the written files."""
        self._check_names(location, snapshot.files)
        root = self._qualified(location)
        files = {name: _with_location(name, content, root) for name, content in snapshot.files.items()}
        self._write(location, files)
        # Without empty files, which Spark does not list; a checkpoint has none.
        expected = {name: sha256(content).hexdigest() for name, content in files.items() if content}
        with self._validated(location):
            _, found = self._list(location, "sha2(content, 256)")
        if found != expected:
            different = sorted(set(found.items()) ^ set(expected.items()))[0][0]
            reason = (
                f"{self.address} has not stored the checkpoint at {location!r} as sent ({different} differs)"
            )
            raise Rejected(reason, address=self.address)

    def delete(self, location: str) -> None:
        """Delete a checkpoint's folder with its content."""
        name = f"speck_{uuid.uuid4().hex}"
        place = self._qualified(location).replace("\\", "\\\\").replace("'", "\\'")
        for statement in (f"CREATE DATABASE {name} LOCATION '{place}'", f"DROP DATABASE {name} CASCADE"):
            self._rows(pb2.Relation(sql=pb2.SQL(query=statement)))
        if self._probe.has_checkpoint(location):
            raise Rejected(f"{self.address} has not deleted {location!r}", address=self.address)

    # -- reading

    def _needed(self, location: str) -> tuple[str, dict[str, int]]:
        root, found = self._list(location, "length")
        lengths = {name: int(length) for name, length in found.items()}
        names = needed(lengths)
        self._check_names(location, names)
        return root, {name: lengths[name] for name in names}

    def _check_names(self, location: str, names: Iterable[str]) -> None:
        """Raise :class:`~speck.errors.Rejected` for a name that is none of a file of a checkpoint."""
        name = unknown(names)
        if name is not None:
            raise Rejected(
                f"{self.address}: the checkpoint at {location!r} has a file {name[:200]!r}, "
                f"which is not one of a checkpoint (expected {KNOWN})",
                address=self.address,
            )

    def _read(self, location: str) -> StateFiles:
        files: dict[str, bytes] = {}
        with self._validated(location):
            root, lengths = self._needed(location)
            for group in _groups(lengths):
                files |= self._contents(root, group, sum(lengths[name] for name in group))
        if missing := sorted(name for name in lengths if len(files.get(name, b"")) != lengths[name]):
            reason = f"{self.address} did not return {missing[0]} of {location!r} completely"
            raise OutcomeUnknown(reason, address=self.address)
        return StateFiles(STATE_KIND, {name: _with_placeholder(name, files[name], root) for name in lengths})

    def _list(self, location: str, value: str) -> tuple[str, dict[str, Any]]:
        """The location as qualified by the server, and the value of an expression for each file in it."""
        columns = ["path", f"{value} AS value"]
        rows = self._rows(_select(_files(location, recursive=True), columns))
        roots = [row["path"] for row in rows if row["path"].endswith("/metadata")]
        if not roots:
            raise Rejected(f"{self.address} finds no checkpoint at {location!r}", address=self.address)
        root = min(roots, key=len).removesuffix("/metadata")
        if not root:
            raise TypeError("a checkpoint without a path")
        try:
            rows += self._rows(_select(_files(f"{location}/{_HIDDEN}", recursive=True), columns))
        except ServerRefused as error:
            if error.error_class != "PATH_NOT_FOUND":
                raise
        return root, {row["path"].removeprefix(f"{root}/"): row["value"] for row in rows}

    def _contents(self, root: str, names: Sequence[str], size: int) -> dict[str, bytes]:
        """The files of these names, which have ``size`` bytes together."""
        source = _files(*(f"{root}/{name}" for name in names))
        last = f"cast(greatest(length - 1, 0) div {PART} AS int)"
        cut = ["path", "content", "sha2(content, 256) AS hash", f"explode(sequence(0, {last})) AS part"]
        piece = f"substring(content, part * {PART} + 1, {PART}) AS piece"
        rows = self._rows(_select(_select(source, cut), ["path", "hash", "part", piece]), size)
        pieces: dict[str, dict[int, bytes]] = {}
        for row in rows:
            pieces.setdefault(row["path"], {})[row["part"]] = row["piece"]
        whole = {path: b"".join(parts[number] for number in sorted(parts)) for path, parts in pieces.items()}
        for row in rows:
            if sha256(whole[row["path"]]).hexdigest() != row["hash"]:
                raise OutcomeUnknown(
                    f"{self.address} did not return {row['path']} completely", address=self.address
                )
        return {path.removeprefix(f"{root}/"): content for path, content in whole.items()}

    def _rows(self, relation: pb2.Relation, size: int = 0) -> list[dict[str, Any]]:
        """The rows of a relation; ``size`` is that of the contents of files in them, bytes."""
        most = LARGEST + min(max(size, 0), _LARGEST_FILE)
        return self._probe.ask(lambda session: self._client.rows(session, relation, DEADLINE, most))

    # -- writing

    def _write(self, location: str, files: Mapping[str, bytes]) -> None:
        folder = self._forwarded(location)
        # A session for this location only, ended before and after: the server retains artifacts until then.
        session = str(uuid.uuid5(uuid.NAMESPACE_URL, f"speck:carriage:{location}"))
        self._client.release(session, reusable=True)
        try:
            named = {f"{_FORWARD}{folder}/{name}": content for name, content in files.items()}
            self._client.upload(session, named, DEADLINE)
        finally:
            self._client.release(session, reusable=True)

    def _forwarded(self, location: str) -> str:
        """The path of a location on the server's default file system."""
        target, default = urlsplit(self._qualified(location)), urlsplit(self._qualified(""))
        if (target.scheme, target.netloc) != (default.scheme, default.netloc):
            raise Rejected(
                f"{self.address} writes files to {default.scheme}://{default.netloc}, not to {location!r}",
                address=self.address,
            )
        return target.path

    def _qualified(self, location: str) -> str:
        """A location as qualified by the server, from its error about a file that does not exist there."""
        source = _files(f"{location}/{_NOWHERE}").read
        try:
            self._probe.ask(lambda session: self._client.columns(session, source))
        except ServerRefused as error:
            path = error.parameters.get("path", "")
            if error.error_class == "PATH_NOT_FOUND" and path.endswith(f"/{_NOWHERE}"):
                return path.removesuffix(f"/{_NOWHERE}")
            raise
        raise Rejected(f"{self.address} does not report the path of {location!r}", address=self.address)


def _files(*paths: str, recursive: bool = False) -> pb2.Relation:
    # A running query deletes old files while they are listed; a needed file is read by its own path.
    options = {"recursiveFileLookup": "true", "ignoreMissingFiles": "true"} if recursive else {}
    source = pb2.Read.DataSource(format="binaryFile", paths=list(paths), options=options)
    return pb2.Relation(read=pb2.Read(data_source=source))


def _select(relation: pb2.Relation, expressions: Sequence[str]) -> pb2.Relation:
    parsed = [
        pb2.Expression(expression_string=pb2.Expression.ExpressionString(expression=each))
        for each in expressions
    ]
    return pb2.Relation(project=pb2.Project(input=relation, expressions=parsed))


def _groups(lengths: Mapping[str, int]) -> Iterator[list[str]]:
    """Groups of files that are read in one request each."""
    group: list[str] = []
    size = 0
    for name, length in lengths.items():
        if group and (size + length > GROUP or len(group) == GROUP_FILES):
            yield group
            group, size = [], 0
        group.append(name)
        size += length
    if group:
        yield group


def _with_placeholder(name: str, content: bytes, root: str) -> bytes:
    return content.replace(root.encode(), _PLACEHOLDER) if _HAS_LOCATION in name else content


def _with_location(name: str, content: bytes, root: str) -> bytes:
    return content.replace(_PLACEHOLDER, root.encode()) if _HAS_LOCATION in name else content
