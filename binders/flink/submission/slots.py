"""Reservations of a cluster's task slots for jobs that are about to start.

A job takes its slots some tenths of a second after it was submitted.  See
:mod:`binders.common.reservations` for why slots are reserved.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from binders.common.reservations import Reservations
from binders.flink.rest.client import FlinkRest
from binders.flink.rest.overviews import JobLine, Overview
from speck.errors import NoCapacity

PATIENCE = 2.0  # s, for slots that are about to be released

_POLL = 0.1  # s


@dataclass(frozen=True)
class SlotReservation:
    """Task slots reserved for one job: ``slots``, of which a running copy of the job still occupies ``own``.

    ``engine_id`` is Flink's id of the job once it was submitted.
    """

    slots: int
    own: int = 0
    engine_id: str | None = None


class SlotReservations(Reservations[SlotReservation]):
    """The slots of one cluster that this process has reserved, shared by all of its binders there."""

    def reserve(self, rest: FlinkRest, seen: Overview, name: str, slots: int, own: Callable[[], int]) -> None:
        """Reserve slots for a job.  Raises :class:`~speck.errors.NoCapacity` if too few are free.

        ``seen`` is the cluster as just observed.  ``own`` counts the slots that a copy of the job occupies
        there: they are released before it starts.
        """
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return self._try(rest, seen, name, slots, own)
            except NoCapacity:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_POLL)
            seen = rest.overview()

    @contextmanager
    def submitting(self, name: str, engine_id: str) -> Iterator[None]:
        """While the block runs, the job is submitted under Flink's id; if it fails, it takes no slots."""
        try:
            yield
        except BaseException:  # an interrupted submission as well
            self.release(name)
            raise
        self.update(name, lambda reservation: replace(reservation, engine_id=engine_id))

    def copy_stopped(self, name: str) -> None:
        """Record that the running copy of a job has ended: all slots of its reservation must be free now."""
        self.update(name, lambda reservation: replace(reservation, own=0))

    def _try(self, rest: FlinkRest, seen: Overview, name: str, slots: int, own: Callable[[], int]) -> None:
        with suppress(NoCapacity):
            return self._reserve(rest.address, seen, name, SlotReservation(slots))
        if any(each.engine_id is not None for each in self.current().values()):
            # In this order: slots of jobs that are placed by now are no longer free in the later observation.
            jobs, seen = rest.jobs(), rest.overview()
            self.retain(lambda reservation: _is_unplaced(reservation, jobs))
        return self._reserve(rest.address, seen, name, SlotReservation(slots, min(slots, own())))

    def _reserve(self, address: str, seen: Overview, name: str, desired: SlotReservation) -> None:
        with self.deciding(name, desired) as others:
            reserved = sum(each.slots - each.own for each in others.values())
            if desired.slots - desired.own > seen.slots_free - reserved:
                raise _no_slots(address, seen, name, desired.slots, reserved)


def _is_unplaced(reservation: SlotReservation, jobs: Mapping[str, JobLine]) -> bool:
    """True unless the job of a reservation has its slots by now, or has ended."""
    if reservation.engine_id is None:
        return True
    line = jobs.get(reservation.engine_id)
    return line is not None and not line.ended and not line.placed


def _no_slots(address: str, seen: Overview, name: str, slots: int, reserved: int) -> NoCapacity:
    others = f", {reserved} of them reserved for jobs that are about to start" if reserved else ""
    free = f"{seen.slots} slots, {seen.slots_free} free{others}"
    message = f"{address} has no room for job {name!r}, which takes {slots}: {free}"
    return NoCapacity(message, address=address)
