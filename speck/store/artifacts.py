"""The code of accepted jobs, stored by content; and the files that engines fetch from the coordinator.

A job runs the code that was accepted, even if its file has changed since: a job that is restarted, or rolled
back after a failed update, runs exactly the same bytes as before.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import os
import re
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from io import BufferedReader, BytesIO
from pathlib import Path
from typing import IO, Protocol
from urllib.parse import quote

from speck.binder import Artifact
from speck.core.durable_files import put_in_place, sync_directory, sync_file
from speck.core.job import Job
from speck.errors import Fault, InvalidInput, StoreError, StoreFull
from speck.store.beginnings import Beginnings
from speck.store.jobfile import BadFile, content_hash, locate, open_located, sha256_of

SCRATCH = ".speck-scratch-"

# The folder in the job_path of SQL jobs, whose code is SpecK's own and in no directory of job files.
QUERY_RUNNERS = "~speck"


def clear_scratch(directory: Path) -> None:
    """Delete the partial files that a crash left in a store's directory."""
    for place in ("", "artifacts/*/", "served/*/"):
        for scratch in directory.glob(f"{place}{SCRATCH}*"):
            if scratch.is_dir():
                shutil.rmtree(scratch, ignore_errors=True)
            else:
                scratch.unlink(missing_ok=True)


class FileCopy(Protocol):
    """A second copy of the files, which has each one before a write names it."""

    def placing(
        self, name: str, opened: Callable[[], IO[bytes]], sha256: str
    ) -> AbstractContextManager[None]:
        """Let the copy have a file, as far as it can, before the block, in which that is stored here.

        ``name`` is its path in the store's directory; ``opened`` opens its content elsewhere, with the hash
        ``sha256``, and may raise ``OSError`` and :class:`~speck.store.jobfile.BadFile`.
        """
        ...


def _nothing_sent(sha256: str, name: str) -> None:
    """None: no client has sent any code."""


def with_query_runners(
    paths: Iterable[Path], sent: Callable[[str, str], Path | None]
) -> Callable[[str, str], Path | None]:
    """A search as ``sent`` of :class:`Artifacts`, in the code of SQL jobs (``paths``) too."""
    runners = {each.name: each for each in paths}

    def search(sha256: str, name: str) -> Path | None:
        runner = runners.get(name)
        return runner if runner is not None and hash_of(runner) == sha256 else sent(sha256, name)

    return search


@dataclass(frozen=True)
class Artifacts:
    """Files below ``directory``, as ``HASH/NAME``; ``roots`` are the directories of job files.

    ``sent`` finds a content that a client sent, by its hash and the name of the file.  ``copy`` is the
    standby's.
    """

    directory: Path
    roots: Sequence[Path]
    sent: Callable[[str, str], Path | None] = _nothing_sent
    copy: FileCopy | None = None

    @contextlib.contextmanager
    def copied(self, jobs: Iterable[Job]) -> Iterator[None]:
        """Send the code of each job to the standby before the block, in which it is to be stored here.

        This takes as long as a large file takes on its way, and holds up no write.
        """
        with ExitStack() as stack:
            if self.copy is not None:
                for place, job in self._distinct(jobs).items():
                    name = f"{self.directory.name}/{job.code_hash}/{place.name}"
                    opened = partial(self._opened_here, job, place)
                    stack.enter_context(self.copy.placing(name, opened, job.code_hash))
            yield

    def _opened_here(self, job: Job, place: Path) -> IO[bytes]:
        return place.open("rb") if place.exists() else self._opened(job)

    def _distinct(self, jobs: Iterable[Job]) -> dict[Path, Job]:
        distinct = {(job.code_hash, job.job_path): job for job in jobs}
        return {self._place(job): job for job in distinct.values()}

    def keep(self, jobs: Iterable[Job]) -> None:
        """Copy the code of each job that is not stored yet, durably, or of which the copy was harmed.

        Raises :class:`~speck.errors.InvalidInput` for a file that changed after it was hashed, and
        :class:`~speck.errors.StoreError` if it cannot be stored.
        """
        for place, job in self._distinct(jobs).items():
            if hash_of(place) != job.code_hash:
                self._copy(job, place)

    def placed(self, job: Job) -> Job:
        """The job with the path of its stored code instead of its own path."""
        return replace(job, job_path=str(self._place(job)))

    def readable(self, job: Job) -> Path | None:
        """The job's code as it is stored, was sent, or is at its own path; ``None`` if it is nowhere."""
        place = self._place(job)
        if hash_of(place) == job.code_hash:
            return place
        if (sent := self.sent(job.code_hash, Path(job.job_path).name)) is not None:
            return sent
        with contextlib.suppress(BadFile):
            path = locate(job.job_path, self.roots)
            return path if content_hash(path, self.roots) == job.code_hash else None
        return None

    def lost(self, jobs: Collection[Job]) -> list[Fault]:
        """A fault for each job whose code is neither stored intact nor still at its own path."""
        intact: dict[Path, bool] = {}
        for job in jobs:
            place = self._place(job)
            if place not in intact:
                intact[place] = hash_of(place) == job.code_hash
        missing = [job for job in jobs if not intact[self._place(job)]]
        return [self._lost(job) for job in missing if not self._found_again(job)]

    def _found_again(self, job: Job) -> bool:
        try:
            same = content_hash(locate(job.job_path, self.roots), self.roots) == job.code_hash
            return same and not self._place(job).exists()
        except BadFile:
            return False

    def _lost(self, job: Job) -> Fault:
        message = (
            f"the code of job_path {job.job_path!r} in that revision ({job.code_hash[:12]}) is no longer "
            "stored, or its stored copy was changed (apply a composition whose code exists)"
        )
        return Fault(message, job=job.job_name, field="job_path", value=job.job_path)

    def forget_all_but(self, hashes: Collection[str]) -> set[str]:
        """Delete the code with any other hash than these; returns the hashes of what was deleted."""
        folders = list(self.directory.iterdir()) if self.directory.is_dir() else []
        gone = {folder.name for folder in folders} - set(hashes)
        for name in gone:
            shutil.rmtree(self.directory / name, ignore_errors=True)
        return gone

    def _place(self, job: Job) -> Path:
        return self.directory.absolute() / job.code_hash / Path(job.job_path).name

    def _copy(self, job: Job, place: Path) -> None:
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=place.parent, prefix=SCRATCH) as scratch:
                copy = Path(scratch) / "copy"
                with self._opened(job) as code, copy.open("wb") as file:
                    shutil.copyfileobj(code, file)
                if hash_of(copy) != job.code_hash:
                    message = f"job_path {job.job_path!r} was changed while it was being read (apply again)"
                    raise InvalidInput([Fault(message, job=job.job_name, field="job_path")], "job")
                put_in_place(copy, place)
            sync_directory(self.directory)  # the name of the folder
        except BadFile as error:
            message = f"job_path {job.job_path!r} {error}"
            raise InvalidInput([Fault(message, job=job.job_name, field="job_path")], "job") from error
        except OSError as error:
            message = f"the code of job {job.job_name!r} cannot be stored at {place}: {error}"
            raise write_error(error, message) from error

    def _opened(self, job: Job) -> BufferedReader:
        """The job's code as it was sent, or at its own path.  Raises :class:`BadFile` and ``OSError``."""
        if (sent := self.sent(job.code_hash, Path(job.job_path).name)) is not None:
            return sent.open("rb")
        return open_located(locate(job.job_path, self.roots), self.roots)


def hash_of(path: Path) -> str | None:
    """The SHA-256 of a file, in hexadecimal; ``None`` if it cannot be read."""
    try:
        with path.open("rb") as file:
            return sha256_of(file)
    except OSError:
        return None


def write_error(error: OSError, message: str) -> StoreError:
    """The error of a failed write: :class:`~speck.errors.StoreFull` if there is no space left."""
    kind = StoreFull if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) else StoreError
    return kind(message)


_HASH = re.compile(r"[0-9a-f]{64}\Z")

# In a store's directory; a standby, whose files have the times of their copies, has none.
BEGINNINGS = "served/attempts.json"
_JUST_NOW = 3600.0  # s
_SPARED = 7 * 86_400.0  # s, for clocks that are set, and drivers without an attempt, as those that measure


def _last_change(folder: Path) -> float:
    return max(each.stat().st_mtime for each in (folder, *folder.iterdir()))


@dataclass(frozen=True)
class ServedFiles:
    """The files that engines fetch, as ``HASH/NAME`` below ``served`` in the store's directory.

    See :class:`speck.binder.ArtifactServer`.  ``base`` is the coordinator's URL as engines reach it.  All
    tokens derive from ``secret`` in the store's directory, which only its owner can read.  ``copy`` is the
    standby's.  The time of change of a file is that of its last offer.
    """

    directory: Path
    base: str
    copy: FileCopy | None = None
    _guard: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    def offer(self, name: str, content: bytes) -> Artifact:
        """See :meth:`speck.binder.ArtifactServer.offer`."""
        sha256 = hashlib.sha256(content).hexdigest()
        place = self._place(sha256, name)
        path, opened = f"served/{sha256}/{name}", partial(BytesIO, content)
        try:
            with contextlib.nullcontext() if self.copy is None else self.copy.placing(path, opened, sha256):
                self._store(place, content, sha256)
        except OSError as error:
            raise write_error(error, f"{name} cannot be stored at {place}: {error}") from error
        signed = f"{sha256}/{self._token_of(sha256)}/{quote(name, safe='')}"
        url = f"{self.base.rstrip('/')}/artifacts/{signed}"
        return Artifact(name, sha256, url)

    def _store(self, place: Path, content: bytes, sha256: str) -> None:
        is_intact = hash_of(place) == sha256
        with self._guard:
            if is_intact and place.exists():
                os.utime(place)
                return
            place.parent.mkdir(parents=True, exist_ok=True)
            with _scratch_file(place.parent, content) as scratch:
                put_in_place(scratch, place)

    def forget_unused(self, named: Collection[str], gone: Collection[str], attempts: Collection[str]) -> None:
        """Delete what no engine fetches any more.

        ``named`` are the hashes of the code that revisions name.  ``gone`` are those that none names any
        more, which go now, unless one was offered just now, as to build a job.  Anything else, as the
        launcher of a former version, goes once all ``attempts`` (their ids) began after its last offer.
        """
        with contextlib.suppress(OSError):
            if not (folders := self._folders()):
                return
            now = time.time()
            bound = min(now, Beginnings(self.directory / BEGINNINGS).earliest(attempts, now)) - _SPARED
            for folder in folders:
                last = now - _JUST_NOW if folder.name in gone else bound
                with self._guard:
                    if folder.name not in named and _last_change(folder) < last:
                        shutil.rmtree(folder, ignore_errors=True)

    def _folders(self) -> list[Path]:
        served = self.directory / "served"
        return [each for each in served.iterdir() if _HASH.match(each.name)] if served.is_dir() else []

    def find(self, sha256: str, token: str, name: str) -> Path | None:
        """The file that this token gives access to; ``None`` if there is none."""
        if not _HASH.match(sha256) or name in (".", "..") or "/" in name:
            return None
        allowed = hmac.compare_digest(token.encode(), self._token_of(sha256).encode())
        place = self._place(sha256, name)
        return place if allowed and place.is_file() else None

    def token(self, purpose: str) -> str:
        """See :meth:`speck.binder.ArtifactServer.token`."""
        return hmac.new(self._secret(), purpose.encode(), hashlib.sha256).hexdigest()

    def _token_of(self, sha256: str) -> str:
        return self.token(f"artifact:{sha256}")

    def _place(self, sha256: str, name: str) -> Path:
        return self.directory.absolute() / "served" / sha256 / name

    def _secret(self) -> bytes:
        path = self.directory / "secret"
        try:
            if not path.exists():
                with (
                    _scratch_file(self.directory, secrets.token_bytes(32)) as scratch,
                    contextlib.suppress(FileExistsError),
                ):
                    sync_file(scratch)
                    os.link(scratch, path)  # of two processes, the first one's stays
                    sync_directory(self.directory)
            return path.read_bytes()
        except OSError as error:
            raise StoreError(f"the secret {path} cannot be read: {error}") from error


@contextlib.contextmanager
def _scratch_file(directory: Path, content: bytes) -> Iterator[Path]:
    """A complete file that only its owner can read, to be moved or linked to its place."""
    descriptor, name = tempfile.mkstemp(dir=directory, prefix=SCRATCH)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)
