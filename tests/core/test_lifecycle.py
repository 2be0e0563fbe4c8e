"""The words for kinds of events: stored ones, and those that users see."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from speck.core.lifecycle import EventKind, shown_kind

EVENTS = Path(__file__).parents[2] / "speck/server/dashboard/assets/views/events.js"
CLEARER = {
    "stray": "orphan",
    "left": "abandoned",
    "given up": "discarded",
    "back": "reverted",
    "fell": "paused to advice",
}


@pytest.mark.parametrize("kind", EventKind)
def test_a_kind_is_shown_by_a_clear_word(kind: EventKind) -> None:
    assert shown_kind(kind) == shown_kind(str(kind)) == CLEARER.get(kind, kind)


def test_states_of_operations_are_shown_as_they_are_stored() -> None:
    assert shown_kind("succeeded") == "succeeded"


def test_the_dashboard_shows_the_same_words() -> None:
    (table,) = re.findall(r"const SHOWN = \{(.*?)\};", EVENTS.read_text("utf-8"))
    pairs = re.findall(r'"?([a-z ]+?)"?: "([^"]+)"', table)
    assert {stored.strip(): shown for stored, shown in pairs} == CLEARER
