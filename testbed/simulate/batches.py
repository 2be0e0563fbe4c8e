"""Batches of Spark in a fluid: each begins and ends at its own time within the steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from speck.placement.problem import PlacedJob
from testbed.simulate import engines
from testbed.simulate.conditions import Floats
from testbed.simulate.queues import Queue


class Batches:
    """The batches of several jobs."""

    def __init__(self, jobs: Sequence[PlacedJob]) -> None:
        """Begin without a running batch."""
        count = len(jobs)
        self.present = Queue.empty(count)  # the messages of the running batch
        self._overhead = np.array([job.batch_overhead for job in jobs])
        self._trigger = np.array([job.trigger for job in jobs])
        self._began = np.zeros(count)
        self._ends = np.full(count, np.inf)  # infinite: no batch is running
        self._begins = np.zeros(count)  # of the next batch; infinite: one is running

    def advance(
        self,
        begin: float,
        step: float,
        waiting: Queue,
        arriving: Queue,
        speed: Floats,
        work: Floats,
        stands: NDArray[np.bool_],
    ) -> tuple[Queue, Queue]:
        """Simulate a step: what is taken from ``waiting``, and the output, as at the step's middle.

        ``arriving`` arrives evenly over the step and is added to ``waiting``; ``work`` is the messages/s of a
        batch after its overhead.
        """
        end = begin + step
        inflow = _Inflow(waiting, arriving, begin, step)
        taken, emitted = Queue.empty(len(work)), Queue.empty(len(work))
        self._begins = np.where(stands & (self._begins < end), end, self._begins)
        while True:
            if (starts := self._begins < end).any():
                now = np.maximum(self._begins, begin)
                inflow.until(np.where(starts, now, inflow.at))
                taken.add(self._start(starts, now, end, waiting, speed, work))
            if not (stops := self._ends < end).any():
                break
            emitted.add(self._stop(stops, begin + step / 2))
        inflow.until(np.full(len(work), end))
        return taken, emitted

    def _start(
        self, starts: NDArray[np.bool_], now: Floats, end: float, waiting: Queue, speed: Floats, work: Floats
    ) -> Queue:
        full = starts & (waiting.mass > 1e-9)
        batch = waiting.take(np.where(full, waiting.mass, 0.0))
        # A message that finds no other begins a batch at once, and waits for none to end (Poisson).
        mass = np.maximum(batch.mass, 1e-12)
        alone = np.exp(-mass) / (mass + np.exp(-mass))
        gathered = np.minimum(now - self._began, engines.LINGER_MOST)
        batch = batch.later(np.where(full, alone * gathered / 2, 0.0))
        self.present.add(batch)
        with np.errstate(divide="ignore", over="ignore"):  # without processor time a batch does not end
            processing = np.divide(self.present.mass, work, out=np.zeros_like(work), where=full)
            takes = self._overhead / speed + processing
        self._ends = np.where(full, now + takes, self._ends)
        self._began = np.where(full, now, self._began)
        self._begins = np.where(starts, np.where(full, np.inf, end), self._begins)
        return batch

    def _stop(self, stops: NDArray[np.bool_], middle: float) -> Queue:
        done = self.present.take(np.where(stops, self.present.mass, 0.0))
        ended = np.where(stops, self._ends, 0.0)
        linger = np.minimum(engines.LINGER_MOST, engines.LINGER_RATIO * (ended - self._began))
        following = np.maximum(ended + linger, self._began + self._trigger)
        self._begins = np.where(stops, following, self._begins)
        self._ends = np.where(stops, np.inf, self._ends)
        return done.later(np.where(stops, middle - ended, 0.0))


class _Inflow:
    """Arrivals that come evenly over a step, added to a queue as far as time has come."""

    def __init__(self, waiting: Queue, arriving: Queue, begin: float, step: float) -> None:
        self._waiting = waiting
        self._rate = arriving.mass / step
        self._births = arriving.born / step - self._rate * (begin + step / 2)
        self.at = np.full(len(arriving.mass), begin)

    def until(self, time: Floats) -> None:
        span = time - self.at
        self._waiting.mass = self._waiting.mass + self._rate * span
        self._waiting.born = self._waiting.born + span * (self._births + self._rate * (self.at + span / 2))
        self.at = time
