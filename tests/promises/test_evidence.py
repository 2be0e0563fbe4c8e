"""The evidence that a trial keeps of a round in which messages were lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from testbed.faults.autonomy import Cut
from testbed.faults.evidence import missing, preserve, ranges
from testbed.faults.rig import Account


@pytest.mark.parametrize(
    ("numbers", "text"),
    [((), ""), ((3,), "3"), ((3, 7, 8, 9), "3, 7-9"), ((0, 1, 5), "0-1, 5"), ((1, 3), "1, 3")],
)
def test_numbers_are_shown_as_ranges(numbers: tuple[int, ...], text: str) -> None:
    assert ranges(numbers) == text


def test_only_what_nobody_counted_is_missing() -> None:
    assert missing([1, 0, 0, 2, 0]) == "1-2, 4"


@pytest.mark.parametrize(
    ("lost", "doubled", "reported", "broken"),
    [(0, 0, 0, False), (3, 0, 3, False), (4, 0, 3, True), (0, 1, 3, True)],
)
def test_a_round_is_broken_beyond_what_is_reported(
    lost: int, doubled: int, reported: int, broken: bool
) -> None:
    accounts = {"inside": Account(9, lost, doubled), "outside": Account(9, 0, 0)}
    assert Cut(accounts, {}, reported=reported).broken is broken


def test_a_round_outside_the_site_has_nothing_that_may_be_missing() -> None:
    assert Cut({"inside": Account(9, 0, 0), "outside": Account(9, 1, 0)}, {}, reported=5).broken


def test_the_files_of_the_servers_are_kept_without_programs(tmp_path: Path) -> None:
    servers = tmp_path / "servers"
    (servers / "store").mkdir(parents=True)
    (servers / "store" / "log").write_text("l")
    (servers / "connector.jar").write_text("j")
    (servers / "gone").symlink_to(servers / "nothing")
    kept = preserve(servers, {"missing": "1-2"}, tmp_path)
    assert json.loads((kept / "facts.json").read_text()) == {"missing": "1-2"}
    assert (kept / "servers" / "store" / "log").read_text() == "l"
    assert not (kept / "servers" / "connector.jar").exists()
