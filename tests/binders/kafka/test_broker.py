"""The Kafka binder against a real Kafka, and against things that are no broker."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from binders.kafka import KafkaBroker
from binders.kafka.client import Connected
from binders.kafka.control_log import ControlLog
from speck.binder import Backlog, BrokerBinder, CountFrom
from speck.core.inventory import Inventory
from speck.errors import InvalidInput, Rejected, Unreachable
from speck.testing.brokers import BrokerContract
from speck.testing.waiting import eventually
from speck.testing.wire_trouble import BrokenServer, Relay, Trouble
from testbed.servers.base import REFUSING_PORT
from testbed.servers.kafka import KafkaServer

pytestmark = pytest.mark.engine

SESSION = "speck-job"
READ = '{"attempt": 1, "messages": 2}'  # the account of a reader

Opened = Callable[..., KafkaBroker]


@pytest.fixture(name="opened")
def opened_fixture() -> Iterator[Opened]:
    """Makes binders, which are closed after the test."""
    made: list[KafkaBroker] = []

    def open_one(address: str, timeout: float = 10) -> KafkaBroker:
        made.append(KafkaBroker(address, Inventory(), timeout=timeout))
        return made[-1]

    yield open_one
    for each in made:
        each.close()


@pytest.fixture(name="cleared")
def cleared_fixture(kafka: KafkaServer) -> Iterator[KafkaServer]:
    """The Kafka of the session; nothing is left in it after the test."""
    yield kafka
    kafka.clear()


def records(kafka: KafkaServer, key: str) -> list[bytes | None]:
    """The records of the control topic with this key, seen past the binder."""
    from kafka import KafkaConsumer, TopicPartition  # type: ignore[attr-defined]

    consumer = KafkaConsumer(bootstrap_servers=f"127.0.0.1:{kafka.port}", enable_auto_commit=False)
    try:
        part = TopicPartition("speck.control", 0)
        consumer.assign([part])
        consumer.seek_to_beginning(part)
        end, found = consumer.end_offsets([part])[part], []
        while consumer.position(part) < end:
            found += consumer.poll(500).get(part, [])
        return [each.value for each in found if each.key == key.encode()]
    finally:
        consumer.close()


class TestContract(BrokerContract):
    """The contract of all broker binders."""

    @pytest.fixture
    def broker(self, cleared: KafkaServer, opened: Opened) -> KafkaBroker:
        self.server, self.opened = cleared, opened
        return opened(cleared.address)

    @pytest.fixture
    def absent(self, opened: Opened) -> KafkaBroker:
        return opened(f"kafka://127.0.0.1:{REFUSING_PORT}")

    @pytest.fixture
    def slow(self, cleared: KafkaServer, opened: Opened) -> Iterator[KafkaBroker]:
        with Relay(cleared.port, delay=0.1) as relay:
            yield opened(f"kafka://127.0.0.1:{relay.port}")

    @contextmanager
    def troubled(self, trouble: Trouble) -> Iterator[BrokerBinder]:
        with BrokenServer(trouble) as server:
            broker = KafkaBroker(f"kafka://127.0.0.1:{server.port}", Inventory(), timeout=0.2)
            yield broker
            broker.close()

    def fenced_attempt(self, broker: BrokerBinder, session: str) -> int | None:
        found = records(self.server, f"fence/{session}")
        return None if not found or found[-1] is None else int(json.loads(found[-1])["attempt"])

    def beside(self, broker: BrokerBinder) -> BrokerBinder:
        assert isinstance(broker, KafkaBroker)
        return self.opened(broker.address)

    def named_writers(self, broker: BrokerBinder, session: str) -> list[str] | None:
        found = records(self.server, f"writers/{session}")
        return None if not found or found[-1] is None else list(json.loads(found[-1])["writers"])

    def have_unread(self, broker: BrokerBinder, session: str, messages: int, seconds: float) -> None:
        self.server.publish("contract.in", [b"old"] * messages, at=time.time() - seconds)


# --- sessions -------------------------------------------------------------------------------------


def committed(
    kafka: KafkaServer,
    session: str,
    topic: str,
    offset: int,
    metadata: str,
    partition: int = 0,
    epoch: int | None = None,
) -> None:
    """Commit a place as the reader of a session does, with the leader epoch of the record before it."""
    from kafka import TopicPartition
    from kafka.structs import OffsetAndMetadata

    admin = kafka.admin()
    try:
        admin.alter_group_offsets(
            session, {TopicPartition(topic, partition): OffsetAndMetadata(offset, metadata, epoch)}
        )
    finally:
        admin.close()


def test_what_is_sent_to_an_absent_session_waits(cleared: KafkaServer, opened: Opened) -> None:
    broker = opened(cleared.address)
    broker.ensure_topic("in")
    cleared.publish("in", [b"before"])
    broker.ensure_session(SESSION, "in")
    assert broker.waiting(SESSION) == 0
    cleared.publish("in", [str(number).encode() for number in range(500)])
    assert broker.waiting(SESSION) == 500
    broker.ensure_session(SESSION, "in")  # its place stays
    assert broker.waiting(SESSION) == 500


def test_a_session_begins_where_it_is_to_and_its_messages_are_counted_before(
    cleared: KafkaServer, opened: Opened
) -> None:
    broker = opened(cleared.address)
    assert broker.count_from("in", "earliest") == CountFrom(0)
    broker.ensure_topic("in")
    cleared.publish("in", [b"old"] * 500)
    time.sleep(0.01)  # the times of records are whole milliseconds
    moment = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    cleared.publish("in", [b"new"] * 300)
    broker.ensure_session(SESSION, "in")
    cleared.publish("in", [b"newest"] * 20)
    for start, messages in (("earliest", 820), ("2026-01-01T00:00:00Z", 820), (moment, 320), ("latest", 0)):
        assert broker.count_from("in", start, SESSION) == CountFrom(messages, 20 if start == "latest" else 0)
        broker.begin_session(f"{SESSION}-{messages}", "in", start)
        assert broker.waiting(f"{SESSION}-{messages}") == messages
    committed(cleared, f"{SESSION}-320", "in", 700, "{}")
    broker.begin_session(f"{SESSION}-320", "in", moment)  # its place stays
    assert broker.waiting(f"{SESSION}-320") == 120
    assert broker.count_from("in", moment, f"{SESSION}-820") == CountFrom(320, skipped=500)
    assert broker.waiting(SESSION) == 20


def test_the_backlog_is_exact_also_of_what_was_deleted_meanwhile(
    cleared: KafkaServer, opened: Opened
) -> None:
    broker = opened(cleared.address)
    for each in (SESSION, f"{SESSION}-2"):
        broker.ensure_session(each, "in")
    cleared.publish("in", [str(number).encode() for number in range(2500)])
    committed(cleared, f"{SESSION}-2", "in", 2000, "{}")
    assert counted(broker, SESSION, f"{SESSION}-2", "speck-none") == {
        SESSION: Backlog(2500),
        f"{SESSION}-2": Backlog(500),
    }
    cleared.delete_before("in", 2100)
    assert counted(broker, SESSION, f"{SESSION}-2") == {
        SESSION: Backlog(400, deleted=2100),
        f"{SESSION}-2": Backlog(400, deleted=100),
    }


def test_each_session_has_the_age_of_its_own_oldest_message(cleared: KafkaServer, opened: Opened) -> None:
    from kafka.admin import NewTopic

    admin = cleared.admin()
    admin.create_topics([NewTopic("in", 2, 1)])
    admin.close()
    broker, now = opened(cleared.address), time.time()
    names = [SESSION, f"{SESSION}-2", f"{SESSION}-3"]
    for each in names:
        broker.ensure_session(each, "in")
    for partition, hours in ((0, 9), (1, 5), (0, 3)):
        cleared.publish("in", [b"x" * 1000] * 100, at=now - hours * 3600, partition=partition)
    committed(cleared, names[1], "in", 100, "{}")
    committed(cleared, names[2], "in", 200, "{}")
    committed(cleared, names[2], "in", 100, "{}", partition=1)
    found = broker.behind(names)
    assert {name: each.messages for name, each in found.items()} == dict(
        zip(names, (300, 200, 0), strict=True)
    )
    ages = [found[each].seconds for each in names]
    assert [None if each is None else each // 3600 for each in ages] == [9, 5, 0]
    cleared.delete_before("in", 150)
    assert (found[SESSION].deleted, broker.behind(names)[SESSION].deleted) == (0, 150)
    assert (broker.behind(names)[SESSION].seconds or 0) // 3600 == 5  # of those that are left


def test_what_a_transaction_did_not_commit_has_no_age(cleared: KafkaServer, opened: Opened) -> None:
    broker = opened(cleared.address)
    broker.ensure_session(SESSION, "in")
    cleared.abort_transaction("in", [b"aborted"] * 10, at=time.time() - 7200)
    found = eventually(lambda: broker.behind([SESSION])[SESSION], lambda each: each.messages == 11)
    assert found.seconds == 0.0
    cleared.publish("in", [b"read"], at=time.time() - 3600)
    age = broker.behind([SESSION])[SESSION].seconds
    assert age is not None
    assert age // 3600 == 1


def counted(broker: KafkaBroker, *sessions: str) -> dict[str, Backlog]:
    """The backlogs without their ages."""
    return {name: replace(each, seconds=None) for name, each in broker.behind(sessions).items()}


def test_the_checkup_has_limits_and_names_a_compacted_source(cleared: KafkaServer, opened: Opened) -> None:
    from kafka.admin import NewTopic

    admin = cleared.admin()
    admin.create_topics([NewTopic("small", 1, 1, topic_configs={"cleanup.policy": "compact"})])
    admin.close()
    broker = opened(cleared.address)
    for topic in ("in", "small"):
        broker.ensure_session(f"{SESSION}-{topic}", topic)
    found = broker.checkup()
    assert found.version.startswith("Kafka, cluster ")
    assert found.limits | {"message_bytes": 0} == {
        "brokers": 1,
        "message_bytes": 0,
        "replicas": 1,
        "min_insync": 1,
        "places_kept_days": 7.0,
    }
    assert [each.message for each in found.complaints if not each.remark] == broker.warnings()
    (warning,) = broker.warnings()
    assert "topic 'small', which a job reads, is compacted" in warning


def test_a_session_is_drained_by_the_commits_of_the_fenced_attempt_alone(
    cleared: KafkaServer, opened: Opened
) -> None:
    broker = opened(cleared.address)
    broker.ensure_session(SESSION, "in")
    broker.fence(SESSION, 2)
    cleared.publish("in", [b"1", b"2"])
    assert not broker.drained(SESSION, "marker", 0.1)
    order = records(cleared, f"drain/{SESSION}")[-1]
    assert order is not None
    assert json.loads(order) == {"marker": "marker", "ends": {"0": 2}}
    for attempt, offset, drained in [(1, 2, False), (2, 1, False), (2, 2, True)]:
        committed(cleared, SESSION, "in", offset, json.dumps({"attempt": attempt, "messages": offset}))
        assert broker.drained(SESSION, "marker", 0.1) is drained, (attempt, offset)


def test_a_marker_is_reached_though_more_has_come_since(cleared: KafkaServer, opened: Opened) -> None:
    broker = opened(cleared.address)
    broker.ensure_session(SESSION, "in")
    broker.fence(SESSION, 1)
    cleared.publish("in", [b"1"])
    assert not broker.drained(SESSION, "marker", 0.1)
    cleared.publish("in", [b"2"])
    committed(cleared, SESSION, "in", 1, '{"attempt": 1, "messages": 1}')
    assert broker.drained(SESSION, "marker", 0.1)


def test_what_is_behind_an_open_transaction_waits_and_is_drained(
    cleared: KafkaServer, opened: Opened
) -> None:
    """A job that leaves the topic meanwhile must not leave these messages behind."""
    broker = opened(cleared.address)
    broker.ensure_session(SESSION, "in")
    broker.fence(SESSION, 1)
    with cleared.open_transaction("in", [b"aborted"]):
        cleared.publish("in", [b"1", b"2", b"3"])
        committed(cleared, SESSION, "in", 0, '{"attempt": 1, "messages": 0}')
        assert broker.waiting(SESSION) == 4
        assert not broker.drained(SESSION, "marker", 0.1)
        assert broker.behind([SESSION]) == {SESSION: Backlog(4)}  # of an age that nobody can read yet
        assert broker.count_from("in", "earliest") == broker.count_from("in", "latest") == CountFrom(4)
        broker.begin_session(f"{SESSION}-2", "in", "latest")
        assert broker.waiting(f"{SESSION}-2") == 4  # they come yet
    committed(cleared, SESSION, "in", 4, '{"attempt": 1, "messages": 3}')
    assert broker.drained(SESSION, "marker", 0.1)


def test_what_is_unread_in_a_partition_that_was_added_is_counted_and_drained(
    cleared: KafkaServer, opened: Opened
) -> None:
    broker = opened(cleared.address)
    broker.ensure_session(SESSION, "in")
    broker.fence(SESSION, 1)
    cleared.publish("in", [b"1", b"2"])
    committed(cleared, SESSION, "in", 2, READ)
    cleared.add_partitions("in", 2)
    cleared.publish("in", [b"3", b"4", b"5"], partition=1)
    assert broker.waiting(SESSION) == 3
    assert not broker.drained(SESSION, "marker", 0.1)
    for offset, waiting in ((2, 1), (3, 0)):
        committed(cleared, SESSION, "in", offset, READ, partition=1)
        assert broker.waiting(SESSION) == waiting
        assert broker.drained(SESSION, "marker", 0.1) is (waiting == 0)
    broker.begin_session(f"{SESSION}-2", "in", "latest")
    assert broker.waiting(f"{SESSION}-2") == 0


def test_a_topic_that_was_made_anew_is_read_from_its_beginning(cleared: KafkaServer, opened: Opened) -> None:
    broker = opened(cleared.address)
    broker.ensure_session(SESSION, "in")
    cleared.publish("in", [b"1", b"2", b"3"])
    committed(cleared, SESSION, "in", 3, "{}")
    assert broker.waiting(SESSION) == 0
    admin = cleared.admin()
    admin.delete_topics(["in"])
    admin.close()
    broker.ensure_topic("in")
    cleared.publish("in", [b"4", b"5"])
    broker.claim_session(SESSION, "in")
    assert broker.waiting(SESSION) == 2


def test_a_session_whose_records_are_lost_continues_at_its_place(
    cleared: KafkaServer, opened: Opened
) -> None:
    broker = opened(cleared.address)
    broker.ensure_session(SESSION, "in")
    cleared.publish("in", [b"1", b"2", b"3"])
    committed(cleared, SESSION, "in", 1, READ)
    assert not broker.has_lost(SESSION, "in")
    cleared.publish("speck.control", [b"{}"], key=f"note/{SESSION}".encode())
    assert broker.has_lost(SESSION, "in")
    assert broker.waiting(SESSION) == 0
    broker.restore_session(SESSION, "in")
    assert broker.waiting(SESSION) == 2
    assert not broker.has_lost(SESSION, "in")
    broker.delete_session(SESSION)
    assert not broker.has_lost(SESSION, "in")


def test_a_group_with_members_is_no_session(cleared: KafkaServer, opened: Opened) -> None:
    from kafka import KafkaConsumer

    broker = opened(cleared.address)
    broker.ensure_topic("in")
    member = KafkaConsumer(
        "in",
        bootstrap_servers=f"127.0.0.1:{cleared.port}",
        group_id=SESSION,
        client_id="stranger",
        metadata_max_age_ms=1000,  # it may have asked before the topic was known
    )
    try:
        while not member.assignment():
            member.poll(100)
        with pytest.raises(Rejected, match=r"group 'speck-job' is used by client 'stranger'.*members"):
            broker.ensure_session(SESSION, "in")
        assert not broker.session_exists(SESSION)
    finally:
        member.close()


def test_a_record_that_is_none_is_no_obstacle(cleared: KafkaServer, opened: Opened) -> None:
    broker = opened(cleared.address)
    broker.ensure_session(SESSION, "in")
    cleared.publish("speck.control", [b"{", b"[]"], key=f"fence/{SESSION}".encode())
    broker.fence(SESSION, 3)
    assert broker.fenced(SESSION) == 3


# --- what is kept ---------------------------------------------------------------------------------


def remaining(kafka: KafkaServer, topic: str) -> int:
    return len(kafka.read(topic))


def test_only_what_all_sessions_have_passed_is_deleted(
    cleared: KafkaServer, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = opened(cleared.address)
    broker.ensure_session(SESSION, "in")
    broker.ensure_session(f"{SESSION}-2", "in")
    cleared.publish("in", [str(number).encode() for number in range(10)])
    for session, offset in ((SESSION, 8), (f"{SESSION}-2", 5)):
        committed(cleared, session, "in", offset, "{}")
    broker.purge()
    assert remaining(cleared, "in") == 10  # a week has not passed
    monkeypatch.setattr("binders.kafka.broker.KEPT_SECONDS", -60.0)
    broker.purge()
    assert remaining(cleared, "in") == 5
    broker.delete_session(f"{SESSION}-2")
    broker.purge()
    assert remaining(cleared, "in") == 2


@pytest.mark.parametrize("writes", [0, 1])
def test_a_topic_whose_making_was_interrupted_is_deleted_from_too(
    writes: int, cleared: KafkaServer, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coordinator may end at each write of the control topic, before or after the topic is made."""
    left, write = [writes], ControlLog.write

    def interrupted(self: ControlLog, connected: Connected, key: str, *others: Any) -> None:
        if key == "topic/in":
            left[0] -= 1
            if left[0] == -1:
                raise Unreachable("interrupted")
        write(self, connected, key, *others)

    monkeypatch.setattr(ControlLog, "write", interrupted)
    with pytest.raises(Unreachable, match="interrupted"):
        opened(cleared.address).ensure_topic("in")
    broker = opened(cleared.address)
    broker.ensure_session(SESSION, "in")
    cleared.publish("in", [b"1", b"2"])
    committed(cleared, SESSION, "in", 2, "{}")
    monkeypatch.setattr("binders.kafka.broker.KEPT_SECONDS", -60.0)
    broker.purge()
    assert remaining(cleared, "in") == 0


def test_a_topic_of_others_that_was_to_be_made_is_left_alone(
    cleared: KafkaServer, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafka.admin import NewTopic

    broker = opened(cleared.address)
    broker.check()
    cleared.publish("speck.control", [b'{"id": ""}'], key=b"topic/theirs")
    admin = cleared.admin()
    admin.create_topics([NewTopic("theirs", 1, 1, topic_configs={"retention.ms": "86400000000"})])
    admin.close()
    broker.ensure_session(SESSION, "theirs")
    cleared.publish("theirs", [b"1", b"2"])
    committed(cleared, SESSION, "theirs", 2, "{}")
    monkeypatch.setattr("binders.kafka.broker.KEPT_SECONDS", -60.0)
    broker.purge()
    assert remaining(cleared, "theirs") == 2


def test_a_topic_of_others_is_left_alone(
    cleared: KafkaServer, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafka.admin import NewTopic

    admin = cleared.admin()
    admin.create_topics([NewTopic("theirs", 1, 1)])
    admin.close()
    broker = opened(cleared.address)
    broker.ensure_session(SESSION, "theirs")
    cleared.publish("theirs", [b"1", b"2"])
    committed(cleared, SESSION, "theirs", 2, "{}")
    monkeypatch.setattr("binders.kafka.broker.KEPT_SECONDS", -60.0)
    broker.purge()
    assert remaining(cleared, "theirs") == 2


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", ["a/b", "#", "", ".", "..", "a" * 250, "__x", "speck.x", "ä"])
def test_a_topic_that_kafka_cannot_have_is_refused(topic: str, opened: Opened) -> None:
    broker = opened("kafka://127.0.0.1:1")  # nobody is asked
    for call in (broker.ensure_topic, lambda each: broker.ensure_session(SESSION, each)):
        with pytest.raises(InvalidInput, match=r"Kafka|reserved"):
            call(topic)


def test_an_address_that_the_broker_names_and_nobody_reaches_is_named(
    cleared: KafkaServer, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = REFUSING_PORT
    admin = cleared.admin()
    named = admin.describe_cluster()
    admin.close()
    # As a broker answers whose advertised.listeners has this port.
    named["brokers"][0]["port"] = far
    monkeypatch.setattr("kafka.admin.KafkaAdminClient.describe_cluster", lambda _: named)
    with pytest.raises(Unreachable, match=rf"names its broker 1 127.0.0.1:{far}.*advertised.listeners"):
        opened(cleared.address, 5).check()


def test_of_several_brokers_in_an_address_any_is_enough(cleared: KafkaServer, opened: Opened) -> None:
    dead = f"127.0.0.1:{REFUSING_PORT}"
    opened(f"kafka://{dead},127.0.0.1:{cleared.port}").check()
    with pytest.raises(Unreachable, match=f"kafka://{dead},{dead}/ cannot be reached"):
        opened(f"kafka://{dead},{dead}/", 2).check()


def test_a_missing_client_is_named(
    cleared: KafkaServer, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "kafka.admin", None)
        with pytest.raises(Rejected, match=r"kafka-python is not installed \(pip install 'speck\[kafka\]'\)"):
            opened(cleared.address).check()
