"""What a cluster tells of itself, judged: its version, its room, its places for state, its clock.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from binders.flink.rest.client import Overview
from binders.flink.submission.job_config import SAVEPOINT_KEYS
from speck.core.inventory import Engine
from speck.core.job import Scalar
from speck.core.runtime import Checkup, Complaint

VERSIONS = ((1, 20), (2, 0))  # the oldest of each major version
EXPECTED = "expected Flink 2, or 1.20"

_HEARTBEAT = 10.0  # s, Flink's default of heartbeat.interval
_LATE = 10.0  # s, by which a busy machine may miss a heartbeat
_UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0}


def is_known(version: str) -> bool:
    """Whether SpecK works with this version of Flink."""
    major, minor = (int(part) if part.isdigit() else 0 for part in [*version.split("."), "0"][:2])
    return any(major == oldest[0] and minor >= oldest[1] for oldest in VERSIONS)


def checkup_of(
    seen: Overview,
    managers: Sequence[Mapping[str, Any]],
    settings: Mapping[str, str],
    known: Engine,
    asked: tuple[float, float],
) -> Checkup:
    """The cluster as its answers show it; ``asked`` is when the TaskManagers were asked for, from and to."""
    limits: dict[str, Scalar] = {"task_managers": len(managers)}
    if known.slots is not None:
        limits["slots_in_inventory"] = known.slots
    return Checkup(
        version=f"Flink {seen.version}",
        limits=limits,
        clock=clock_of(managers, _seconds(settings.get("heartbeat.interval")) or _HEARTBEAT, asked),
        complaints=tuple(_complaints(seen, managers, settings, known)),
    )


def clock_of(
    managers: Iterable[Mapping[str, Any]], heartbeat: float, asked: tuple[float, float]
) -> tuple[float, float] | None:
    """By how much the JobManager's clock is ahead: from, to, in s.

    It dates each TaskManager's last sign of life (ms; 0 or less before the first), which is at most a
    ``heartbeat`` (s) old; the newest tells most.
    """
    dates = [date / 1000 for each in managers if (date := each.get("timeSinceLastHeartbeat") or 0) > 0]
    if not dates:
        return None
    before, after = asked
    return max(dates) - after, max(dates) - before + heartbeat + _LATE


def _complaints(
    seen: Overview, managers: Sequence[object], settings: Mapping[str, str], known: Engine
) -> Iterator[Complaint]:
    if not is_known(seen.version):
        yield Complaint(f"it is Flink {seen.version} ({EXPECTED})", "install a version that SpecK knows")
    if not managers or not seen.slots:
        yield Complaint("no TaskManager has come to it: no job finds a slot", "start a TaskManager")
    elif known.slots is not None and known.slots > seen.slots:
        yield Complaint(
            f"it has {seen.slots} slots, and the inventory says {known.slots}",
            "correct slots in the inventory, or taskmanager.numberOfTaskSlots of the cluster",
        )
    if known.savepoint_dir is None and not any(settings.get(key) for key in SAVEPOINT_KEYS):
        yield Complaint(
            "it has no place for savepoints: a stateful job is refused",
            f"set savepoint_dir of the site, or {SAVEPOINT_KEYS[0]} of the cluster",
        )


def _seconds(text: str | None) -> float | None:
    """A duration as Flink writes it: ``10000``, ``10 s``, ``10000 ms``."""
    number = (text or "").rstrip("abcdefghijklmnopqrstuvwxyz ").strip()
    unit = (text or "")[len(number) :].strip() or "ms"
    try:
        return float(number) * _UNITS[unit]
    except (ValueError, KeyError):
        return None
