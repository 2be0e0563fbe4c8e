"""The load generator and the relay of the hop benchmark count right; what they measure is not asserted."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from benchmarks.common import Figure
from benchmarks.load.generator import Generator, generator
from benchmarks.load.hops import Hop, relay
from benchmarks.load.processes import running
from benchmarks.micro import kafka_hop, stock
from benchmarks.micro.hop import Options, Rounds, arguments, batch_medians, in_turn, traffic_figures
from speck.errors import LocalError
from testbed.servers.mosquitto import MosquittoServer

pytestmark = pytest.mark.skipif(
    shutil.which("javac") is None, reason="no JDK (apt-get install openjdk-17-jdk)"
)

QUIET = 3  # s


@pytest.fixture(name="broker", scope="module")
def broker_fixture(site_brokers: dict[str, MosquittoServer]) -> MosquittoServer:
    return site_brokers["A"]


@pytest.fixture(name="load", scope="module")
def load_fixture(broker: MosquittoServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Generator]:
    """One for all tests (use topics of your own): its program is compiled."""
    with generator(broker.port, tmp_path_factory.mktemp("load"), QUIET) as load:
        yield load


def test_flood_counts_every_message(load: Generator) -> None:
    result = load.flood("flood", "flood", 20_000)
    assert (result["messages"], result["received"]) == (20_000, 20_000)
    assert (result["duplicates"], result["out_of_order"]) == (0, 0)


def test_paced_counts_every_message_the_warmup_included(load: Generator) -> None:
    result = load.paced("paced", "paced", rate=500, seconds=1, warmup=1)
    assert (result["messages"], result["received"], result["duplicates"]) == (1000, 1000, 0)
    assert 0 < result["p50_ms"] <= result["p90_ms"] <= result["p99_ms"] <= result["p100_ms"]


def test_runs_do_not_take_each_others_messages(load: Generator) -> None:
    for messages in (100, 50):
        assert load.flood("runs", "runs", messages)["received"] == messages


@pytest.mark.parametrize("connections", [1, 2])
def test_relays_pass_every_message_on_in_order(
    connections: int, load: Generator, broker: MosquittoServer, tmp_path: Path
) -> None:
    with relay(tmp_path, broker.port, connections) as hop:
        result = load.flood(hop.out, hop.back, 5000)
    assert (result["received"], result["duplicates"], result["out_of_order"]) == (5000, 0, 0)


@pytest.mark.parametrize("copies", [0, 2])
def test_lost_and_repeated_messages_are_seen(copies: int, load: Generator, broker: MosquittoServer) -> None:
    """Another client in between passes the first message on so many times, and all others once."""
    client = paho.Client(CallbackAPIVersion.VERSION2)
    seen = 0

    def forward(_client: paho.Client, _userdata: object, message: paho.MQTTMessage) -> None:
        nonlocal seen
        seen += 1
        for _ in range(copies if seen == 1 else 1):
            client.publish(f"out/{copies}", message.payload, qos=1)

    client.on_message = forward
    client.connect("127.0.0.1", broker.port)
    client.subscribe(f"in/{copies}", qos=1)
    client.loop_start()
    try:
        if copies == 0:
            with pytest.raises(RuntimeError, match="1 messages had not come"):
                load.flood(f"in/{copies}", f"out/{copies}", 100)
        else:
            result = load.flood(f"in/{copies}", f"out/{copies}", 100)
            assert (result["received"], result["duplicates"]) == (100, 1)
    finally:
        client.disconnect()
        client.loop_stop()


def test_a_process_ends_with_its_block_also_on_an_error(tmp_path: Path) -> None:
    process: subprocess.Popen[str] | None = None
    with (
        pytest.raises(KeyError),
        running("sleeper", [sys.executable, "-c", "import time; time.sleep(1000)"], tmp_path) as started,
    ):
        process = started.process
        assert started.proportional_memory() > 0
        raise KeyError
    assert process is not None
    assert process.poll() is not None


def test_hops_take_turns_in_an_order_that_turns_around() -> None:
    taken: list[str] = []

    def measured(name: str) -> dict[str, float]:
        taken.append(name)
        return {"number": len(taken)}

    rounds = in_turn({name: partial(measured, name) for name in "ab"}, 2, "runs")
    assert taken == ["b", "a", "a", "b", "b", "a"]
    assert rounds == {"a": [{"number": 3}, {"number": 6}], "b": [{"number": 4}, {"number": 5}]}


def test_figures_compare_the_runs_of_one_round() -> None:
    throughput: Rounds = {
        "spark": [{"messages_per_s": 30.0}, {"messages_per_s": 40.0}],
        "relay": [{"messages_per_s": 10.0}, {"messages_per_s": 20.0}],
        "plain_relay": [{"messages_per_s": 10.0}, {"messages_per_s": 40.0}],
        "ceiling": [{"messages_per_s": 50.0}, {"messages_per_s": 50.0}],
    }
    latency: Rounds = {
        "spark": [{"p50_ms": 50.0, "p99_ms": 90.0}],
        "relay": [{"p50_ms": 3.0, "p99_ms": 8.0}],
        "ceiling": [{"p50_ms": 1.0, "p99_ms": 2.0}],
    }
    figures = traffic_figures(throughput, latency, "spark")
    assert figures["throughput_ratio"] == Figure(2.5, 2.0, 3.0, 2)
    assert figures["throughput_ratio_to_plain_relay"] == Figure(2.0, 1.0, 3.0, 2)
    assert figures["added_latency_ms_p50"].median == 49
    assert figures["added_latency_ms_p99"].median == 88
    assert figures["relay_added_latency_ms_p50"].median == 2
    assert figures["spark_messages_per_s"].median == 35
    throughput["flink"] = [{"messages_per_s": 20.0}, {"messages_per_s": 10.0}]
    latency["flink"] = [{"p50_ms": 4.0, "p99_ms": 9.0}]
    figures = traffic_figures(throughput, latency, "spark", "flink")
    assert figures["throughput_ratio_to_flink"] == Figure(2.75, 1.5, 4.0, 2)
    assert figures["added_latency_ms_p50_flink"].median == 3


def test_the_figures_over_kafka_compare_with_every_other_hop() -> None:
    floods: Rounds = {
        "speck_kafka": [{"messages_per_s": 30.0}, {"messages_per_s": 40.0}],
        "relay": [{"messages_per_s": 10.0}, {"messages_per_s": 20.0}],
        "no_hop_kafka": [{"messages_per_s": 60.0}, {"messages_per_s": 60.0}],
    }
    paced: Rounds = {
        "speck_kafka": [{"p50_ms": 6.0, "p99_ms": 9.0}],
        "relay": [{"p50_ms": 3.0, "p99_ms": 3.0}],
        "no_hop_kafka": [{"p50_ms": 1.0, "p99_ms": 2.0}],
    }
    bench: Any = None
    hops = [kafka_hop.Measured(Hop(name, "in", "out", None), bench) for name in floods]
    figures = kafka_hop.figures(hops, floods, paced)
    assert figures["throughput_ratio_to_relay"] == Figure(2.5, 2.0, 3.0, 2)
    assert figures["latency_p50_ratio_to_relay"].median == 2
    assert figures["latency_p99_ratio_to_relay"].median == 3
    assert figures["speck_kafka_added_p50_ms"].median == 5
    assert figures["no_hop_kafka_messages_per_s"].median == 60
    assert not {name for name in figures if "ratio_to_no_hop" in name or "no_hop_kafka_added" in name}


def test_two_hops_alone_are_compared_and_nothing_is_said_of_the_broker() -> None:
    floods: Rounds = {name: [{"messages_per_s": 30.0}] for name in ("speck_kafka", "stock_at_least_once")}
    paced: Rounds = {name: [{"p50_ms": 6.0, "p99_ms": 9.0}] for name in floods}
    bench: Any = None
    hops = [kafka_hop.Measured(Hop(name, "in", "out", None), bench) for name in floods]
    figures = kafka_hop.figures(hops, floods, paced)
    assert figures["throughput_ratio_to_stock_at_least_once"].median == 1
    assert not [name for name in figures if "_added_" in name]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--with", "relay"], "--with needs --broker kafka"),
        (["--broker", "kafka", "--with", "stock"], "no hop stock (expected: speck_kafka, "),
        (["--beside", "spark"], "--beside needs --broker mqtt and another engine than --engine"),
        (["--beside", "flink", "--broker", "kafka"], "--beside needs --broker mqtt"),
    ],
)
def test_hops_that_cannot_be_compared_are_refused(
    words: list[str], error: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["hop", *words])
    with pytest.raises(SystemExit):
        arguments()
    assert error in capsys.readouterr().err


def test_a_kafka_that_is_not_installed_ends_the_run_before_anything_is_built(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KAFKA_HOME", str(tmp_path))
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("Maven was run"))
    with pytest.raises(LocalError, match=r"has no libs/kafka_2\.13"):
        kafka_hop.measure(Options(1, 1, 1, 1, 1), "flink", tmp_path)


@pytest.mark.parametrize("engine", ["flink", "spark"])
def test_an_engines_own_connector_that_cannot_be_had_is_skipped_with_the_reason(
    engine: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    connector = f"{engine.capitalize()}'s own connector for Kafka"
    none = f"{connector} is fetched by Maven (mvn), which is not installed"
    assert stock.starts(engine, None, tmp_path) == ({}, none)
    (tmp_path / "mvn").touch(0o755)
    refused = subprocess.CompletedProcess("mvn", 1, stdout="it is not published\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: refused)
    found = stock.starts(engine, None, tmp_path)
    assert found == ({}, f"Maven cannot fetch {connector}: it is not published")


def test_real_time_is_not_compared_with_micro_batches(tmp_path: Path) -> None:
    found, reason = stock.starts("spark", "real-time", tmp_path)
    assert (found, "in micro-batches, not in real time" in reason) == ({}, True)


def test_batch_medians() -> None:
    batches = [{"batch_rows": rows, "duration_ms.addBatch": 10 * rows} for rows in (1, 2, 9)]
    assert batch_medians(batches) == {"batches_seen": 3, "batch_rows": 2, "addBatch": 20}
    assert batch_medians([]) == {"batches_seen": 0}
