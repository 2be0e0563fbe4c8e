"""Reads Spark's progress reports and failure messages of a query."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from speck.core.job import Scalar
from speck.core.runtime import JobMetrics

_PYTHON_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)')
_PYTHON_ERROR = re.compile(r"^(?P<error>[A-Za-z_][\w.]*(?::\s.*)?)$")
_CAUSE = re.compile(r"^[ \t]*Caused by: (?P<cause>.+)$", re.MULTILINE)
_WRAPPER = "org.apache.spark.sql.streaming.StreamingQueryException: "
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w+\s*$")
_EXECUTION = "addBatch"  # the part of a report's durations that is there if a batch was executed
# Of the connector's source: the time in which tasks waited for messages, in real time.
_WAITED = "waitedMillis"
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/pyspark(?:\.zip)?/|^<")


def metrics_of(report: str | None, now: float) -> JobMetrics:
    """The metrics of a ``StreamingQueryProgress`` (JSON); empty before the first report.

    ``input_rows`` are the rows of completed batches by the source's own count (received less queued),
    ``None`` if it has none.  The reported batch is still among the queued rows, since the source is notified
    of its end only when the next one begins; ``waiting`` are the other queued rows.  ``output_rate`` is that
    of the batch, relative to the rate at which its rows arrived.  While no message arrives, Spark reports
    every 10 s that there was no batch: ``batch_duration_ms`` would be the time that it waited for messages.
    """
    if report is None:
        return JobMetrics(now)
    progress: Mapping[str, Any] = json.loads(report)
    sources = progress.get("sources", ())
    details, durations = details_of(progress), progress.get("durationMs", {})
    arriving = total_of(sources, "inputRowsPerSecond")
    return JobMetrics(
        now,
        input_rate=arriving,
        output_rate=_output_rate(progress, details, arriving),
        processing_rate=total_of(sources, "processedRowsPerSecond"),
        batch_duration_ms=number_of(durations.get("triggerExecution")) if _EXECUTION in durations else None,
        state_rows=sum(operator.get("numRowsTotal", 0) for operator in progress.get("stateOperators", ())),
        input_rows=completed_rows(details),
        counted_at=time_of(progress.get("timestamp")),
        waiting=_waiting(details),
        batch_id=progress.get("batchId"),
        details=details,
    )


def report_line(report: str) -> str:
    """One ``StreamingQueryProgress`` (JSON) as a line: time, batch, rows, duration."""
    progress: Mapping[str, Any] = json.loads(report)
    rows = int(total_of(progress.get("sources", ()), "numInputRows") or 0)
    seconds = (number_of(progress.get("durationMs", {}).get("triggerExecution")) or 0) / 1000
    at, batch = progress.get("timestamp", ""), progress.get("batchId", "?")
    return f"{at} batch {batch}: {rows} rows in {seconds:.3f} s"


def failure_line(text: str) -> str:
    """The most helpful line of a Spark failure; of a job's own Python error with its file and line.

    ``text`` is a ``StreamingQueryException`` with its causes: up to hundreds of lines of two languages.
    """
    return _python_error(text) or _last_cause(text) or _first_line(text)


def details_of(progress: Mapping[str, Any]) -> dict[str, Scalar]:
    """The counts of the sources, summed, and of the sink, and the durations of a report's parts.

    A report without rows has no times: of a job at rest, nothing but those would change.
    """
    details: dict[str, Scalar] = {}
    rows = total_of(progress.get("sources", ()), "numInputRows")
    if rows is not None:
        details["batch_rows"] = int(rows)
    for source in progress.get("sources", ()):
        for name, value in (source.get("metrics") or {}).items():
            details[name] = _sum(details.get(name), _scalar(value))
    for name, value in ((progress.get("sink") or {}).get("metrics") or {}).items():
        details[name] = _scalar(value)
    if rows == 0:
        details.pop(_WAITED, None)
        return details
    details["batch_at"] = progress.get("timestamp", "")
    for name, value in progress.get("durationMs", {}).items():
        details[f"duration_ms.{name}"] = value
    return details


def _output_rate(
    progress: Mapping[str, Any], details: Mapping[str, Scalar], arriving: float | None
) -> float | None:
    sent, rows = number_of((progress.get("sink") or {}).get("numOutputRows")), details.get("batch_rows")
    if sent is None or sent < 0 or arriving is None or not isinstance(rows, int):
        return None  # a sink that does not count says -1
    return sent / rows * arriving if rows else None


def time_of(text: object) -> float | None:
    """A report's time (Unix time, s)."""
    try:
        return datetime.fromisoformat(str(text)).timestamp()
    except ValueError:
        return None


def _waiting(details: Mapping[str, Scalar]) -> int | None:
    queued, batch = details.get("queued"), details.get("batch_rows")
    return max(0, queued - batch) if isinstance(queued, int) and isinstance(batch, int) else None


def completed_rows(details: Mapping[str, Scalar]) -> int | None:
    """The rows of completed batches by the source's own count; ``None`` if it has none."""
    received, queued, batch = (details.get(name) for name in ("received", "queued", "batch_rows"))
    if not (isinstance(received, int) and isinstance(queued, int) and isinstance(batch, int)):
        return None
    return max(0, received - queued + batch)


def total_of(sources: Iterable[Mapping[str, Any]], name: str) -> float | None:
    """The sum of a number over the sources that report it; ``None`` if none does."""
    numbers = [number for source in sources if (number := number_of(source.get(name))) is not None]
    return sum(numbers) if numbers else None


def _sum(before: Scalar | None, value: Scalar) -> Scalar:
    """The sum of a count over a job's sources; of anything else, the last value."""
    return before + value if isinstance(before, int) and isinstance(value, int) else value


def _scalar(value: object) -> Scalar:
    # Sources report their metrics as text.
    text = str(value)
    number = number_of(text)
    if number is None:
        return text
    return int(number) if number.is_integer() else number


def number_of(value: object) -> float | None:
    """A finite number, also from text."""
    # Spark writes "NaN" and "Infinity" for the rates of a batch that took no time.
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if number - number == 0 else None


def _python_error(text: str) -> str | None:
    _, found, trace = text.rpartition("Traceback (most recent call last):")
    if not found:
        return None
    where = ""
    for line in trace.splitlines()[1:]:
        frame = _PYTHON_FRAME.match(line)
        if frame is not None and not _LIBRARY.search(frame["file"]):
            where = f" ({frame['file'].rpartition('/')[2]}, line {frame['line']})"
        error = _PYTHON_ERROR.match(line)
        if error is not None:
            return _SQLSTATE.sub("", error["error"]) + where
    return None


def _last_cause(text: str) -> str | None:
    causes = _CAUSE.findall(text)
    return _SQLSTATE.sub("", causes[-1].strip()) if causes else None


def _first_line(text: str) -> str:
    line = next((line for line in text.splitlines() if line.strip()), "")
    return _SQLSTATE.sub("", line.strip().removeprefix(_WRAPPER))
