"""Estimates of what input jobs send, against the frames of the reference."""

from __future__ import annotations

import json

import pytest

from speck.sql.bind import bind
from speck.sql.cuts import input_of, timed
from speck.sql.estimates import flow, share_of
from speck.sql.evaluate import evaluate
from speck.sql.program import Program
from speck.sql.types import Contract, column_of

COLUMNS = {
    "time": "timestamp(ms) not null",
    "auction": "bigint not null",
    "price": "bigint",
    "note": "string",
}
BIDS = Contract("bid/+", "bids", "json", tuple(column_of(*each) for each in COLUMNS.items()), "time", 1000)
RATE, SECONDS = 200, 10
COUNT = (
    "SELECT window_end, auction, COUNT(*) AS n "
    "FROM HOP(bids, time, INTERVAL '2' SECOND, INTERVAL '10' SECOND) "
    "WHERE price > 0 GROUP BY window_start, window_end, auction"
)
BEST = (
    "SELECT time, price, note FROM (SELECT window_start, window_end, time, price, note, "
    "RANK() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS place "
    "FROM TUMBLE(bids, time, INTERVAL '2' SECOND) WHERE price > 0 "
    "GROUP BY window_start, window_end, time, price, note) WHERE place <= 3"
)


FEW = "SELECT auction, price * 2 AS twice, note FROM bids WHERE price > 0"


def program_of(text: str) -> Program:
    program = bind(text, {"bids": BIDS}).program
    return program if program.stateful else timed(program, BIDS)


def bids() -> list[tuple[str, bytes]]:
    """Of a quarter the price is 0; the other 300 in 2 s are for 75 auctions, near the 72 of the estimate."""
    found = []
    for number in range(RATE * SECONDS):
        price = 0 if number % 4 == 0 else 100_000 + number * 7919 % 100_003
        row = {"auction": 1000 + number * 31 % 75, "price": price, "note": "some twenty letters"}
        found.append(("bid/a", json.dumps({"time": 1_700_000_000_000 + 5 * number, **row}).encode()))
    return found


@pytest.mark.parametrize(
    ("text", "cut"),
    [
        (COUNT, "columns"),
        (COUNT, "filter"),
        (COUNT, "partials"),
        (BEST, "filter"),
        (BEST, "partials"),
        (FEW, "filter"),
        (FEW, "rows"),
        (FEW.partition(" WHERE")[0], "columns"),
    ],
)
def test_frames_and_bytes_are_near_those_of_the_reference(text: str, cut: str) -> None:
    program = program_of(text)
    frames = evaluate(input_of(program, cut), bids()).messages
    sent = sum(map(len, frames)) / SECONDS
    expected = flow(program, cut, RATE, 1.0 if cut == "columns" else 0.75)
    assert RATE * expected.frames == pytest.approx(len(frames) / SECONDS, rel=0.35)
    assert RATE * expected.frames * expected.size == pytest.approx(sent, rel=0.35)


@pytest.mark.parametrize("text", [COUNT, FEW])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 1.0])
@pytest.mark.parametrize("rate", [0.1, 2, 200])
def test_the_share_of_rows_is_found_again_in_what_is_sent(text: str, share: float, rate: float) -> None:
    program = program_of(text)
    sent = flow(program, "filter", rate, share)
    assert share_of(program, "filter", sent.frames, sent.size) == pytest.approx(share)


def test_a_query_without_windows_sends_nothing_where_no_row_passes() -> None:
    """Something waits for the progress of the other one."""
    assert flow(program_of(FEW), "filter", RATE, 0.001).frames == pytest.approx(0.001, rel=0.05)
    assert flow(program_of(COUNT), "filter", RATE, 0.001).frames > 0.002
