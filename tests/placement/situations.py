"""A step that is good, and what is known when it is decided on or judged, for the tests of decisions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from speck.core.adaptation import AdaptationState, StepOutcome, StepRecord, Streak
from speck.core.lifecycle import OperationState
from speck.core.placement import PlacementOptions
from speck.placement.adaptation.decide import decide
from speck.placement.adaptation.situation import Candidate, Progress, Realised, Situation

NOW = 1_000_000.0
GOOD = Candidate(
    jobs=("clean", "count"),
    source="D",
    target="A",
    gain=0.4,
    objective=0.6,
    age_p95=0.1,
    multiplier=6.0,
    utilisation=0.3,
    pays_after=40.0,
)
SEEN = Situation(
    revision=3,
    options=PlacementOptions(mode="auto"),
    objective=1.0,
    age_p95=0.2,
    multiplier=2.0,
    gain=0.4,
    rates={"clean": 100.0, "count": 50.0},
    candidates=(GOOD,),
)
READY = AdaptationState(revision=3, streak=Streak(jobs=GOOD.jobs, target="A", count=2))
STEP = StepRecord(
    jobs=GOOD.jobs,
    source="D",
    target="A",
    at=NOW,
    due=0.0,
    objective=1.0,
    predicted=0.6,
    age_p95=0.2,
    revision=4,
    operation="op",
)
DONE = Progress(state=OperationState.SUCCEEDED, ended=NOW + 5)
REALISED = Realised(
    objective=0.6,
    without=1.0,
    age_p95=0.1,
    age_p95_without=0.2,
    multiplier=6.0,
    multiplier_without=2.0,
)


def past_step(at: float) -> StepRecord:
    return replace(STEP, at=at, due=at, outcome=StepOutcome.KEPT)


def judged(realised: Realised | None, windows: int = 3, **pending: Any) -> tuple[Any, AdaptationState]:
    memory = AdaptationState(revision=3, steps=(replace(STEP, **pending),))
    seen = replace(SEEN, revision=4, automatic=True, progress=DONE, realised=realised)
    answer, memory = decide(memory, seen, NOW + 6)
    for number in range(windows):
        answer, memory = decide(memory, seen, NOW + 5 + 30 + 20 * (number + 1))
    return answer, memory
