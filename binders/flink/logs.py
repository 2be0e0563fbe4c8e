"""The log of one job, from the cluster's log files and its history of failures.

Flink serves whole files only, so only the end of each is retained during the download.  The JobManager's file
covers all jobs: only records that name the job, or one of its vertices, are used.  The records of a program
in a TaskManager's file do not name their job: all records of the TaskManagers that run the job are used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from binders.flink.rest.client import FlinkRest
from speck.errors import Rejected

ABOUT = (
    "from the cluster's log files (of the TaskManagers that run the job, possibly with lines of other jobs; "
    "of the JobManager the records that name the job), and last the failures in Flink's history of the job"
)

_DATED = re.compile(r"(?P<at>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.,]\d{3})")
_MAX_FAILURES = 20  # of the last failures that Flink lists


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a log: its time as written there, and its lines."""

    at: str
    lines: tuple[str, ...]


def log_tail(rest: FlinkRest, job: str, name: str, lines: int) -> list[str]:
    """The last lines of the logs, by time, followed by failures of the job that are not among them."""
    details = rest.job_details(job)
    if details is None:
        raise Rejected(f"{rest.address} does not know job {job} ({name})", address=rest.address)
    own = names_of(job, name, details)
    found = [each for each in entries(_file(rest, "/jobmanager/log")) if names_any(each, own)]
    for manager in sorted(_managers(rest, job, details)):
        found += entries(_file(rest, f"/taskmanagers/{manager}/log"))
    logged = merged(found)
    return (logged + failures(rest.failures(job, _MAX_FAILURES), logged))[-lines:]


def names_of(job: str, name: str, details: Mapping[str, Any]) -> tuple[str, ...]:
    """The names by which records refer to a job: the job's own, and those of its vertices."""
    return (job, f"'{name}'", *(str(each["id"]) for each in details.get("vertices", ())))


def entries(text: str) -> list[Entry]:
    """The entries at the end of a log; lines before the first whole entry are dropped."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if (date := _DATED.match(line)) is not None:
            found.append((date["at"], [line]))
        elif found:
            found[-1][1].append(line)
    return [Entry(at, tuple(lines)) for at, lines in found]


def names_any(entry: Entry, names: Iterable[str]) -> bool:
    """True if an entry contains one of these names."""
    return any(name in line for line in entry.lines for name in names)


def merged(found: Iterable[Entry]) -> list[str]:
    """The lines of entries, sorted by time; entries of one time keep their order."""
    in_order = sorted(found, key=lambda entry: entry.at.replace("T", " ").replace(",", "."))
    return [line for entry in in_order for line in entry.lines]


def failures(history: Sequence[Mapping[str, Any]], logged: Iterable[str]) -> list[str]:
    """The lines of the failures in Flink's history, oldest first, without those that the logs contain."""
    known = set(logged)
    return [
        line
        for failure in reversed(history)
        for trace in [str(failure.get("stacktrace", "")).splitlines()]
        if trace and trace[0] not in known
        for line in _failure_lines(failure, trace)
    ]


def _failure_lines(failure: Mapping[str, Any], trace: Sequence[str]) -> Iterator[str]:
    at = datetime.fromtimestamp(failure.get("timestamp", 0) / 1000, UTC).isoformat(" ", "milliseconds")
    task = failure.get("taskName")
    yield f"{at} failure{f' of {task}' if task else ''}: {trace[0]}"
    yield from trace[1:]


def _managers(rest: FlinkRest, job: str, details: Mapping[str, Any]) -> set[str]:
    return {
        manager
        for vertex in details.get("vertices", ())
        for manager in rest.task_managers_of(job, str(vertex["id"]))
    }


def _file(rest: FlinkRest, path: str) -> str:
    """The end of a log file; empty if there is no such file, or if it is too large."""
    try:
        return rest.log_end(path)
    except Rejected:
        return ""
