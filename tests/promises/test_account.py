"""The account of the mixed composition: what is lost, doubled, or half of one version and half of another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from pathlib import Path
from types import SimpleNamespace

import pytest

from testbed import ROOT
from testbed.faults import faults, logs
from testbed.faults.kinds import KINDS, Result
from testbed.faults.mixed import A, B, ExpandForm, account
from testbed.faults.rig import Account, Rig
from testbed.faults.round_log import RoundLog

DYING = replace(B, dies=100)

# Of form a, 3 has the outputs 0 and 1, 2 the output 0, and 4 none; of form b, 3 has 0, and 2 has 0 and 1.
CASES: Mapping[str, tuple[Mapping[str, int], tuple[ExpandForm, ...], tuple[int, int, int]]] = {
    "nothing": ({}, (A,), (3, 0, 2)),
    "all of a": ({"l-3.0.a": 1, "l-3.1.a": 1, "l-2.0.a": 1}, (A,), (0, 0, 0)),
    "one missing": ({"l-3.0.a": 1, "l-2.0.a": 1}, (A,), (1, 0, 1)),
    "one twice": ({"l-3.0.a": 2, "l-3.1.a": 1, "l-2.0.a": 1}, (A,), (0, 1, 0)),
    "either form": ({"l-3.0.b": 1, "l-2.0.a": 1}, (A, B), (0, 0, 0)),
    "in both forms": ({"l-3.0.b": 1, "l-3.0.a": 1, "l-3.1.a": 1, "l-2.0.a": 1}, (A, B), (0, 1, 1)),
    "half of b": ({"l-3.0.b": 1, "l-2.0.b": 1}, (A, B), (1, 0, 1)),
    "half of a form that died": ({"l-3.0.b": 1, "l-2.0.b": 1}, (A, DYING), (0, 0, 1)),
    "a and b": ({"l-3.0.b": 1, "l-3.1.a": 1, "l-2.0.a": 1}, (A, B), (0, 0, 1)),
}


@pytest.mark.parametrize("case", CASES)
def test_the_account_of_one_branch(case: str) -> None:
    counts, forms, (lost, doubled, mixed) = CASES[case]
    assert account(["l-2", "l-3", "l-4"], {"1": counts}, forms) == Account(3, lost, doubled, mixed)


def test_texts_that_are_sent_again_are_counted_on() -> None:
    counts = {"l-2.0.a": 3, "l-2.0.c": 2, "l-3.0.a": 6, "l-3.1.a": 5}
    assert account(["l-2"] * 6 + ["l-3"] * 5, {"1": counts}, (A, ExpandForm("c", 3))) == Account(11, 1, 1, 0)


def test_a_figure_that_is_not_0_is_broken_unless_a_sentence_admits_it() -> None:
    assert Result(Account(10, 0, 0)).to_dict() == {"messages": 10, "lost": 0, "doubled": 0, "mixed": 0}
    assert Result(Account(10, 0, 1)).broken
    admitted = Result(Account(10, 0, 1), admitted="So it is.")
    assert not admitted.broken
    assert admitted.to_dict()["admitted"] == "So it is."
    assert replace(admitted, error="refused").broken
    assert (admitted + Result(Account(5, 1, 0), "refused")) == Result(
        Account(15, 1, 1), "refused", "So it is."
    )


def test_reported_losses_are_summed_with_those_that_are_missing() -> None:
    one, other = (Result(Account(10, lost, 0), reported=lost) for lost in (2, 3))
    assert (one + other).to_dict() | {"lost": 5, "reported": 5} == (one + other).to_dict()


def test_a_trial_that_ends_with_an_error_is_broken_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def measured(name: str, messages: int, share: float) -> Result:
        if name == "update":
            raise TimeoutError("still 0 after 300 s")
        return Result(Account(messages, 0, 0))

    monkeypatch.setattr(faults, "measure_kind", measured)
    found = faults.Trials(1, 7).measure(["update", "power_twice"])
    assert found["update"].error == "TimeoutError: still 0 after 300 s"
    assert found["update"].broken
    assert found["power_twice"] == Result(Account(7, 0, 0))


def test_trials_continue_where_their_log_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def measured(name: str, messages: int, share: float) -> Result:
        made.append(name)
        return Result(Account(messages, 1, 0), admitted="So it is.", reported=1)

    def trials(rounds: int) -> faults.Trials:
        found = faults.Trials(rounds, 7)
        found.log = RoundLog(tmp_path / "log")
        return found

    monkeypatch.setattr(faults, "measure_kind", measured)
    trials(1).measure(["update"])
    found = trials(2).measure(["update", "power_twice"])
    assert made == ["update", "power_twice", "update", "power_twice"]
    assert found["update"] == Result(Account(14, 2, 0), admitted="So it is.", reported=2)
    assert trials(2).measure(["update", "power_twice"]) == found
    assert len(made) == 4
    late = trials(3)
    late.end = 0.0
    assert late.measure(["update", "power_twice"]) == found


class SilentRig(Rig):
    """A rig without servers, by a clock of its own; the text arrives so long (s) after an apply has ended."""

    def __init__(self, start: float) -> None:  # nor does it take the ports of servers
        self.now, self.arrival, self.start, self.applied = 0.0, inf, start, 0
        self.counts = self  # type: ignore[assignment]

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def account(self, sent: list[str]) -> Account:
        return Account(len(sent), int(self.now < self.arrival), 0)

    def apply_again(self) -> None:
        self.now += 100
        self.arrival, self.applied = self.now + self.start, self.applied + 1


@pytest.mark.parametrize(("start", "lost"), [(0.1, 0), (30, 0), (70, 1)])
def test_a_copy_that_is_applied_again_has_the_patience_of_the_first(
    start: float, lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, load = SilentRig(start), SimpleNamespace(texts=["t-1"])
    monkeypatch.setattr("testbed.faults.rig.time", rig)
    rig.await_arrivals(load, 60.0)  # type: ignore[arg-type]
    assert rig.account(load.texts).lost == lost
    assert rig.applied == 1


def test_a_trial_that_waits_for_a_job_applies_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = SilentRig(30)
    monkeypatch.setattr("testbed.waiting.time", rig)
    assert rig.await_that(lambda: rig.account(["t-1"]).lost, lambda lost: lost == 0) == 0
    assert rig.await_that(lambda: rig.now, lambda now: now > 0) == rig.now
    assert rig.applied == 1


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_kind_may_lose_stands_in_the_guarantees(kind: str) -> None:
    text = " ".join((ROOT / "docs" / "faults.md").read_text(encoding="utf-8").split())
    assert KINDS[kind].admitted in text
    assert faults.LEFT_ADMITTED in text


@pytest.mark.parametrize("sentence", logs.ADMITTED.values())
def test_what_a_fault_of_kafka_may_lose_stands_in_its_page(sentence: str) -> None:
    assert sentence in " ".join((ROOT / "docs" / "kafka.md").read_text(encoding="utf-8").split())
