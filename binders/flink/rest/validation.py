"""Flink's answers, held against the form that they should have before anything is read out of them.

Each function answers what it was given, or a part of it, or raises one of :data:`ODD`: an answer of another
form is another program's, or that of a version of Flink which SpecK does not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import Any

ODD = (ArithmeticError, AttributeError, IndexError, KeyError, OSError, TypeError, ValueError)

Answer = Mapping[str, Any]


def text(value: object) -> str:
    """A text."""
    if not isinstance(value, str):
        raise TypeError(value)
    return value


def whole(value: object) -> int:
    """A whole number."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(value)
    return value


def number(value: object) -> float:
    """A number, and no infinite one."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise TypeError(value)
    return float(value)


def details(answer: dict[str, Any]) -> dict[str, Any]:
    """A job: the ids and the parallelism of its vertices, and the nodes of its plan."""
    for vertex in answer.get("vertices", ()):
        text(vertex["id"])
        whole(vertex["parallelism"])
    for node in (answer.get("plan") or {}).get("nodes", ()):
        text(node["id"])
        node.get("inputs")
    return answer


def statistics(answer: dict[str, Any]) -> dict[str, Any]:
    """A job's checkpoints: their counts, and the latest of each kind."""
    counts = answer.get("counts") or {}
    _each(whole, counts, "completed", "failed", "restored")
    latest = answer.get("latest") or {}
    for kind in ("completed", "savepoint", "restored"):
        found = latest.get(kind) or {}
        _each(text, found, "external_path", "checkpoint_type")
        _each(number, found, "end_to_end_duration", "state_size", "checkpointed_size")
        if found.get("external_path") and kind != "restored":
            whole(found["id"])
    return answer


def failures(answer: Answer) -> list[dict[str, Any]]:
    """The failures of a job that Flink remembers, the newest first."""
    found = [dict(each) for each in (answer.get("exceptionHistory") or {}).get("entries", ())]
    for each in found:
        _each(text, each, "stacktrace", "taskName")
        datetime.fromtimestamp(number(each.get("timestamp", 0)) / 1000, UTC)
    return found


def managers(found: Iterable[Answer]) -> list[dict[str, Any]]:
    """The TaskManagers, with what they have, and when each gave its last sign of life (ms)."""
    told = [dict(each) for each in found]
    for each in told:
        _each(number, each, "timeSinceLastHeartbeat")
        _each(whole, each.get("hardware") or {}, "cpuCores")
        _each(whole, each.get("memoryConfiguration") or {}, "totalProcessMemory")
    return told


def total(found: Iterable[Answer], group: str, name: str) -> int | None:
    """What all TaskManagers have of something; ``None`` when one does not tell, or there is none."""
    each: list[int | None] = [(manager.get(group) or {}).get(name) for manager in found]
    known = [one for one in each if one is not None]
    return sum(known) if known and len(known) == len(each) else None


def sums(answer: Iterable[Answer]) -> dict[str, float]:
    """Sums of metrics by their names, of those that are numbers: some are not before a task is at work."""
    found = {text(each["id"]): float(each["sum"]) for each in answer}
    return {name: value for name, value in found.items() if isfinite(value)}


def parameters(answer: Answer) -> dict[str, str]:
    """The global parameters of a job, of those that are text: the job may be anybody's."""
    told = (answer.get("execution-config") or {}).get("user-config") or {}
    return {name: value for name, value in told.items() if isinstance(value, str)}


def _each(form: Any, found: Answer, *names: str) -> None:
    for name in names:
        if found.get(name) is not None:
            form(found[name])
