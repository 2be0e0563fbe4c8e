"""Answers of a site at rest, which the coordinator uses without a call until the agent withdraws them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from speck.core.inventory import Engine
from speck.core.runtime import Handle, JobMetrics
from speck.errors import Unreachable
from speck.link.lasting import LONGEST, LOOK, SELDOM, UsableAnswers, WatchedAnswers, is_same
from speck.testing import attempt_of
from speck.testing.waiting import eventually
from testbed.benches.agents import LinkBench, link_bench
from testbed.benches.double import BROKER, ENGINE, DoubleBench
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

CALL = {"e": ENGINE, "m": "measure", "o": "", "a": {"handles": []}}


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


# --- what is the same


def text(**metrics: object) -> str:
    return json.dumps({"job": metrics})


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("7", "7", True),
        ("7", "8", False),
        ("null", "null", True),
        (text(observed_at=1, input_rows=5), text(observed_at=2, input_rows=5), True),
        (text(observed_at=1, input_rows=5), text(observed_at=1, input_rows=6), False),
        (text(counted_at=1, batch_id=1, batch_duration_ms=5), text(counted_at=2, batch_id=2), True),
        (text(details={"lost": 0}), text(details={"lost": 1}), False),
        (text(details={"observed_at": 0}), text(details={"observed_at": 1}), False),
        (text(input_rate=0.0), text(), False),
        ("{}", text(), False),
        (text(**{"$error": {"message": "no"}}), text(**{"$error": {"message": "no"}}), False),
    ],
)
def test_answers_are_the_same_if_only_times_differ(before: str, after: str, same: bool) -> None:
    assert is_same(before, after) is same


# --- the coordinator's end


def usable(clock: Clock) -> UsableAnswers:
    """The answer 5 to call 1, whose text is "all", as a caller gets it who asks seldom."""
    answers = UsableAnswers(clock)
    assert answers.get(CALL, "all") is None
    answers.note(CALL, "all", 1, "5", lasts=True)
    clock.now += SELDOM
    return answers


def test_an_answer_that_lasts_is_used_with_its_age() -> None:
    clock = Clock()
    answers = usable(clock)
    assert answers.get(CALL, "all") == (5, SELDOM)
    clock.now += 20
    assert answers.get(CALL, "all") == (5, SELDOM + 20)
    clock.now += LONGEST
    assert answers.get(CALL, "all") is None


def test_a_reader_who_asks_often_gets_new_answers() -> None:
    clock = Clock()
    answers = usable(clock)
    assert answers.get(CALL, "all") is not None
    for _ in range(5):
        clock.now += SELDOM - 1
        assert answers.get(CALL, "all") is None
    clock.now += SELDOM
    assert answers.get(CALL, "all") is not None


@pytest.mark.parametrize("noted_first", [True, False])
def test_an_answer_that_was_withdrawn_is_not_used(noted_first: bool) -> None:
    clock = Clock()
    answers = usable(clock)
    if noted_first:
        answers.note(CALL, "all", 2, "6", lasts=True)
    answers.withdraw(2)
    answers.withdraw("1")
    answers.withdraw(True)
    if not noted_first:  # by another thread
        answers.note(CALL, "all", 2, "6", lasts=True)
    assert answers.get(CALL, "all") is None


def test_only_the_answer_to_the_last_call_of_a_method_lasts() -> None:
    clock = Clock()
    answers = usable(clock)
    answers.note(CALL, "some", 3, "3", lasts=True)
    answers.note(CALL, "all", 2, "2", lasts=True)  # it came late
    answers.note({**CALL, "m": "stored"}, "all", 4, "4", lasts=True)
    assert answers.get(CALL, "all") is None
    clock.now += SELDOM
    assert answers.get(CALL, "some") == (3, SELDOM)
    answers.note(CALL, "some", 5, "5", lasts=False)
    clock.now += SELDOM
    assert answers.get(CALL, "some") is None


# --- the agent's end


def test_an_agent_looks_after_an_answer_until_it_is_another_one() -> None:
    clock = Clock()
    answers = WatchedAnswers(clock)
    answers.note(CALL, 1, "5", lasts=True)
    assert answers.due() == []
    clock.now += LOOK
    (watched,) = answers.due()
    assert (watched.number, watched.call) == (1, CALL)
    assert not answers.looked(watched, clock.now, "5")
    assert answers.due() == []
    clock.now += LOOK
    assert answers.due() == [watched]
    assert answers.looked(watched, clock.now, "6")
    clock.now += LOOK
    assert answers.due() == []


def test_an_answer_that_cannot_be_had_is_withdrawn() -> None:
    clock = Clock()
    answers = WatchedAnswers(clock)
    answers.note(CALL, 1, "5", lasts=True)
    clock.now += LOOK
    assert answers.looked(answers.due()[0], clock.now, None)


def test_a_slow_engine_is_looked_at_less_often() -> None:
    clock = Clock()
    answers = WatchedAnswers(clock)
    answers.note(CALL, 1, "5", lasts=True)
    begun, clock.now = clock.now, clock.now + LOOK
    (watched,) = answers.due()
    answers.looked(watched, begun, "5")  # it took as long as a pause
    clock.now += 4 * LOOK
    assert answers.due() == []
    clock.now += LOOK
    assert answers.due() == [watched]


def test_an_answer_that_a_later_call_has_replaced_is_not_withdrawn() -> None:
    clock = Clock()
    answers = WatchedAnswers(clock)
    answers.note(CALL, 1, "5", lasts=True)
    clock.now += LOOK
    (watched,) = answers.due()
    answers.note(CALL, 2, "6", lasts=False)
    assert not answers.looked(watched, clock.now, "6")
    answers.note(CALL, 1, "5", lasts=True)  # by a thread that was late
    clock.now += LOOK
    assert answers.due() == []


def test_an_agent_does_not_look_for_ever_after_what_nobody_asks() -> None:
    clock = Clock()
    answers = WatchedAnswers(clock)
    answers.note(CALL, 1, "5", lasts=True)
    clock.now += 2 * LONGEST
    assert answers.due() == []
    clock.now = 100 + LOOK
    assert answers.due() == []


# --- over a socket


@pytest.fixture(name="link")
def link_fixture(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LinkBench]:
    monkeypatch.setattr("speck.link.dial.FIRST_PAUSE", 0.02)
    monkeypatch.setattr("speck.link.dial.PULSE", 0.01)
    monkeypatch.setattr("speck.link.lasting.LOOK", 0.05)
    monkeypatch.setattr("speck.link.lasting.SELDOM", 0.0)
    with link_bench(tmp_path, double_kinds(world), [Engine(spe_address=ENGINE)], BROKER) as bench:
        yield bench


@pytest.fixture(name="calls")
def calls_fixture(link: LinkBench, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    made, call = list[str](), link.hub.call
    monkeypatch.setattr(
        link.hub, "call", lambda site, what, *more: made.append(what["m"]) or call(site, what, *more)
    )
    return made


@pytest.fixture(name="measured")
def measured_fixture(link: LinkBench, world: World) -> Callable[[], Any]:
    """Measures the only job of the site; its engine has counted 5 rows."""
    bench = DoubleBench()
    bench.world = world
    handle: Handle = link.engine(ENGINE).submit(bench.job("clean"), attempt_of(bench.job("clean")))
    world.metrics["clean"] = JobMetrics(time.time(), input_rows=5)
    engine = link.engine(ENGINE)
    return lambda: engine.measure([handle])[handle.engine_id]


def at_rest(world: World, measured: Callable[[], Any]) -> JobMetrics:
    """Measure until the answer lasts."""
    for _ in range(2):
        found = measured()
        world.metrics["clean"] = replace(found, observed_at=found.observed_at + 1, counted_at=time.time())
    return world.metrics["clean"]


def test_a_site_at_rest_is_not_asked_until_something_happens(
    world: World, measured: Callable[[], Any], calls: list[str]
) -> None:
    at_rest(world, measured)
    assert calls == ["measure"] * 2
    first = measured()
    time.sleep(0.2)  # a few looks of the agent
    then = measured()
    assert calls == ["measure"] * 2
    assert first.input_rows == then.input_rows == 5
    assert 0.2 <= then.observed_at - first.observed_at < 20  # the job is known to rest now, too
    world.metrics["clean"] = JobMetrics(time.time(), input_rows=6)
    assert eventually(measured, lambda found: found.input_rows == 6)
    assert len(calls) > 2


def test_that_an_engine_does_not_answer_is_met_by_a_call(world: World, measured: Callable[[], Any]) -> None:
    at_rest(world, measured)
    assert isinstance(measured(), JobMetrics)
    world.down(ENGINE)
    eventually(lambda: is_unreachable(measured), bool)


def is_unreachable(call: Callable[[], Any]) -> bool:
    try:
        call()
    except Unreachable:
        return True
    return False


def test_what_lasts_ends_with_the_connection(
    link: LinkBench, world: World, measured: Callable[[], Any], calls: list[str]
) -> None:
    at_rest(world, measured)
    link.restart_agent()
    assert measured().input_rows == 5
    assert calls == ["measure"] * 3


def test_an_agent_of_an_earlier_version_is_asked_each_time(
    world: World, measured: Callable[[], Any], calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speck.link.repeats._may_last", lambda call: False)
    for _ in range(4):
        measured()
    assert calls == ["measure"] * 4


def test_a_broker_at_rest_is_not_asked_how_many_messages_it_has(link: LinkBench, calls: list[str]) -> None:
    broker = link.broker()
    assert {broker.stored() for _ in range(4)} == {broker.dropped() for _ in range(4)} == {0}
    assert calls == ["stored", "stored", "dropped", "dropped"]
    for _ in range(4):
        broker.readers([])
    assert calls[4:] == ["readers"] * 4
