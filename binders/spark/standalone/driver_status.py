"""Derives the state of a job from its driver's status file and the master's view of the driver.  Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from binders.spark.query.text import first_line
from binders.spark.standalone.master import Driver
from speck.core.runtime import JobState

SILENCE = 30.0  # s, without a heartbeat of a driver that writes its status every 5 s
CRASHES = 3  # consecutive ones after which a driver that the master keeps restarting has failed

_STATES = {
    "starting": JobState.STARTING,
    "building": JobState.STARTING,
    "running": JobState.RUNNING,
    "failed": JobState.FAILED,
    "refused": JobState.FAILED,
    "finished": JobState.STOPPED,
    "stopped": JobState.LOST,
}
ENDED = frozenset({"failed", "refused", "finished", "stopped", "gave_way"})  # and not restarted
STARTED = frozenset({"running", "failed", "finished"})  # of a driver whose query was started


@dataclass(frozen=True, slots=True)
class DriverStatus:
    """The status file of a driver; ``age`` is its age when it was read (s).

    See :class:`binders.spark.standalone.driver_bootstrap.DriverStatus` for the others.
    """

    kind: str
    message: str
    age: float
    starts: int = 1
    crashes: int = 0
    ran: bool = False
    progress: str | None = None
    control: str = ""
    figures: Mapping[str, float] | None = None  # of a probe


def read_status(text: str, read_at: float) -> DriverStatus | None:
    """The status in a file's text; ``None`` if the driver has not written it yet, or it is malformed."""
    try:
        fields: dict[str, Any] = json.loads(text)
        return DriverStatus(
            kind=str(fields["kind"]),
            message=str(fields["message"]),
            age=max(0.0, read_at - float(fields["at"])),
            starts=int(fields["starts"]),
            crashes=int(fields["crashes"]),
            ran=bool(fields["ran"]),
            progress=fields.get("progress"),
            control=str(fields.get("control", "")),
            figures=_figures(fields.get("figures")),
        )
    except (ValueError, KeyError, TypeError):
        return None


def _figures(found: Any) -> Mapping[str, float] | None:
    """The figures of a probe; ``None`` for a driver without any.  Raises ``ValueError`` and ``TypeError``."""
    return None if found is None else {str(name): float(value) for name, value in dict(found).items()}


def state_of(driver: Driver, status: DriverStatus | None, waits: bool) -> tuple[JobState, str]:
    """The state of a driver's job, with a message; ``waits`` is true if it has no executor."""
    if driver.state == "SUBMITTED":
        return JobState.STARTING, f"driver {driver.id} waits for a worker with free cores and memory"
    if status is not None and status.kind in ENDED:
        return _STATES.get(status.kind, JobState.LOST), status.message
    if driver.state == "RUNNING":
        return _of_running(driver, status, waits)
    if driver.state in ("KILLED", "RELAUNCHING"):
        return JobState.LOST, f"driver {driver.id} was {driver.state.lower()}"
    return JobState.FAILED, f"driver {driver.id} has ended ({driver.state.lower()})"


def _of_running(driver: Driver, status: DriverStatus | None, waits: bool) -> tuple[JobState, str]:
    if status is None:
        return JobState.STARTING, f"driver {driver.id} starts"
    again = f", started {status.starts} times" if status.starts > 1 else ""
    message = f"{status.message or status.kind}{again}"
    if status.crashes >= CRASHES:
        return JobState.FAILED, f"driver {driver.id} ends soon after each start: {message}"
    if status.age > SILENCE:
        return JobState.STARTING, f"driver {driver.id} sent no heartbeat for {status.age:.0f} s{again}"
    if status.kind == "running" and waits:
        return JobState.STARTING, f"waits for an executor: no worker has free cores and memory for one{again}"
    return _STATES.get(status.kind, JobState.UNKNOWN), message


def last_error_line(log: str) -> str:
    """The line of a driver's log that most likely has the reason of its end."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line or "Exception" in line]
    return first_line((errors or lines or [""])[-1])


def choose_driver(
    drivers: Sequence[tuple[Driver, DriverStatus | None]],
) -> tuple[Driver, DriverStatus | None] | None:
    """Of the drivers of one attempt, sorted by age, the one that runs or ran its query, if any."""
    candidates = [each for each in drivers if each[1] is None or each[1].kind != "gave_way"]
    active = [each for each in candidates if each[0].active]
    working = [each for each in active if each[1] is not None and each[1].kind in STARTED]
    return next(iter(working or active or candidates[::-1]), None)


def is_present(driver: Driver, status: DriverStatus | None) -> bool:
    """True if an attempt is at the engine: it runs, or has ended with a reason."""
    return driver.active or (status is not None and status.kind in ("failed", "finished"))
