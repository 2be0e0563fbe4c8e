"""The MQTT 5 broker as SpecK uses it: a persistent session for each job, its owner, and its fence.

MQTT has no query for the subscriptions of a session.  So a retained note beside the session
(``speck/session/<session>``) lists every filter that the session may hold: it is extended before a
subscription is added and shortened after one was removed, and so is correct whenever this process ends.
It also names the session's owner, and no call touches a session of another (:mod:`binders.mqtt.records`).
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from paho.mqtt.client import MQTTMessage

from binders.common.session_records import of_others
from binders.mqtt.address import BrokerAddress
from binders.mqtt.concerns import BrokerConcerns, checkup_of
from binders.mqtt.connection import FOREVER, TIMEOUT, Connection
from binders.mqtt.connection_cache import ConnectionCache
from binders.mqtt.counters import DROPPED, STORED, STORED_BYTES, Counters
from binders.mqtt.limits import reject_unfit
from binders.mqtt.owned_records import OwnedRecords
from binders.mqtt.records import note_topic, owned_sessions, read_fences, request_resend, writers_topic
from binders.mqtt.retained import echo_topic
from binders.mqtt.spools import stamp_of
from binders.mqtt.unsaved import UnsavedMessages
from speck.binder import MOST_COUNTED, BrokerBinder, Feed, OwnedSession
from speck.core.inventory import Inventory, Login
from speck.core.runtime import Checkup
from speck.core.split import control_topic
from speck.core.topic import OWN_TOPICS, SQL_TOPICS
from speck.errors import BinderError, Fault, InvalidInput, Rejected

# Locks for sessions, shared by hash: two connections for one session at once would take it over in turn.
_STRIPES = 32

# Of fences that are read at once.
MOST_FENCES = 100

# Of messages that are read at once, and the bytes of one.
_MOST_GATHERED, _MOST_FED = 1000, 1 << 16

# Seconds for which a broker knows a client that was left to it.
_CLIENT_SECONDS = 60

# Topics that a reader acknowledges and does not return; frames are the input of parts of a split or a query.
_NO_INPUT = tuple(each for each in OWN_TOPICS if each not in ("speck/split/", SQL_TOPICS))

# Bytes; MQTT 5, 1.5.4: the length field of a string has two bytes.
_MAX_TOPIC = 65535


def drain_topic(session: str) -> str:
    """The topic of the drain markers, which are queued behind a session's messages; its reader subscribes."""
    return f"speck/drain/{session}"


def drained_topic(session: str) -> str:
    """The topic to which a reader publishes each marker once all messages before it are processed."""
    return f"speck/drained/{session}"


class MqttBroker(BrokerBinder):
    """The :class:`~speck.binder.BrokerBinder` of one MQTT 5 broker.

    Each call takes ``timeout`` seconds a connection at most; requests that need no session share a
    connection, which is cached for a few seconds.  Raises :class:`~speck.errors.Unreachable`,
    :class:`~speck.errors.OutcomeUnknown` or :class:`~speck.errors.Rejected`, and
    :class:`~speck.errors.InvalidInput` for an address, a topic filter or a reference to a secret that is
    invalid.
    """

    def __init__(self, address: str, inventory: Inventory, *, timeout: float = TIMEOUT) -> None:
        """Parse the broker's address; nothing is connected yet."""
        self._address = BrokerAddress.parse(address)
        self._inventory = inventory
        self._timeout = timeout
        self._cache = ConnectionCache(self._control)
        self._counters = Counters(self._cache)
        self._records = OwnedRecords(self._address.text)
        self._unsaved = UnsavedMessages(self._address.text, inventory, self._cache)
        self._concerns = BrokerConcerns(self._address, self._cache, self._connection, self._login, timeout)
        self._locks = [threading.Lock() for _ in range(_STRIPES)]

    @property
    def address(self) -> str:
        """The broker's address, as written."""
        return self._address.text

    def take_owner(self, owner: str) -> None:
        """See :meth:`speck.binder.BrokerBinder.take_owner`."""
        self._records.owner = owner

    def check(self) -> None:
        """See :meth:`speck.binder.BrokerBinder.check`."""
        self._cache.run(reject_unfit, fresh=True)

    def packet_bytes(self) -> int | None:
        """See :meth:`speck.binder.BrokerBinder.packet_bytes`; stated on connecting (MQTT 5, 3.2.2.3.6)."""
        found = self._cache.run(lambda control: getattr(control.limits, "MaximumPacketSize", None))
        return None if found is None else int(found)

    def warnings(self) -> list[str]:
        """See :meth:`speck.binder.BrokerBinder.warnings`; determined once, cached until :meth:`close`.

        Limits that the broker states on connecting are used as stated; limits that the protocol does not
        carry are measured with a session of our own.  Persistence of sessions over a restart of the broker
        (Mosquitto's ``persistence``) can neither be queried nor measured, and is not reported.
        """
        return [each.message for each in self._concerns.find(self._records.owner) if not each.remark]

    def checkup(self) -> Checkup:
        """Version and limits, as far as the broker reports them, with remarks; MQTT has no clock."""
        with self._control() as control:
            found = checkup_of(control)
        remarks = (each for each in self._concerns.find(self._records.owner) if each.remark)
        return replace(found, complaints=tuple(remarks))

    def ensure_session(self, session: str, topic: str) -> None:
        """See :meth:`speck.binder.BrokerBinder.ensure_session`."""
        self._ensure(session, topic, refill=False)

    def restore_session(self, session: str, topic: str) -> None:
        """See :meth:`speck.binder.BrokerBinder.restore_session`; asks as a reader of the session does."""
        self._ensure(session, topic, refill=True)

    def claim_session(self, session: str, topic: str) -> None:
        """See :meth:`speck.binder.BrokerBinder.claim_session`."""
        with self._lock(session):
            self._cache.run(lambda control: self._records.claim(control, session, topic))

    def fenced(self, session: str) -> int:
        """See :meth:`speck.binder.BrokerBinder.fenced`."""
        return max(0, self._cache.run(lambda control: self._records.read(control, session)).fenced)

    def foreign_sessions(self) -> list[OwnedSession]:
        """See :meth:`speck.binder.BrokerBinder.foreign_sessions`."""
        return of_others(self.owned_sessions(), self._records.owner) if self._records.owner else []

    def owned_sessions(self) -> list[OwnedSession]:
        """See :meth:`speck.binder.BrokerBinder.owned_sessions`."""
        with self._control() as control:
            return owned_sessions(control)

    def adopt_session(self, session: str, former: str) -> None:
        """See :meth:`speck.binder.BrokerBinder.adopt_session`."""
        with self._lock(session):
            self._cache.run(lambda control: self._records.adopt(control, session, former))

    def session_exists(self, session: str) -> bool:
        """See :meth:`speck.binder.BrokerBinder.session_exists`."""
        with self._lock(session), self._session(session) as connection:
            exists = connection.session_present
            # The query itself created a session where there was none: it ends with the connection.
            connection.disconnect(None if exists else 0)
            return exists

    def has_lost(self, session: str, topic: str) -> bool:
        """See :meth:`speck.binder.BrokerBinder.has_lost`; a tombstone shows that it was deleted."""
        records = self._cache.run(lambda control: self._records.read(control, session))
        return not records.deleted and not (records.is_complete(topic) and self.session_exists(session))

    def delete_session(self, session: str) -> None:
        """See :meth:`speck.binder.BrokerBinder.delete_session`.

        A tombstone takes the place of the fence before the session goes: a copy of the job that comes back
        reads it, and does not create the session again.
        """
        with self._lock(session):
            self._cache.run(lambda control: self._records.bury(control, session))
            # A clean start without expiry deletes the session and its messages.
            with self._connection(session) as connection:
                connection.publish(note_topic(session), b"", retain=True)
                with suppress(Rejected):  # by access control: then there is none
                    connection.publish(writers_topic(session), b"", retain=True)

    def fence(self, session: str, attempt: int) -> None:
        """See :meth:`speck.binder.BrokerBinder.fence`; a fence that names a newer attempt stays."""
        with self._lock(session):
            self._cache.run(lambda control: self._records.raise_fence(control, session, attempt))

    def readers(self, sessions: Sequence[str]) -> dict[str, int]:
        """See :meth:`speck.binder.BrokerBinder.readers`; by the claims in the fences."""
        parts = [sessions[at : at + MOST_FENCES] for at in range(0, len(sessions), MOST_FENCES)]
        records = [each for part in parts for each in self._cache.run(partial(read_fences, sessions=part))]
        return {each.session: each.read_by for each in records if each.read_by is not None}

    def name_writers(self, session: str, writers: Sequence[str]) -> None:
        """See :meth:`speck.binder.BrokerBinder.name_writers`; the list comes through the session."""
        with self._lock(session):
            self._cache.run(lambda control: self._records.name_writers(control, session, writers))

    def drained(self, session: str, marker: str, seconds: float) -> bool | None:
        """See :meth:`speck.binder.BrokerBinder.drained`.

        The marker goes to a topic of the session's own, which only SpecK's connectors subscribe to.
        """
        with self._connection(f"speck-control-{uuid.uuid4().hex}", more=seconds) as control:
            control.subscribe(drained_topic(session))
            if not control.publish(drain_topic(session), marker.encode()):
                return None
            return control.receives(marker.encode(), seconds)

    def waiting(self, session: str) -> int:
        """See :meth:`speck.binder.BrokerBinder.waiting`; counts up to :data:`MOST_COUNTED`."""
        topics = [message.topic for message in self._first_messages(session)]
        found = sum(not topic.startswith(_NO_INPUT) for topic in topics)
        # Markers and the like take the place of messages that were not sent to us.
        return MOST_COUNTED if found and len(topics) > MOST_COUNTED else found

    def unsaved(self, session: str, topic: str) -> int | None:
        """See :meth:`speck.binder.BrokerBinder.unsaved`; by the spools, at the site itself.

        A writer's mark is up to a second old.  What it wrote since, and waits in the session, is known by its
        stamp, and not counted; in the binary form of stamps it is.
        """
        return self._unsaved.matching(
            topic, lambda: {stamp_of(message.properties) for message in self._first_messages(session)}
        )

    def stranded(self) -> int | None:
        """See :meth:`speck.binder.BrokerBinder.stranded`; by the spools, at the site itself."""
        return self._unsaved.stranded()

    def stored(self) -> int | None:
        """The messages in Mosquitto's store, retained ones included, as it publishes them every 10 s.

        A message that is queued for several sessions counts once.  ``None`` for other brokers, for one that
        denies access to ``$SYS``, and without a change for longer than a minute in which nobody asked.
        """
        return self._counters.value(STORED)

    def stored_bytes(self) -> int | None:
        """The payloads in Mosquitto's store in bytes; otherwise as :meth:`stored`."""
        return self._counters.value(STORED_BYTES)

    def dropped(self) -> int | None:
        """See :meth:`speck.binder.BrokerBinder.dropped`; Mosquitto counts from its start."""
        return self._counters.value(DROPPED)

    def subscribe(self, topics: Sequence[str]) -> Feed:
        """See :meth:`speck.binder.BrokerBinder.subscribe`; QoS 0, over a connection of its own."""
        for topic in topics:
            _check_filter(topic)
        connection = self._connection(f"speck-control-{uuid.uuid4().hex}", most_bytes=_MOST_FED)
        feed = MqttFeed(connection.__enter__())
        try:
            connection.subscribe(*topics, qos=0)
        except BaseException:  # no one else could close the feed
            feed.close()
            raise
        return feed

    def send_control(self, session: str, message: bytes, seconds: float) -> None:
        """See :meth:`speck.binder.BrokerBinder.send_control`; QoS 1, not retained."""
        topic, expiry = control_topic(session), max(1, round(seconds))
        self._cache.run(lambda control: control.publish(topic, message, expiry=expiry))

    def send_probe(self, topic: str) -> None:
        """See :meth:`speck.binder.BrokerBinder.send_probe`."""
        self._cache.run(lambda control: control.publish(topic, b""))

    def leave_client(self, client: str) -> None:
        """See :meth:`speck.binder.BrokerBinder.leave_client`; by a session without subscriptions."""
        with self._connection(client, expiry=_CLIENT_SECONDS):
            pass

    def forget_client(self, client: str) -> bool:
        """See :meth:`speck.binder.BrokerBinder.forget_client`."""
        with self._connection(client, clean_start=False) as connection:
            return connection.session_present

    def close(self) -> None:
        """Drop the cached warnings and close the cached connections."""
        self._concerns.forget()
        self._cache.close()

    # --- internals ---------------------------------------------------------------------------------

    def _ensure(self, session: str, topic: str, *, refill: bool) -> None:
        """Make a session collect a filter alone; with ``refill``, writers send again what it may lack."""
        _check_filter(topic)
        with self._lock(session):
            # To look for a session makes it: should this process end before it has asked the writers to fill
            # that, nothing but the note would have the next one ask.
            found = self._cache.run(
                lambda control: self._records.begin_note(control, session, topic, pending=refill)
            )
            others = [each for each in found.topics if each != topic]
            is_new = self._subscribe(session, topic, others)
            incomplete = is_new or not found.is_complete(topic)
            if incomplete and refill:
                self._cache.run(lambda control: request_resend(control, topic))
            if incomplete or others or refill:
                self._cache.run(lambda control: self._records.complete_note(control, session, topic))

    def _first_messages(self, session: str) -> list[MQTTMessage]:
        """The first messages in a session, one more than are counted; none if the broker does not have it."""
        echo = echo_topic()
        self._cache.run(lambda control: self._records.read(control, session))
        with self._lock(session), self._session(session, MOST_COUNTED + 1) as connection:
            if not connection.session_present:
                connection.disconnect(0)
                return []
            connection.subscribe(echo, qos=0)
            connection.round_trip(echo)
            connection.unsubscribe(echo)
            return list(connection.received)

    def _login(self) -> Login:
        return self._inventory.broker_login(self._address.text)

    def _lock(self, session: str) -> threading.Lock:
        return self._locks[hash(session) % _STRIPES]

    def _connection(self, client_id: str, more: float = 0, **options: Any) -> Connection:
        return Connection(self._address, self._login(), client_id, timeout=self._timeout + more, **options)

    def _control(self) -> Connection:
        return self._connection(f"speck-control-{uuid.uuid4().hex}")

    def _session(self, session: str, receive_maximum: int = 1) -> Connection:
        # Receive Maximum 1: the session's messages are the job's, so as few as possible are sent to us.
        return self._connection(session, clean_start=False, expiry=FOREVER, receive_maximum=receive_maximum)

    def _subscribe(self, session: str, topic: str, others: list[str]) -> bool:
        """Subscribe for a session; true if the broker had no such session."""
        with self._session(session) as connection:
            _reject_short_expiry(connection)
            connection.subscribe(topic)
            with suppress(Rejected):  # by access control: its reader then believes all stamps
                connection.subscribe(writers_topic(session))
            for other in others:
                connection.unsubscribe(other)
            return not connection.session_present


class MqttFeed:
    """A subscription over an open connection; the broker leaves out messages above 64 KiB."""

    def __init__(self, connection: Connection) -> None:
        """Take the messages of this connection, which is open."""
        self._connection = connection

    def receive(self) -> list[tuple[str, bytes]]:
        """See :meth:`speck.binder.Feed.receive`."""
        found = self._connection.gather(_MOST_GATHERED)
        return [(message.topic, bytes(message.payload)) for message in found]

    def close(self) -> None:
        """See :meth:`speck.binder.Feed.close`."""
        with suppress(BinderError):
            self._connection.restart_deadline()
            self._connection.__exit__(None, None, None)


def _reject_short_expiry(connection: Connection) -> None:
    # MQTT 5, 3.2.2.3.2: a server that shortens the expiry of a session states the one that it uses.
    expiry = getattr(connection.limits, "SessionExpiryInterval", FOREVER)
    if expiry != FOREVER:
        raise connection.rejection(
            "to keep a session until it is deleted",
            f"it keeps one for {expiry} s (raise the broker's limit for the expiry of sessions)",
        )


def _check_filter(topic: str) -> None:
    levels = topic.split("/")
    last = len(levels) - 1
    faulty = (
        not topic
        or "\0" in topic
        or len(topic.encode()) > _MAX_TOPIC
        or any("#" in level and (level != "#" or place < last) for place, level in enumerate(levels))
        or any("+" in level and level != "+" for level in levels)
    )
    if faulty:
        shown = topic if len(topic) <= 100 else topic[:100] + "..."
        message = (
            f"{shown!r} is not a topic filter (1 to {_MAX_TOPIC} bytes; "
            "'+' stands for a whole level, '#' for the whole rest)"
        )
        raise InvalidInput([Fault(message, field="source_topic", value=shown)], "topic filter")
