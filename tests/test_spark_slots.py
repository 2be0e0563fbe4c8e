"""What a Connect server's site has promised of its slots."""

from __future__ import annotations

import pytest

from binders.spark import slots
from binders.spark.slots import Slots


class Site:
    """What runs at a site, and how often that was asked."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.asked = 0

    def running(self) -> list[str]:
        self.asked += 1
        return self.names


@pytest.fixture
def site() -> Site:
    return Site()


def test_what_was_promised_to_one_is_not_promised_to_another(site: Site) -> None:
    room = Slots(site.running)
    assert [room.promise(name, 2) for name in "abab"] == [None] * 4
    assert room.promise("c", 2) == 2
    room.started("a")
    site.names = ["a"]
    assert room.promise("c", 2) == 2  # a slot is counted once, whether promised or taken
    site.names = []
    room.freed("a")
    assert room.promise("c", 2) is None


def test_slot_for_the_copy_to_come_stays_when_the_old_one_stops(site: Site) -> None:
    room = Slots(site.running)
    site.names = ["a"]
    assert room.promise("a", 1) is None
    room.started("a")
    assert room.promise("a", 1) is None  # for an update
    site.names = []
    room.freed("a")
    assert room.promise("b", 1) == 1
    room.started("a")
    room.freed("a")
    assert room.promise("b", 1) is None


def test_many_are_promised_slots_by_one_look(site: Site) -> None:
    room = Slots(site.running)
    assert [room.promise(f"job-{number}", 9) for number in range(9)] == [None] * 9
    assert site.asked == 1
    assert room.promise("late", 9) == 9
    assert site.asked == 2  # refused only after another look


def test_promise_ends_by_itself(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "PROMISED", -1.0)
    room = Slots(site.running)
    assert [room.promise(name, 1) for name in "ab"] == [None, None]
