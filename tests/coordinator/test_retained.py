"""Remarks on results that an engine keeps for a broker that does not answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from speck.coordinator.planning.retained import retained_notes
from speck.core.plan import Action, Keep, Plan, Stop, Update
from testbed.benches.jobs_by_hand import make_job

OLD, NEW = "tcp://10.0.0.4:1883", "tcp://10.0.0.5:1883"
JOB = make_job("a", sink_broker=OLD)
MOVED = replace(JOB, sink_broker=NEW)
KEPT = (
    "1,234 messages that tcp://10.0.0.4:1883 may have lost, since it does not answer, are kept by the engine"
)


@pytest.mark.parametrize(
    ("action", "away", "retained", "noted"),
    [
        (Update(MOVED, JOB, "", ()), {OLD}, 1234, f"or at {NEW} if that is the same broker"),
        (Update(MOVED, JOB, "", ()), {NEW}, 1234, None),  # nothing is lost there
        (Update(MOVED, JOB, "", ()), {OLD}, 0, None),
        (Update(MOVED, JOB, "", ()), {OLD}, None, None),  # not known, as of an older connector
        (
            Update(replace(JOB, arguments={"x": 1}), JOB, "", ()),
            {OLD},
            1234,
            None,
        ),  # it continues to send them
        (Keep(JOB, ""), {OLD}, 1234, None),
        (Stop(JOB, ""), {OLD}, 1234, "and sent once it answers (docs"),
    ],
)
def test_a_plan_names_the_results_for_a_broker_that_does_not_answer(
    action: Action, away: set[str], retained: int | None, noted: str | None
) -> None:
    details = {"a": {} if retained is None else {"retained": retained}}
    notes = retained_notes(Plan("c", 1, (action,)), away, details)
    if noted is None:
        assert notes == {}
    else:
        assert KEPT in notes["a"]
        assert noted in notes["a"]
