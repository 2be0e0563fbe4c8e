"""A limit of the tasks that begin at a time, which holds up none behind those that are slow.

Each engine and each broker has a lane with a bound of its own, so that an operation at a thousand sites has
thousands of tasks that may run; a look at all engines makes a thousand calls.  Threads that wait for the
interpreter cost processor time: with 1,200 of them the start of a job took twice as much of it as with 20,
with 64 a third more than with 12.  So a few tasks run at a time, as long as they keep the processor busy.
While they wait for engines, others begin.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from speck.binder.asking import begin, settle

MOST = 64  # tasks at a time, while they wait for engines
LOOKS = 256  # calls at a time of a part that polls all engines, while they wait for responses
FEW = 12  # at a time, while they keep the processor busy
LOOK = 0.2  # s between two checks of the running calls, while others wait
BUSY = 0.7  # share of a core that this process demands, above which its tasks wait for the interpreter
LONGEST = 2.0  # s, after which a task counts as slow however busy the process is

_THREADS = Path("/proc/self/task")  # of this process, on Linux

_Answer = TypeVar("_Answer")
_Task = tuple[Callable[[], None], str]  # with the name of its thread


def call_later(seconds: float, call: Callable[[], None]) -> None:
    """Make a call after a time, in a thread of its own."""
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()


def processor_demand() -> float:
    """The processor time that this process has used, and that its living threads have waited for, s.

    Beside other work a process whose threads always want to run gets a small part of a core.  The waits are
    those of the kernel (``schedstat``, second value, ns); systems without it count none.
    """
    waited = 0
    for thread in _THREADS.glob("*/schedstat"):
        try:
            waited += int(thread.read_bytes().split()[1])
        except OSError:  # it has ended
            continue
    return time.process_time() + waited / 1e9


def limit_of_looks() -> StartLimit:
    """A limit for the calls of one part that polls all engines or brokers.

    Each such part has its own: engines that hold up the calls of one do not hold up those of another.
    """
    return StartLimit(LOOKS)


@dataclass
class StartLimit:
    """Begins tasks in threads, in their order, at most ``most`` at a time, not counting slow ones.

    The bound is ``few`` at first.  It is doubled at each look at which this process was not busy, and halved
    at each at which it was.  Safe to use from several threads.  ``clock`` is steady, ``processor`` the
    processor time that this process has demanded (both s); ``later`` makes a call after a time.
    """

    most: int = MOST
    clock: Callable[[], float] = time.monotonic
    processor: Callable[[], float] = processor_demand
    later: Callable[[float, Callable[[], None]], None] = call_later
    few: int = FEW
    _waiting: deque[_Task] = field(default_factory=deque, init=False)
    # Since when tasks run, by number, without slow ones.
    _running: dict[int, float] = field(default_factory=dict, init=False)
    _number: int = field(default=0, init=False)
    _looked: tuple[float, float] | None = field(default=None, init=False)  # both times; None: no look is due
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _bound: int = field(init=False)

    def __post_init__(self) -> None:
        """Begin with a few tasks at a time."""
        self._bound = self._least

    @property
    def _least(self) -> int:
        return min(self.few, self.most)

    def begin(self, work: Callable[[], None], name: str) -> None:
        """Begin a task in a thread of this name, as soon as it may.

        Raises ``RuntimeError`` if no thread can be started and no task runs whose thread could take it.
        """
        with self._lock:
            self._waiting.append((work, name))
            try:
                self._begin_due()
            except RuntimeError:
                if not self._running:
                    self._waiting.pop()
                    raise

    def submit(self, call: Callable[[], _Answer], name: str) -> Future[_Answer]:
        """As :func:`speck.binder.asking.begin`, as soon as it may."""
        future: Future[_Answer] = Future()
        self.begin(partial(settle, future, call), name)
        return future

    def look(self) -> None:
        """Begin tasks behind those that are slow."""
        with self._lock:
            is_busy = self._is_busy()
            self._bound = max(self._least, self._bound // 2) if is_busy else min(self.most, 2 * self._bound)
            self._leave_out_slow(is_busy)
            self._looked = None
            with suppress(RuntimeError):  # the end of a task that runs begins the next one
                self._begin_due()

    def _begin_due(self) -> None:
        """Begin the tasks that may; those for which no thread can be started wait (``RuntimeError``)."""
        while self._waiting and len(self._running) < self._bound:
            work, name = self._waiting[0]
            begin(partial(self._run, self._number + 1, work), name)
            self._note_begin()
        if self._waiting and self._looked is None:
            self.later(LOOK, self.look)
            self._looked = self.clock(), self.processor()

    def _note_begin(self) -> int:
        """Count the first task that waits as running; returns its number."""
        self._waiting.popleft()
        self._number += 1
        self._running[self._number] = self.clock()
        return self._number

    def _is_busy(self) -> bool:
        since, demanded = self._looked or (self.clock(), self.processor())
        return self.processor() - demanded > BUSY * (self.clock() - since)

    def _leave_out_slow(self, is_busy: bool) -> None:
        oldest = self.clock() - (LONGEST if is_busy else LOOK)
        self._running = {number: begun for number, begun in self._running.items() if begun > oldest}

    def _run(self, number: int, work: Callable[[], None]) -> None:
        following: Callable[[], None] | None = work
        while following is not None:
            try:
                following()
            finally:
                with self._lock, suppress(RuntimeError):
                    self._running.pop(number, None)
                    self._begin_due()
            number, following = self._next_here()

    def _next_here(self) -> tuple[int, Callable[[], None] | None]:
        """The next task, for this thread, and its number: where none runs, no other thread has started."""
        with self._lock:
            if not self._waiting or self._running:
                return 0, None
            work, _ = self._waiting[0]
            return self._note_begin(), work
