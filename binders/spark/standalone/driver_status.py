"""What a driver tells of itself, read into what SpecK says of its job.  Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from binders.spark.query.text import first_line
from binders.spark.standalone.master import Driver
from speck.core.runtime import JobState

SILENCE = 30.0  # s, without a sign of life of a driver that tells every 5 s
CRASHES = 3  # in a row, after which a driver that the master starts again and again has failed

_STATES = {
    "starting": JobState.STARTING,
    "building": JobState.STARTING,
    "running": JobState.RUNNING,
    "failed": JobState.FAILED,
    "refused": JobState.FAILED,
    "finished": JobState.STOPPED,
    "stopped": JobState.LOST,
}
ENDED = frozenset({"failed", "refused", "finished", "stopped", "gave_way"})  # of a driver that ends for good
WORKED = frozenset({"running", "failed", "finished"})  # of a driver whose query was started


@dataclass(frozen=True, slots=True)
class DriverStatus:
    """A driver's account as it was read; ``age`` is how old it was then (s).

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


def read_account(text: str, read_at: float) -> DriverStatus | None:
    """The account in a log's text; ``None`` when the driver has not told yet, or it is no account."""
    try:
        told: dict[str, Any] = json.loads(text)
        return DriverStatus(
            kind=str(told["kind"]),
            message=str(told["message"]),
            age=max(0.0, read_at - float(told["at"])),
            starts=int(told["starts"]),
            crashes=int(told["crashes"]),
            ran=bool(told["ran"]),
            progress=told.get("progress"),
            control=str(told.get("control", "")),
        )
    except (ValueError, KeyError, TypeError):
        return None


def state_of(driver: Driver, account: DriverStatus | None, waits: bool) -> tuple[JobState, str]:
    """What a driver's job does, and in which words; ``waits`` says that it has no executor."""
    if driver.state == "SUBMITTED":
        return JobState.STARTING, f"driver {driver.id} waits for a worker with room"
    if account is not None and account.kind in ENDED:
        return _STATES.get(account.kind, JobState.LOST), account.message
    if driver.state == "RUNNING":
        return _of_running(driver, account, waits)
    if driver.state in ("KILLED", "RELAUNCHING"):
        return JobState.LOST, f"driver {driver.id} was {driver.state.lower()}"
    return JobState.FAILED, f"driver {driver.id} has ended ({driver.state.lower()})"


def _of_running(driver: Driver, account: DriverStatus | None, waits: bool) -> tuple[JobState, str]:
    if account is None:
        return JobState.STARTING, f"driver {driver.id} starts"
    again = f", started {account.starts} times" if account.starts > 1 else ""
    message = f"{account.message or account.kind}{again}"
    if account.crashes >= CRASHES:
        return JobState.FAILED, f"driver {driver.id} ends soon after each start: {message}"
    if account.age > SILENCE:
        return JobState.STARTING, f"driver {driver.id} was silent for {account.age:.0f} s{again}"
    if account.kind == "running" and waits:
        return JobState.STARTING, f"waits for an executor: no worker has the room for one{again}"
    return _STATES.get(account.kind, JobState.UNKNOWN), message


def last_words(log: str) -> str:
    """The line of a driver's log that says best why it ended."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    said = [line for line in lines if "Error" in line or "Exception" in line]
    return first_line((said or lines or [""])[-1])


def choose(
    drivers: Sequence[tuple[Driver, DriverStatus | None]],
) -> tuple[Driver, DriverStatus | None] | None:
    """Of the drivers of one attempt, by age, the one that works or worked on it, if there is one."""
    left = [each for each in drivers if each[1] is None or each[1].kind != "gave_way"]
    active = [each for each in left if each[0].active]
    at_work = [each for each in active if each[1] is not None and each[1].kind in WORKED]
    return next(iter(at_work or active or left[::-1]), None)
