"""Limits of brokers by which messages are lost, and the configuration that SpecK ships."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from binders.mqtt import MqttBroker
from binders.mqtt.connection import FOREVER
from binders.mqtt.limits import session_concerns
from binders.mqtt.local import CONFIGURATION, site_configuration
from binders.mqtt.queue_probe import PROBED_MESSAGES
from speck.core.inventory import Inventory
from speck.errors import Rejected, Unreachable
from speck.testing.waiting import eventually
from testbed.servers.base import free_port
from testbed.servers.mosquitto import MosquittoServer
from tests.binders.mqtt.raw_access import SESSION, binder, connection, retained, take


def warnings_with(directory: Path, settings: str) -> list[str]:
    with MosquittoServer(directory, settings) as server:
        found = binder(server, timeout=60).warnings()
        assert retained(server, "speck/#") == []
        return found


@pytest.mark.engine
def test_no_warning_of_the_sound_configuration(tmp_path: Path) -> None:
    text = site_configuration(free_port(), tmp_path)
    settings = "\n".join(line for line in text.splitlines() if line and not line.startswith("#"))
    port = int(settings.split("listener ")[1].split()[0])
    with MosquittoServer(tmp_path, settings, port=port) as server:
        assert binder(server, timeout=60).warnings() == []


@pytest.mark.engine
def test_warning_of_mosquittos_default_queue(tmp_path: Path) -> None:
    (found,) = warnings_with(tmp_path, "max_queued_messages 1000")
    assert f"queues 1000 of {PROBED_MESSAGES}" in found


@pytest.mark.engine
def test_remark_on_mosquittos_default_in_flight(tmp_path: Path) -> None:
    """It loses nothing by itself."""
    with MosquittoServer(tmp_path, "max_inflight_messages 20") as server:
        broker = binder(server, timeout=60)
        assert broker.warnings() == []
        (found,) = (each for each in broker.checkup().complaints if "send 20 unacknowledged" in each.message)
        assert found.remark


@pytest.mark.engine
def test_warning_of_small_packets(tmp_path: Path) -> None:
    (found,) = warnings_with(tmp_path, "max_packet_size 5000")
    assert "5000 bytes" in found


@pytest.mark.engine
@pytest.mark.parametrize(("settings", "limit"), [("max_packet_size 20000", 20_000), ("", 4 << 20)])
def test_the_limit_of_packets_is_that_of_the_broker(tmp_path: Path, settings: str, limit: int) -> None:
    with MosquittoServer(tmp_path, settings) as server:
        made = MqttBroker(server.address, Inventory())
        assert made.packet_bytes() == limit
        made.close()


@pytest.mark.parametrize(
    ("expiry", "assigned", "part"),
    [
        (FOREVER, SESSION, None),
        (7200, SESSION, "keeps a session for 7200 s only"),
        (FOREVER, "auto-1", "replaces the id of a client ('speck-job' by 'auto-1')"),
    ],
)
def test_limits_that_a_broker_states_for_a_session(expiry: int, assigned: str, part: str | None) -> None:
    found = [each.message for each in session_concerns(SESSION, expiry, assigned)]
    assert len(found) == (part is not None)
    assert part is None or part in found[0]


@pytest.mark.engine
@pytest.mark.parametrize(
    ("settings", "loses"),
    [
        (
            "upgrade_outgoing_qos false\nqueue_qos0_messages false",
            "drops messages that are published at QoS 0",
        ),
        (
            "upgrade_outgoing_qos false",
            "delivers messages that are published at QoS 0 without acknowledgement",
        ),
    ],
)
def test_warning_of_a_broker_that_loses_messages_at_qos_0(tmp_path: Path, settings: str, loses: str) -> None:
    (found,) = warnings_with(tmp_path, settings)
    assert loses in found
    assert "add the line 'upgrade_outgoing_qos true'" in found


def test_messages_at_qos_0_are_delivered_as_others_by_the_shipped_configuration(
    mosquitto: MosquittoServer,
) -> None:
    topic = "in/qos0"
    binder(mosquitto).ensure_session(SESSION, topic)
    with connection(mosquitto, "test-device") as device:
        device.publish_unacknowledged(topic, b"reading")
    for _ in range(2):  # it is sent again, as long as it is not acknowledged
        with connection(mosquitto, SESSION, keep=True) as reader:
            reader.await_message()
            assert [(each.payload, each.qos) for each in reader.received] == [(b"reading", 1)]


def test_warnings_are_found_out_once(mosquitto: MosquittoServer) -> None:
    broker = binder(mosquitto, timeout=60)
    assert broker.warnings() == []
    mosquitto.stop()
    assert broker.warnings() == []
    broker.close()
    with pytest.raises(Unreachable):
        broker.warnings()


@pytest.mark.engine
def test_a_broker_without_retained_messages_is_refused(tmp_path: Path) -> None:
    with MosquittoServer(tmp_path, "retain_available false") as server:
        with pytest.raises(Rejected, match="retained messages"):
            binder(server).check()
        with pytest.raises(Rejected, match="retained messages"):
            binder(server).fence(SESSION, 1)


def received_exactly(peer: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = peer.recv(size - len(data))
        assert part, "the broker closed the connection"
        data += part
    return bytes(data)


def flood(port: int, topic: bytes, count: int) -> None:
    """Publish the numbers below ``count`` with QoS 1, each 100 bytes long; MQTT 3.1.1, faster than paho."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as peer:
        peer.sendall(b"\x10\x11\x00\x04MQTT\x04\x02\x00\x00\x00\x05flood")
        assert received_exactly(peer, 4) == b"\x20\x02\x00\x00"
        chunk = 1000
        for start in range(0, count, chunk):
            ids = [number % 65535 + 1 for number in range(start, min(start + chunk, count))]
            peer.sendall(
                b"".join(
                    b"\x32"
                    + bytes([4 + len(topic) + 100, 0, len(topic)])
                    + topic
                    + identity.to_bytes(2, "big")
                    + f"{start + place:0100}".encode()
                    for place, identity in enumerate(ids)
                )
            )
            answers = received_exactly(peer, 4 * len(ids))
            assert answers == b"".join(b"\x40\x02" + identity.to_bytes(2, "big") for identity in ids)


def drained(port: int, session: bytes, count: int) -> Iterator[int]:
    """Read and acknowledge ``count`` messages of :func:`flood`, topic of two letters, by a session."""
    size = 109  # fixed header 2, topic 4, packet id 2, no properties 1, payload 100
    connect = b"\x00\x04MQTT\x05\x00\x00\x00\x05\x11\xff\xff\xff\xff\x00" + bytes([len(session)]) + session
    with socket.create_connection(("127.0.0.1", port), timeout=60) as peer:
        peer.sendall(b"\x10" + bytes([len(connect)]) + connect)
        kind, length = received_exactly(peer, 2)
        flags, code = received_exactly(peer, length)[:2]
        assert (kind, flags, code) == (0x20, 1, 0), "the session is there"
        while count:
            part = min(count, 1000)
            packets = received_exactly(peer, size * part)
            starts = range(0, len(packets), size)
            yield from (int(packets[start + 9 : start + size]) for start in starts)
            peer.sendall(b"".join(b"\x40\x02" + packets[start + 6 : start + 8] for start in starts))
            count -= part
        # A round trip: the acknowledgements have arrived.
        peer.sendall(b"\xc0\x00")
        assert received_exactly(peer, 2) == b"\xd0\x00"


@pytest.mark.engine
def test_the_sound_configuration_holds_200_000_messages(tmp_path: Path) -> None:
    port = free_port()
    settings = site_configuration(port, tmp_path)
    count = 200_000
    with MosquittoServer(tmp_path, settings, port=port) as server:
        binder(server).ensure_session(SESSION, "in")
        flood(port, b"in", count)
        assert list(drained(port, SESSION.encode(), count)) == list(range(count))
        assert take(server, SESSION) == []


@pytest.mark.engine
def test_a_local_broker_writes_its_files_whatever_user_the_environment_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after ``su`` without a login, which leaves the name of the user before."""
    for name in ("LOGNAME", "USER"):
        monkeypatch.setenv(name, "daemon")
    port = free_port()
    tmp_path.chmod(0o700)
    with MosquittoServer(tmp_path, site_configuration(port, tmp_path), port=port) as server:
        made = binder(server)
        made.ensure_session(SESSION, "in")
        made.close()
        eventually(lambda: (tmp_path / "mosquitto.db").exists(), bool)


def test_the_sound_configuration_stands_in_the_repository() -> None:
    text = CONFIGURATION.read_text(encoding="utf-8")
    for line in ["persistence true", "max_inflight_messages 0", "max_queued_messages 0"]:
        assert line in text.splitlines()
