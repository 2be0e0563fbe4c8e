"""Lanes bound the concurrent tasks, and no user fills one for the others."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from speck.binder.lane import Lane
from tests.support.threads import without_threads


@pytest.fixture
def release() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def hang(lane: Lane, user: str, count: int, release: threading.Event) -> list[Future[Any]]:
    """Tasks of a user that end only when they are released; those that may have begun."""
    begun = [threading.Event() for _ in range(count)]

    def work(own: threading.Event) -> None:
        own.set()
        release.wait(60)

    futures = [lane.share(user).submit(work, each) for each in begun]
    for each in begun[: lane.bound]:
        assert each.wait(30)
    assert not any(each.is_set() for each in begun[lane.bound :])
    return futures


def test_a_lane_runs_no_more_than_its_bound_for_one_user(release: threading.Event) -> None:
    lane = Lane("engine", 2)
    futures = hang(lane, "a", 5, release)
    release.set()
    assert [each.result(30) for each in futures] == [None] * 5
    lane.close()


def test_a_user_whose_tasks_hang_holds_up_no_other(release: threading.Event) -> None:
    lane = Lane("engine", 2)
    hang(lane, "a", 9, release)
    others = [lane.share("b").submit(lambda: "done") for _ in range(5)]
    assert [each.result(30) for each in others] == ["done"] * 5


def test_places_that_become_free_go_to_the_user_with_the_fewest() -> None:
    lane, order = Lane("engine", 1), list[str]()
    first = threading.Event()
    begun = lane.submit("a", lambda: first.wait(60))
    for number in range(3):
        lane.submit("a", lambda number=number: order.append(f"a{number}"))
    gate = threading.Event()
    lane.submit("b", lambda: gate.wait(60))
    last = lane.submit("b", lambda: order.append("b"))
    first.set()
    gate.set()
    assert begun.result(30)
    last.result(30)
    lane.close()
    assert sorted(order) == ["a0", "a1", "a2", "b"]


def test_the_error_of_a_task_is_that_of_its_future() -> None:
    def fail() -> None:
        raise ValueError("no")

    lane = Lane("engine", 1)
    with pytest.raises(ValueError, match="no"):
        lane.share("a").submit(fail).result(30)
    assert lane.share("a").submit(lambda: 1).result(30) == 1


def test_a_paused_lane_begins_no_task_until_it_is_resumed() -> None:
    lane = Lane("engine", 2)
    lane.pause(60)
    future = lane.share("a").submit(lambda: 1)
    with pytest.raises(TimeoutError):
        future.result(0.05)
    lane.resume()
    assert future.result(30) == 1
    lane.close()


def test_a_pause_ends_by_itself_and_with_its_lane() -> None:
    lane = Lane("engine", 2)
    lane.pause(0.05)
    assert lane.share("a").submit(lambda: 1).result(30) == 1
    lane.pause(60)
    future = lane.share("a").submit(lambda: 2)
    lane.close()
    assert future.result(0) == 2


def test_a_pause_that_nothing_would_end_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    lane = Lane("engine", 1)
    without_threads(monkeypatch, "")
    with pytest.raises(RuntimeError):
        lane.pause(60.0)
    monkeypatch.undo()
    assert lane.submit("a", lambda: "done").result(30) == "done"
