"""The share of busy time that is processor time.

Flink counts a task as busy while it waits for a core, too: with load of others on a machine of two cores, the
busy time of a task was 2.3 times its work.  But a TaskManager also reports the processor time of its process.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field

WINDOW = 60.0  # s


@dataclass(frozen=True, slots=True)
class _Step:
    at: float  # monotonic time, s
    processor: float  # s, of all TaskManagers since the last step
    busy: float  # s, of all jobs


@dataclass
class ProcessorShare:
    """The share for one cluster, over the last :data:`WINDOW` seconds; safe for several threads."""

    _processor: float | None = None
    _busy: dict[str, float] = field(default_factory=dict)
    _steps: deque[_Step] = field(default_factory=deque)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def add(self, now: float, processor: float | None, busy: dict[str, float]) -> float | None:
        """Take the processor time of the TaskManagers and the busy time of each job so far (s).

        Returns the share, at most 1; ``None`` while it is not known.  A counter that fell began anew.
        """
        with self._guard:
            before, self._processor = self._processor, processor
            former, self._busy = self._busy, dict(busy)
            if processor is not None and before is not None and processor >= before:
                grown = [max(0.0, busy[job] - former[job]) for job in busy.keys() & former.keys()]
                self._steps.append(_Step(now, processor - before, sum(grown)))
            while self._steps and self._steps[0].at < now - WINDOW:
                self._steps.popleft()
            total = sum(step.busy for step in self._steps)
            if total <= 0:
                return None
            return min(1.0, sum(step.processor for step in self._steps) / total)
