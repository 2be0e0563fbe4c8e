"""The kinds of events: all of them are on the page, which marks those that are warnings in the log."""

from __future__ import annotations

import re

from speck.core.lifecycle import EventKind, OperationState, shown_kind
from speck.store.event_log import TROUBLE
from testbed import ROOT

_OUTCOMES = (*(each for each in OperationState if each != OperationState.RUNNING), "intended", "skipped")
KINDS = {shown_kind(str(each)) for each in (*EventKind, *_OUTCOMES)}


def test_every_kind_of_event_is_on_the_page() -> None:
    page = (ROOT / "docs" / "history.md").read_text(encoding="utf-8")
    section = page.partition("\n## The audit log\n")[2].partition("\n## ")[0]
    cells = [line.split(" | ")[1] for line in section.splitlines() if line.startswith("| ")][2:]
    listed = [name for cell in cells for name in re.findall(r"(?<!\()`([a-z ]+)`", cell)]
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
