"""The drifts of jobs as they last: each from the round that first found it, with the reason why it waits.

The audit log gets an event when a drift begins or becomes another one, and when its job runs as desired
again; between the two, a round reports nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, field, replace

from speck.controller.drift import Drifted
from speck.core.lifecycle import EventKind
from speck.core.runtime import JobState, JobStatus
from speck.errors import StoreError
from speck.observe.metrics import Metrics
from speck.store import Event, Store
from speck.store.deployments import Snapshot


@dataclass(frozen=True, slots=True)
class DriftNote:
    """A job's drift, since when (Unix time, s), and the reason why its healing waits (empty: it does not)."""

    drifted: Drifted
    since: float
    waits: str = ""


@dataclass
class DriftNotes:
    """The notes of all jobs, by name.  Written in one thread.  ``clock`` returns Unix time, s."""

    store: Store
    metrics: Metrics
    clock: Callable[[], float]
    _notes: dict[str, DriftNote] = field(default_factory=dict, init=False)

    def of(self, job: str) -> DriftNote | None:
        """The drift of a job in the last round."""
        return self._notes.get(job)

    def retain(self, jobs: Set[str]) -> None:
        """Forget all other jobs, which are gone."""
        for name in self._notes.keys() - jobs:
            del self._notes[name]

    def set_waits(self, waits: Mapping[str, str]) -> None:
        """Set the reasons why the healing of jobs waits, by job name."""
        for name, why in waits.items():
            if name in self._notes:
                self._notes[name] = replace(self._notes[name], waits=why)

    def update(
        self, snapshot: Snapshot, statuses: Mapping[str, JobStatus], drifted: Mapping[str, Drifted]
    ) -> None:
        """Note the drifts of a composition in this round, and write the events of those that are new or over.

        Raises :class:`~speck.errors.StoreError`; the next round writes them then.
        """
        events: list[Event] = []
        names = snapshot.records.keys() | snapshot.desired.keys()
        former = {name: self._notes[name] for name in names if name in self._notes}
        for name in names:
            before, now = former.get(name), drifted.get(name)
            if now is not None:
                events += self._drift_events(snapshot, name, before, now)
            elif before is not None and _is_well(snapshot, name, statuses.get(name)):
                del self._notes[name]
                message = f"job {name!r} is back in its desired state"
                events.append(self._event(snapshot, EventKind.HEALED, name, message))
        if not events:
            return
        try:
            self.store.add_events(events)
        except StoreError:
            for name in names:
                self._notes.pop(name, None)
            self._notes |= former
            raise

    def _drift_events(
        self, snapshot: Snapshot, name: str, before: DriftNote | None, now: Drifted
    ) -> Iterable[Event]:
        if before is not None and before.drifted.drift is now.drift:
            self._notes[name] = replace(before, drifted=now)
            return
        self._notes[name] = DriftNote(now, self.clock())
        self.metrics.drifted(now.drift)
        message = f"job {name!r}: {now.drift.value}: {now.message}"
        yield self._event(snapshot, EventKind.DRIFT, name, message)

    def _event(self, snapshot: Snapshot, kind: EventKind, job: str, message: str) -> Event:
        return Event(self.clock(), kind, message, snapshot.head.name, job, automatic=True)


def _is_well(snapshot: Snapshot, name: str, status: JobStatus | None) -> bool:
    return name in snapshot.records and status is not None and status.state is JobState.RUNNING
