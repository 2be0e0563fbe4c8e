"""The errors of the model that were measured at the cuts of input jobs; kept in memory only.

A cut that was left because it sends more than was estimated would be chosen again at once without them.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from speck.core.job import Job
from speck.placement.profile import JobProfile, Known, Value

MOST = 1000  # forms of input jobs that are remembered
_FIELDS = ("cost", "bytes_out", "selectivity")


@dataclass(frozen=True)
class CutCorrections:
    """The ratio of each measured value to that of the model, by the form of an input job.

    Safe to use from several threads.
    """

    _ratios: dict[tuple[str, str], Mapping[str, float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, job: Job, known: JobProfile, modelled: JobProfile) -> None:
        """Remember what is measured of a job that runs in this form."""
        found = {name: ratio for name in _FIELDS if (ratio := _ratio(known, modelled, name)) is not None}
        if not found:
            return
        with self._lock:
            self._ratios.pop(_form(job), None)
            self._ratios[_form(job)] = found
            while len(self._ratios) > MOST:
                del self._ratios[next(iter(self._ratios))]

    def corrected(self, job: Job, modelled: JobProfile) -> JobProfile | None:
        """The profile of the model with the ratios of that form; ``None`` if it was never measured."""
        with self._lock:
            ratios = self._ratios.get(_form(job))
        if ratios is None:
            return None
        values: dict[str, Any] = {
            name: replace(value, value=value.value * ratio)
            for name, ratio in ratios.items()
            if isinstance(value := getattr(modelled, name), Value)
        }
        return replace(modelled, **values)


def _form(job: Job) -> tuple[str, str]:
    return job.job_name, str(job.query["program"])


def _ratio(known: JobProfile, modelled: JobProfile, name: str) -> float | None:
    measured, value = getattr(known, name), getattr(modelled, name)
    if measured is None or value is None or measured.known is not Known.MEASURED or not value.value:
        return None
    return float(measured.value / value.value)
