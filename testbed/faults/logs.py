"""Faults that a Kafka alone has, done to a rig whose middle broker is one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace

from testbed.faults.kinds import Result
from testbed.faults.middle import KafkaMiddle
from testbed.faults.rig import Rig
from testbed.servers.base import REFUSING_PORT
from testbed.waiting import PATIENCE, await_that

WAITING = 500  # messages that are sent meanwhile
_CUT = 4096  # bytes of the end of a log: some dozens of messages
_AWAY = 10.0  # s
_LEFT = 10  # messages
_LOSING = 60.0  # s without an arrival, where some are lost
_REPORTED = 60.0  # s, until a loss is reported


def delete_places(rig: Rig) -> None:
    """The places of all groups are deleted while the readers run; their states have them too."""
    admin = _kafka(rig).admin()
    try:
        admin.delete_groups([each["group_id"] for each in admin.list_groups()])
    finally:
        admin.close()
    rig.flink.kill_task_manager()


def leave_transaction_open(rig: Rig) -> None:
    """A stranger's transaction stays open for some seconds: readers wait, and nothing is lost."""
    from kafka import KafkaProducer

    kafka = _kafka(rig)
    producer = KafkaProducer(
        bootstrap_servers=f"127.0.0.1:{kafka.port}",
        transactional_id="stranger",
        transaction_timeout_ms=10_000,
    )
    try:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(kafka.topic(1), value=b"never committed").get(30)
        rig.sending.await_more(WAITING)
        producer.abort_transaction()
    finally:
        producer.close()


def let_retention_pass(rig: Rig) -> None:
    """Delete the messages that arrive while a reader is away, except the last ones.

    What came before is committed then, so that all that is deleted is unread.
    """
    kafka, topic = _kafka(rig), _kafka(rig).topic(1)
    with ExitStack() as away:
        with rig.sending.paused:
            read = _await_read(rig)
            away.enter_context(rig.flink.without_task_manager())
        rig.sending.await_more(WAITING)
        arrived = await_that(lambda: kafka.end(topic), lambda end: end >= read + WAITING // 4)
        kafka.delete_before(topic, arrived - _LEFT)


def _await_read(rig: Rig) -> int:
    """Wait until all that was sent is counted and committed; returns the end of the topic."""
    kafka, topic, sent = _kafka(rig), _kafka(rig).topic(1), rig.sending.texts[: rig.sending.sent]
    rig.await_that(lambda: rig.counts.account(sent).lost, lambda lost: lost == 0)
    rig.await_that(lambda: _all_read(rig), bool)
    return kafka.end(topic)


def _all_read(rig: Rig) -> bool:
    """True if all that is in the topic is committed."""
    kafka, topic = _kafka(rig), _kafka(rig).topic(1)
    return set(kafka.places(topic).values()) == {kafka.end(topic)}


def cut_read_tail(rig: Rig) -> None:
    """The broker comes back without the end of a log that was read, and other messages get its offsets."""
    kafka, topic = _kafka(rig), _kafka(rig).topic(1)
    with ExitStack() as away:
        with rig.sending.paused:
            read = _await_read(rig)
            away.enter_context(rig.flink.without_task_manager())
            kafka.kill()
            kafka.cut(topic, _CUT)
            kafka.start()
        await_that(lambda: kafka.end(topic), lambda end: end > read)


def cut_tail(rig: Rig) -> None:
    """The broker comes back without the end of a log, which its disk had not, and a reader had not read."""
    kafka = _kafka(rig)
    with rig.flink.without_task_manager():
        rig.sending.await_more(WAITING)
        kafka.kill()
        kafka.cut(kafka.topic(1), _CUT)
        kafka.start()


def make_topic_anew(rig: Rig) -> None:
    """A topic is deleted by hand, and made again."""
    from kafka.admin import NewTopic

    kafka = _kafka(rig)
    admin = kafka.admin()
    try:
        admin.delete_topics([kafka.topic(1)])
        admin.create_topics([NewTopic(kafka.topic(1), 1, 1)])
    finally:
        admin.close()


def advertise_elsewhere(rig: Rig) -> None:
    """For some seconds the broker advertises an unreachable address."""
    kafka = _kafka(rig)
    for port, seconds in ((REFUSING_PORT, _AWAY), (rig.link.port, 0.0)):
        kafka.stop()
        kafka.reached_at(port)
        kafka.start()
        time.sleep(seconds)


def measure(rig: Rig, name: str, messages: int) -> Result:
    """The result of a trial with one of these faults; a loss that SpecK counts is to be reported exactly."""
    before = _reported(rig)
    admitted = ADMITTED.get(name, "")
    patience = _LOSING if admitted else PATIENCE
    account = rig.trial(FAULTS[name], messages, patience=patience, settled=lambda: _all_read(rig))
    result = Result(account, admitted=admitted)
    if name != COUNTED:
        return result
    with suppress(TimeoutError):
        await_that(lambda: _reported(rig) - before, lambda now: now == result.account.lost, _REPORTED)
    reported = _reported(rig) - before
    error = "" if reported == result.account.lost else f"{reported} are reported as lost"
    return replace(result, error=error, reported=reported)


def _reported(rig: Rig) -> int:
    """The messages that readers have reported as deleted before they were read."""
    rig.coordinator.sampler.readings()  # has the engines asked every second
    return sum(each.total for each in rig.losses.counts() if each.reason.name == "retention")


def _kafka(rig: Rig) -> KafkaMiddle:
    if not isinstance(rig.middle, KafkaMiddle):
        raise TypeError("the middle broker is no Kafka (expected --broker kafka)")
    return rig.middle


FAULTS: Mapping[str, Callable[[Rig], object]] = {
    "places_deleted": delete_places,
    "transaction_open": leave_transaction_open,
    "retention_passed": let_retention_pass,
    "tail_cut": cut_tail,
    "read_tail_cut": cut_read_tail,
    "topic_made_anew": make_topic_anew,
    "address_elsewhere": advertise_elsewhere,
}

COUNTED = "retention_passed"

# The sentences of docs/kafka.md that admit a loss.
ADMITTED = {
    COUNTED: "the deleted messages; the job continues behind them",
    "tail_cut": "what it had acknowledged and not yet written to its disk",
    "topic_made_anew": "what was unread; the job reads the new topic from its beginning",
}
