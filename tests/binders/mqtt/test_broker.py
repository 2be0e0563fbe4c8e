"""The MQTT binder against a real Mosquitto, and against things that are no broker."""

from __future__ import annotations

import gc
import json
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from binders.flink import FLINK
from binders.mqtt import MQTT, MqttBroker
from binders.mqtt.address import BrokerAddress
from binders.mqtt.broker import MOST_FENCES, drain_topic, drained_topic
from binders.mqtt.connection import FOREVER, TIMEOUT, Connection
from binders.mqtt.limits import PROBED_MESSAGES, session_concerns
from binders.mqtt.local import CONFIGURATION, site_configuration
from binders.mqtt.records import note_topic, writers_topic
from speck.binder import MOST_COUNTED, BrokerBinder, Registry
from speck.core.inventory import Engine, Inventory, Login, Secret
from speck.core.job import fence_topic
from speck.errors import InvalidInput, OutcomeUnknown, Rejected, SecretUnavailable, SpeckError, Unreachable
from speck.testing.brokers import OWNER, BrokerContract
from speck.testing.waiting import eventually
from speck.testing.wire_trouble import BrokenServer, Relay, Trouble
from testbed.benches.agents import link_bench
from testbed.benches.examples import one_site
from testbed.servers.base import REFUSING_PORT, free_port
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.web_proxy import web_proxy
from tests.support.trials import trial

SESSION = "speck-job"


def connection(
    broker: MosquittoServer, client_id: str, *, keep: bool = False, timeout: float = 60
) -> Connection:
    """A plain connection to a broker, past the binder; ``keep``: of the persistent session of that name."""
    return Connection(
        BrokerAddress.parse(broker.address),
        Login(),
        client_id,
        clean_start=not keep,
        expiry=FOREVER if keep else 0,
        timeout=timeout,
    )


def publish(broker: MosquittoServer, topic: str, payloads: list[bytes]) -> None:
    with connection(broker, "test-writer") as writer:
        assert writer.publish_many(topic, payloads, window=100) == 0


def take(broker: MosquittoServer, session: str) -> list[bytes]:
    """Read and acknowledge everything that waits in a session, as its job would."""
    taken: list[bytes] = []
    with connection(broker, session, keep=True) as reader:
        assert reader.session_present
        reader.subscribe("test/echo", qos=0)
        reader.round_trip("test/echo")
        while reader.received:
            for message in list(reader.received):
                taken.append(bytes(message.payload))
                reader.acknowledge(message)
            reader.received.clear()
            reader.round_trip("test/echo")
        reader.unsubscribe("test/echo")
    return taken


def retained(broker: MosquittoServer, topic: str) -> list[bytes]:
    with connection(broker, "test-reader") as reader:
        reader.subscribe(topic, "test/echo")
        reader.round_trip("test/echo")
        return [bytes(message.payload) for message in reader.received]


def binder(broker: MosquittoServer, login: Login | None = None, timeout: float = 10) -> MqttBroker:
    return MqttBroker(broker.address, inventory(broker.address, login or Login()), timeout=timeout)


def owned(broker: MosquittoServer) -> MqttBroker:
    found = binder(broker)
    found.take_owner(OWNER)
    return found


def inventory(address: str, login: Login) -> Inventory:
    site = one_site("A", "sc://127.0.0.1:1", address, login=login)
    return Inventory({"A": site})


class TestContract(BrokerContract):
    """The contract of all broker binders."""

    @pytest.fixture
    def broker(self, mosquitto: MosquittoServer) -> MqttBroker:
        return binder(mosquitto)

    @pytest.fixture
    def absent(self) -> MqttBroker:
        return MqttBroker(f"tcp://127.0.0.1:{REFUSING_PORT}", Inventory())

    @pytest.fixture
    def slow(self, mosquitto: MosquittoServer) -> Iterator[MqttBroker]:
        with Relay(mosquitto.port, delay=0.1) as relay:
            yield MqttBroker(f"tcp://127.0.0.1:{relay.port}", Inventory())

    @contextmanager
    def troubled(self, trouble: Trouble) -> Iterator[BrokerBinder]:
        with BrokenServer(trouble) as server:
            yield MqttBroker(f"tcp://127.0.0.1:{server.port}", Inventory(), timeout=0.2)

    def fenced_attempt(self, broker: BrokerBinder, session: str) -> int | None:
        address = BrokerAddress.parse(address_of(broker))
        with Connection(address, Login(), "test-fence") as reader:
            reader.subscribe(fence_topic(session), "test/echo")
            reader.round_trip("test/echo")
            found = [json.loads(message.payload) for message in reader.received]
        return found[0]["attempt"] if found else None

    def beside(self, broker: BrokerBinder) -> BrokerBinder:
        return MqttBroker(address_of(broker), Inventory())

    def named_writers(self, broker: BrokerBinder, session: str) -> list[str] | None:
        address = BrokerAddress.parse(address_of(broker))
        with Connection(address, Login(), "test-writers") as reader:
            reader.subscribe(writers_topic(session), "test/echo")
            reader.round_trip("test/echo")
            found = [json.loads(message.payload) for message in reader.received]
        return found[0]["writers"] if found else None


@trial("tests/link/test_contract_double.py")
class TestContractThroughAnAgent(TestContract):
    """The same contract, by calls over an agent's connection."""

    @pytest.fixture
    def broker(self, mosquitto: MosquittoServer, tmp_path: Path) -> Iterator[BrokerBinder]:  # type: ignore[override]
        with linked(tmp_path, mosquitto.address) as broker:
            yield broker

    @pytest.fixture
    def absent(self, tmp_path: Path) -> Iterator[BrokerBinder]:  # type: ignore[override]
        with linked(tmp_path, f"tcp://127.0.0.1:{REFUSING_PORT}") as broker:
            yield broker

    @pytest.fixture
    def slow(self, mosquitto: MosquittoServer, tmp_path: Path) -> Iterator[BrokerBinder]:  # type: ignore[override]
        with (
            Relay(mosquitto.port, delay=0.1) as relay,
            linked(tmp_path, f"tcp://127.0.0.1:{relay.port}") as broker,
        ):
            yield broker

    @contextmanager
    def troubled(self, trouble: Trouble) -> Iterator[BrokerBinder]:
        with (
            BrokenServer(trouble) as server,
            tempfile.TemporaryDirectory() as directory,
            linked(Path(directory), f"tcp://127.0.0.1:{server.port}", timeout=0.2) as broker,
        ):
            yield broker


@contextmanager
def linked(directory: Path, address: str, timeout: float = TIMEOUT) -> Iterator[BrokerBinder]:
    """A binder of a broker that is reached by an agent; its engine is not used."""
    kind = replace(MQTT, connect=partial(MqttBroker, timeout=timeout))
    engines = [Engine(spe_address="http://127.0.0.1:1")]
    with link_bench(directory, Registry.of([FLINK, kind]), engines, address) as bench:
        yield bench.broker()


def address_of(broker: BrokerBinder) -> str:
    return str(getattr(broker, "address"))  # noqa: B009 - of this kind, not of the contract


# --- sessions -------------------------------------------------------------------------------------


def test_what_is_sent_to_an_absent_session_waits_in_order(mosquitto: MosquittoServer) -> None:
    binder(mosquitto).ensure_session(SESSION, "in/+")
    sent = [str(number).encode() for number in range(500)]
    publish(mosquitto, "in/1", sent)
    assert take(mosquitto, SESSION) == sent


def test_writers_are_asked_to_fill_a_session_that_was_lost(mosquitto: MosquittoServer) -> None:
    broker = binder(mosquitto)
    broker.ensure_session(SESSION, "in/+")
    broker.restore_session(SESSION, "in/+")
    assert retained(mosquitto, "speck/again/+") == []
    with connection(mosquitto, SESSION):  # a clean start without expiry, so that the session ends
        pass
    broker.restore_session(SESSION, "in/+")
    assert retained(mosquitto, "speck/again/+") == [b"in/+"]


def test_looking_at_a_session_takes_nothing_from_it(mosquitto: MosquittoServer) -> None:
    broker = binder(mosquitto)
    broker.ensure_session(SESSION, "in")
    sent = [str(number).encode() for number in range(200)]
    publish(mosquitto, "in", sent)
    for _ in range(3):
        assert broker.session_exists(SESSION)
        broker.ensure_session(SESSION, "in")
    assert take(mosquitto, SESSION) == sent


def test_another_topic_replaces_the_earlier_one(mosquitto: MosquittoServer) -> None:
    binder(mosquitto).ensure_session(SESSION, "old/+")
    publish(mosquitto, "old/1", [b"kept"])
    # By another coordinator's process, which knows only what the broker holds.
    binder(mosquitto).ensure_session(SESSION, "new")
    publish(mosquitto, "old/1", [b"not for us any more"])
    publish(mosquitto, "new", [b"new"])
    assert take(mosquitto, SESSION) == [b"kept", b"new"]


def test_a_change_of_topic_that_was_cut_short_is_finished(mosquitto: MosquittoServer) -> None:
    broker = binder(mosquitto)
    broker.ensure_session(SESSION, "old")
    # As after a crash between the new subscription and the end of the old one.
    with connection(mosquitto, "test-crash") as writer:
        writer.publish(note_topic(SESSION), b'{"topics": ["new", "old"]}', retain=True)
    with connection(mosquitto, SESSION, keep=True) as session:
        session.subscribe("new")
    broker.ensure_session(SESSION, "new")
    publish(mosquitto, "old", [b"old"])
    publish(mosquitto, "new", [b"new"])
    assert take(mosquitto, SESSION) == [b"new"]
    assert json.loads(retained(mosquitto, note_topic(SESSION))[0]) == {"topics": ["new"]}


def test_what_waits_is_counted_and_stays(mosquitto: MosquittoServer) -> None:
    broker = binder(mosquitto)
    broker.ensure_session(SESSION, "test/in")
    sent = [b"%d" % number for number in range(30)]
    publish(mosquitto, "test/in", sent)
    assert (broker.waiting(SESSION), broker.waiting(SESSION)) == (30, 30)
    assert take(mosquitto, SESSION) == sent
    assert broker.waiting(SESSION) == 0


def test_more_than_can_be_counted(mosquitto: MosquittoServer) -> None:
    broker = binder(mosquitto)
    broker.ensure_session(SESSION, "test/in")
    publish(mosquitto, "test/in", [b"."] * (MOST_COUNTED + 500))
    assert broker.waiting(SESSION) == MOST_COUNTED


def test_more_than_can_be_counted_beside_markers(mosquitto: MosquittoServer) -> None:
    broker = binder(mosquitto)
    broker.ensure_session(SESSION, "test/in")
    with connection(mosquitto, SESSION, keep=True) as reader:
        reader.subscribe("test/in", drain_topic(SESSION))
    publish(mosquitto, drain_topic(SESSION), [b"marker"] * 600)
    publish(mosquitto, "test/in", [b"."] * (MOST_COUNTED + 500))
    assert broker.waiting(SESSION) == MOST_COUNTED


def test_a_marker_comes_behind_what_waits_and_its_answer_is_heard(mosquitto: MosquittoServer) -> None:
    broker = binder(mosquitto)
    broker.ensure_session(SESSION, "test/in")
    publish(mosquitto, "test/in", [b"1", b"2"])
    assert broker.drained(SESSION, "too early", 5) is None  # no reader has said that it listens
    with connection(mosquitto, SESSION, keep=True) as reader:
        reader.subscribe("test/in", drain_topic(SESSION))
    with ThreadPoolExecutor(1) as thread:
        assert broker.drained(SESSION, "unheard", 0.2) is False
        asked = thread.submit(broker.drained, SESSION, "marker", 60)
        with connection(mosquitto, SESSION, keep=True) as reader:
            while len(reader.received) < 4:
                reader.await_message()
                assert not asked.done()
                reader.receives(b"marker", 1)
            order = [bytes(message.payload) for message in reader.received]
            assert order == [b"1", b"2", b"unheard", b"marker"]
            reader.publish(drained_topic(SESSION), b"unheard")
            reader.publish(drained_topic(SESSION), b"marker")
        assert asked.result(60) is True
    assert broker.waiting(SESSION) == 2  # markers do not count


def test_a_retained_message_comes_once(mosquitto: MosquittoServer) -> None:
    with connection(mosquitto, "test-writer") as writer:
        writer.publish("in", b"retained", retain=True)
    broker = binder(mosquitto)
    for _ in range(3):
        broker.ensure_session(SESSION, "in")
    assert take(mosquitto, SESSION) == [b"retained"]


def test_sessions_survive_a_restart_of_the_broker(mosquitto: MosquittoServer) -> None:
    broker = binder(mosquitto)
    broker.ensure_session(SESSION, "in")
    broker.fence(SESSION, 4)
    publish(mosquitto, "in", [b"waits"])
    mosquitto.stop()
    with pytest.raises(Unreachable):
        broker.check()
    mosquitto.start()
    assert broker.session_exists(SESSION)
    assert take(mosquitto, SESSION) == [b"waits"]
    assert retained(mosquitto, fence_topic(SESSION)) == [b'{"attempt": 4}']


def test_delete_leaves_a_tombstone_that_expires(
    mosquitto: MosquittoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("binders.mqtt.records.TOMBSTONE_SECONDS", 2)
    broker = owned(mosquitto)
    broker.ensure_session(SESSION, "in")
    broker.fence(SESSION, 1)
    publish(mosquitto, "in", [b"gone"])
    broker.delete_session(SESSION)
    (tombstone,) = retained(mosquitto, "speck/#")
    assert json.loads(tombstone) == {"attempt": 2, "deleted": True, "owner": OWNER}
    eventually(lambda: retained(mosquitto, "speck/#"), lambda found: found == [])
    broker.ensure_session(SESSION, "in")
    assert take(mosquitto, SESSION) == []


@pytest.mark.parametrize("owner", [{}, {"owner": OWNER}], ids=["no owner", "owner"])
def test_a_note_that_the_broker_lost_is_written_again(
    mosquitto: MosquittoServer, owner: dict[str, str]
) -> None:
    with connection(mosquitto, "test-writer") as writer:
        writer.publish(fence_topic(SESSION), json.dumps({"attempt": 2} | owner).encode(), retain=True)
    owned(mosquitto).claim_session(SESSION, "in")
    note = {"topics": ["in"], "owner": OWNER, "pending": True}
    assert json.loads(retained(mosquitto, note_topic(SESSION))[0]) == note
    assert not binder(mosquitto).session_exists(SESSION)


def test_a_deleted_session_gets_no_note_by_a_claim(mosquitto: MosquittoServer) -> None:
    broker = owned(mosquitto)
    broker.ensure_session(SESSION, "in")
    broker.delete_session(SESSION)
    broker.claim_session(SESSION, "in")
    assert retained(mosquitto, note_topic(SESSION)) == []


@pytest.mark.parametrize("content", [b"not json", b"[1]", b'{"attempt": "x"}', b"\xff", b"{}"])
def test_a_fence_that_is_none_is_replaced(mosquitto: MosquittoServer, content: bytes) -> None:
    with connection(mosquitto, "test-writer") as writer:
        writer.publish(fence_topic(SESSION), content, retain=True)
    binder(mosquitto).fence(SESSION, 2)
    assert retained(mosquitto, fence_topic(SESSION)) == [b'{"attempt": 2}']


def test_an_adopted_session_keeps_its_filters_and_the_claim_of_its_reader(mosquitto: MosquittoServer) -> None:
    former = owned(mosquitto)
    former.ensure_session(SESSION, "in")
    claimed = {"attempt": 2, "claim": 17, "nonce": "ab", "owner": OWNER}
    with connection(mosquitto, "test-reader") as reader:
        reader.publish(fence_topic(SESSION), json.dumps(claimed).encode(), retain=True)
    publish(mosquitto, "in", [b"waiting"])
    adopting = binder(mosquitto)
    adopting.take_owner("1b" * 8)
    adopting.adopt_session(SESSION, OWNER)
    assert json.loads(retained(mosquitto, note_topic(SESSION))[0]) == {"topics": ["in"], "owner": "1b" * 8}
    assert json.loads(retained(mosquitto, fence_topic(SESSION))[0]) == claimed | {"owner": "1b" * 8}
    assert take(mosquitto, SESSION) == [b"waiting"]


def test_an_adoption_corrects_the_fence_alone(mosquitto: MosquittoServer) -> None:
    """A reader that had read the former owner has written it."""
    broker = owned(mosquitto)
    broker.ensure_session(SESSION, "in")
    broker.fence(SESSION, 2)
    with connection(mosquitto, "test-reader") as reader:
        fence = {"attempt": 2, "owner": "1b" * 8}
        reader.publish(fence_topic(SESSION), json.dumps(fence).encode(), retain=True)
    broker.adopt_session(SESSION, "1b" * 8)
    assert json.loads(retained(mosquitto, fence_topic(SESSION))[0]) == {"attempt": 2, "owner": OWNER}


def test_a_tombstone_stays_as_it_is_in_an_adoption(mosquitto: MosquittoServer) -> None:
    """Written anew, it would not expire."""
    broker = owned(mosquitto)
    broker.ensure_session(SESSION, "in")
    broker.fence(SESSION, 2)
    broker.delete_session(SESSION)
    before = retained(mosquitto, "speck/#")
    adopting = binder(mosquitto)
    adopting.take_owner("1b" * 8)
    adopting.adopt_session(SESSION, OWNER)
    assert retained(mosquitto, "speck/#") == before != []


@pytest.mark.parametrize("owner", ["x" * 65, "", "a b", 7, None, ["0a"], "\n"], ids=range(7))
def test_an_owner_that_is_no_identity_is_none(mosquitto: MosquittoServer, owner: object) -> None:
    with connection(mosquitto, "test-writer") as writer:
        note = {"topics": ["in"], "owner": owner}
        writer.publish(note_topic(SESSION), json.dumps(note).encode(), retain=True)
    broker = owned(mosquitto)
    assert broker.foreign_sessions() == []
    broker.claim_session(SESSION, "in")
    assert json.loads(retained(mosquitto, note_topic(SESSION))[0]) == {"topics": ["in"], "owner": OWNER}


def test_a_session_is_changed_with_its_owner_kept(mosquitto: MosquittoServer) -> None:
    broker = owned(mosquitto)
    broker.ensure_session(SESSION, "old")
    broker.ensure_session(SESSION, "new")
    assert json.loads(retained(mosquitto, note_topic(SESSION))[0]) == {"topics": ["new"], "owner": OWNER}


def test_a_deletion_that_was_cut_short_is_finished(mosquitto: MosquittoServer) -> None:
    broker = owned(mosquitto)
    broker.ensure_session(SESSION, "in")
    broker.fence(SESSION, 3)
    # As after a crash between the tombstone and the end of the session.
    with connection(mosquitto, "test-crash") as writer:
        text = json.dumps({"attempt": 4, "deleted": True, "owner": OWNER})
        writer.publish(fence_topic(SESSION), text.encode(), retain=True)
    broker.delete_session(SESSION)
    assert not broker.session_exists(SESSION)
    assert [json.loads(each) for each in retained(mosquitto, "speck/#")] == [json.loads(text)]


@pytest.mark.parametrize("topic", ["", "a#", "#/a", "a/b+", "a\0b", "x" * 65536], ids=range(6))
def test_what_is_no_topic_filter_is_refused(mosquitto: MosquittoServer, topic: str) -> None:
    with pytest.raises(InvalidInput, match="not a topic filter"):
        binder(mosquitto).ensure_session(SESSION, topic)


def test_a_session_is_read_once_its_fence_was_claimed(mosquitto: MosquittoServer) -> None:
    broker = owned(mosquitto)
    sessions = [f"speck-job{number}" for number in range(MOST_FENCES + 20)]
    for session in sessions[:3]:
        broker.ensure_session(session, "in")
        broker.fence(session, 2)
    assert broker.readers(sessions) == {}
    with connection(mosquitto, "test-reader") as reader:  # as a connector claims it
        claimed = {"attempt": 2, "owner": OWNER, "claim": 1_700_000_000_000, "nonce": "ab"}
        reader.publish(fence_topic(sessions[1]), json.dumps(claimed).encode(), retain=True)
    assert broker.readers(sessions) == {sessions[1]: 2}
    broker.fence(sessions[1], 3)  # of the next attempt, which has not come yet
    assert broker.readers(sessions) == {}
    broker.delete_session(sessions[1])
    assert broker.readers(sessions) == {}


# --- limits ---------------------------------------------------------------------------------------


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
    """Read and acknowledge so many messages of :func:`flood`, topic of two letters, by a session."""
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


# --- logging in -----------------------------------------------------------------------------------


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[MosquittoServer]:
    """A broker that lets in user ``speck`` with password ``s3cret-word`` only."""
    passwords = tmp_path / "passwords"
    program = shutil.which("mosquitto_passwd", path="/usr/bin:/usr/local/bin:/usr/sbin")
    if program is None:
        pytest.skip("mosquitto_passwd is not installed (apt-get install mosquitto)")
    subprocess.run([program, "-b", "-c", str(passwords), "speck", "s3cret-word"], check=True)
    with MosquittoServer(tmp_path / "broker", f"allow_anonymous false\npassword_file {passwords}") as server:
        yield server


@pytest.mark.engine
def test_login_by_reference(guarded: MosquittoServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKER_PASSWORD", "s3cret-word")
    broker = binder(guarded, Login(username="speck", password=Secret("${BROKER_PASSWORD}")))
    broker.check()
    broker.ensure_session(SESSION, "in")
    assert broker.session_exists(SESSION)


@pytest.mark.engine
def test_wrong_password_is_refused_and_not_shown(
    guarded: MosquittoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKER_PASSWORD", "not-s3cret")
    broker = binder(guarded, Login(username="speck", password=Secret("${BROKER_PASSWORD}")))
    with pytest.raises(Rejected, match="Not authorized") as caught:
        broker.check()
    assert "not-s3cret" not in str(caught.value) + repr(caught.value.__cause__)
    assert guarded.address in str(caught.value)


@pytest.mark.engine
def test_missing_secret_is_named(guarded: MosquittoServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BROKER_PASSWORD", raising=False)
    with pytest.raises(SecretUnavailable, match="BROKER_PASSWORD"):
        binder(guarded, Login(username="speck", password=Secret("${BROKER_PASSWORD}"))).check()


@pytest.fixture
def tls(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A broker's TLS address, and the file of the certificate to trust."""
    certificate, key = tmp_path / "broker.pem", tmp_path / "broker.key"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *names, *files], check=True, capture_output=True)
    port = free_port()
    plain = free_port()
    settings = f"listener {plain} 127.0.0.1\nlistener {port} 127.0.0.1\ncertfile {certificate}\nkeyfile {key}"
    with MosquittoServer(tmp_path / "broker", settings, port=plain):
        yield f"mqtts://127.0.0.1:{port}", certificate


@pytest.mark.engine
def test_tls_with_the_right_certificate(tls: tuple[str, Path]) -> None:
    address, certificate = tls
    broker = MqttBroker(address, inventory(address, Login(ca_file=str(certificate))))
    broker.ensure_session(SESSION, "in")
    assert broker.session_exists(SESSION)


@pytest.mark.engine
def test_tls_without_trust(tls: tuple[str, Path]) -> None:
    with pytest.raises(Unreachable, match=r"TLS.*certificate") as caught:
        MqttBroker(tls[0], Inventory()).check()
    assert isinstance(caught.value.__cause__, ssl.SSLError)


@pytest.mark.engine
def test_missing_ca_file_is_named(tls: tuple[str, Path]) -> None:
    with pytest.raises(Unreachable, match=r"nowhere\.pem"):
        MqttBroker(tls[0], inventory(tls[0], Login(ca_file="nowhere.pem"))).check()


# --- what is no broker ----------------------------------------------------------------------------


@contextmanager
def server_that(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """The address of a server that does this with each connection; real TCP, no MQTT."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def serve() -> None:
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                with peer, suppress(OSError):  # a client that hangs up leaves the server to the next one
                    answer(peer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


CALLS: list[Callable[[MqttBroker], object]] = [
    lambda broker: broker.check(),
    lambda broker: broker.warnings(),
    lambda broker: broker.ensure_session(SESSION, "in"),
    lambda broker: broker.session_exists(SESSION),
    lambda broker: broker.delete_session(SESSION),
    lambda broker: broker.fence(SESSION, 1),
]

ANSWERS = {
    "closes": b"",
    "speaks HTTP": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "garbage": bytes(range(256)),
    "CONNACK of MQTT 3": b"\x20\x02\x00\x01",
    "CONNACK cut short": b"\x20\x01\x00",
    "SUBACK first": b"\x90\x04\x00\x01\x00\x00",
}


@pytest.mark.parametrize("call", CALLS, ids=range(len(CALLS)))
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS.keys())
def test_no_error_of_the_library_leaks(answer: bytes, call: Callable[[MqttBroker], object]) -> None:
    def reply(peer: socket.socket) -> None:
        peer.recv(100)
        peer.sendall(answer)

    with server_that(reply) as address, pytest.raises(SpeckError) as caught:
        call(MqttBroker(address, Inventory(), timeout=2))
    assert address in str(caught.value)


def test_a_broker_of_mqtt_3_is_refused_with_the_reason() -> None:
    def reply(peer: socket.socket) -> None:
        peer.recv(100)
        peer.sendall(ANSWERS["CONNACK of MQTT 3"])

    with server_that(reply) as address, pytest.raises(Rejected) as caught:
        MqttBroker(address, Inventory(), timeout=2).check()
    assert f"{address} refused the connection: it does not speak MQTT 5 (SpecK" in str(caught.value)


def test_a_server_that_never_answers() -> None:
    released = threading.Event()

    def keep_silent(peer: socket.socket) -> None:
        released.wait(30)

    with server_that(keep_silent) as address:
        try:
            with pytest.raises(OutcomeUnknown, match=r"did not answer in 0\.3 s"):
                MqttBroker(address, Inventory(), timeout=0.3).check()
        finally:
            released.set()


def test_an_unknown_host_is_unreachable() -> None:
    with pytest.raises(Unreachable, match="no-such-host"):
        MqttBroker("tcp://no-such-host.invalid:1883", Inventory()).check()


def test_a_closed_connection_leaves_no_file_open(mosquitto: MosquittoServer) -> None:
    """Not even until the garbage of circles is collected, which may take minutes."""
    used = binder(mosquitto)
    used.check()
    used.close()
    gc.collect()
    gc.disable()
    try:
        before = len(list(Path("/proc/self/fd").iterdir()))
        for _ in range(5):
            used.check()
            used.close()
        assert len(list(Path("/proc/self/fd").iterdir())) <= before
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "address", ["tcp:/x", "http://a:1", "tcp://a:x", "tcp://", "tcp://a:0", "tcp://a/b", ""]
)
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(InvalidInput, match="tcp://HOST:PORT"):
        MQTT.connect(address, Inventory())


def test_an_address_with_a_password_is_not_repeated() -> None:
    with pytest.raises(InvalidInput) as caught:
        MQTT.connect("tcp://user:hidden@host:1883", Inventory())
    assert "hidden" not in str(caught.value)


def test_ports_and_kinds() -> None:
    assert BrokerAddress.parse("tcp://h").port == 1883
    assert BrokerAddress.parse("ssl://h").port == 8883
    assert BrokerAddress.parse("mqtt://[::1]:7").host == "::1"
    registry = Registry.of([MQTT])
    assert all(registry.broker_kind(f"{scheme}://h:1") is MQTT for scheme in ("tcp", "mqtt", "mqtts", "ssl"))


def test_no_proxy_of_the_environment_is_used(
    mosquitto: MosquittoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("socks", reason="without PySocks, paho knows no proxy")
    with web_proxy() as proxy:
        proxy.install(monkeypatch)
        binder(mosquitto).check()
        assert proxy.seen == []
