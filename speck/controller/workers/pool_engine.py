"""An engine of a pool that its hook starts and stops.  No calls and no clock of its own."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from speck.controller.workers.hooked import ARRIVAL, Hooked, Note, Sent
from speck.core.lifecycle import EventKind
from speck.core.runtime import Worker

SILENCE = 10.0  # s without an answer, after which an engine counts as stopped


@dataclass(frozen=True, slots=True)
class Needed:
    """If the engine is needed (``count`` is 1, or 0), and why."""

    count: int
    reason: str


@dataclass
class PoolEngine(Hooked):
    """One engine, the only worker of its own; ``needed`` is the last decision.  Times are Unix time, s."""

    departure = ARRIVAL  # a machine may take as long to end as to start

    needed: Needed | None = None
    start_failed: bool = False  # since it answered last
    _silent_since: float | None = None

    @property
    def decided(self) -> Needed | None:
        """See :attr:`Hooked.decided`."""
        return self.needed

    @property
    def is_stopped(self) -> bool:
        """True if it does not run, and need not."""
        return self.needed is not None and not self.needed.count and not self.workers

    @property
    def can_start(self) -> bool:
        """True if the hook starts it as soon as it has a job."""
        return not self.start_failed

    def answered(self, free: bool, now: float) -> None:
        """Note that the engine answers; ``free`` is true if nothing runs there."""
        self._silent_since, self.start_failed = None, False
        self.observe([Worker(id=self.address, free=free)], now)

    def unanswered(self, now: float) -> None:
        """Note that it does not; one that answered a moment ago may only be slow."""
        if self._silent_since is None:
            self._silent_since = now
        stopping = self.sent is not None and bool(self.sent.request.stop)
        if stopping or now - self._silent_since >= SILENCE:
            self.observe([], now)

    def may_stop(self, compositions: Collection[str]) -> bool:
        """See :meth:`Hooked.may_stop`: no job may be at the engine, or be about to start there."""
        return not compositions

    def note_state(self, now: float) -> Note | None:
        """See :meth:`Hooked.note_state`; a failed start is one event, until the engine answers."""
        fault = self.fault
        ended = super().note_state(now)
        if self.start_failed:
            self.fault = fault
            return None
        return ended

    def _fail(self, fault: str, now: float) -> Note | None:
        self.start_failed |= self.sent is not None and not self.sent.request.stop
        return super()._fail(fault, now)

    def _stoppable(self, now: float) -> list[str]:
        if self._silent_since is not None:  # what runs there now is not known
            return []
        since = self.free_since.get(self.address)
        return [self.address] if since is not None and now - since >= self.hook.idle else []

    # --- in words

    def _change(self, sent: Sent) -> str:
        if sent.restores:
            return "does not answer, and is started"
        return "is started" if sent.request.count else "is stopped"

    def _why(self) -> str:
        return f": {self.needed.reason}" if self.needed is not None else ""

    def _difference(self, desired: int) -> str:
        return "the engine does not answer" if desired else "the engine still answers"

    def _as_desired(self) -> Note:
        return EventKind.SCALED, f"{self._subject()}: {'runs' if self.workers else 'was stopped'}"
