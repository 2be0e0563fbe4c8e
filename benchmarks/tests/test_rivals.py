"""Counts of what a pipeline lost and repeated, the command lines of programs, and progress that is kept."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from testbed.rivals.hops import SINK, SOURCE, End, Hop, brokers, side_by_side, through
from testbed.rivals.pipelines import PahoRelay, Program, filled, install_node_red
from testbed.rivals.progress import Progress
from testbed.rivals.trial import Arrivals, tried
from testbed.rivals.trials import Killed
from testbed.servers.base import NotInstalled

HOP = Hop(End("tcp://127.0.0.1:1111", "in"), End("tcp://127.0.0.1:2222", "out"))


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
    hops = side_by_side("tcp://127.0.0.1:1111", 8)
    assert (hops[0].source.topic, hops[0].sink.topic) == (SOURCE, SINK)
    assert len({end.topic for hop in hops for end in (hop.source, hop.sink)}) == 16


def test_a_chain_leads_through_the_other_broker_and_back() -> None:
    first, last = through("tcp://127.0.0.1:1111", "tcp://127.0.0.1:2222")
    assert first.sink == last.source
    assert (first.source.topic, last.sink.topic) == (SOURCE, SINK)
    assert brokers([first, last]) == ["tcp://127.0.0.1:1111", "tcp://127.0.0.1:2222"]


def test_a_command_is_filled_in_for_its_hop() -> None:
    command = (
        f"{sys.executable} -x '{{source_host}} {{source_port}}' {{sink_broker}} {{sink_topic}} {{number}}"
    )
    assert filled(command, HOP, 3)[1:] == ["-x", "127.0.0.1 1111", "tcp://127.0.0.1:2222", "out", "3"]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("true {sources}", r"'sources' .expected of {source_broker}, {source_host}"),
        ("true {", "cannot be filled in"),
        ("true 'a", "cannot be filled in: No closing quotation"),
        ("no-such-program {source_topic}", "names no program that is installed"),
        ("", "names no program that is installed"),
    ],
)
def test_another_command_is_refused(command: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        filled(command, HOP, 0)


def test_without_npm_the_reason_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NotInstalled, match="npm is not installed"):
        install_node_red(tmp_path / "tools")


def test_sums_are_kept_for_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "sums.json"
    Progress(path).add("relay", "kills", {"lost": 2})
    again = Progress(path)
    again.add("relay", "kills", {"lost": 3})
    again.add("relay", "power", {"lost": 1})
    assert Progress(path).of("relay", "kills") == {"rounds": 2, "lost": 5}
    assert Progress(path).of("relay", "uplink") == {}


@pytest.mark.parametrize("text", ["[]", "{", '{"relay": 1}', '{"relay": {"kills": {"lost": "two"}}}'])
def test_another_file_is_not_continued(text: str, tmp_path: Path) -> None:
    path = tmp_path / "sums.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"sums\.json is not the progress of a measurement"):
        Progress(path)
    assert path.read_text(encoding="utf-8") == text


@pytest.mark.engine
def test_a_relay_that_acknowledges_late_loses_nothing_when_it_is_killed(tmp_path: Path) -> None:
    with Killed(tmp_path) as trial, PahoRelay(tmp_path / "relay", trial.hops, best=True) as relay:
        found = tried(trial, relay, messages=200, moment=random.Random(1))
    assert (found["messages"] >= 200, found["lost"]) == (True, 0)


@pytest.mark.engine
def test_a_program_that_ends_is_shown_with_its_output(tmp_path: Path) -> None:
    command = f"{sys.executable} -c 'print(\"no such broker\")' {{source_port}}"
    with (
        Killed(tmp_path) as trial,
        Program(tmp_path / "relay", trial.hops, command) as program,
        pytest.raises(RuntimeError, match="has ended:\nno such broker"),
    ):
        tried(trial, program, messages=10)
