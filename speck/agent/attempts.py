"""The attempts of a site: their records in memory and on disk, by id and by handle."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from speck.agent.attempt_files import AttemptFiles
from speck.agent.run_state import Record
from speck.core.runtime import Attempt, Handle


@dataclass
class Attempts:
    """Safe to use from several threads; each record is changed by one at a time (see ``turns``)."""

    files: AttemptFiles
    _records: dict[str, Record] = field(default_factory=dict, init=False)
    _of_handles: dict[tuple[str, str], str] = field(default_factory=dict, init=False)
    # By ids of runs that are not their own.
    _of_runs: dict[str, str] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        for record in self.files.read():
            self._keep(record)

    def put(self, record: Record) -> Record:
        """Store a record durably, and return it."""
        with self._lock:
            self.files.write(record)
            self._keep(record)
        return record

    def show(self, record: Record) -> None:
        """Have a record in memory alone, for display: the disk is full."""
        with self._lock:
            self._keep(record)

    def drop(self, record: Record) -> None:
        """Forget a record."""
        with self._lock:
            self.files.delete(record)
            self._records.pop(record.attempt.id, None)
            for handle in filter(None, (record.handle, record.run_handle)):
                self._of_handles.pop((record.address, handle.engine_id), None)
            self._of_runs.pop(record.run_id, None)

    def get(self, attempt: str) -> Record | None:
        """The record of an attempt by its id."""
        with self._lock:
            return self._records.get(attempt)

    def of_run(self, run: str) -> Record | None:
        """The record of an attempt by the id of its last run."""
        with self._lock:
            return self._records.get(self._of_runs.get(run, run))

    def of_handle(self, address: str, handle: Handle) -> Record | None:
        """The record of an attempt by the handle of any of its runs."""
        with self._lock:
            return self._records.get(self._of_handles.get((address, handle.engine_id), ""))

    def all(self) -> list[Record]:
        """All records."""
        with self._lock:
            return list(self._records.values())

    def permitted(self, address: str) -> list[Record]:
        """The records of the attempts that may run at an engine."""
        return [each for each in self.all() if each.address == address and each.phase.permitted]

    def brokers(self) -> set[str]:
        """The brokers of the attempts that are not over."""
        jobs = [each.job for each in self.all() if not each.phase.over]
        return {address for job in jobs for address in (job.source_broker, job.sink_broker)}

    def ended(self, job_name: str, owner: str) -> int:
        """The highest number of an attempt at a job that has ended here; 0 for none."""
        numbers = [
            (each.ended, each.attempt.number if each.phase.over else 0)
            for each in self.all()
            if (each.attempt.job_name, each.attempt.owner) == (job_name, owner)
        ]
        return max((max(pair) for pair in numbers), default=0)

    def newest(self, attempt: Attempt) -> int:
        """The highest number of another attempt of the same job that was accepted here; 0 for none."""
        return max((each.attempt.number for each in self._others(attempt)), default=0)

    def forget_former(self, record: Record) -> None:
        """Forget the attempts of the same job that have ended before this one; it has their number."""
        for each in self._others(record.attempt):
            if each.phase.over and each.attempt.number <= record.ended:
                self.drop(each)

    def _others(self, attempt: Attempt) -> list[Record]:
        key = attempt.job_name, attempt.owner
        others = (each for each in self.all() if each.attempt.id != attempt.id)
        return [each for each in others if (each.attempt.job_name, each.attempt.owner) == key]

    def _keep(self, record: Record) -> None:
        self._records[record.attempt.id] = record
        for handle in filter(None, (record.handle, record.run_handle)):
            self._of_handles[record.address, handle.engine_id] = record.attempt.id
        if record.run_id:
            self._of_runs[record.run_id] = record.attempt.id
