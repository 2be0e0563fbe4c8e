"""Remarks on jobs whose messages are larger than the broker that they write to accepts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from speck.core.job import Job
from speck.core.plan import Keep, Plan, Stop
from speck.placement.profile import Known, Value


def written(plan: Plan) -> Iterator[Job]:
    """The jobs that a plan starts, updates or moves."""
    return (each.job for each in plan.actions if not isinstance(each, Keep | Stop))


_SOURCES = {
    Known.MEASURED: "measured",
    Known.DECLARED: "declared in expects",
    Known.ASSUMED: "measured before the job was edited",
}


def size_notes(plan: Plan, limits: Mapping[str, int], sizes: Mapping[str, Value]) -> dict[str, str]:
    """A remark on each job of a plan whose messages exceed the limit of its sink's broker, by job name.

    ``limits`` are the largest packets of brokers by address, ``sizes`` those of the messages that jobs write,
    by job name, both in bytes.
    """
    found = {}
    for job in written(plan):
        limit, size = limits.get(job.sink_broker), sizes.get(job.job_name)
        if limit is not None and size is not None and size.value > limit:
            found[job.job_name] = _note(job, size, limit)
    return found


def _note(job: Job, size: Value, limit: int) -> str:
    source = _SOURCES[size.known]
    fate = {
        "skip": "such messages are left out",
        "park": f"such messages are parked at {job.park_topic!r}",
    }.get(job.on_error, "the job fails on such a message")
    return (
        f"its messages have {size.value:.0f} bytes ({source}), and {job.sink_broker} accepts packets of up "
        f"to {limit} bytes: {fate} (raise the limit of the broker, Mosquitto: max_packet_size)"
    )
