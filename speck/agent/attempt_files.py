"""The records of attempts on disk: a file each, synced and replaced in one step.

A file that cannot be read, or has a later format, is left alone and reported: nothing is started from it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from speck.agent.run_state import Phase, Record
from speck.core.durable_files import replace_file, sync_directory
from speck.core.job import Job
from speck.core.runtime import Attempt, Handle, State
from speck.errors import BinderError
from speck.link.codec import Malformed, decode, encode

FORMAT = 1

_log = logging.getLogger(__name__)


class AttemptFiles:
    """The files of a directory, which is made if it is not there."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def read(self) -> Iterator[Record]:
        """All records."""
        for path in sorted(self._directory.glob("*.json")):
            try:
                yield _record(json.loads(path.read_bytes()))
            except (OSError, ValueError, KeyError, TypeError) as error:
                _log.error("%s is left alone: %s", path, error)

    def write(self, record: Record) -> None:
        """Store a record durably.  Raises :class:`~speck.errors.BinderError`."""
        try:
            replace_file(self._path(record.attempt), json.dumps(_data(record)).encode())
        except OSError as error:
            raise _failed(record, "store", error) from error

    def delete(self, record: Record) -> None:
        """Delete a record; no error if there is none.  Raises :class:`~speck.errors.BinderError`."""
        try:
            self._path(record.attempt).unlink(missing_ok=True)
            sync_directory(self._directory)
        except OSError as error:
            raise _failed(record, "forget", error) from error

    def _path(self, attempt: Attempt) -> Path:
        if not attempt.id.isalnum():
            raise BinderError(f"attempt id {attempt.id!r} is not valid (expected hexadecimal digits)")
        return self._directory / f"{attempt.id}.json"


def _failed(record: Record, what: str, error: OSError) -> BinderError:
    text = f"{record.address}: the agent cannot {what} job {record.attempt.job_name!r}: {error.strerror}"
    return BinderError(text, address=record.address)


def _data(record: Record) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "job": record.job.to_dict(),
        "attempt": encode(record.attempt),
        "address": record.address,
        "phase": record.phase.value,
        "handle": encode(record.handle),
        "run_handle": encode(record.run_handle),
        "runs": record.runs,
        "state": encode(record.state),
        "reason": record.reason,
        "ended": record.ended,
        "run_id": record.run_id,
        "lineage": record.lineage,
        "failed": record.failed,
        "failures": record.failures,
    }


def _record(data: Mapping[str, Any]) -> Record:
    if data["format"] != FORMAT:
        raise Malformed(f"format is {data['format']!r} (expected {FORMAT})")
    return Record(
        job=Job.from_dict(data["job"]),
        attempt=decode(Attempt, data["attempt"], "attempt"),
        address=data["address"],
        phase=Phase(data["phase"]),
        handle=decode(Handle | None, data["handle"], "handle"),
        run_handle=decode(Handle | None, data["run_handle"], "run_handle"),
        runs=data["runs"],
        state=decode(State | None, data["state"], "state"),
        reason=data["reason"],
        ended=data["ended"],
        run_id=data.get("run_id", ""),  # the following are not in the files of older agents
        lineage=data.get("lineage", ""),
        failed=data.get("failed", False),
        failures=data.get("failures", 0),
    )
