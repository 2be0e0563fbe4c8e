"""The errors of the model that were measured at the cuts of input jobs.

Without them, a cut that was replaced because it sends more than estimated would be chosen again after a
restart, so they are stored as profiles are.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

from speck.core.job import Job
from speck.errors import SpeckError
from speck.observe.links import LONGEST
from speck.placement.profile import JobProfile, Known, Value
from speck.store import Store
from speck.store.profiles import CutCorrection

_log = logging.getLogger(__name__)

MOST = 1000  # forms of input jobs that are remembered
PERIOD = 600.0  # s between two writes of one form
CHANGED = 0.1  # the share of a ratio by which it changes to be written at once
_FIELDS = ("cost", "bytes_out", "selectivity")

_Form = tuple[str, str]


@dataclass(frozen=True)
class CutCorrections:
    """The ratio of each measured value to that of the model, by the form of an input job.

    ``clock`` gives Unix time, s.  Safe to use from several threads.
    """

    store: Store
    clock: Callable[[], float]
    _ratios: dict[_Form, CutCorrection] = field(default_factory=dict, init=False)
    _written: dict[_Form, CutCorrection] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        """Load the stored corrections."""
        stored = sorted(self.store.cut_corrections().items(), key=lambda each: each[1].until)
        self._ratios.update(stored)
        self._written.update(stored)

    def note(self, job: Job, known: JobProfile, modelled: JobProfile) -> None:
        """Remember what is measured of a job that runs in this form."""
        ratios = {name: ratio for name in _FIELDS if (ratio := _ratio(known, modelled, name)) is not None}
        if not ratios:
            return
        form, found = _form(job), CutCorrection(ratios, self.clock())
        with self._lock:
            self._ratios.pop(form, None)
            self._ratios[form] = found
            surplus = list(self._ratios)[:-MOST]
            for each in surplus:
                del self._ratios[each]
                self._written.pop(each, None)
            is_due = form not in self._written or _is_outdated(self._written[form], found)
            if is_due:
                self._written[form] = found
        if is_due:
            self._write(form, found, surplus)

    def _write(self, form: _Form, correction: CutCorrection, surplus: Collection[_Form]) -> None:
        """Write a correction, unless its job is gone; without it, nothing that is planned is wrong."""
        try:
            with self.store.transaction() as transaction:
                if self.store.job(form[0]) is not None:
                    transaction.put_cut_correction(*form, correction)
                for each in surplus:
                    transaction.delete_cut_correction(*each)
        except SpeckError as error:
            _log.warning("what is measured of the cut of job %r could not be written: %s", form[0], error)

    def corrected(self, job: Job, modelled: JobProfile) -> JobProfile | None:
        """The profile of the model with the ratios of that form; ``None`` if it was not measured lately."""
        with self._lock:
            found = self._ratios.get(_form(job))
        if found is None or found.until < self.clock() - LONGEST:
            return None
        values: dict[str, Any] = {
            name: replace(value, value=value.value * ratio)
            for name, ratio in found.ratios.items()
            if isinstance(value := getattr(modelled, name), Value)
        }
        return replace(modelled, **values)


def _is_outdated(written: CutCorrection, found: CutCorrection) -> bool:
    """True if a new correction differs enough from the stored one to replace it."""
    if abs(found.until - written.until) >= PERIOD or written.ratios.keys() != found.ratios.keys():
        return True
    pairs = ((written.ratios[name], ratio) for name, ratio in found.ratios.items())
    return any(abs(new - old) > CHANGED * old for old, new in pairs)


def _form(job: Job) -> _Form:
    return job.job_name, hashlib.sha256(str(job.query["program"]).encode()).hexdigest()[:16]


def _ratio(known: JobProfile, modelled: JobProfile, name: str) -> float | None:
    measured, value = getattr(known, name), getattr(modelled, name)
    if measured is None or value is None or measured.known is not Known.MEASURED or not value.value:
        return None
    return float(measured.value / value.value)
