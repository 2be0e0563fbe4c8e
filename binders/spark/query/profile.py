"""The counts of a query, from which its cost is derived, out of Spark's progress reports.  Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from binders.spark.query.progress import completed_rows, details_of, number_of, time_of, total_of
from speck.core.profile import AckSample, BatchSample, JobSample

ACKS_FRESH = 60.0  # s, for which the connector's figures of the last batch hold


def job_sample(
    engine_id: str, report: str | None, batches: tuple[BatchSample, ...], cores: int | None, now: float
) -> JobSample:
    """The counts of a ``StreamingQueryProgress`` (JSON), which is made at the end of a batch.

    Bytes and sent messages count from the start of the query, ``messages_in`` from that of its checkpoint.
    ``batches`` are those of this and of former reports; they run on as many ``cores`` as the source has made
    partitions of the last one, or on all.
    """
    if report is None:
        return JobSample(engine_id=engine_id, observed=now)
    progress: Mapping[str, Any] = json.loads(report)
    details, sent = details_of(progress), (progress.get("sink") or {}).get("metrics") or {}
    begun, took = time_of(progress.get("timestamp")), _milliseconds(progress, "triggerExecution") or 0.0
    observed = min(now, begun + took / 1000) if begun is not None else now
    partitions = max(1, _whole(details.get("partitions")) or 1)
    return JobSample(
        engine_id=engine_id,
        observed=observed,
        messages_in=completed_rows(details),
        messages_out=_whole(sent.get("messages")),
        bytes_in=_whole(details.get("receivedBytes")),
        bytes_out=_whole(sent.get("bytes")),
        batches=batches,
        cores_used=partitions if cores is None else min(partitions, max(1, cores)),
        state_bytes=sum(each.get("memoryUsedBytes", 0) for each in progress.get("stateOperators", ())),
        acks=_acks(sent) if now - observed <= ACKS_FRESH else (),
    )


def batch_of(report: str) -> BatchSample | None:
    """The micro-batch of a report; ``None`` if it had no rows.

    Its work is its duration without ``latestOffset``, in which the connector waits for messages; of a query
    in real time without the time in which its tasks wait for them.
    """
    progress: Mapping[str, Any] = json.loads(report)
    rows, number = total_of(progress.get("sources", ()), "numInputRows"), _whole(progress.get("batchId"))
    took = _milliseconds(progress, "triggerExecution")
    waited = (_milliseconds(progress, "latestOffset") or 0.0) + _waited(progress)
    if not rows or rows < 0 or number is None or took is None:
        return None
    return BatchSample(number=number, rows=int(rows), work=max(0.0, took - waited) / 1000)


def _waited(progress: Mapping[str, Any]) -> float:
    """The time (ms) in which the tasks of a batch in real time waited for messages."""
    sources = [each.get("metrics") or {} for each in progress.get("sources", ())]
    return max((number_of(each.get("waitedMillis")) or 0.0 for each in sources), default=0.0)


def _acks(sent: Mapping[str, Any]) -> tuple[AckSample, ...]:
    """The acknowledgements to the sink; a negative time means that there were none."""
    broker, full = sent.get("broker"), number_of(sent.get("windowFull"))
    if not broker or full is None:
        return ()
    least, median = (number_of(sent.get(name)) for name in ("ackMillisMin", "ackMillis"))
    known = [None if each is None or each < 0 else each / 1000 for each in (least, median)]
    sample = AckSample(
        broker=str(broker), least=known[0], median=known[1], window_full=min(1.0, max(0.0, full))
    )
    return (sample,)


def _milliseconds(progress: Mapping[str, Any], name: str) -> float | None:
    return number_of((progress.get("durationMs") or {}).get(name))


def _whole(value: object) -> int | None:
    found = number_of(value)
    return None if found is None or found < 0 else int(found)
