"""The processor time of jobs per busy time, over the last minute.

Engines count a task, or a batch, as busy while it waits for a core, too: with load of others on a machine of
two cores, the busy time of a task of Flink was 2.3 times its work.  They do not count the threads that send
and receive messages: at hundreds of messages/s, which come one by one, the work was 3 times the busy time.
But the processor time of an engine's processes can be had.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field

WINDOW = 60.0  # s
# Cores of an engine's process and of each of its jobs without messages: not part of the cost of messages.
IDLE, IDLE_JOB = 0.01, 0.009
MOST = 10.0  # times the busy time, beyond which it is other work: of a start, of the compiler


@dataclass(frozen=True, slots=True)
class _Step:
    at: float  # monotonic time, s
    idle: float  # processor time of the engine and jobs without messages since the last step, s
    processor: float  # s, of all of the engine's processes since the last step
    busy: float  # s, of all jobs


@dataclass
class ProcessorShare:
    """The share for one engine, over the last :data:`WINDOW` seconds; safe for several threads."""

    _at: float = 0.0
    _processor: float | None = None
    _busy: dict[str, float] = field(default_factory=dict)
    _steps: deque[_Step] = field(default_factory=deque)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def add(self, now: float, processor: float | None, busy: dict[str, float]) -> float | None:
        """Take the processor time of the engine and the busy time of each job so far (s).

        Returns processor time per busy time; ``None`` while it is not known.  It is above 1 only for work
        beyond that of idle jobs, and at most :data:`MOST`.  A counter that fell began anew.
        """
        with self._guard:
            seconds, self._at = now - self._at, now
            before, self._processor = self._processor, processor
            former, self._busy = self._busy, dict(busy)
            if processor is not None and before is not None and processor >= before:
                grown = [max(0.0, busy[job] - former[job]) for job in busy.keys() & former.keys()]
                idle = seconds * (IDLE + IDLE_JOB * len(busy))
                self._steps.append(_Step(now, idle, processor - before, sum(grown)))
            while self._steps and self._steps[0].at < now - WINDOW:
                self._steps.popleft()
            total = sum(step.busy for step in self._steps)
            if total <= 0:
                return None
            spent = sum(step.processor for step in self._steps)
            beyond_idle = spent - sum(step.idle for step in self._steps)
            return min(MOST, max(min(spent, total), beyond_idle) / total)
