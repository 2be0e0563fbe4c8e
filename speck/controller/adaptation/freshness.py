"""The jobs without fresh figures, in words."""

from __future__ import annotations

import math

from speck.controller.adaptation.mover import Present
from speck.controller.adaptation.observations import Observations
from speck.controller.adaptation.obstacles import few
from speck.observe.pace import FRESH, fresh_for
from speck.placement.profile import Inputs


def undecidable_text(present: Present, observed: Observations) -> str:
    """The reasons for which jobs are not decided on; empty if there are none."""
    return "; ".join(filter(None, (_stale_text(present), _idle_text(observed))))


def _stale_text(present: Present) -> str:
    stale = sorted(set(present.model.jobs) - present.inputs.fresh)
    span = fresh_for(present.inputs.interval)
    fresh = "minute" if span == FRESH else f"{span:.0f} s"
    return f"the rate of job {few(stale)} is not of the last {fresh}" if stale else ""


def _idle_text(observed: Observations) -> str:
    return f"no message reaches job {few(observed.idle)}" if observed.idle else ""


def was_fresh(inputs: Inputs, job: str) -> bool:
    """True if the rate of a job was fresh a moment ago, so that it will probably be again."""
    return inputs.ages.get(job, math.inf) <= 2 * fresh_for(inputs.interval)
