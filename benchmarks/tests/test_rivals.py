"""Counts of what a pipeline lost and repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.rivals.pipelines import install_node_red, topics
from testbed.rivals.trial import SINK, SOURCE, Arrivals
from testbed.servers.base import NotInstalled


def test_lost_and_repeated_messages_are_counted() -> None:
    arrivals = Arrivals()
    for text in ("run/0", "run/2", "run/2", "run/2", "other/0"):
        arrivals.take(text, [])
    assert arrivals.account(["run/0", "run/1", "run/2"]) == {
        "messages": 3,
        "lost": 1,
        "doubled": 2,
        "doubled_by_stamp": 2,
    }


def test_a_repetition_with_the_same_stamp_is_one_message_to_a_consumer_that_knows_stamps() -> None:
    arrivals = Arrivals()
    for stamp in ("r/0/0/1.0", "r/0/0/1.0", "r/0/0/2.0"):
        arrivals.take("run/0", [("speck-seq", stamp), ("key", "k"), ("speck-job", "hop-0")])
    found = arrivals.account(["run/0"])
    assert (found["doubled"], found["doubled_by_stamp"]) == (2, 1)


def test_hops_have_topics_of_their_own() -> None:
    assert topics(0) == (SOURCE, SINK)
    assert len({topic for number in range(8) for topic in topics(number)}) == 16


def test_without_npm_the_reason_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotInstalled, match="npm is not installed"):
        install_node_red(tmp_path / "tools")
