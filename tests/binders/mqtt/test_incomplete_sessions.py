"""Sessions that are not complete: what was published while they collected nothing is asked for again."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from binders.mqtt import MqttBroker
from binders.mqtt.connection import Connection
from binders.mqtt.records import note_topic
from speck.core.inventory import Inventory
from speck.errors import OutcomeUnknown
from speck.testing.brokers import OWNER
from speck.testing.waiting import eventually
from testbed.servers.mosquitto import MosquittoServer
from tests.binders.mqtt.raw_access import SESSION, connection, publish, retained, take

pytestmark = pytest.mark.engine


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MosquittoServer]:
    """A broker that saves its state on SIGUSR1 only."""
    with MosquittoServer(tmp_path / "broker", "autosave_interval 1800") as server:
        yield server


def binder(server: MosquittoServer) -> MqttBroker:
    broker = MqttBroker(server.address, Inventory())
    broker.take_owner(OWNER)
    return broker


def note(server: MosquittoServer) -> dict[str, object]:
    found: dict[str, object] = json.loads(retained(server, note_topic(SESSION))[0])
    return found


def save(server: MosquittoServer) -> None:
    saved = server.directory / "mosquitto.db"
    saved.unlink(missing_ok=True)
    (pid,) = server.pids
    os.kill(pid, signal.SIGUSR1)
    eventually(saved.exists, bool)


def lose_power(server: MosquittoServer) -> None:
    server.kill()
    server.start()


def requests(server: MosquittoServer) -> list[bytes]:
    return retained(server, "speck/again/+")


def at_subscription(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Do something between the making of a session and its first subscription."""
    subscribe, connections = Connection.subscribe, set[int]()

    def late(self: Connection, *topics: str, **options: object) -> None:
        if self.client_id == SESSION and id(self) not in connections:
            connections.add(id(self))
            act()
        subscribe(self, *topics, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Connection, "subscribe", late)


def test_a_session_that_was_saved_before_its_subscription(
    server: MosquittoServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        at_subscription(patched, lambda: save(server))
        binder(server).ensure_session(SESSION, "in/+")
    lose_power(server)
    broker = binder(server)
    assert broker.session_exists(SESSION)
    assert broker.has_lost(SESSION, "in/+")
    publish(server, "in/1", [b"to nobody"])
    broker.restore_session(SESSION, "in/+")
    assert requests(server) == [b"in/+"]
    publish(server, "in/1", [b"collected"])
    assert take(server, SESSION) == [b"collected"]
    assert note(server) == {"topics": ["in/+"], "owner": OWNER}


@pytest.mark.parametrize(("times", "alone"), [(1, False), (2, False), (1, True)])
def test_a_restoration_that_is_cut_short(
    server: MosquittoServer, monkeypatch: pytest.MonkeyPatch, times: int, alone: bool
) -> None:
    """It makes the session, and ends before it asks the writers; so the next one asks them."""
    binder(server).ensure_session(SESSION, "in")
    if alone:
        with connection(server, SESSION):  # a clean start without expiry; its note stays
            pass
    else:
        lose_power(server)
    assert not binder(server).session_exists(SESSION)

    def fail() -> None:
        raise OutcomeUnknown("cut short", address=server.address)

    with monkeypatch.context() as patched:
        at_subscription(patched, fail)
        for _ in range(times):
            with pytest.raises(OutcomeUnknown):
                binder(server).restore_session(SESSION, "in")
    assert binder(server).session_exists(SESSION)
    assert requests(server) == []
    binder(server).restore_session(SESSION, "in")
    assert requests(server) == [b"in"]


def test_one_that_is_complete_is_not_filled_again(server: MosquittoServer) -> None:
    broker = binder(server)
    broker.ensure_session(SESSION, "in")
    save(server)
    lose_power(server)
    publish(server, "in", [b"collected"])
    broker.restore_session(SESSION, "in")
    assert requests(server) == []
    assert take(server, SESSION) == [b"collected"]


def test_a_claim_leaves_a_note_that_was_lost_pending(server: MosquittoServer) -> None:
    """Without the note, it is not known what the session has collected."""
    broker = binder(server)
    broker.ensure_session(SESSION, "in")
    with connection(server, "test-loss") as writer:
        writer.publish(note_topic(SESSION), b"", retain=True)
    broker.claim_session(SESSION, "in")
    assert note(server) == {"topics": ["in"], "owner": OWNER, "pending": True}
    broker.restore_session(SESSION, "in")
    assert requests(server) == [b"in"]
    assert note(server) == {"topics": ["in"], "owner": OWNER}


def test_an_adoption_leaves_a_pending_note_pending(server: MosquittoServer) -> None:
    former = "1b" * 8
    with connection(server, "test-note") as writer:
        content = {"topics": ["in"], "owner": former, "pending": True}
        writer.publish(note_topic(SESSION), json.dumps(content).encode(), retain=True)
    binder(server).adopt_session(SESSION, former)
    assert note(server) == {"topics": ["in"], "owner": OWNER, "pending": True}
