"""The limits of one broker that cause message loss, found once: stated, of a session, and measured ones."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable

from binders.mqtt.address import BrokerAddress
from binders.mqtt.connection import FOREVER, Connection
from binders.mqtt.connection_cache import ConnectionCache
from binders.mqtt.limits import session_concerns, stated_concerns, stated_limits
from binders.mqtt.queue_probe import probed_concerns
from binders.mqtt.retained import VERSION_TOPIC, echo_topic, retained
from speck.core.inventory import Login
from speck.core.runtime import Checkup, Complaint
from speck.errors import Rejected


class BrokerConcerns:
    """Limits that the broker states on connecting are used as stated; others are measured with a session.

    ``connection`` opens one with a client id and options, ``login`` gives the broker's login, and ``timeout``
    (s) bounds each request.  Thread-safe.
    """

    def __init__(
        self,
        address: BrokerAddress,
        cache: ConnectionCache,
        connection: Callable[..., Connection],
        login: Callable[[], Login],
        timeout: float,
    ) -> None:
        self._address = address
        self._cache = cache
        self._connection = connection
        self._login = login
        self._timeout = timeout
        self._found: list[Complaint] | None = None
        self._lock = threading.Lock()  # the probe takes seconds: a second caller waits for its result

    def find(self, owner: str) -> list[Complaint]:
        """All concerns and remarks; ``owner`` is part of the ids of sessions.  Raises BinderError."""
        with self._lock:
            if self._found is None:
                stated, probed = self._stated(), self._probed()
                self._found = [*stated, *self._of_session(owner), *probed]
            return list(self._found)

    def forget(self) -> None:
        """Find them again at the next call."""
        with self._lock:
            self._found = None

    def _stated(self) -> list[Complaint]:
        return self._cache.run(lambda control: stated_concerns(control.limits), fresh=True)

    def _of_session(self, owner: str) -> list[Complaint]:
        """Limits that a broker states, or applies, only when a session like a job's is made."""
        # With the length and the letters of a job's session, and an expiry that ends with the connection.
        client = f"speck-probe-{uuid.uuid4().hex}:{owner or '0' * 16}"
        try:
            with self._connection(client, expiry=FOREVER) as connection:
                expiry = getattr(connection.limits, "SessionExpiryInterval", FOREVER)
                assigned = getattr(connection.limits, "AssignedClientIdentifier", client)
                connection.disconnect(0)
        except Rejected as error:
            return [
                Complaint(
                    f"it refuses a client id of the form that jobs use ({client!r}): {error} (allow ids of "
                    "256 characters of letters, digits, '.', '_', '-' and ':')"
                )
            ]
        return session_concerns(client, expiry, assigned)

    def _probed(self) -> list[Complaint]:
        version = self._cache.run(version_of)
        is_mosquitto = version is None or version.startswith("mosquitto")
        return probed_concerns(
            self._address, self._login(), echo_topic(), self._timeout, is_mosquitto=is_mosquitto
        )


def checkup_of(control: Connection) -> Checkup:
    """The version and the stated limits of a broker."""
    return Checkup(version=version_of(control) or "MQTT 5", limits=stated_limits(control.limits))


def version_of(control: Connection) -> str | None:
    """The version that the broker publishes, empty if none; ``None`` if access to it is denied."""
    try:
        payload = retained(control, VERSION_TOPIC)
    except Rejected:  # by access control
        return None
    return payload.decode(errors="replace") if payload else ""
