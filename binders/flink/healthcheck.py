"""Health of a cluster: version, slots, state directories and clock, judged from its answers.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from binders.flink.rest.overviews import Overview
from binders.flink.submission.job_config import SAVEPOINT_KEYS, TIMEZONE_SETTING
from speck.core.inventory import Engine
from speck.core.job import Scalar
from speck.core.runtime import Checkup, Complaint
from speck.core.timezone import is_utc

VERSIONS = ((1, 20), (2, 0))  # the oldest of each major version
EXPECTED = "expected Flink 2, or 1.20"

_HEARTBEAT = 10.0  # s, Flink's default of heartbeat.interval
_LATE = 10.0  # s, by which a heartbeat of a busy machine may be late
_UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0}


def is_supported(version: str) -> bool:
    """True if SpecK supports this version of Flink."""
    major, minor = (int(part) if part.isdigit() else 0 for part in [*version.split("."), "0"][:2])
    return any(major == oldest[0] and minor >= oldest[1] for oldest in VERSIONS)


def accepts_jars(settings: Mapping[str, str]) -> bool:
    """True unless the cluster's REST interface is set to accept no jars."""
    return settings.get("web.submit.enable", "true").strip().lower() != "false"


def checkup_of(
    seen: Overview,
    managers: Sequence[Mapping[str, Any]],
    settings: Mapping[str, str],
    known: Engine,
    requested: tuple[float, float],
) -> Checkup:
    """The health of a cluster; ``requested`` is when its TaskManagers were listed (from, to; Unix time)."""
    limits: dict[str, Scalar] = {"task_managers": len(managers)}
    if known.slots is not None:
        limits["slots_in_inventory"] = known.slots
    return Checkup(
        version=f"Flink {seen.version}",
        limits=limits,
        clock=clock_of(managers, _seconds(settings.get("heartbeat.interval")) or _HEARTBEAT, requested),
        complaints=tuple(_complaints(seen, managers, settings, known)),
    )


def clock_of(
    managers: Iterable[Mapping[str, Any]], heartbeat: float, requested: tuple[float, float]
) -> tuple[float, float] | None:
    """Bounds of how far the JobManager's clock is ahead of ours, s.

    The JobManager dates each TaskManager's last heartbeat (ms; 0 or less before the first), which is at most
    ``heartbeat`` seconds old; the newest date gives the tightest bounds.
    """
    dates = [date / 1000 for each in managers if (date := each.get("timeSinceLastHeartbeat") or 0) > 0]
    if not dates:
        return None
    before, after = requested
    return max(dates) - after, max(dates) - before + heartbeat + _LATE


def _complaints(
    seen: Overview, managers: Sequence[object], settings: Mapping[str, str], known: Engine
) -> Iterator[Complaint]:
    if not is_supported(seen.version):
        yield Complaint(f"it is Flink {seen.version} ({EXPECTED})", "install a version that SpecK supports")
    if not accepts_jars(settings):
        yield Complaint(
            "web.submit.enable is false: it accepts no jobs over REST",
            "set web.submit.enable: true in its configuration, and restart the JobManager",
        )
    if not managers or not seen.slots:
        message = "no TaskManager is registered: no job gets a slot"
        yield Complaint(message, "start a TaskManager", remark=known.scale is not None)
    elif known.slots is not None and known.slots > seen.slots:
        yield Complaint(
            f"it has {seen.slots} slots, but the inventory has {known.slots}",
            "correct slots in the inventory, or taskmanager.numberOfTaskSlots of the cluster",
        )
    yield from _timezone_remark(settings)
    if known.savepoint_dir is None and not any(settings.get(key) for key in SAVEPOINT_KEYS):
        yield Complaint(
            "it has no savepoint directory: stateful jobs are rejected",
            f"set savepoint_dir of the site, or {SAVEPOINT_KEYS[0]} of the cluster",
        )


def _timezone_remark(settings: Mapping[str, str]) -> Iterator[Complaint]:
    zone = settings.get(TIMEZONE_SETTING, "default")
    if zone != "default" and not is_utc(zone):
        yield Complaint(
            f"it sets {TIMEZONE_SETTING} to {zone}: jobs have that of their field timezone (UTC by default)",
            f"remove it from the cluster's configuration, or write timezone: {zone} in the jobs",
            remark=True,
        )


def _seconds(text: str | None) -> float | None:
    """A duration as Flink writes it: ``10000``, ``10 s``, ``10000 ms``."""
    number = (text or "").rstrip("abcdefghijklmnopqrstuvwxyz ").strip()
    unit = (text or "")[len(number) :].strip() or "ms"
    try:
        return float(number) * _UNITS[unit]
    except (ValueError, KeyError):
        return None
