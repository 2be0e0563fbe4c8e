"""The MQTT binder against a real Mosquitto: the contract of brokers, and sessions."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from binders.flink import FLINK
from binders.mqtt import MQTT, MqttBroker
from binders.mqtt.address import BrokerAddress
from binders.mqtt.broker import MOST_FENCES, drain_topic, drained_topic
from binders.mqtt.connection import TIMEOUT, Connection
from binders.mqtt.records import note_topic, writers_topic
from speck.binder import MOST_COUNTED, BrokerBinder, Registry
from speck.core.inventory import Engine, Inventory, Login
from speck.core.job import fence_topic
from speck.errors import InvalidInput, Unreachable
from speck.testing.brokers import OWNER, BrokerContract
from speck.testing.waiting import eventually
from speck.testing.wire_trouble import BrokenServer, Relay, Trouble
from testbed.benches.agents import link_bench
from testbed.servers.base import REFUSING_PORT
from testbed.servers.mosquitto import MosquittoServer
from tests.binders.mqtt.raw_access import SESSION, binder, connection, owned, publish, retained, take
from tests.support.trials import trial


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
    assert not broker.has_lost(SESSION, "in/+")
    with connection(mosquitto, SESSION):  # a clean start without expiry, so that the session ends
        pass
    assert broker.has_lost(SESSION, "in/+")
    broker.restore_session(SESSION, "in/+")
    assert retained(mosquitto, "speck/again/+") == [b"in/+"]
    assert not broker.has_lost(SESSION, "in/+")


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
    assert not broker.has_lost(SESSION, "in")
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
