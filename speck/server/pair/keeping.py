"""The loops of a primary: renewals at standby and witness, the copy, and the events about it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress

from speck.core.clocks import steady_beside
from speck.core.lifecycle import EventKind
from speck.errors import StoreError
from speck.loop import Loop
from speck.standby.messages import NoAnswer, Refused
from speck.standby.primary import Primary
from speck.store import Event, Store

GRACE = 10.0  # s, for which the standby may be away without an event


@contextmanager
def leased(primary: Primary) -> Iterator[None]:
    """Renew the lease of a primary at the witness in the block; end this process if it ends."""
    with _repeated(primary, {"witness": primary.renew_at_witness, "lease": primary.look}):
        yield


@contextmanager
def kept(
    primary: Primary,
    store: Store,
    named: Callable[[], Collection[str]],
    clock: Callable[[], float] = time.time,
) -> Iterator[None]:
    """Keep the standby in step in the block.  ``named`` gives the hashes of the code that records name."""
    events = StandbyEvents(primary, store, clock)
    rounds = {
        "standby": lambda: primary.keep_in_step(store.database),
        "lease at the standby": primary.renew_at_standby,  # also while that gets a large file
        "files of the standby": lambda: primary.delete_gone(named),
        "standby events": events.look,
    }
    with _repeated(primary, rounds):
        yield


@contextmanager
def _repeated(primary: Primary, rounds: Mapping[str, Callable[[], object]]) -> Iterator[None]:
    pause = primary.lease.timing.renewal
    loops = [Loop(name, f"a look at the {name}", _tolerant(work, pause)) for name, work in rounds.items()]
    try:
        for loop in loops:
            loop.start()
        yield
    finally:
        for loop in loops:
            loop.close(pause)


def _tolerant(work: Callable[[], object], pause: float) -> Callable[[], float]:
    def round_() -> float:
        # The state of the primary has the reason, and the lease decides.
        with suppress(NoAnswer, Refused, StoreError):
            work()
        return pause

    return round_


class StandbyEvents:
    """Writes an event when the standby has been away for some time, and when it is back."""

    def __init__(self, primary: Primary, store: Store, clock: Callable[[], float]) -> None:
        self._primary, self._store, self._clock = primary, store, clock
        self.steady = steady_beside(clock)
        self._seen: tuple[bool, float] | None = None  # whether it was in step, and since when (steady, s)
        self._written: bool | None = None
        self._begun = False

    def look(self) -> None:
        """Write what is new."""
        epoch = self._primary.identity.epoch
        if not self._begun:
            self._write(EventKind.PRIMARY, f"this server is the primary, epoch {epoch}")
            self._begun = True
        found = self._primary.status()
        in_sync = bool(found["in_sync"])
        if self._seen is None or self._seen[0] is not in_sync:
            self._seen = in_sync, self.steady()
        if in_sync == self._written or self.steady() - self._seen[1] < (0 if in_sync else GRACE):
            return
        if in_sync:
            self._write(EventKind.STANDBY_BACK, "the standby is in step")
        else:
            self._write(EventKind.STANDBY_AWAY, f"the standby is not in step: {found['reason']}")
        self._written = in_sync

    def _write(self, kind: EventKind, message: str) -> None:
        self._store.add_events([Event(self._clock(), kind, message, automatic=True)])
