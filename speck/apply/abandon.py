"""Abandons attempts and sessions at engines and brokers out of reach, at a user's request.

A copy may still run at such an engine.  So the fence at its source broker is raised above it, and its
session is taken over: a reading copy loses its connection, reads the fence, and ends.  Only then its
state is found, without its engine, so that all that it has acknowledged is in that state.  When its broker is
abandoned as well, the fence remains to be raised, and the session to be deleted.  What is abandoned belongs
to its job no more, but stays in the store until its engine answers that the copy has ended and its broker
that the session is deleted (:mod:`speck.controller.reaper`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from speck.apply import job_events
from speck.apply.context import OperationContext
from speck.apply.job_events import AttemptAbandoned, SessionsDetached
from speck.binder import Capability
from speck.binder.pool import BinderPool
from speck.core.inventory import Inventory, Site
from speck.core.job import Job, form_fingerprint
from speck.core.lifecycle import EventKind
from speck.core.runtime import Attempt, Handle, State
from speck.core.waiting import MOST_COUNTED, count_text, exact_text
from speck.errors import Fault, InvalidInput, Rejected
from speck.store import AttemptRecord, JobRecord, SessionRecord, Store, Transaction
from speck.store.abandoned import AbandonedAttempt, AbandonedSession


def shut_out(store: Store, pool: BinderPool, session: AbandonedSession) -> None:
    """Fence the abandoned copies that read through a session and take it over, so that they end."""
    number = store.fence_above(session.broker, session.name)
    if number:
        broker = pool.broker(session.broker)
        broker.fence(session.name, number)
        broker.ensure_session(session.name, session.topic)


def dropped_text(waiting: int, session: SessionRecord | AbandonedSession) -> str:
    """The number of messages that are deleted with a session, in words."""
    # Engines acknowledge a batch when they begin the next one: the last may be among those that wait.
    most = "" if waiting == MOST_COUNTED else "at most "
    return f"discarded: {most}{count_text(waiting)} that waited at {session.topic!r} of {session.broker}"


def lost_text(session: SessionRecord) -> str:
    """The messages that are given up with a session which its broker has lost, in words."""
    where = f"{session.topic!r} of {session.broker}"
    return f"discarded: messages at {where}, which had lost the job's session (number unknown)"


def deletion_text(session: AbandonedSession, *, uncounted: bool = False) -> str:
    """The deletion of an abandoned session, in words, with the number of messages that are lost with it.

    ``uncounted``: the number of those that its broker had not saved is not known.
    """
    what = f"session {session.name!r}, abandoned at {session.broker}, was deleted"
    if session.returned:
        what = f"session {session.name!r} was deleted again, since broker {session.broker} had lost that"
    not_saved = "that the broker had acknowledged and not saved"
    parts = [dropped_text(session.waiting, session)] if session.waiting else []
    if session.unsaved:
        parts.append(f"lost: at most {exact_text(session.unsaved)} to {session.topic!r} {not_saved}")
    if uncounted:
        parts.append(f"not counted: messages {not_saved}, if it was killed or lost power")
    return f"{what} ({'; '.join(parts)})" if parts else what


def addresses_of(names: Iterable[str], inventory: Inventory, used: Iterable[str] = ()) -> frozenset[str]:
    """The addresses of the engines and brokers that are named, by site, broker or address.

    A site's broker is among them unless it also belongs to a site that is not named.  ``used`` are addresses
    that are known besides those of the inventory.  Raises :class:`InvalidInput` for other names.
    """
    given = list(names)
    known = {*used, *(address for site in inventory.places() for address in _engines(site) | _broker(site))}
    found: set[str] = set()
    faults = []
    for name in given:
        site, broker = inventory.sites.get(name), inventory.brokers.get(name)
        if site is not None:
            others = (each for each in inventory.sites.values() if each.name not in given)
            found |= _engines(site) | _broker(site) - {each.broker_address for each in others}
        elif broker is not None:
            found.add(broker.broker_address)
        elif name in known:
            found.add(name)
        else:
            message = f"{name!r} is not a site, nor the address of an engine or a broker (see speck sites)"
            faults.append(Fault(message, value=name))
    if faults:
        raise InvalidInput(faults, "--leave-behind")
    return frozenset(found)


def _engines(site: Site) -> set[str]:
    return {engine.spe_address for engine in site.engines}


def _broker(site: Site) -> set[str]:
    return {site.broker_address}


def refuse_use(composition: str, desired: Iterable[Job], abandoned: Collection[str]) -> None:
    """Raise :class:`InvalidInput` when jobs are to read or write at brokers that are to be abandoned.

    A reader would lose its session there, and a writer would wait in vain.
    """
    faults = [
        Fault(
            f"{field} {address} is treated as lost (choose another broker; or, if this one is reachable, "
            "name only the address of the lost engine)",
            job=job.job_name,
            field=field,
            value=address,
        )
        for job in desired
        for field, address in (("source_broker", job.source_broker), ("sink_broker", job.sink_broker))
        if address in abandoned
    ]
    if faults:
        raise InvalidInput(faults, f"composition {composition!r}")


@dataclass(frozen=True)
class Abandoner:
    """Abandons what the jobs of one operation have at engines and brokers that are left behind."""

    context: OperationContext

    def state_of(self, record: AttemptRecord, form: Job) -> State | None:
        """The newest state of a copy, found without its engine; raises :class:`Rejected` if that fails."""
        return self._state_without_engine(form.engine, form.spe_address, record.attempt, record.handle)

    def newest_state(self, abandoned: AbandonedAttempt) -> State | None:
        """The newest state of an abandoned copy, as of :meth:`state_of`."""
        return self._state_without_engine(
            abandoned.engine, abandoned.address, abandoned.attempt, abandoned.handle
        )

    def _state_without_engine(
        self, engine: str, address: str, attempt: Attempt, handle: Handle | None
    ) -> State | None:
        binder = self.context.pool.engine_at(engine, address)
        if handle is None or Capability.OFFLINE_STATE not in binder.capabilities:
            raise Rejected(
                f"the state of job {attempt.job_name!r} cannot be found without {address} "
                "(wait until it can be reached, or write 'upgrade: stateless' to start without the state)",
                address=address,
            )
        return binder.left_state(handle)

    def abandon(self, record: AttemptRecord, form: Job, *, keep_state: bool) -> None:
        """Shut a copy out of its session if its broker is there; record it as abandoned, with its state."""
        attempt, context = record.attempt, self.context
        if form.source_broker not in context.left_behind:
            broker = context.pool.broker(form.source_broker)
            broker.fence(attempt.session, attempt.number + 1)
            # The next copy finds a session that is made here, and cannot know that the broker had lost it.
            broker.restore_session(attempt.session, form.source_topic)
        composition = context.operation.composition
        abandoned = AbandonedAttempt(
            composition, form.engine, form.spe_address, form.source_broker, attempt, record.handle
        )
        message = f"job {form.job_name!r}: attempt {attempt.number} was abandoned at {form.spe_address}"
        state = self.state_of(record, form) if keep_state else None
        changing = keep_state and Capability.DISPOSE in context.pool.engine(form).capabilities
        gone = AttemptAbandoned(attempt, form_fingerprint(form), state, changing)
        with self.advance(attempt.job_name, gone) as transaction:
            transaction.put_abandoned_attempt(abandoned)
            transaction.add_event(context.event(EventKind.ABANDONED, form.job_name, message))

    @contextmanager
    def advance(self, name: str, *events: job_events.Event) -> Iterator[Transaction]:
        """Write the transitions of a job that loses a copy, and with it its sessions at brokers left behind.

        One write: the sessions are detached, what the block adds is written, the sessions are abandoned.
        """
        lost = tuple(each for each in self.context.record(name).sessions if self._is_lost(each))
        with self.context.advance(name, *events, SessionsDetached(lost)) as transaction:
            yield transaction
            self._put_abandoned(transaction, name, lost)

    def abandon_sessions(self, job: JobRecord, sessions: Iterable[SessionRecord]) -> list[SessionRecord]:
        """Abandon those of a job's sessions that it cannot delete itself; returns the others.

        They are at brokers that are abandoned, or abandoned copies may come back to read through them.
        """
        asked, store = list(sessions), self.context.store
        abandoned = tuple(
            each for each in asked if self._is_lost(each) or store.fence_above(each.broker, each.name)
        )
        if abandoned:
            with self.context.advance(job.name, SessionsDetached(abandoned)) as transaction:
                self._put_abandoned(transaction, job.name, abandoned)
        return [each for each in asked if each not in abandoned]

    def _put_abandoned(self, transaction: Transaction, job: str, sessions: Collection[SessionRecord]) -> None:
        """Record sessions as abandoned, with an event for those whose messages cannot be counted."""
        for session in sessions:
            broker, lost = session.broker, self._is_lost(session)
            composition = self.context.operation.composition
            abandoned = AbandonedSession(
                composition, job, broker, session.name, session.topic, fenced=not lost
            )
            transaction.put_abandoned_session(abandoned)
            if lost:
                where = f"{session.topic!r} of {broker}"
                text = f"discarded: messages at {where}, which was abandoned (number unknown)"
                self.context.operation.note(job, text)
                event = self.context.event(EventKind.DROPPED, job, f"job {job!r}: {text}")
                transaction.add_event(replace(event, session=abandoned.key))

    def _is_lost(self, session: SessionRecord) -> bool:
        return session.broker in self.context.left_behind
