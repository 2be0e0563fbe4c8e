"""Reports: one message about each step of a part, and the control messages that answer them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from jars_and_apps.key_split.partitioners.protocol import MetricsWindow
from jars_and_apps.key_split.settings import Output

MOST = 1e15  # rows or seconds
_MARK = b"\xff"


def report(part: str, fields: Mapping[str, Any], faults: Counter[str], busy: float, wall: float) -> Output:
    """The report of a step: a byte 0xFF, which no frame and no result begins with, and a JSON object.

    ``busy`` and ``wall`` in seconds; ``faults`` are counted since the state began.
    """
    value = {**fields, "busy": busy, "wall": wall, "faults": dict(sorted(faults.items()))}
    return Output(f"report/{part}", _MARK + json.dumps(value, separators=(",", ":")).encode())


def measurement(rows: int, busy: float, wall: float) -> bytes:
    """The time (s) of a worker of a split in one job for this number of rows, for the collector's report."""
    return _MARK + json.dumps({"rows": rows, "busy": busy, "wall": wall}).encode()


def measured(value: bytes) -> dict[str, float] | None:
    """The measurement that these bytes are; None for others, such as a frame."""
    if not value.startswith(_MARK):
        return None
    try:
        found = json.loads(value[1:])
        return {name: float(found[name]) for name in ("rows", "busy", "wall")}
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def metrics_window(message: bytes, workers: int) -> MetricsWindow:
    """The window of a control message; ValueError if it is none.

    The message: ``{"end": UNIX_TIME, "workers": [{"rows": ROWS, "busy": S, "wall": S} or null, ...]}``, one
    entry a worker.
    """
    try:
        found = json.loads(message)
        table = np.array([_numbers(each) for each in found["workers"]], np.float64).reshape(-1, 3)
        end = _number(found["end"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"control message is no metrics window: {error}") from error
    if len(table) != workers:
        raise ValueError(f"control message of {len(table)} workers (expected {workers})")
    return MetricsWindow(table[:, 0], table[:, 1], table[:, 2], end)


def _numbers(worker: Any) -> tuple[float, float, float]:
    if worker is None:
        return (np.nan, np.nan, np.nan)
    return _number(worker["rows"]), _number(worker["busy"]), _number(worker["wall"])


def _number(value: Any) -> float:
    number = float(value)
    if not 0 <= number < MOST:
        raise ValueError(f"{number} (expected a number from 0 to {MOST:g})")
    return number
