"""The processor time of jobs per busy time, over the last minute.

Engines count a task, or a batch, as busy while it waits for a core, too: with load of others on a machine of
two cores, the busy time of a task of Flink was 2.3 times its work.  They do not count the threads that send
and receive messages: at hundreds of messages/s, which come one by one, the work was 3 times the busy time.
But the processor time of an engine's processes can be had.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from speck.core.profile import EVENT_LOOP, event_loop_cores


@dataclass(frozen=True, slots=True)
class Idle:
    """The cores of an engine's ``process``, and of each ``job``, without messages: no part of their cost."""

    process: float
    job: float


WINDOW = 60.0  # s
IDLE = Idle(0.01, 0.009)
MOST = 10.0  # times the busy time, beyond which it is other work: of a start, of the compiler


@dataclass(frozen=True, slots=True)
class _Step:
    at: float  # monotonic time, s
    shared: float  # processor time since the last step that is not of the messages of one job, s
    processor: float  # s, of all of the engine's processes since the last step
    busy: float  # s, of all jobs


@dataclass
class ProcessorShare:
    """The share for one engine, over the last :data:`WINDOW` seconds; safe for several threads.

    ``least`` is the part of the busy time (of the processor time, if that is less) that is work at least.
    """

    least: float = 1.0
    _at: float = 0.0
    _processor: float | None = None
    _busy: dict[str, float] = field(default_factory=dict)
    _messages: dict[str, int] = field(default_factory=dict)
    _steps: deque[_Step] = field(default_factory=deque)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def add(
        self,
        now: float,
        processor: float | None,
        busy: Mapping[str, float],
        messages: Mapping[str, int] | None = None,
        idle: Idle = IDLE,
        event_loop: float = EVENT_LOOP,
    ) -> float | None:
        """Take the processor time of the engine and the busy time of each job so far (s).

        ``messages`` are those into and out of each job so far, where one event loop serves all of them, which
        takes ``event_loop`` cores per root of the messages/s.
        Returns processor time per busy time; ``None`` while it is not known.  It is without the event loop,
        and above ``least`` only for work beyond that of idle jobs; at most :data:`MOST`.  A counter that fell
        began anew.
        """
        with self._guard:
            seconds, self._at = now - self._at, now
            before, self._processor = self._processor, processor
            former, self._busy = self._busy, dict(busy)
            counted, self._messages = self._messages, dict(messages or {})
            if processor is not None and before is not None and processor >= before:
                grown = [max(0.0, busy[job] - former[job]) for job in busy.keys() & former.keys()]
                shared = (
                    idle.process
                    + idle.job * len(busy)
                    + event_loop_cores(_growth(counted, self._messages) / max(seconds, 1e-9), event_loop)
                )
                self._steps.append(_Step(now, seconds * shared, processor - before, sum(grown)))
            while self._steps and self._steps[0].at < now - WINDOW:
                self._steps.popleft()
            total = sum(step.busy for step in self._steps)
            if total <= 0:
                return None
            spent = sum(step.processor for step in self._steps)
            beyond = spent - sum(step.shared for step in self._steps)
            return min(MOST, max(self.least * min(spent, total), beyond) / total)


def _growth(before: Mapping[str, int], after: Mapping[str, int]) -> int:
    return sum(max(0, after[job] - before[job]) for job in after.keys() & before.keys())
