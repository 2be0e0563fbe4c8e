"""The slots of a Connect server: its running queries, and reservations of this process."""

from __future__ import annotations

import time

from binders.common.reservations import Reservations, no_slot, slots_taken
from binders.spark.connect.probe import ServerProbe

# s, for which the names of running queries are cached for granting a slot, but not for denying one
_FRESH = 1.0


class Slots:
    """The slots of one server, as many as the inventory gives it; ``None``: without limit."""

    def __init__(self, address: str, slots: int | None, probe: ServerProbe) -> None:
        self._address, self._slots, self._probe = address, slots, probe
        self._reservations: Reservations[int] = Reservations()
        self._names: frozenset[str] | None = None  # of running queries, as last listed
        self._listed = (float("-inf"), 0)  # when, and how many reservations had been released by then

    def reserve(self, job_name: str) -> None:
        """Reserve a slot; the job's own is released first, and those reserved for others are not free.

        Raises :class:`~speck.errors.NoCapacity`.
        """
        slots = self._slots
        if slots is None:
            return
        with self._reservations.deciding(job_name, 1) as reserved:
            for fresh in (False, True):
                names = self._running_names(fresh)
                if names is None:
                    return
                others = names - {job_name}
                taken = slots_taken(others, 0, reserved)
                if taken < slots:
                    return
            raise no_slot(self._address, job_name, slots, len(others), taken)

    def release(self, job_name: str) -> None:
        """Release the reservation of a job, if it has one."""
        self._reservations.release(job_name)

    def _running_names(self, fresh: bool) -> frozenset[str] | None:
        """The names of the running queries, cached unless ``fresh``; ``None`` if the server cannot list them.

        Listed again after a reservation was released, since its job may have started.
        """
        listed_at, released = self._listed
        if fresh or time.monotonic() > listed_at + _FRESH or released != self._reservations.released:
            now, released = time.monotonic(), self._reservations.released
            running = self._probe.running()
            self._names = None if running is None else frozenset(query.name for query in running)
            self._listed = (now, released)
        return self._names
