"""Workers of an engine, or an engine of a pool, that a hook starts and stops.

The requests to the hook, their ends and failures.  No calls and no clock of its own: the controller passes in
what it observes, and the time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol

from speck.controller.backoff import Backoff
from speck.controller.workers.hooks import WorkerRequest, is_nameable
from speck.core.inventory import Engine, Hook
from speck.core.lifecycle import EventKind
from speck.core.runtime import Worker

ARRIVAL = 120.0  # s, in which what a hook has reported must be there
DEPARTURE = 10.0  # s, that workers may be listed after the hook has reported them as stopped

Note = tuple[EventKind, str]


class Decision(Protocol):
    """The desired number, and why."""

    @property
    def count(self) -> int: ...

    @property
    def reason(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Sent:
    """A request to the hook: when (s), from how many workers, and when the hook reported success."""

    request: WorkerRequest
    at: float
    before: int
    restores: bool = False  # workers that were there and died
    reported: float | None = None


@dataclass
class Hooked:
    """The workers that a hook starts and stops.  Times are Unix time, s."""

    departure: ClassVar[float] = DEPARTURE

    site: str
    engine: Engine
    hook: Hook
    backoff: Backoff = field(default_factory=Backoff)
    workers: tuple[Worker, ...] = ()
    sent: Sent | None = None
    fault: str = ""  # of the hook, or of what did not come
    silent: str = ""  # the reason why the engine does not list its workers
    seen_at: float | None = None
    reached: int = 0  # the number that was there, or was to be left
    free_since: dict[str, float] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """The address of the engine."""
        return self.engine.spe_address

    @property
    def decided(self) -> Decision | None:
        """The last decision; ``None`` before the first."""
        raise NotImplementedError

    # --- what is observed

    def observe(self, workers: Sequence[Worker], now: float) -> None:
        """Take the workers that are there."""
        self.silent, self.seen_at = "", now
        for gone in self.free_since.keys() - {each.id for each in workers}:
            del self.free_since[gone]
        for each in workers:
            if not each.free:
                self.free_since.pop(each.id, None)
            else:
                self.free_since.setdefault(each.id, now)
        self.workers = tuple(workers)
        self.reached = max(self.reached, len(workers))

    # --- the request that is due

    def may_stop(self, compositions: Collection[str]) -> bool:
        """True if workers may be stopped; the ``compositions`` with jobs at the engine are all at rest."""
        return True

    def request(self, now: float) -> WorkerRequest | None:
        """The request that is due: none while one is under way, after a failure, or if all is as desired."""
        if self.decided is None or self.sent is not None or not self._may_try(now):
            return None
        present, desired = len(self.workers), self.decided.count
        if present < desired:
            return WorkerRequest(self.site, self.address, desired)
        stop = self._stoppable(now)[: present - desired] if present > desired else []
        return WorkerRequest(self.site, self.address, present - len(stop), tuple(stop)) if stop else None

    def _may_try(self, now: float) -> bool:
        due = self.backoff.next_try(self.address)
        return due is None or due <= now

    def _stoppable(self, now: float) -> list[str]:
        """The workers that have been free for long enough, the highest index first.

        A hook that is not given their ids stops the last ones, so none behind a busy one counts.
        """
        found = []
        for each in reversed(self.workers):
            since = self.free_since.get(each.id)
            if not is_nameable(each.id) and self.hook.names_stopped:
                continue
            if since is not None and now - since >= self.hook.idle:
                found.append(each.id)
            elif not self.hook.names_stopped:
                break
        return found

    # --- the request under way

    def withdraw(self) -> None:
        """The hook is not called after all."""
        self.sent = None

    def send(self, request: WorkerRequest, now: float) -> Note | None:
        """Note that the hook is called; returns an event, unless this repeats a call that failed."""
        present = len(self.workers)
        self.sent = Sent(request, now, present, restores=present < self.reached and not request.stop)
        if self.sent.restores:
            # What dies again and again is not started each time at once.
            self.backoff.record_attempt([self.address], now)
        if self.fault:
            return None
        return EventKind.SCALING, f"{self._subject()}: {self._change(self.sent)}{self._why()}"

    def hook_ended(self, fault: str, now: float) -> Note | None:
        """Take the end of the hook; returns an event for the first of several failures."""
        if fault:
            return self._fail(f"{self._hook()} {fault}", now)
        if self.sent is not None:
            self.sent = replace(self.sent, reported=now)
        return None

    def check_arrival(self, now: float) -> Note | None:
        """Compare what is there with the request that its hook reported as done."""
        sent = self.sent
        if sent is None or sent.reported is None:
            return None
        present, desired = len(self.workers), sent.request.count
        if present >= desired if desired >= sent.before else present <= desired:
            if self.fault:
                self.backoff.forget([self.address])
            self.sent, self.fault, self.reached = None, "", present
            return self._as_desired()
        if now - sent.reported < ARRIVAL:
            return None
        return self._fail(
            f"{self._hook()} reported success, but {ARRIVAL:g} s later {self._difference(desired)}", now
        )

    def is_stopping(self, now: float) -> bool:
        """True if workers are being stopped that the engine may still give a job to."""
        sent = self.sent
        if sent is None or not sent.request.stop or self.silent:
            return False
        return sent.reported is None or now - sent.reported < self.departure

    def _fail(self, fault: str, now: float) -> Note | None:
        sent, self.sent = self.sent, None
        if sent is None or not sent.restores:
            self.backoff.record_attempt([self.address], now)
        self.backoff.ended(self.address, now)
        repeated, self.fault = bool(self.fault), fault
        return None if repeated else (EventKind.NOT_SCALED, f"{self._subject()}: {fault}")

    def note_state(self, now: float) -> Note | None:
        """Note if all is there; after some minutes of that, the former calls are forgotten.

        Returns an event if a fault has ended without the hook.
        """
        difference = 0 if self.decided is None else len(self.workers) - self.decided.count
        ended = bool(self.fault) and not difference and self.sent is None
        if ended:
            self.fault = ""
        if difference >= 0 and not self.fault:
            self.backoff.runs(self.address, now)
        else:
            self.backoff.stopped(self.address)
        return self._as_desired() if ended else None

    # --- in words

    def _change(self, sent: Sent) -> str:
        """The change that a request makes, in words."""
        stop = sent.request.stop
        stopped = f" (stopping {', '.join(stop)})" if stop else ""
        lost = f": {sent.before} of {self.reached} workers are left" if sent.restores else ""
        return f"{sent.before} to {sent.request.count} workers{stopped}{lost}"

    def _difference(self, desired: int) -> str:
        """The difference from the number that was requested, in words."""
        return f"{len(self.workers)} workers are registered (expected {desired})"

    def _as_desired(self) -> Note:
        return EventKind.SCALED, f"{self._subject()}: {len(self.workers)} workers, as desired"

    def _why(self) -> str:
        if self.decided is None:
            return ""
        lost = self.sent is not None and self.sent.restores
        return f"{'; ' if lost else ': '}{self.decided.reason}"

    def _subject(self) -> str:
        return f"site {self.site}: {self.address}"

    def _hook(self) -> str:
        if self.hook.local is not None:
            return "the hook of the local sites"
        if self.hook.url is not None:  # a query may hold a secret under any name
            return f"the hook {self.hook.url.partition('?')[0]}"
        return f"the hook {self.hook.command[0]}"

    # --- plain data

    def state(self) -> str:
        """``silent``, ``failed``, ``scaling``, ``idle`` (as desired), ``short`` or ``over``."""
        if self.silent or self.decided is None:
            return "silent"
        if self.sent is not None:
            return "scaling"
        if self.fault:
            return "failed"
        difference = len(self.workers) - self.decided.count
        return "idle" if not difference else "short" if difference < 0 else "over"
