"""The code of accepted jobs, kept by content.

A job runs the code that was accepted, however its file has changed since: a job that is started again, put
back after an update that failed, or rolled back, finds the very bytes it ran before.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from speck.errors import Fault, InvalidInput, StoreError
from speck.model import Job
from speck.schema.jobfile import BadFile, locate


@dataclass(frozen=True)
class Artifacts:
    """Files below ``directory``, as ``HASH/NAME``; ``roots`` are where job files are taken from."""

    directory: Path
    roots: Sequence[Path]

    def keep(self, jobs: Iterable[Job]) -> None:
        """Take a copy of the code of each job that is not kept yet.

        Raises :class:`~speck.errors.InvalidInput` for a file that changed after it was read, and
        :class:`~speck.errors.StoreError` when it cannot be kept.
        """
        missing = {self._place(job): job for job in jobs}
        for place, job in missing.items():
            if not place.exists():
                self._copy(job, place)

    def placed(self, job: Job) -> Job:
        """The job with the path of its kept code in place of the path that was written."""
        return replace(job, job_path=str(self._place(job)))

    def forget_all_but(self, jobs: Iterable[Job]) -> None:
        """Delete the code that none of these jobs has."""
        wanted = {job.code_hash for job in jobs}
        for folder in self.directory.iterdir() if self.directory.is_dir() else ():
            if folder.name not in wanted:
                shutil.rmtree(folder, ignore_errors=True)

    def _place(self, job: Job) -> Path:
        return self.directory.absolute() / job.code_hash / Path(job.job_path).name

    def _copy(self, job: Job, place: Path) -> None:
        try:
            source = locate(job.job_path, self.roots)
            place.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
                copy = Path(shutil.copyfile(source, Path(scratch) / "copy"))
                with copy.open("rb") as file:
                    found = hashlib.file_digest(file, "sha256").hexdigest()
                if found != job.code_hash:
                    message = f"job_path {job.job_path!r} was changed while it was read (apply again)"
                    raise InvalidInput([Fault(message, job=job.job_name, field="job_path")], "job")
                copy.rename(place)
        except BadFile as error:
            message = f"job_path {job.job_path!r} {error}"
            raise InvalidInput([Fault(message, job=job.job_name, field="job_path")], "job") from error
        except OSError as error:
            message = f"the code of job {job.job_name!r} cannot be kept at {place}: {error}"
            raise StoreError(message) from error
