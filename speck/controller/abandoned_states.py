"""The states that an abandoned copy leaves: kept for its job where they are the newest, else deleted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

from speck.apply.job_events import StateRecovered
from speck.apply.job_state import lifecycle_of, write
from speck.binder import Capability, EngineBinder
from speck.binder.pool import BinderPool
from speck.core.runtime import Handle, JobState, State
from speck.errors import BinderError, OutcomeUnknown, Unreachable
from speck.store import AttemptRecord, JobRecord, Store
from speck.store.abandoned import AbandonedAttempt

_log = logging.getLogger(__name__)

_HAS_PLACE = {Capability.TRANSFER, Capability.OFFLINE_STATE}  # one place for a copy's state, which is known


@dataclass(frozen=True)
class AbandonedStates:
    """The states of one abandoned copy; ``count`` notes a call to its engine by its name."""

    store: Store
    pool: BinderPool
    abandoned: AbandonedAttempt
    count: Callable[[str], None]

    @property
    def _engine(self) -> EngineBinder:
        return self.pool.engine_at(self.abandoned.engine, self.abandoned.address)

    @property
    def _job(self) -> JobRecord | None:
        return self.store.job(self.abandoned.attempt.job_name)

    def _attempts(self) -> list[AttemptRecord]:
        return self.store.attempts(self.abandoned.attempt.job_name)

    def keep_left(self) -> None:
        """Keep the state of a copy that is lost, if it is the job's newest.

        Raises :class:`~speck.errors.Unreachable` and :class:`~speck.errors.OutcomeUnknown`: an older state
        than the newest would lose what the copy has acknowledged since.
        """
        job, handle = self._job, self.abandoned.handle
        if job is None or job.state_source != self.abandoned.key or handle is None:
            return
        if Capability.OFFLINE_STATE not in self._engine.capabilities:
            return
        try:
            state = self._engine.left_state(handle)
        except (Unreachable, OutcomeUnknown):
            raise  # over the uplink of a site: the attempt stays in the store, and is tried again
        except BinderError as error:
            self.note_missing(error)
            return
        if state is not None:
            self._keep(state)

    def note_missing(self, error: BinderError) -> None:
        """Log that the state of the copy was not found."""
        _log.warning("the state of attempt %s cannot be found: %s", self.abandoned.key, error)

    def keep_or_drop(self, state: State | None) -> None:
        """Delete the state that the copy has left at its end, if its job has another one.

        A stop that is repeated, after a crash or a lost answer, may answer the state that the copy itself
        began from: that one is not its own.
        """
        disposes = Capability.DISPOSE in self._engine.capabilities
        if state is None or not disposes or self._is_needed(state):
            return
        if self._has_newer() or not self._keep(state):
            self._drop(self._engine.dispose_state, state)

    def delete_place(self, handle: Handle) -> None:
        """Delete the one place to which the copy has written its state, unless another copy uses it."""
        capabilities = self._engine.capabilities
        if Capability.DISPOSE in capabilities or not _HAS_PLACE.issubset(capabilities):
            return
        try:
            place = self._engine.left_state(handle)
        except (Unreachable, OutcomeUnknown):
            raise
        except BinderError:  # there is none any more
            return
        if place is not None and not self._is_used(place):
            self._drop(self._engine.delete_state, place)

    def _is_used(self, place: State) -> bool:
        """True if a job starts from a place, or another copy writes to it, as one that started from there."""
        name = self.abandoned.attempt.job_name
        others = [each for each in self.store.abandoned_attempts() if each.key != self.abandoned.key]
        same = [each for each in others if each.attempt.job_name == name]
        copies: list[AttemptRecord | AbandonedAttempt] = [*self._attempts(), *same]
        written = {text for each in copies if each.handle for text in each.handle.details.values()}
        job = self._job
        known = (job.state, job.rollback_state, *job.retained_states, *job.garbage_states) if job else ()
        return place.location in written | _locations((*known, *(each.attempt.state for each in copies)))

    def _has_newer(self) -> bool:
        """True if a copy of the job runs whose state can be found."""
        for record in self._attempts():
            if record.handle is None:
                continue
            with suppress(BinderError):
                engine = self.pool.engine_at(self.abandoned.engine, record.handle.address)
                runs = engine.status(record.handle).state is JobState.RUNNING
                if runs and engine.left_state(record.handle):
                    return True
        return False

    def _keep(self, state: State) -> bool:
        """Keep the state that the copy has left like that of any stop; False if its job is gone by now."""
        name, composition = self.abandoned.attempt.job_name, self.abandoned.composition
        recovered = StateRecovered(self.abandoned.attempt, replace(state, address=self.abandoned.address))
        with self.store.transaction() as transaction:
            job = self.store.job(name)
            if job is None or job.composition != composition:
                return False
            write(transaction, lifecycle_of(self.store, name, composition), recovered)
        return True

    def _drop(self, delete: Callable[[State], None], state: State) -> None:
        self.count(delete.__name__)
        try:
            delete(state)
        except (Unreachable, OutcomeUnknown):
            raise  # the attempt stays in the store, and is tried again
        except BinderError as error:
            key = self.abandoned.key
            _log.warning("the state of attempt %s is left at %s: %s", key, state.location, error)

    def _is_needed(self, state: State) -> bool:
        job = self._job
        begun = [self.abandoned.attempt.state, *(each.attempt.state for each in self._attempts())]
        known = (job.state, job.rollback_state, *job.retained_states, *job.garbage_states) if job else ()
        return state.location in _locations((*begun, *known))


def _locations(states: Iterable[State | None]) -> set[str]:
    return {each.location for each in states if each is not None}
