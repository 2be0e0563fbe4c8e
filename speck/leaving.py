"""Copies of jobs that are left behind at engines out of reach, because the user said so.

The copy may be at work there.  So its state is found without its engine, the fence at its source broker
is raised above it, and its session is taken over: a copy that reads loses its connection, looks at the
fence, and ends for good.  From then on it is no attempt of its job any more, but stays in the store until
its engine has said that it runs no more; the loop asks, and every later apply.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from speck.binder import DisposesStates, EngineBinder, LeavesState
from speck.errors import BinderError, Fault, InvalidInput, NoAnswer, Refused, SpeckError, Unreachable
from speck.inventory import Inventory
from speck.model import Attempt, Handle, Job, JobState, State
from speck.pool import BinderPool
from speck.store import AttemptRecord, Event, Store

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeftCopy:
    """A copy that may run at an engine which nobody asked; ``handle`` is missing when it was never told."""

    composition: str
    engine: str
    address: str
    source_broker: str
    attempt: Attempt
    handle: Handle | None = None

    @property
    def key(self) -> str:
        """What the store keeps it under."""
        return self.attempt.id

    def to_dict(self) -> dict[str, Any]:
        """The copy as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LeftCopy:
        """The inverse of :meth:`to_dict`."""
        attempt, handle = dict(data["attempt"]), data["handle"]
        attempt["state"] = State(**attempt["state"]) if attempt["state"] else None
        parts = {"attempt": Attempt(**attempt), "handle": Handle(**handle) if handle else None}
        return cls(**{**data, **parts})


def left_copies(store: Store) -> list[LeftCopy]:
    """All copies that were left behind and are not known to have ended."""
    return [LeftCopy.from_dict(each) for each in store.left_behind()]


def addresses_of(names: Iterable[str], inventory: Inventory, deployed: Iterable[Job]) -> frozenset[str]:
    """The engines' addresses that sites or addresses name; raises :class:`InvalidInput` for other names."""
    known = {job.spe_address for job in deployed}
    known |= {engine.spe_address for site in inventory.sites.values() for engine in site.engines}
    found: set[str] = set()
    faults = []
    for name in names:
        site = inventory.sites.get(name)
        if site is not None:
            found |= {engine.spe_address for engine in site.engines}
        elif name in known:
            found.add(name)
        else:
            message = f"{name!r} is no site, and no address of an engine (see: speck sites)"
            faults.append(Fault(message, value=name))
    if faults:
        raise InvalidInput(faults, "what is to be left behind")
    return frozenset(found)


@dataclass(frozen=True)
class Leaver:
    """Leaves copies of one composition behind at the engines of ``addresses``, and stops those left before.

    ``count`` is told of each call to an engine; ``event`` makes an event of a kind, a job and a message.
    """

    store: Store
    pool: BinderPool
    composition: str
    addresses: frozenset[str]
    count: Callable[[str], None]
    event: Callable[[str, str, str], Event]

    def leaves(self, form: Job) -> bool:
        """Whether what runs in this form is to be left behind."""
        return form.spe_address in self.addresses

    def state_of(self, record: AttemptRecord, form: Job) -> State | None:
        """The newest state of a copy, found without its engine; raises :class:`Refused` if that cannot be."""
        binder = self.pool.engine_at(form.engine, form.spe_address)
        if record.handle is None or not isinstance(binder, LeavesState):
            raise Refused(
                f"the state of job {form.job_name!r} cannot be found without {form.spe_address} "
                "(wait until it can be reached, or write 'upgrade: stateless' to start without the state)",
                address=form.spe_address,
            )
        return binder.left_state(record.handle)

    def leave(self, record: AttemptRecord, form: Job) -> None:
        """Shut a copy out of its session, and keep it in the store as left behind."""
        attempt = record.attempt
        broker = self.pool.broker(form.source_broker)
        broker.fence(attempt.session, attempt.number + 1)
        broker.ensure_session(attempt.session, form.source_topic)
        copy = LeftCopy(
            self.composition, form.engine, form.spe_address, form.source_broker, attempt, record.handle
        )
        message = f"job {form.job_name!r}: attempt {attempt.number} was left behind at {form.spe_address}"
        with self.store.transaction() as transaction:
            transaction.delete_attempt(attempt)
            transaction.put_left_behind(copy.key, copy.to_dict())
            transaction.add_event(self.event("left", form.job_name, message))

    def keep_out(self, job_name: str) -> None:
        """The fence of a job went with its session: raise it again where a copy may come back to read."""
        for copy in left_copies(self.store):
            if copy.attempt.job_name == job_name:
                self.pool.broker(copy.source_broker).fence(copy.attempt.session, copy.attempt.number + 1)

    def settle(self) -> None:
        """Stop what was left behind at engines that answer again; what cannot be stopped waits."""
        silent = set(self.addresses)
        for copy in left_copies(self.store):
            if copy.address in silent:
                continue
            try:
                self._end(copy)
            except SpeckError as error:
                silent.add(copy.address)
                _log.info("attempt %s, left behind at %s: %s", copy.key, copy.address, error)

    def _end(self, copy: LeftCopy) -> None:
        name = copy.attempt.job_name
        engine = self.pool.engine_at(copy.engine, copy.address)
        handle = copy.handle
        if handle is None:
            self.count("find")
            handle = engine.find(copy.attempt)
        status = engine.status(handle) if handle is not None else None
        if status is not None and status.state is JobState.UNKNOWN:
            raise NoAnswer(status.message, address=copy.address)
        if handle is not None and status is not None and status.state is not JobState.LOST:
            self.count("stop")
            # With its state, for a copy that was stopped without may have its last checkpoint deleted, from
            # which the new copy began.
            self._drop(engine, copy, engine.stop(handle, True))
        if self.store.job(name) is None:
            self.pool.broker(copy.source_broker).delete_session(copy.attempt.session)
        message = f"job {name!r}: attempt {copy.attempt.number}, left behind at {copy.address}, has ended"
        with self.store.transaction() as transaction:
            transaction.delete_left_behind(copy.key)
            transaction.add_event(replace(self.event("stopped", name, message), composition=copy.composition))

    def _drop(self, engine: EngineBinder, copy: LeftCopy, state: State | None) -> None:
        """Delete the state that a copy has left in the end, which nobody will start from.

        Asked again after a crash, or no answer, a stop may answer what the copy itself began from: that is
        not its own.
        """
        if state is None or not isinstance(engine, DisposesStates) or self._is_needed(copy, state):
            return
        self.count("dispose_state")
        try:
            engine.dispose_state(state)
        except (Unreachable, NoAnswer):
            raise  # the copy stays in the store, and is asked about again
        except BinderError as error:
            _log.warning("the state of attempt %s is left at %s: %s", copy.key, state.location, error)

    def _is_needed(self, copy: LeftCopy, state: State) -> bool:
        name = copy.attempt.job_name
        job = self.store.job(name)
        begun = [copy.attempt.state, *(each.attempt.state for each in self.store.attempts(name))]
        known = [*begun, *((job.state, *job.saved, *job.left) if job else ())]
        return state.location in [each.location for each in known if each is not None]
