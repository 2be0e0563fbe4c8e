"""Background loops: rounds in a thread, one after another, until the loop is closed.

A round returns the time until the next one.  An error of a round ends nothing: the round is tried again after
a pause that doubles with each further error, and an error that repeats is logged once.  What no round catches
(any other ``BaseException``) ends the thread.  Nothing starts it again, since the state that it left is
unknown: :meth:`Loop.fault` reports it, and ``/healthz`` with it, so that a supervisor restarts the process.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

_log = logging.getLogger(__name__)

STUCK = 300.0  # s; many times the duration of a round in which all engines and brokers are silent
CLOSING = 30.0  # s, for which the end waits for a round: so that one that hangs does not hold it up
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # s after an error, most of which pass soon


@dataclass
class Loop:
    """A thread that makes rounds until it is closed, and waits between them.

    ``name`` is that of the thread, ``noun`` that of its rounds, as in "a reconcile round".  ``round`` returns
    the time until the next round, s; ``math.inf``: until :meth:`wake`.  A round of more than ``patience`` (s)
    is a fault.  Safe to use from several threads.
    """

    name: str
    noun: str
    round: Callable[[], float]
    patience: float = STUCK
    first_pause: float = FIRST_PAUSE
    _thread: threading.Thread | None = field(default=None, init=False)
    _begun: float | None = field(default=None, init=False)  # monotonic, s: of the present round
    _died: str = field(default="", init=False)
    _failures: int = field(default=0, init=False)  # in succession
    _error: str = field(default="", init=False)  # the last one that was logged
    _stop: threading.Event = field(default_factory=threading.Event, init=False)
    _wake: threading.Event = field(default_factory=threading.Event, init=False)
    _starting: threading.Lock = field(default_factory=threading.Lock, init=False)  # so that one thread begins

    @property
    def is_started(self) -> bool:
        """True from the first start on."""
        return self._thread is not None

    @property
    def is_closed(self) -> bool:
        """True from the beginning of the end on: a round may end early."""
        return self._stop.is_set()

    def start(self) -> None:
        """Begin with a round at once; does nothing if it was started or closed before.

        Raises ``RuntimeError`` if no thread can be started.
        """
        with self._starting:
            if self._thread is None and not self.is_closed:
                thread = threading.Thread(target=self._run, name=self.name, daemon=True)
                thread.start()  # if the system has no thread for it now, the next start tries again
                self._thread = thread

    def wake(self) -> None:
        """Begin the next round now, or when the pause after an error has passed."""
        self._wake.set()

    def rest(self, seconds: float) -> None:
        """Wait within a round, for at most ``seconds``; no wake shortens it, and the end of the loop does."""
        self._stop.wait(seconds)

    def close(self, seconds: float = CLOSING) -> None:
        """Begin no further round, and wait for the present one, for at most ``seconds``."""
        with self._starting:
            self._stop.set()
            self._wake.set()
        if self._thread is not None:
            self._thread.join(seconds)

    def fault(self) -> str:
        """The reason why no rounds are made; empty while they are, and after :meth:`close`."""
        thread, begun = self._thread, self._begun
        if thread is None or self.is_closed:
            return ""
        if not thread.is_alive():
            return f"the {self.name} thread died: {self._died}"
        taken = 0.0 if begun is None else time.monotonic() - begun
        return f"{self.noun} has taken {taken:.0f} s" if taken > self.patience else ""

    # --- the thread

    def _run(self) -> None:
        try:
            while True:
                self._wake.clear()  # before the round: what is new while it runs needs another one
                if self.is_closed:  # after that: the wake of the end may be the one that was cleared
                    return
                self._pause(self._make_round())
        except BaseException as error:  # reported as a fault, which a traceback alone would not be
            self._died = repr(error)
            _log.critical("the %s thread died", self.name, exc_info=True)

    def _make_round(self) -> float | None:
        """Make a round; returns the time until the next one, or ``None`` after an error."""
        self._begun = time.monotonic()
        try:
            pause = self.round()
        except Exception as error:  # a defect in one round must not end the work of all others
            self._note_failure(error)
            return None
        finally:
            self._begun = None
        if self._failures:
            _log.info("%s ended well after %d failed ones", self.noun, self._failures)
        self._failures, self._error = 0, ""
        return pause

    def _note_failure(self, error: Exception) -> None:
        self._failures += 1
        if repr(error) != self._error:
            self._error = repr(error)
            _log.error("%s failed, and is tried again", self.noun, exc_info=error)

    def _pause(self, seconds: float | None) -> None:
        if seconds is None:  # a wake does not shorten it: what wakes a loop often would make it a busy one
            doubled: float = self.first_pause * 2 ** min(self._failures - 1, 16)
            self._stop.wait(min(LONGEST_PAUSE, doubled))
        else:
            self._wake.wait(min(seconds, threading.TIMEOUT_MAX))
