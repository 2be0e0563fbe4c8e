"""The looks that an agent reports to its coordinator, each once per connection and change."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from speck.link.codec import encode
from speck.link.look import AGAIN, CONFIRMED, Look, LookMessage


@dataclass
class Looks:
    """Safe to use from several threads.

    ``send`` sends a message, and returns true if there is a connection.  ``journal()`` is the mark of the
    journal, which goes with the looks.  ``lasting()`` is true if the coordinator takes looks that last.
    ``clock`` is steady, s.
    """

    send: Callable[[dict[str, Any]], bool]
    clock: Callable[[], float] = time.monotonic
    journal: Callable[[], str] = str
    lasting: Callable[[], bool] = bool
    _changes: Counter[str] = field(default_factory=Counter, init=False)
    _sent: dict[str, tuple[Look, float]] = field(default_factory=dict, init=False)
    _lasting: dict[str, float] = field(default_factory=dict, init=False)  # the last time when each was right
    _journal: str = field(default="", init=False)  # the mark that was sent last
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def begin(self, engine: str) -> int:
        """Begin a look at an engine; returns the number of changes there so far."""
        with self._lock:
            return self._changes[engine]

    def report(self, look: Look, changes: int) -> None:
        """Report a look, unless a call has changed a job since it was begun, or it was reported before."""
        # The lock is held while it is sent: the answer to a call that changes a job comes after it.
        with self._lock:
            if changes != self._changes[look.engine]:
                return
            known, now, journal = self._sent.get(look.engine), self.clock(), self.journal()
            same = known is not None and known[0] == look
            lasts = look.engine in self._lasting if same else self.lasting()
            if same and lasts:
                self._lasting[look.engine] = now
            is_recent = known is not None and (lasts or now - known[1] < AGAIN)
            if same and is_recent and journal == self._journal:
                return
            message = LookMessage(
                look=None if same else look,
                same=look.engine if same else None,
                journal=None if journal == self._journal else journal,
                lasting=lasts and not same,
            )
            if self.send(encode(message)):
                self._sent[look.engine], self._journal = (look, now), journal
                if lasts:
                    self._lasting[look.engine] = now

    def withdraw(self) -> None:
        """Withdraw the looks that last and were not right again for a while: an engine does not answer."""
        with self._lock:
            for engine, right in list(self._lasting.items()):
                if self.clock() - right > CONFIRMED and self.send(encode(LookMessage(withdrawn=engine))):
                    del self._lasting[engine]
                    self._sent.pop(engine, None)

    def change(self, engine: str) -> None:
        """Note that a call begins or ends that may change a job: looks that were begun before are void."""
        with self._lock:
            self._changes[engine] += 1
            self._sent.pop(engine, None)

    def repeat(self, engine: str) -> None:
        """Report the next look at an engine, also if it is as the last one."""
        with self._lock:
            self._sent.pop(engine, None)

    def forget(self) -> None:
        """Report everything again, over a new connection."""
        with self._lock:
            self._sent.clear()
            self._lasting.clear()
            self._journal = ""
