"""Tables of words that users meet list all of them: kinds of events, findings, drifts, losses, triggers."""

from __future__ import annotations

import re

import pytest

from speck.coordinator.queries.doctor import Finding
from speck.core.adaptation import Trigger
from speck.core.lifecycle import EventKind, OperationState, shown_kind
from speck.core.runtime import Drift
from speck.observe.losses import REASONS
from speck.store.event_log import TROUBLE
from testbed import ROOT

_OUTCOMES = (*(each for each in OperationState if each != OperationState.RUNNING), "intended", "skipped")
KINDS = {shown_kind(str(each)) for each in (*EventKind, *_OUTCOMES)}


def test_every_kind_of_event_is_on_the_page() -> None:
    page = (ROOT / "docs" / "history.md").read_text(encoding="utf-8")
    section = page.partition("\n## The audit log\n")[2].partition("\n## ")[0]
    cells = [line.split(" | ")[1] for line in section.splitlines() if line.startswith("| ")][2:]
    listed = [name for cell in cells for name in re.findall(r"`([a-z ]+)`", re.sub(r"\([^)]*\)", "", cell))]
    assert sorted(listed) == sorted(KINDS)
    stored = {name for cell in cells for name in re.findall(r"\((?:stored as )?`([a-z ]+)`\)", cell)}
    assert stored == {str(each) for each in EventKind if shown_kind(str(each)) != each}
    warnings = {name for cell in cells for name in re.findall(r"\*\*`([a-z ]+)`\*\*", cell)}
    assert warnings == set(map(shown_kind, TROUBLE))


def test_warnings_have_a_tone_on_the_dashboard() -> None:
    """Those of an orphan, of a failed hook and of a standby that is away looked like any other line."""
    script = (ROOT / "speck/server/dashboard/assets/views/events.js").read_text(encoding="utf-8")
    tones = dict(re.findall(r'"?([a-z][a-z ]*)"?: "(bad|warn|good|still)"', script))
    assert {kind for kind, tone in tones.items() if tone in ("bad", "warn")} >= TROUBLE


@pytest.mark.parametrize(
    ("name", "head", "column", "known"),
    [
        ("reconciler.md", "| finding | meaning | remedy |", 0, list(map(str, Finding))),
        ("reconciler.md", "| drift | meaning | reaction |", 0, [each.value for each in Drift]),
        ("faults.md", "| kind | reason | meaning |", 1, list(REASONS)),
        ("adaptation.md", "| trigger | condition |", 0, list(map(str, Trigger))),
    ],
)
def test_a_table_lists_all_that_users_meet(name: str, head: str, column: int, known: list[str]) -> None:
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    rows = page.partition(head)[2].partition("\n\n")[0].splitlines()
    cells = [row.strip(" |").split(" | ")[column] for row in rows if "`" in row]
    assert sorted(each for cell in cells for each in re.findall(r"`([^`]+)`", cell)) == sorted(known)
