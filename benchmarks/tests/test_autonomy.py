"""The cells of the trial of autonomy, and its rounds in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.faults.autonomy import ALONE, MATRIX, Cut, CutLog, chosen, figures, is_broken
from testbed.faults.rig import Account


def cut(lost: int = 0, reported: int = 0) -> Cut:
    accounts = {"inside": Account(10, lost, 0), "outside": Account(10, 0, 0)}
    return Cut(accounts, {"inside": 3.0, "outside": 4.5}, 2.0, reported, 1)


def test_the_matrix_has_each_combination_once() -> None:
    assert len(MATRIX) == 2 * 2 * 2 * 5 + 2 + 2
    assert list(MATRIX) == [cell.name for cell in MATRIX.values()]


def test_cells_are_chosen_by_their_parts() -> None:
    assert chosen([]) == list(MATRIX.values())
    assert chosen([ALONE.name]) == [ALONE]
    found = chosen(["stopped/*/flink/*", ALONE.name])
    assert len(found) == 2 * 5
    assert {(each.coordinator, each.engine) for each in found} == {("stopped", "flink")}
    with pytest.raises(ValueError, match="cell 'stoped/up' fits none"):
        chosen([ALONE.name, "stoped/up"])


def test_rounds_in_a_file_are_not_made_again(tmp_path: Path) -> None:
    log = CutLog(tmp_path / "rounds")
    assert list(log.missing(ALONE, 3)) == [0, 1, 2]
    log.add(ALONE, cut())
    again = CutLog(tmp_path / "rounds")
    assert again.cuts == {ALONE.name: [cut()]}
    assert list(again.missing(ALONE, 3)) == [1, 2]


def test_a_loss_counts_unless_it_was_reported() -> None:
    inside, outside = figures("x", [cut(), cut(lost=3, reported=3)])
    assert (inside["rounds"], inside["messages"], inside["lost"], inside["ended_max"]) == (2, 20, 3, 2.0)
    assert not is_broken(inside)
    assert not is_broken(outside)
    assert is_broken(next(figures("x", [cut(lost=3, reported=2)])))


def test_a_round_that_reports_too_many_hides_no_loss_of_another() -> None:
    inside = next(figures("x", [cut(lost=3, reported=9), cut(lost=5, reported=1)]))
    assert (inside["lost"], inside["reported"], inside["lost_beyond_reported"]) == (8, 10, 4)
    assert is_broken(inside)
