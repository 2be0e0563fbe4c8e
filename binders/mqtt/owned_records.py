"""Changes of the records of sessions on behalf of their owner; see :mod:`binders.mqtt.records`.

The note of a session is extended before a subscription is added and shortened after one was removed, so that
it lists every filter that the session may hold, whenever this process ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from binders.mqtt.connection import Connection
from binders.mqtt.limits import reject_unfit
from binders.mqtt.records import (
    MqttSessionRecords,
    hand_over,
    write_fence,
    write_note,
    write_tombstone,
    write_writers,
)


class OwnedRecords:
    """The records at one broker, with the store that owns sessions there (``owner``; empty: none).

    Methods that read a record raise :class:`~speck.errors.SessionOfAnother` for one of another owner.
    """

    def __init__(self, address: str) -> None:
        self.owner = ""
        self._address = address

    def read(self, control: Connection, session: str) -> MqttSessionRecords:
        """The records of a session."""
        records = MqttSessionRecords.read(control, session)
        records.reject_foreign(self.owner, self._address)
        return records

    def begin_note(
        self, control: Connection, session: str, topic: str, *, pending: bool = False
    ) -> MqttSessionRecords:
        """Add a filter to a session's note; return its former records.

        The note is pending from then on if it was not complete, or if ``pending``.
        """
        reject_unfit(control)
        found = self.read(control, session)
        complete = found.is_complete(topic) and not pending
        if not complete or not self._is_named(found):
            write_note(control, session, {*found.topics, topic}, self.owner, pending=not complete)
        return found

    def complete_note(self, control: Connection, session: str, topic: str) -> None:
        """Note that a session holds this filter alone."""
        write_note(control, session, [topic], self.owner)

    def claim(self, control: Connection, session: str, topic: str) -> None:
        """Name the owner in a session's note, which is written again if the broker has lost it."""
        records = self.read(control, session)
        # No note: the broker has lost it, perhaps with the session.  The next attempt raises a fence, and a
        # reader takes a fence alone for that of a session that was deleted.
        lost = not records.note and not records.deleted
        if lost or (records.note and not self._is_named(records)):
            pending = lost or records.pending
            write_note(control, session, records.topics or [topic], self.owner, pending=pending)

    def adopt(self, control: Connection, session: str, former: str) -> None:
        """Make a session of the owner ``former`` this owner's.

        Raises :class:`~speck.errors.SessionOfAnother` for that of a third one.
        """
        records = MqttSessionRecords.read(control, session)
        if records.owner != former:
            records.reject_foreign(self.owner, self._address)
        if not records.deleted and not records.name_only(self.owner):
            hand_over(control, records, self.owner)

    def bury(self, control: Connection, session: str) -> None:
        """Replace the fence of a session by a tombstone."""
        write_tombstone(control, self.read(control, session), self.owner)

    def name_writers(self, control: Connection, session: str, writers: Sequence[str]) -> None:
        """Write the list of the jobs whose stamps the session's reader believes."""
        self.read(control, session)
        write_writers(control, session, writers)

    def raise_fence(self, control: Connection, session: str, attempt: int) -> None:
        """Admit ``attempt`` to a session, unless its fence names a newer one."""
        reject_unfit(control)
        records = self.read(control, session)
        if records.deleted or records.fenced < attempt:
            write_fence(control, session, max(records.fenced, attempt), self.owner)

    def _is_named(self, records: MqttSessionRecords) -> bool:
        """True if the note names the owner, where there is one to name."""
        return records.note.get("owner", "") == self.owner or not self.owner
