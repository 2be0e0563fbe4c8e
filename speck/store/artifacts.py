"""The code of accepted jobs, stored by content.

A job runs the code that was accepted, even if its file has changed since: a job that is restarted, or rolled
back after a failed update, runs exactly the same bytes as before.
"""

from __future__ import annotations

import contextlib
import errno
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import IO, Protocol

from speck.core.durable_files import put_in_place, sync_directory
from speck.core.job import Job
from speck.errors import Fault, InvalidInput, StoreError, StoreFull
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
