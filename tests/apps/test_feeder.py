"""The feeder, the generator and the watcher of the road-traffic demo, as programs, at real brokers."""

from __future__ import annotations

import csv
import gzip
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from jars_and_apps.road_traffic import publisher, replay
from testbed.servers.base import REFUSING_PORT, free_port
from testbed.servers.mosquitto import MosquittoServer

PROGRAMS = "jars_and_apps.road_traffic"
HEADER = "status,avgMeasuredTime,avgSpeed,extID,medianMeasuredTime,TIMESTAMP,vehicleCount,_id,REPORT_ID"
TIMEOUT = 60


class Listener:
    """Collects what arrives at a broker on a topic filter, over a persistent session."""

    def __init__(self, broker: MosquittoServer, topic: str) -> None:
        self.received: list[tuple[str, bytes]] = []
        self._arrived = threading.Condition()
        self._ready = threading.Event()
        self._topic = topic
        self._client = Client(
            CallbackAPIVersion.VERSION2,
            "listener",
            protocol=MQTTProtocolVersion.MQTTv5,
            reconnect_on_failure=True,
        )
        self._client.reconnect_delay_set(1, 1)
        self._client.on_connect = lambda client, *_: client.subscribe(topic, qos=1)
        self._client.on_subscribe = lambda *_: self._ready.set()
        self._client.on_message = self._on_message
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = 3600
        # Mosquitto 2.0.11 does not save a session that was made by a clean start.
        self._client.connect("127.0.0.1", broker.port, clean_start=False, properties=properties)
        self._client.loop_start()
        assert self._ready.wait(TIMEOUT)

    def _on_message(self, client: Client, data: Any, message: MQTTMessage) -> None:
        with self._arrived:
            self.received.append((message.topic, message.payload))
            self._arrived.notify_all()

    def payloads(self, count: int) -> list[bytes]:
        """The payloads, once at least so many have arrived."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.received) >= count, TIMEOUT), len(self.received)
            return [payload for _, payload in self.received]

    def distinct(self, count: int) -> set[bytes]:
        """The distinct payloads, once at least so many have arrived."""
        with self._arrived:
            desired = lambda: len({payload for _, payload in self.received}) >= count  # noqa: E731
            assert self._arrived.wait_for(desired, TIMEOUT), len(self.received)
            return {payload for _, payload in self.received}

    def close(self) -> None:
        properties = Properties(PacketTypes.DISCONNECT)
        properties.SessionExpiryInterval = 0
        self._client.disconnect(properties=properties)
        self._client.loop_stop()


@pytest.fixture
def listener(mosquitto: MosquittoServer) -> Iterator[Listener]:
    listener = Listener(mosquitto, "sensors/#")
    yield listener
    listener.close()


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("day") / "day.csv.gz"
    subprocess.run(
        [sys.executable, "-m", f"{PROGRAMS}.generate", "--sensors", "40", "--out", path], check=True
    )
    return path


def _lines(path: Path) -> list[bytes]:
    return gzip.decompress(path.read_bytes()).splitlines()[1:]


def _command(file: Path, broker: MosquittoServer | None, *options: object) -> list[str]:
    brokers = [f"--broker={site}={broker.address}" for site in "ABCD"] if broker else []
    return [sys.executable, "-m", f"{PROGRAMS}.feeder", str(file), *brokers, *map(str, options)]


def _feed(file: Path, broker: MosquittoServer, *options: object) -> dict[str, Any]:
    done = subprocess.run(
        _command(file, broker, *options), stdout=subprocess.PIPE, check=True, timeout=TIMEOUT
    )
    accounts: dict[str, Any] = json.loads(done.stdout)
    return accounts


def _vehicles(lines: list[bytes]) -> int:
    return sum(int(line.split(b",")[6]) for line in lines)


def test_what_arrives_is_what_the_accounts_say(
    day: Path, mosquitto: MosquittoServer, listener: Listener
) -> None:
    lines = _lines(day)
    accounts = _feed(day, mosquitto, "--malformed", 0.1)
    arrived = listener.payloads(len(lines) + accounts["malformed"])
    good = [line for line in arrived if replay.WELL_FORMED.match(line)]
    assert Counter(good) == Counter(lines)
    assert accounts["sent"] == {"readings": len(lines), "vehicles": _vehicles(lines)}
    assert accounts["malformed"] == len(arrived) - len(good)
    assert 0.08 < accounts["malformed"] / len(arrived) < 0.12
    assert {"sensors/1", "sensors/2"} == {topic for topic, _ in listener.received}
    assert sum(stream["readings"] for stream in accounts["streams"].values()) == len(lines)
    assert len(accounts["streams"]) == 8


def test_the_same_seed_sends_the_same_lines(
    day: Path, mosquitto: MosquittoServer, listener: Listener
) -> None:
    options = ("--malformed", 0.3, "--limit", 500, "--seed", 7)
    first = _feed(day, mosquitto, *options)
    count = first["sent"]["readings"] + first["malformed"]
    assert _feed(day, mosquitto, *options)["streams"] == first["streams"]
    arrived = listener.payloads(2 * count)
    assert Counter(arrived[:count]) == Counter(arrived[count:])


def test_parts_and_streams_make_up_the_whole(
    day: Path, mosquitto: MosquittoServer, listener: Listener
) -> None:
    lines = _lines(day)
    whole = ("--malformed", 0)
    rest = _feed(day, mosquitto, *whole, "--except", "C/2")
    half = _feed(day, mosquitto, *whole, "--only", "C/2", "--part", "1/2")
    other = _feed(day, mosquitto, *whole, "--only", "C/2", "--part", "2/2", "--topic", "C/2=sensors/3")
    assert Counter(listener.payloads(len(lines))) == Counter(lines)
    assert "C/2" not in rest["streams"] and list(half["streams"]) == list(other["streams"]) == ["C/2"]
    third = [payload for topic, payload in listener.received if topic == "sensors/3"]
    assert len(third) == other["sent"]["readings"]
    time = {line: line.split(b",")[5] for line in lines}
    stream = {line.split(b",")[8] for line in third}
    before = [line for line in lines if line.split(b",")[8] in stream and line not in set(third)]
    assert len(before) == half["sent"]["readings"]
    assert max(time[line] for line in before) <= min(time[line] for line in third)


def test_sensors_go_to_the_site_that_the_file_names(
    day: Path, mosquitto: MosquittoServer, tmp_path: Path
) -> None:
    segments = sorted({line.split(b",")[8].decode() for line in _lines(day)})
    with (tmp_path / "sensors.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["REPORT_ID", "site", "city"])
        writer.writerows([segment, "B", "Aarhus"] for segment in segments)
    accounts = _feed(day, mosquitto, "--limit", 100, "--malformed", 0, "--sensors", tmp_path / "sensors.csv")
    assert {stream.partition("/")[0] for stream in accounts["streams"]} == {"B"}
    assert accounts["sent"]["readings"] == 100


def test_a_file_as_it_comes(mosquitto: MosquittoServer, listener: Listener, tmp_path: Path) -> None:
    good = [
        "OK,49,75,668,49,2014-08-18T00:10:00,3,1,158324",
        "OK,49,75,668,49,2014-08-18T00:05:00,4,2,158324",
        "OK,49,75,668,49,2014-08-18T00:10:00,3,1,158324",  # twice
        "OK,0,0,668,0,2014-08-18T00:10:00,0,4,158324",
        "OK,49,75,668,49,2014-08-18T00:10:00,50000000000000000000,5,158324",
    ]
    bad = ["", "x" * 100_000, "OK,49,75,668,49,2014-02-30T00:00:00,3,1,158324", HEADER, "\xff\xfe"]
    text = "\r\n".join([HEADER, good[0], bad[0], good[1], *bad[1:], *good[2:]])
    (tmp_path / "plain.csv").write_bytes(text.encode("latin-1"))
    accounts = _feed(tmp_path / "plain.csv", mosquitto, "--malformed", 0)
    assert accounts["sent"] == {"readings": 5, "vehicles": 50000000000000000010}
    assert accounts["malformed"] == 5
    arrived = [line for line in listener.payloads(10) if line.startswith(b"OK") and b"02-30" not in line]
    assert Counter(arrived) == Counter(line.encode() for line in good)
    assert arrived[0] == good[1].encode()  # in time order


def test_the_lines_for_one_broker_arrive_in_time_order(
    day: Path, mosquitto: MosquittoServer, listener: Listener
) -> None:
    topics = [f"--topic={site}/{stream}=sensors/all" for site in "ABCD" for stream in (1, 2)]
    _feed(day, mosquitto, "--malformed", 0, *topics)
    times = [line.split(b",")[5] for line in listener.payloads(len(_lines(day)))]
    assert times == sorted(times)


def test_malformed_lines_of_the_file_can_be_left_out(
    mosquitto: MosquittoServer, listener: Listener, tmp_path: Path
) -> None:
    reading = "OK,49,75,668,49,2014-08-18T00:10:00,3,1,158324"
    (tmp_path / "plain.csv").write_text("\n".join([HEADER, "bad", reading, "bad"]))
    accounts = _feed(tmp_path / "plain.csv", mosquitto, "--malformed", 0, "--well-formed")
    assert (accounts["sent"]["readings"], accounts["malformed"]) == (1, 0)
    assert listener.payloads(1) == [reading.encode()]


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_a_limit_counts_well_formed_readings(mosquitto: MosquittoServer, tmp_path: Path, limit: int) -> None:
    reading = "OK,49,75,668,49,2014-08-18T00:10:00,3,1,158324"
    (tmp_path / "plain.csv").write_text("\n".join([HEADER, "bad", reading, "bad", reading, reading, "bad"]))
    accounts = _feed(tmp_path / "plain.csv", mosquitto, "--malformed", 0, "--limit", limit)
    assert accounts["sent"] == {"readings": limit, "vehicles": 3 * limit}
    assert accounts["malformed"] == (0, 1, 0, 2)[limit]


def test_every_kind_of_malformed_line_is_malformed() -> None:
    chance = random.Random(1)
    line = b"OK,49,75,668,49,2014-08-18T00:10:00,3,1,158324"
    for name, spoil in replay.MALFORMATIONS.items():
        spoilt = [spoil(line.split(b","), chance) for _ in range(200)]
        well_formed = sum(replay.WELL_FORMED.match(each) is not None for each in spoilt)
        # A line cut within its last number is well-formed still; `malformed` draws again then.
        assert well_formed < (40 if name == "cut" else 1), name
    assert not any(replay.WELL_FORMED.match(replay.malformed(line, chance)) for _ in range(1000))


def test_a_broker_that_is_killed_and_comes_back(
    day: Path, mosquitto: MosquittoServer, listener: Listener
) -> None:
    lines = _lines(day)
    command = _command(day, mosquitto, "--malformed", 0, "--rate", 3000)
    with subprocess.Popen(command, stdout=subprocess.PIPE) as feeder:
        try:
            listener.payloads(500)
            mosquitto.stop()
            mosquitto.start()
            output, _ = feeder.communicate(timeout=TIMEOUT)
        finally:
            feeder.kill()
    assert json.loads(output)["sent"]["readings"] == len(lines)
    assert listener.distinct(len(lines)) == set(lines)


def test_a_feeder_that_is_to_end_early_counts_what_it_has_sent(
    day: Path, mosquitto: MosquittoServer, listener: Listener
) -> None:
    command = _command(day, mosquitto, "--malformed", 0, "--rate", 500)
    with subprocess.Popen(command, stdout=subprocess.PIPE) as feeder:
        try:
            listener.payloads(50)
            feeder.send_signal(signal.SIGUSR1)
            output, _ = feeder.communicate(timeout=TIMEOUT)
        finally:
            feeder.kill()
    sent = json.loads(output)["sent"]["readings"]
    assert feeder.returncode == 0
    assert sent < len(_lines(day))
    assert len(listener.distinct(sent)) == sent


def test_what_a_broker_did_not_acknowledge_is_sent_again(
    mosquitto: MosquittoServer, listener: Listener
) -> None:
    numbers = {b"%d" % number for number in range(900)}
    sender = publisher.Publisher(mosquitto.address)
    sender.publish("sensors/1", b"first")
    sender.flush()
    os.kill(mosquitto.pid, signal.SIGSTOP)
    for number in numbers:
        sender.publish("sensors/1", number)
    sender.exchange(0.0)
    os.kill(mosquitto.pid, signal.SIGTERM)  # It comes before anything that has not been read.
    os.kill(mosquitto.pid, signal.SIGCONT)
    mosquitto.stop()
    mosquitto.start()
    sender.flush()
    sender.close()
    assert listener.distinct(len(numbers) + 1) == {b"first", *numbers}


@pytest.mark.parametrize("maximum", [1, 3])
@pytest.mark.engine
def test_a_broker_that_allows_few_messages_in_flight(tmp_path: Path, maximum: int) -> None:
    with MosquittoServer(tmp_path / "broker", f"max_inflight_messages {maximum}") as broker:
        _assert_never_ahead(publisher.Publisher(broker.address), maximum)


# Beside the payload: 6 bytes (the topic "t" with its length, an id, no properties), and the header.
@pytest.mark.parametrize(("limit", "most"), [(130, 121), (20_000, 19_990)])
@pytest.mark.engine
def test_a_packet_that_is_too_large_is_not_sent(tmp_path: Path, limit: int, most: int) -> None:
    with MosquittoServer(tmp_path / "broker", f"max_packet_size {limit}") as broker:
        sender = publisher.Publisher(broker.address)
        sender.publish("t", b"x" * most)
        sender.flush()
        with pytest.raises(publisher.PublishError, match=f"packets of at most {limit:,} bytes"):
            sender.publish("t", b"x" * (most + 1))
        sender.publish("t", b"")
        sender.flush()
        sender.close()


def test_a_publisher_is_never_far_ahead_of_its_broker(mosquitto: MosquittoServer) -> None:
    _assert_never_ahead(publisher.Publisher(mosquitto.address, window=20), 20)


def _assert_never_ahead(sender: Any, most: int) -> None:
    """Publish, with never more unacknowledged than so many."""
    outstanding = []
    for _ in range(300):
        sender.publish("sensors/1", b"")
        outstanding.append(sender.unacknowledged)
    sender.flush()
    sender.close()
    assert max(outstanding) == most and sender.unacknowledged == 0


@pytest.mark.engine
def test_a_broker_with_transport_layer_security(day: Path, tmp_path: Path) -> None:
    certificate, key = tmp_path / "broker.pem", tmp_path / "broker.key"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=127.0.0.1"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)
    port = free_port()
    settings = f"listener {port} 127.0.0.1\ncertfile {certificate}\nkeyfile {key}"
    plain = f"listener {(plain_port := free_port())} 127.0.0.1"
    with MosquittoServer(tmp_path / "broker", f"{plain}\n{settings}", port=plain_port):
        brokers = [f"--broker={site}=mqtts://127.0.0.1:{port}" for site in "ABCD"]
        done = subprocess.run(
            [*_command(day, None, "--limit", 1000), *brokers],
            env=os.environ | {"SSL_CERT_FILE": str(certificate)},
            stdout=subprocess.PIPE,
            check=True,
            timeout=TIMEOUT,
        )
    assert json.loads(done.stdout)["sent"]["readings"] == 1000


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("allow_anonymous false", "refused the connection: Not authorized"),
        # Whether the reason comes before the hang-up, Mosquitto 2.0 leaves to chance.
        ("acl_file {directory}/acl", "(refused a message: Not authorized|ended 6 connections in a row)"),
        ("max_packet_size 45", r"takes packets of at most 45 bytes \(a message on 'sensors/[12]' has \d+\)"),
    ],
)
@pytest.mark.engine
def test_a_broker_that_refuses_is_named(day: Path, tmp_path: Path, settings: str, words: str) -> None:
    (tmp_path / "acl").write_text("topic read #\n")
    with MosquittoServer(tmp_path / "broker", settings.format(directory=tmp_path)) as broker:
        done = subprocess.run(_command(day, broker), capture_output=True, text=True, timeout=TIMEOUT)
        assert done.returncode == 1
        assert re.match(f"feeder: broker {broker.address!r} {words}", done.stderr), done.stderr


def test_a_broker_that_does_not_come_is_named() -> None:
    address = f"tcp://127.0.0.1:{REFUSING_PORT}"
    with pytest.raises(publisher.PublishError, match=f"broker '{address}' cannot be reached: .*refused"):
        publisher.Publisher(address, outage=0.1).publish("sensors/1", b"")


def test_a_server_that_is_no_broker_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        hanging_up = threading.Thread(target=_hang_up, args=[server])
        hanging_up.start()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        words = f"broker '{address}' cannot be reached: the broker closed the connection"
        try:
            with pytest.raises(publisher.PublishError, match=words):
                publisher.Publisher(address, outage=0.1).publish("sensors/1", b"")
        finally:
            server.shutdown(socket.SHUT_RDWR)
            hanging_up.join()


def _hang_up(server: socket.socket) -> None:
    """Close each connection once something has come over it, until the server is shut down."""
    while True:
        try:
            connection, _ = server.accept()
        except OSError:
            return
        with connection, suppress(OSError):
            connection.recv(1000)


@pytest.mark.slow("each mistake is a process")
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--broker", "A=tcp:/x"], "'tcp:/x' is not a broker address (expected tcp://HOST:PORT"),
        (["--broker", "A=tcp://127.0.0.1:99999"], "'tcp://127.0.0.1:99999' is not a broker address"),
        (["--broker", "E=tcp://127.0.0.1:1"], "no broker for site"),
        (["--broker", "A"], "'A' has no name or value (expected NAME=VALUE)"),
        (["--broker", "A=tcp://127.0.0.1:1", "--only", "E/1"], "'E/1' is not a stream (expected SITE/NUMBER"),
        (["--broker", "A=tcp://127.0.0.1:1", "--part", "3/2"], "'3/2' is not a part (expected K/N"),
        (["--broker", "A=tcp://127.0.0.1:1", "--malformed", "1"], "'1' is not a share (expected 0 up to 1"),
    ],
)
def test_a_mistake_is_named(day: Path, options: list[str], words: str) -> None:
    done = subprocess.run(_command(day, None, *options), capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode != 0
    assert words in done.stderr and "Traceback" not in done.stderr


@pytest.mark.slow("each file is a process")
@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (gzip.compress(b"x" * 100_000)[:60], "Compressed file ended before the end-of-stream marker"),
        (gzip.compress(b"x")[:10] + b"\xff" * 40, "while decompressing data"),
    ],
    ids=["cut", "garbled"],
)
def test_a_file_that_is_broken(tmp_path: Path, content: bytes, words: str, check: bool) -> None:
    file = tmp_path / "readings.csv.gz"
    file.write_bytes(content)
    options = ["--check"] if check else []
    done = subprocess.run(_command(file, None, *options), capture_output=True, text=True, timeout=TIMEOUT)
    assert (done.returncode, done.stdout) == (1, "")
    assert words in done.stderr and "Traceback" not in done.stderr


@pytest.mark.slow("each check is a process")
def test_a_check_asks_for_one_reading_and_no_broker(day: Path, tmp_path: Path) -> None:
    assert subprocess.run(_command(day, None, "--check"), check=False, timeout=TIMEOUT).returncode == 0
    file = tmp_path / "none.csv"
    file.write_text("OK,1,2\n")
    done = subprocess.run(_command(file, None, "--check"), capture_output=True, text=True, timeout=TIMEOUT)
    assert done.returncode == 1
    assert f"feeder: {file} holds no well-formed reading (expected lines of status,avg" in done.stderr


@pytest.mark.slow("each day is a process")
def test_the_generator_gives_the_same_day_for_the_same_seed(tmp_path: Path) -> None:
    def day(name: str, seed: int) -> bytes:
        path = tmp_path / name
        program = [
            sys.executable,
            "-m",
            f"{PROGRAMS}.generate",
            "--sensors",
            "5",
            "--seed",
            str(seed),
            "--out",
            path,
        ]
        subprocess.run(program, check=True)
        return path.read_bytes()

    assert day("a.csv.gz", 3) == day("b.csv.gz", 3)
    assert day("c.csv", 4) != gzip.decompress(day("d.csv.gz", 3))


def test_a_generated_day_has_a_rhythm(day: Path) -> None:
    lines = _lines(day)
    assert all(replay.WELL_FORMED.match(line) for line in lines)
    by_hour: Counter[int] = Counter()
    for line in lines:
        by_hour[int(line.split(b",")[5][11:13])] += int(line.split(b",")[6])
    assert min(by_hour[7], by_hour[16]) > by_hour[12] > 5 * by_hour[3]
    assert any(line.split(b",")[6] == b"0" for line in lines)


def test_the_watcher_adds_up_the_last_statistics(mosquitto: MosquittoServer) -> None:
    command = [
        sys.executable,
        "-m",
        f"{PROGRAMS}.watch",
        f"--local=A={mosquitto.address}",
        f"--overall={mosquitto.address}",
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as watcher:
        try:
            assert watcher.stdout is not None
            assert json.loads(watcher.stdout.readline()) == {"ready": True}
            _publish(mosquitto, [("local-stats", _window("07:00", 2, 5)), ("local-stats", "garbage")])
            _publish(
                mosquitto, [("local-stats", _window("07:15", 1, 1)), ("global-stats", _window("07:00", 9, 9))]
            )
            _publish(
                mosquitto, [("local-stats", _window("07:00", 1, 3)), ("local-stats", _window("07:00", 4, 6))]
            )
            while (totals := json.loads(watcher.stdout.readline()))["local"]["readings"] < 5:
                pass
            assert totals["local"] == {"readings": 5, "vehicles": 7}
            assert totals["overall"] == {"readings": 9, "vehicles": 9}
            assert totals["latest"]["A"]["start"] == "07:15"
            watcher.communicate(timeout=TIMEOUT)  # closes its standard input
        finally:
            watcher.kill()
    assert watcher.returncode == 0


def _window(start: str, readings: int, vehicles: int) -> str:
    return json.dumps({"start": start, "readings": readings, "vehicles": vehicles})


def _publish(broker: MosquittoServer, messages: list[tuple[str, str]]) -> None:
    client = Client(CallbackAPIVersion.VERSION2)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    for topic, payload in messages:
        client.publish(topic, payload, qos=1).wait_for_publish(TIMEOUT)
    client.disconnect()
    client.loop_stop()
