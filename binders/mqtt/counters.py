"""Mosquitto's own counters, which it publishes below ``$SYS``; reading them touches no session.

It publishes a counter when it has changed, or after its start, as a retained message that expires after a
minute.  So a counter that is missing is unchanged since it was read, if that is less than a minute ago.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress

from binders.mqtt.connection_cache import ConnectionCache
from binders.mqtt.retained import retained_all
from speck.core.clocks import Clock
from speck.errors import Rejected

# Messages, and bytes of payloads, in its store; messages that it dropped since a session was full.
STORED = "$SYS/broker/store/messages/count"
STORED_BYTES = "$SYS/broker/store/messages/bytes"
DROPPED = "$SYS/broker/publish/messages/dropped"
_ALL = (STORED, STORED_BYTES, DROPPED)

_KEPT = 55.0  # s, a little less than the minute


class Counters:
    """The counters of one broker; each request reads all of them, so that none is missing for long.

    ``clock`` is steady, s.
    """

    def __init__(self, cache: ConnectionCache, clock: Clock = time.monotonic) -> None:
        self._cache = cache
        self._clock = clock
        self._last: dict[str, tuple[float, int | None]] = {}  # the time and the value, by topic

    def value(self, topic: str) -> int | None:
        """A counter; ``None`` at a broker without it, if access is denied, or if it is not known any more."""
        with suppress(Rejected):  # by access control, perhaps of another counter
            return self._read(_ALL)[topic]
        with suppress(Rejected):
            return self._read((topic,))[topic]
        return None

    def _read(self, topics: Sequence[str]) -> dict[str, int | None]:
        now = self._clock()
        contents = self._cache.run(lambda control: retained_all(control, topics))
        return {
            topic: self._counted(topic, content, now) for topic, content in zip(topics, contents, strict=True)
        }

    def _counted(self, topic: str, content: bytes | None, now: float) -> int | None:
        """The value in a message; without one the last value, if it was read within the last minute."""
        if content is not None:
            count = int(content) if content.isdigit() else None
        else:
            when, last = self._last.get(topic, (now, None))
            count = last if now - when <= _KEPT else None
        self._last[topic] = (now, count)
        return count
