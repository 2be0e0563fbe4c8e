"""What is left behind at engines and brokers out of reach, because the user said so.

A copy may be at work at such an engine.  So its state is found without its engine, the fence at its source
broker is raised above it, and its session is taken over: a copy that reads loses its connection, looks at the
fence, and ends for good.  When its broker is left behind as well, that is still to be done, and the session
still to be deleted.  What was left is no part of its job any more, but stays in the store until its engine
has said that the copy runs no more, and its broker that the session is deleted
(:mod:`speck.controller.reaper`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from speck.binder import MOST_COUNTED, OfflineState
from speck.binder.pool import BinderPool
from speck.core.inventory import Inventory, Site
from speck.core.job import Job
from speck.core.runtime import State
from speck.errors import Fault, InvalidInput, Rejected
from speck.store import AttemptRecord, Event, JobRecord, SessionRecord, Store, Transaction
from speck.store.abandoned import AbandonedAttempt, AbandonedSession


def shut_out(store: Store, pool: BinderPool, session: AbandonedSession) -> None:
    """Make the copies that were left to read through a session lose it, and end."""
    number = store.fence_above(session.broker, session.name)
    if number:
        broker = pool.broker(session.broker)
        broker.fence(session.name, number)
        broker.ensure_session(session.name, session.topic)


def given_up(waiting: int, session: SessionRecord | AbandonedSession) -> str:
    """How much goes with a session that is deleted, in words."""
    # Engines acknowledge a batch when they begin the next one: the last may be among what is left.
    some = f"at most {waiting} message{'s' * (waiting > 1)}"
    many = f"{waiting} or more messages" if waiting == MOST_COUNTED else some
    return f"given up: {many} that waited at {session.topic!r} of {session.broker}"


def addresses_of(names: Iterable[str], inventory: Inventory, used: Iterable[str] = ()) -> frozenset[str]:
    """The engines' and brokers' addresses that sites, brokers or addresses name.

    A site's broker is among them unless another site has it too, that is not named.  ``used`` are addresses
    that are known besides those of the inventory.  Raises :class:`InvalidInput` for other names.
    """
    wanted = list(names)
    known = {*used, *(address for site in inventory.places() for address in _engines(site) | _broker(site))}
    found: set[str] = set()
    faults = []
    for name in wanted:
        site, broker = inventory.sites.get(name), inventory.brokers.get(name)
        if site is not None:
            others = (each for each in inventory.sites.values() if each.name not in wanted)
            found |= _engines(site) | _broker(site) - {each.broker_address for each in others}
        elif broker is not None:
            found.add(broker.broker_address)
        elif name in known:
            found.add(name)
        else:
            message = f"{name!r} is no site, and no address of an engine or a broker (see: speck sites)"
            faults.append(Fault(message, value=name))
    if faults:
        raise InvalidInput(faults, "what is to be left behind")
    return frozenset(found)


def _engines(site: Site) -> set[str]:
    return {engine.spe_address for engine in site.engines}


def _broker(site: Site) -> set[str]:
    return {site.broker_address}


def refuse_use(composition: str, wanted: Iterable[Job], left: Collection[str]) -> None:
    """Raise :class:`InvalidInput` when jobs are to read or write at brokers that are to be left behind.

    A reader would lose its session there, and a writer would wait for nobody.
    """
    faults = [
        Fault(
            f"{field} {address} is to be left behind (write another broker for it; or, if this one answers, "
            "name only what does not: the address of the engine)",
            job=job.job_name,
            field=field,
            value=address,
        )
        for job in wanted
        for field, address in (("source_broker", job.source_broker), ("sink_broker", job.sink_broker))
        if address in left
    ]
    if faults:
        raise InvalidInput(faults, f"composition {composition!r}")


@dataclass(frozen=True)
class Abandoner:
    """Leaves behind what jobs of one composition have at the engines and brokers of ``addresses``.

    ``event`` makes an event of a kind, a job and a message; ``note`` is told what the user should read about
    a job.
    """

    store: Store
    pool: BinderPool
    composition: str
    addresses: frozenset[str]
    event: Callable[[str, str, str], Event]
    note: Callable[[str, str], None]

    def leaves(self, form: Job) -> bool:
        """Whether what runs in this form is to be left behind."""
        return form.spe_address in self.addresses

    def leaves_source(self, form: Job) -> bool:
        """Whether the broker at which this form reads is to be left behind."""
        return form.source_broker in self.addresses

    def state_of(self, record: AttemptRecord, form: Job) -> State | None:
        """The newest state of a copy, found without its engine; raises :class:`Rejected` if that fails."""
        binder = self.pool.engine_at(form.engine, form.spe_address)
        if record.handle is None or not isinstance(binder, OfflineState):
            raise Rejected(
                f"the state of job {form.job_name!r} cannot be found without {form.spe_address} "
                "(wait until it can be reached, or write 'upgrade: stateless' to start without the state)",
                address=form.spe_address,
            )
        return binder.left_state(record.handle)

    def leave(self, record: AttemptRecord, form: Job) -> None:
        """Shut a copy out of its session, if its broker is there, and keep it in the store as left behind."""
        attempt = record.attempt
        if not self.leaves_source(form):
            broker = self.pool.broker(form.source_broker)
            broker.fence(attempt.session, attempt.number + 1)
            broker.ensure_session(attempt.session, form.source_topic)
        copy = AbandonedAttempt(
            self.composition, form.engine, form.spe_address, form.source_broker, attempt, record.handle
        )
        message = f"job {form.job_name!r}: attempt {attempt.number} was left behind at {form.spe_address}"
        job = self.store.job(attempt.job_name)
        with self.store.transaction() as transaction:
            transaction.delete_attempt(attempt)
            transaction.put_abandoned_attempt(copy)
            transaction.add_event(self.event("left", form.job_name, message))
            if job is not None:
                transaction.put_job(self.parted(transaction, job))

    def part(self, job: JobRecord, sessions: Iterable[SessionRecord]) -> list[SessionRecord]:
        """Leave those of a job's sessions behind that it cannot delete itself; answers the others.

        They are at brokers which are left behind, or copies that were left may come back to read there.
        """
        asked = list(sessions)
        left = [each for each in asked if self._is_left(each) or self.store.fence_above(*_key(each))]
        if left:
            with self.store.transaction() as transaction:
                transaction.put_job(self._without(transaction, job, left))
        return [each for each in asked if each not in left]

    def parted(self, transaction: Transaction, job: JobRecord) -> JobRecord:
        """The job without its sessions at brokers that are left behind; these are written as such."""
        return self._without(transaction, job, [each for each in job.sessions if self._is_left(each)])

    def _is_left(self, session: SessionRecord) -> bool:
        return session.broker in self.addresses

    def _without(
        self, transaction: Transaction, job: JobRecord, sessions: Collection[SessionRecord]
    ) -> JobRecord:
        for session in sessions:
            lost = self._is_left(session)
            left = AbandonedSession(
                self.composition, job.name, *_key(session), session.topic, fenced=not lost
            )
            transaction.put_abandoned_session(left)
            if lost:
                where = f"{session.topic!r} of {session.broker}"
                text = f"given up: what waited at {where}, which was left behind (it cannot be counted now)"
                self.note(job.name, text)
                transaction.add_event(self.event("given up", job.name, f"job {job.name!r}: {text}"))
        return replace(job, sessions=tuple(each for each in job.sessions if each not in sessions))


def _key(session: SessionRecord) -> tuple[str, str]:
    return session.broker, session.name
