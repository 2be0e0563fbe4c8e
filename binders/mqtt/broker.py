"""The MQTT 5 broker as SpecK uses it: a persistent session for each job, and its fence.

MQTT cannot be asked what a session is subscribed to.  So a retained note beside the session
(``speck/session/<session>``) names every filter that the session may hold: it is widened before a
subscription is added, and narrowed after one was taken back, which keeps it right whenever this process ends.
"""

from __future__ import annotations

import json
import threading
import uuid
from contextlib import suppress
from typing import Any

from binders.mqtt.address import BrokerAddress
from binders.mqtt.connection import FOREVER, TIMEOUT, Connection
from binders.mqtt.connection_cache import Controls
from binders.mqtt.limits import probe_warnings, refuse_unfit, stated_limits, stated_warnings
from speck.binder import MOST_COUNTED
from speck.core.inventory import Inventory, Login
from speck.core.job import fence_topic
from speck.core.runtime import Checkup
from speck.errors import Fault, InvalidInput, Rejected

# Locks for sessions, shared by hash: two calls for one session would take it from each other.
_STRIPES = 32

_STORED_TOPIC = "$SYS/broker/store/messages/count"  # Mosquitto's own
# Where Mosquitto, EMQX and others say who they are; no standard.
VERSION_TOPIC = "$SYS/broker/version"

# MQTT 5, 1.5.4: the length of a string is two bytes.
_LONGEST_TOPIC = 65535


def note_topic(session: str) -> str:
    """The topic of the retained note of the filters that a session may be subscribed to."""
    return f"speck/session/{session}"


def drain_topic(session: str) -> str:
    """The topic of the markers behind what waits in a session; its reader subscribes to it."""
    return f"speck/drain/{session}"


def drained_topic(session: str) -> str:
    """The topic to which a reader publishes the markers before which nothing is left."""
    return f"speck/drained/{session}"


def probe_topic() -> str:
    """A topic of one's own, for one purpose, used once."""
    return f"speck/probe/{uuid.uuid4().hex}"


class MqttBroker:
    """The :class:`~speck.binder.BrokerBinder` of one MQTT 5 broker.

    Each call takes ``timeout`` seconds a connection at most; what it asks beside a session goes over a
    connection that is kept a few seconds for the next call.  Raises :class:`~speck.errors.Unreachable`,
    :class:`~speck.errors.OutcomeUnknown` or :class:`~speck.errors.Rejected`, and
    :class:`~speck.errors.InvalidInput` for an address, a topic filter or a reference to a secret that is
    none.
    """

    def __init__(self, address: str, inventory: Inventory, *, timeout: float = TIMEOUT) -> None:
        """Remember where the broker is and how to log in; nothing is connected yet."""
        self._address = BrokerAddress.parse(address)
        self._inventory = inventory
        self._timeout = timeout
        self._controls = Controls(self._control)
        self._locks = [threading.Lock() for _ in range(_STRIPES)]
        self._warnings: list[str] | None = None
        self._warnings_lock = threading.Lock()

    @property
    def address(self) -> str:
        """The broker's address, as written."""
        return self._address.text

    def check(self) -> None:
        """See :meth:`speck.binder.BrokerBinder.check`."""
        self._controls.ask(refuse_unfit, fresh=True)

    def warnings(self) -> list[str]:
        """See :meth:`speck.binder.BrokerBinder.warnings`; found out once, remembered until :meth:`close`.

        What the broker states on connecting is taken as it is; the limits that the protocol does not tell
        are tried out with a session of our own.  Whether a broker keeps sessions over its own restart
        (Mosquitto's ``persistence``) can neither be asked nor tried, and is not said.
        """
        with self._warnings_lock:
            if self._warnings is None:
                self._warnings = self._find_warnings()
            return list(self._warnings)

    def checkup(self) -> Checkup:
        """Version and limits, as far as the broker tells them; MQTT knows no clock."""
        with self._control() as control:
            return _checkup(control)

    def ensure_session(self, session: str, topic: str) -> None:
        """See :meth:`speck.binder.BrokerBinder.ensure_session`."""
        _check_filter(topic)
        with self._lock(session):
            others = self._controls.ask(lambda control: _widen(control, session, topic))
            self._subscribe(session, topic, others)
            if others:
                self._controls.ask(lambda control: _write(control, note_topic(session), {"topics": [topic]}))

    def session_exists(self, session: str) -> bool:
        """See :meth:`speck.binder.BrokerBinder.session_exists`."""
        with self._lock(session), self._session(session) as connection:
            exists = connection.session_present
            # Asking made a session where there was none: it goes with the connection.
            connection.disconnect(None if exists else 0)
            return exists

    def delete_session(self, session: str) -> None:
        """See :meth:`speck.binder.BrokerBinder.delete_session`."""
        with self._lock(session), self._connection(session) as connection:
            # A clean start without expiry: what the broker held is gone, and nothing is left behind.  The
            # fence goes last, so that an older copy of the job stays out until then.
            connection.publish(note_topic(session), b"", retain=True)
            connection.publish(fence_topic(session), b"", retain=True)

    def fence(self, session: str, attempt: int) -> None:
        """See :meth:`speck.binder.BrokerBinder.fence`; a fence that names a newer attempt stays."""
        with self._lock(session):
            self._controls.ask(lambda control: _raise_fence(control, session, attempt))

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
        echo = probe_topic()
        with self._lock(session), self._session(session, MOST_COUNTED + 1) as connection:
            if not connection.session_present:
                connection.disconnect(0)
                return 0
            connection.subscribe(echo, qos=0)
            connection.round_trip(echo)
            connection.unsubscribe(echo)
            topics = [message.topic for message in connection.received]
            return min(MOST_COUNTED, sum(not topic.startswith(drain_topic("")) for topic in topics))

    def stored(self) -> int | None:
        """What Mosquitto says of itself every 10 s: the messages it keeps, retained ones included.

        A message that several sessions wait for counts once.  Other brokers, and one that keeps ``$SYS`` from
        us, do not say.
        """
        try:
            said = self._controls.ask(lambda control: control.retained(_STORED_TOPIC, probe_topic()))
        except Rejected:
            return None
        return int(said) if said is not None and said.isdigit() else None

    def close(self) -> None:
        """Forget what was found out, and end the connections that were kept."""
        with self._warnings_lock:
            self._warnings = None
        self._controls.close()

    # --- inside ------------------------------------------------------------------------------------

    def _login(self) -> Login:
        return self._inventory.broker_login(self._address.text)

    def _lock(self, session: str) -> threading.Lock:
        return self._locks[hash(session) % _STRIPES]

    def _connection(self, client_id: str, more: float = 0, **options: Any) -> Connection:
        return Connection(self._address, self._login(), client_id, timeout=self._timeout + more, **options)

    def _control(self) -> Connection:
        return self._connection(f"speck-control-{uuid.uuid4().hex}")

    def _session(self, session: str, receive_maximum: int = 1) -> Connection:
        # Receive Maximum 1: what waits in the session is not ours, and as little of it as can be is sent.
        return self._connection(session, clean_start=False, expiry=FOREVER, receive_maximum=receive_maximum)

    def _subscribe(self, session: str, topic: str, others: list[str]) -> None:
        with self._session(session) as connection:
            _refuse_short_expiry(connection)
            connection.subscribe(topic)
            for other in others:
                connection.unsubscribe(other)

    def _find_warnings(self) -> list[str]:
        stated = self._controls.ask(lambda control: stated_warnings(control.limits), fresh=True)
        return stated + probe_warnings(self._address, self._login(), probe_topic(), self._timeout)


def _checkup(control: Connection) -> Checkup:
    said: bytes | None = None
    with suppress(Rejected):  # not everybody may read what a broker says of itself
        said = control.retained(VERSION_TOPIC, probe_topic())
    version = said.decode(errors="replace") if said else "MQTT 5"
    return Checkup(version=version, limits=stated_limits(control.limits))


def _widen(control: Connection, session: str, topic: str) -> list[str]:
    """Note that a session may be subscribed to this filter; answers the others that are noted."""
    refuse_unfit(control)
    noted = _noted_filters(_retained(control, note_topic(session)))
    if topic not in noted:
        _write(control, note_topic(session), {"topics": sorted({*noted, topic})})
    return [each for each in noted if each != topic]


def _raise_fence(control: Connection, session: str, attempt: int) -> None:
    refuse_unfit(control)
    if _number(_retained(control, fence_topic(session)).get("attempt")) < attempt:
        _write(control, fence_topic(session), {"attempt": attempt})


def _retained(control: Connection, topic: str) -> dict[str, Any]:
    """The JSON object retained on a topic; empty when there is none, or another thing."""
    payload = control.retained(topic, probe_topic())
    try:
        content = json.loads(payload) if payload is not None else {}
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _write(control: Connection, topic: str, content: dict[str, Any]) -> None:
    control.publish(topic, json.dumps(content).encode(), retain=True)


def _noted_filters(note: dict[str, Any]) -> list[str]:
    topics = note.get("topics")
    return [each for each in topics if isinstance(each, str)] if isinstance(topics, list) else []


def _number(value: object) -> int:
    return value if isinstance(value, int) else -1


def _refuse_short_expiry(connection: Connection) -> None:
    # MQTT 5, 3.2.2.3.2: a server that keeps sessions for less than was asked for says for how long.
    expiry = getattr(connection.limits, "SessionExpiryInterval", FOREVER)
    if expiry != FOREVER:
        raise connection.refused(
            "to keep a session until it is deleted",
            f"it keeps one for {expiry} s (raise the broker's limit for the expiry of sessions)",
        )


def _check_filter(topic: str) -> None:
    levels = topic.split("/")
    last = len(levels) - 1
    faulty = (
        not topic
        or "\0" in topic
        or len(topic.encode()) > _LONGEST_TOPIC
        or any("#" in level and (level != "#" or place < last) for place, level in enumerate(levels))
        or any("+" in level and level != "+" for level in levels)
    )
    if faulty:
        shown = topic if len(topic) <= 100 else topic[:100] + "..."
        message = (
            f"{shown!r} is not a topic filter (1 to {_LONGEST_TOPIC} bytes; "
            "'+' stands for a whole level, '#' for the whole rest)"
        )
        raise InvalidInput([Fault(message, field="source_topic", value=shown)], "topic filter")
