"""The sources and targets of steps: names of sites, or cuts, and their stored form."""

from __future__ import annotations

import copy
import json

import pytest

from speck.core.adaptation import AdaptationState, Ban, Cuts, StepRecord, Streak, place_in

JOBS = ("q.t-b", "q.t-a")


@pytest.mark.parametrize(
    ("cuts", "text", "by_job"),
    [
        (("filter", "filter"), "cut filter", {"q.t-a": "filter", "q.t-b": "filter"}),
        (("filter", "rows"), "cut filter, rows", {"q.t-a": "filter", "q.t-b": "rows"}),
    ],
)
def test_cuts_are_those_of_jobs_in_the_order_of_their_names(
    cuts: tuple[str, str], text: str, by_job: dict[str, str]
) -> None:
    found = Cuts.of(cuts)
    assert str(found) == text and found.by_job(JOBS) == by_job
    assert place_in(text) == found and isinstance(place_in(text), Cuts)
    assert isinstance(copy.deepcopy(found), Cuts)
    assert not isinstance(place_in("cutter"), Cuts)


def test_other_cuts_than_jobs_are_refused() -> None:
    with pytest.raises(ValueError, match="zip"):
        Cuts.of(("filter", "rows")).by_job(["q.t-a"])


def test_the_stored_form_is_text_and_gives_the_cuts_again() -> None:
    jobs, before, after = tuple(sorted(JOBS)), Cuts.of(["rows"]), Cuts.of(["filter"])
    step = StepRecord(
        jobs=jobs, source=before, target=after, at=1.0, due=2.0, objective=1.0, predicted=0.5, age_p95=0.1
    )
    memory = AdaptationState(
        streak=Streak(jobs=jobs, target=after, count=2),
        bans=(Ban(jobs=jobs, target=after, until=3.0, times=1, reason=""),),
        steps=(step,),
    )
    stored = json.loads(json.dumps(memory.to_dict()))
    assert stored["steps"][0]["target"] == "cut filter"
    found = AdaptationState.from_dict(stored)
    assert found == memory and found.streak is not None
    targets = (found.streak.target, found.bans[0].target, found.steps[0].source, found.steps[0].target)
    assert all(isinstance(each, Cuts) for each in targets)
