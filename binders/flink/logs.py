"""What a cluster's log files and its memory of failures say of one job.

Flink serves whole files only, so of each the end is kept while it comes in.  The JobManager's file is of all
jobs: only its records that name the job, or a part of it, are taken.  In a TaskManager's file a program's own
records do not say whose they are: all are taken of those TaskManagers that run the job.
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
    "from the cluster's log files (of the TaskManagers that run the job, where other jobs' lines may stand "
    "between; of the JobManager what names the job), and last the failures that Flink remembers of it"
)

_DATED = re.compile(r"(?P<at>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.,]\d{3})")
_MOST_FAILURES = 20


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a log: the time as it is written there, and its lines."""

    at: str
    lines: tuple[str, ...]


def log_tail(rest: FlinkRest, job: str, name: str, lines: int) -> list[str]:
    """The last lines of the logs, by time, and last the job's failures that are not among them."""
    details = rest.job_details(job)
    if details is None:
        raise Rejected(f"{rest.address} does not know job {job} ({name})", address=rest.address)
    own = names_of(job, name, details)
    found = [each for each in entries(_file(rest, "/jobmanager/log")) if names_any(each, own)]
    for manager in sorted(_managers(rest, job, details)):
        found += entries(_file(rest, f"/taskmanagers/{manager}/log"))
    said = merged(found)
    return (said + failures(rest.failures(job, _MOST_FAILURES), said))[-lines:]


def names_of(job: str, name: str, details: Mapping[str, Any]) -> tuple[str, ...]:
    """What a record names that is about the job: the job, or one of its vertices."""
    return (job, f"'{name}'", *(str(each["id"]) for each in details.get("vertices", ())))


def entries(text: str) -> list[Entry]:
    """The entries of a log's end; what comes before the first whole one is left out."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if (date := _DATED.match(line)) is not None:
            found.append((date["at"], [line]))
        elif found:
            found[-1][1].append(line)
    return [Entry(at, tuple(lines)) for at, lines in found]


def names_any(entry: Entry, names: Iterable[str]) -> bool:
    """Whether an entry names one of these."""
    return any(name in line for line in entry.lines for name in names)


def merged(found: Iterable[Entry]) -> list[str]:
    """The lines of entries by their time; those of one time stay in their order."""
    in_order = sorted(found, key=lambda entry: entry.at.replace("T", " ").replace(",", "."))
    return [line for entry in in_order for line in entry.lines]


def failures(told: Sequence[Mapping[str, Any]], said: Iterable[str]) -> list[str]:
    """The lines of the failures that Flink remembers, oldest first, without those that were said already."""
    known = set(said)
    return [
        line
        for failure in reversed(told)
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
    """The end of a log file; empty of a cluster, or a TaskManager, that keeps none, or too large a one."""
    try:
        return rest.end_of(path)
    except Rejected:
        return ""
