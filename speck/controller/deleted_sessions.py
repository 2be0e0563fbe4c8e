"""Looks again for sessions that were deleted: a broker that loses power comes back as it was last saved.

Mosquitto saves its memory every ``autosave_interval``, 30 minutes by default.  A session that was deleted in
between comes back with its note: it collects messages that nobody reads, and once the broker stores much,
writers wait for its reader.  So each deletion is recorded, and the notes at its broker are read again some
time later; a session that is back is deleted by the reaper as an abandoned one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from speck.binder.pool import BinderPool
from speck.errors import BinderError
from speck.store import Store, Transaction
from speck.store.abandoned import LOOKS, DeletedSession

RETRY = 600.0  # s, after which a broker that did not answer is asked again
KEPT = 28 * 86_400.0  # s, for a broker that does not answer; a tombstone is kept as long


@dataclass(frozen=True)
class DeletedSessions:
    """Looks at brokers for sessions that this store has deleted.  ``clock`` returns Unix time, s."""

    store: Store
    pool: BinderPool
    clock: Callable[[], float]

    def due(self) -> Mapping[str, Sequence[DeletedSession]]:
        """The sessions to be looked for now, by broker."""
        now = self.clock()
        found: dict[str, list[DeletedSession]] = defaultdict(list)
        for each in self.store.deleted_sessions():
            if now >= each.due:
                found[each.broker].append(each)
        return found

    def ahead(self) -> Sequence[DeletedSession]:
        """The sessions whose times lie further ahead than they may: the clock was set back since."""
        now = self.clock()
        found = self.store.deleted_sessions()
        return [each for each in found if each.at > now or each.due > now + max(*LOOKS, RETRY)]

    def correct_times(self) -> None:
        """Count the times of sessions that lie too far ahead from now on."""
        ahead, now = self.ahead(), self.clock()
        if ahead:
            with self.store.transaction() as transaction:
                for each in ahead:
                    at, due = min(each.at, now), now + LOOKS[each.looks]
                    transaction.put_deleted_session(replace(each, at=at, due=due))

    def look(self, address: str, sessions: Sequence[DeletedSession]) -> None:
        """Look for sessions at their broker.  Raises a :class:`~speck.errors.BinderError`."""
        try:
            notes = self.pool.broker(address).owned_sessions()
        except BinderError:
            self._postpone(sessions)
            raise
        own = {each.session for each in notes if each.owner == self.store.identity}
        with self.store.transaction() as transaction:
            for each in sessions:
                self._settle(transaction, each, is_back=each.name in own)

    def forget_old(self) -> None:
        """Forget the sessions at brokers that have not answered for weeks."""
        old = [each for each in self.store.deleted_sessions() if self.clock() >= each.at + KEPT]
        if old:
            with self.store.transaction() as transaction:
                for each in old:
                    transaction.forget_deleted_session(each)

    def forget_used(self) -> None:
        """Keep the sessions that are back if a job has one of that name again."""
        if any(each.returned for each in self.store.abandoned_sessions()):
            with self.store.transaction() as transaction:
                for each in self.store.abandoned_sessions():
                    if each.returned and self._is_used(each.broker, each.name):
                        transaction.delete_abandoned_session(each)

    def _is_used(self, broker: str, name: str) -> bool:
        sessions = (each for job in self.store.jobs() for each in job.sessions)
        return any((each.broker, each.name) == (broker, name) for each in sessions)

    def _postpone(self, sessions: Sequence[DeletedSession]) -> None:
        due = self.clock() + RETRY
        with self.store.transaction() as transaction:
            for each in sessions:
                transaction.put_deleted_session(replace(each, due=due))

    def _settle(self, transaction: Transaction, session: DeletedSession, *, is_back: bool) -> None:
        taken = session.name in self.store.abandoned_names(session.broker)
        used = taken or self._is_used(session.broker, session.name)
        if is_back and not used:
            transaction.put_abandoned_session(session.returned())
        if not (is_back or used) and (later := session.looked_for()) is not None:
            transaction.put_deleted_session(later)
        else:
            transaction.forget_deleted_session(session)
