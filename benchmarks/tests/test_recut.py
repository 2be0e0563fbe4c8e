"""The account of the trial of cuts: windows that are lost, doubled or wrong are seen as such."""

from __future__ import annotations

import json

from speck.sql.times import text_of
from testbed.faults.recut import BEGIN, LATER, SIZE, SLIDE, RecutAccount, Totals, Window, expected, row

ROWS = [row(number, 100) for number in range(1500)]


def result(window: Window, totals: Totals) -> str:
    end, word = window
    names = ("n", "total", "least", "most")
    return json.dumps({"window_end": text_of(end), "word": word, **dict(zip(names, totals, strict=True))})


def results() -> list[str]:
    return [result(*each) for each in expected(ROWS).items()]


def test_each_row_that_passes_is_in_two_windows() -> None:
    passing = [each for each in map(json.loads, ROWS) if each["amount"] >= -500]
    assert 0 < len(passing) < len(ROWS)
    found = expected(ROWS)
    assert sum(totals[0] for totals in found.values()) == SIZE // SLIDE * len(passing)
    assert all(end % SLIDE == 0 and end > BEGIN for end, _ in found)


def test_right_results_are_sound_whatever_their_order() -> None:
    last = result((LATER + SLIDE, "LAST"), (1, 0, 0, 0))
    found = RecutAccount.of(ROWS, [*reversed(results()), last])
    assert (found.rows, found.windows) == (len(ROWS), len(expected(ROWS)))
    assert not found.broken


def test_a_window_that_is_missing_repeated_or_wrong_is_counted() -> None:
    right = results()
    window, totals = next(iter(expected(ROWS).items()))
    more = result(window, (totals[0] + 1, *totals[1:]))
    assert RecutAccount.of(ROWS, right[1:]).lost == 1
    assert RecutAccount.of(ROWS, [*right, right[0]]).doubled == 1
    assert RecutAccount.of(ROWS, [more, *right[1:]]).wrong == 1
    stranger = RecutAccount.of(ROWS, [*right, result((window[0], "NOBODY"), (1, 1, 1, 1))])
    assert stranger.wrong == 1 and stranger.broken


def test_a_rest_that_was_started_again_is_harm() -> None:
    assert RecutAccount.of(ROWS, results(), restarted=1).broken
