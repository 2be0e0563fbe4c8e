"""Simulator (a): messages as a fluid, in steps of 100 ms, for up to some ten thousand jobs.

Each job, each channel at its broker and each flow between them has a queue, of a mass (messages) and of the
sum of the times at which its messages were born; a share of a queue that goes on takes the same share of
both.  Ages are thus right on average over any time in which queues become empty, and percentiles unknown.
Processors and links are divided max-min fairly by need.  A message is passed on one step late in each
stage: its birth is set later by as much, so that the step is in no age.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from speck.placement.problem import EngineModel, Placement, Problem
from testbed.simulate import engines
from testbed.simulate.batches import Batches
from testbed.simulate.conditions import Conditions, Floats, Scenario
from testbed.simulate.observed import Observed
from testbed.simulate.queues import Indices, Queue, divided, totals

_BROKER_CORES = 1.0  # a broker has one thread
_FULL = 0.9  # share of a window that counts as a full one


class Fluid:
    """A placed problem that is simulated from time 0 on."""

    def __init__(self, problem: Problem, placement: Placement, *, step: float = 0.1) -> None:
        """Begin with empty queues; ``step`` in s."""
        self.problem, self.step, self.time = problem, step, 0.0
        self._describe_jobs()
        self._describe_flows()
        self._describe_sites()
        jobs, channels, flows = len(problem.jobs), len(problem.channels), len(self._flow_job)
        self._jobs, self._arriving = Queue.empty(jobs), Queue.empty(jobs)
        self._channels = Queue.empty(channels)
        self._up, self._down = Queue.empty(flows), Queue.empty(0)  # the latter of flows between sites
        self._far = np.zeros(0, dtype=np.intp)
        self._stands_until = np.zeros(jobs)
        self._session = np.zeros(jobs)  # messages since the last checkpoint
        self._batches = Batches([problem.jobs[int(each)] for each in self._spark])
        # Counters since the beginning: messages into and out of jobs; of flows, bytes between sites, and
        # the time during which a writer's window was full, s.
        self.taken, self.made = np.zeros(jobs), np.zeros(jobs)
        self.crossed, self.full = np.zeros(flows), np.zeros(flows)
        self.place(placement)
        self.reset()

    def _describe_jobs(self) -> None:
        jobs = self.problem.jobs
        self._cost = np.array([max(1e-9, job.cost) for job in jobs])
        self._fixed = np.array([job.fixed for job in jobs])
        self._selectivity = np.array([job.selectivity for job in jobs])
        self._parallel = np.array([float(job.parallelism) for job in jobs])
        self._is_spark = np.array([job.engine is EngineModel.SPARK for job in jobs], dtype=bool)
        self._spark = np.nonzero(self._is_spark)[0]
        self._ends_here = np.array([job.output is None for job in jobs], dtype=bool)

    def _describe_flows(self) -> None:
        """Number the flows: from each writer to its channel, then from each channel to its readers."""
        problem = self.problem
        written = [(index, job.output) for index, job in enumerate(problem.jobs) if job.output is not None]
        read = [(index, channel) for index, job in enumerate(problem.jobs) for channel in job.inputs]
        self._flow_job = np.array([job for job, _ in (*written, *read)], dtype=np.intp)
        self._flow_channel = np.array([channel for _, channel in (*written, *read)], dtype=np.intp)
        self._written = np.arange(len(self._flow_job)) < len(written)
        self._writes, self._reads = slice(0, len(written)), slice(len(written), None)
        self.flow_of_writer = {job: flow for flow, (job, _) in enumerate(written)}
        to_broker = [engines.on_wire(problem, channel, written=True) for _, channel in written]
        from_broker = [engines.on_wire(problem, channel, written=False) for _, channel in read]
        self._size = np.array([*to_broker, *from_broker])
        readers = np.array([len(each) for each in problem.readers], dtype=float)
        self._broker_cost = problem.broker_cost * np.maximum(1.0, readers)
        self._unread = readers == 0
        self._born = np.array([channel.rate for channel in problem.channels])

    def _describe_sites(self) -> None:
        sites, others = self.problem.sites, self.problem.others
        self._cores = np.array([site.cores for site in sites]) - np.array(self.problem.cores_of_others)
        self._speed = np.array([site.speed for site in sites])
        self._bandwidth = (np.array([site.up for site in sites]), np.array([site.down for site in sites]))
        self._others = (np.array(others.up), np.array(others.down))
        self._latency = np.array([site.latency for site in sites])

    def place(self, placement: Placement, standstill: Mapping[int, float] | None = None) -> None:
        """Put jobs and channels where a placement has them; some stand still for a time, s."""
        self._site = np.array(placement.sites, dtype=np.intp)
        self._home = np.array(placement.homes, dtype=np.intp)
        ends = self._site[self._flow_job], self._home[self._flow_channel]
        source, target = np.where(self._written, *ends), np.where(self._written, ends[1], ends[0])
        self._away = source != target
        self._source, self._target = source, target
        self._describe_crossings(source, target)
        for job, seconds in (standstill or {}).items():
            self._stands_until[job] = max(self._stands_until[job], self.time + seconds)

    def _describe_crossings(self, source: Indices, target: Indices) -> None:
        """Number the flows between sites; messages that are on their way over a link stay in their flow."""
        crossing = Queue.empty(len(self._size))
        crossing.put(self._far, self._down)
        self._far = far = np.nonzero(self._away)[0]
        landed = crossing.at(np.nonzero(~self._away)[0])
        self._up.mass[~self._away] += landed.mass
        self._up.born[~self._away] += landed.born
        self._down = crossing.at(far)
        self._far_size, self._far_written = self._size[far], self._written[far]
        self._far_job, self._far_source, self._far_target = self._flow_job[far], source[far], target[far]
        delay = self._latency[self._far_source] + self._latency[self._far_target]
        alone = 1 / self._bandwidth[0][self._far_source] + 1 / self._bandwidth[1][self._far_target]
        self._far_delay = delay + self._far_size * alone
        # A window is one of all writers of a site towards a broker; a reader has none.
        count = len(self.problem.sites)
        pairs = np.where(self._far_written, self._far_source * count + self._far_target, -1)
        found, first, group = np.unique(pairs, return_index=True, return_inverse=True)
        self._group = group.astype(np.intp)
        limit = engines.WINDOW * self.step / np.maximum(1e-6, 2 * delay[first])
        self._group_limit = np.where(found < 0, np.inf, limit)

    def reset(self) -> None:
        """Begin a new time of observation."""
        problem = self.problem
        self._since = self.time
        self._waited = self.waiting
        self._delivered = Queue.empty(len(problem.channels))  # mass and sum of ages
        self._delivered_jobs = Queue.empty(len(problem.jobs))
        self._used = np.zeros(len(problem.sites))  # reference core-seconds
        self._sent = np.zeros(len(problem.sites)), np.zeros(len(problem.sites))

    @property
    def waiting(self) -> float:
        """The number of messages in all queues."""
        queues = (self._jobs, self._arriving, self._channels, self._up, self._down, self._batches.present)
        return float(sum(each.mass.sum() for each in queues))

    @property
    def waiting_by_job(self) -> Floats:
        """The messages that wait for each job, at the job and on their way from its brokers."""
        reads = self._reads
        sent = np.bincount(self._flow_job[reads], self._up.mass[reads], len(self._jobs.mass))
        read = ~self._far_written
        crossing = np.bincount(self._far_job[read], self._down.mass[read], len(self._jobs.mass))
        return np.asarray(self._jobs.mass + sent + crossing)

    def site(self, job: int) -> int:
        """The site of a job."""
        return int(self._site[job])

    def crosses(self, flow: int) -> bool:
        """True if a flow is one between sites."""
        return bool(self._away[flow])

    def ends(self, flow: int) -> tuple[int, int]:
        """The sites of a flow's source and target."""
        return int(self._source[flow]), int(self._target[flow])

    def run(self, seconds: float, scenario: Scenario) -> None:
        """Simulate some time."""
        for _ in range(round(seconds / self.step)):
            self.advance(scenario(self.time))

    def advance(self, now: Conditions) -> None:
        """Simulate one step."""
        step, middle = self.step, self.time + self.step / 2
        speed = self._speed * now.speed
        stands = self._stands_until > middle
        born = self._born * now.rates * step
        self._channels.add(Queue(born, born * middle))
        jobs, passes, level = self._processors(speed, stands)
        out = self._process(jobs, level, speed, stands)
        self._deliver(self._delivered_jobs, out, self._ends_here, middle)
        self._used += np.bincount(self._home, passes * self._broker_cost, len(speed))
        passed = self._channels.take(passes)
        self._deliver(self._delivered, passed, self._unread, middle)
        self._up.at(self._writes).add(out.at(self._flow_job[self._writes]))
        self._up.at(self._reads).add(passed.at(self._flow_channel[self._reads]))
        arrived = self._transfer(now, stands).later(step)
        written, read = arrived.at(self._writes), arrived.at(self._reads)
        self._channels.add(written.summed(self._flow_channel[self._writes], len(self._channels.mass)))
        self._arriving = read.summed(self._flow_job[self._reads], len(self._jobs.mass))
        self.time += step

    @staticmethod
    def _deliver(total: Queue, out: Queue, where: NDArray[np.bool_], now: float) -> None:
        total.mass += np.where(where, out.mass, 0.0)
        total.born += np.where(where, out.mass * now - out.born, 0.0)

    def _processors(self, speed: Floats, stands: NDArray[np.bool_]) -> tuple[Floats, Floats, Floats]:
        """The messages that Flink jobs and brokers may pass on, and the level of cores."""
        step, site, spark = self.step, self._site, self._spark
        if int(self.time / engines.CHECKPOINT_PERIOD) != int((self.time - step) / engines.CHECKPOINT_PERIOD):
            self._session[:] = 0.0
        mass = self._jobs.mass + self._arriving.mass
        takes = np.minimum(mass, np.minimum(self._room(), engines.SESSION_WINDOW - self._session))
        takes[spark] = mass[spark] + self._batches.present.mass
        needs = np.where(stands, 0.0, np.minimum(takes * self._cost, self._parallel * speed[site] * step))
        brokers = np.bincount(self._home, self._channels.mass * self._broker_cost, len(speed))
        capped = np.minimum(brokers, _BROKER_CORES * speed * step)
        capacity = np.maximum(0.0, self._cores * speed * step - self._idle(step))
        owner = np.concatenate((site, np.arange(len(speed))))
        granted, level = divided(np.concatenate((needs, capped)), owner, capacity)
        share = np.divide(granted[len(site) :], brokers, out=np.ones_like(brokers), where=brokers > 0)
        return (
            granted[: len(site)] / self._cost,
            self._channels.mass * share[self._home],
            np.asarray(level / step),
        )

    def _idle(self, step: float) -> Floats:
        """The processor time that jobs use without messages, by site."""
        return totals(self._site, self._fixed, len(self._cores)) * step

    def _process(self, takes: Floats, level: Floats, speed: Floats, stands: NDArray[np.bool_]) -> Queue:
        """Let jobs take in messages; their output, as at the middle of the step."""
        site, spark, arriving = self._site, self._spark, self._arriving
        waiting = self._jobs.at(spark)
        self._jobs.add(arriving)
        takes[spark] = 0.0
        taken = self._jobs.take(np.minimum(takes, self._jobs.mass))
        out = taken.later(-(engines.FLINK_DELAY + self._cost / speed[site]))
        self._session += taken.mass
        if len(spark):
            work = np.minimum(self._parallel[spark] * speed[site[spark]], level[site[spark]])
            own, rate = speed[site[spark]], work / self._cost[spark]
            begun, emitted = self._batches.advance(
                self.time, self.step, waiting, arriving.at(spark), own, rate, stands[spark]
            )
            self._jobs.put(spark, waiting)
            taken.put(spark, begun)
            out.put(spark, emitted)
        self.taken += taken.mass
        self._used += np.bincount(site, taken.mass * self._cost, len(speed)) + self._idle(self.step)
        out = out.times(np.where(self._ends_here, 1.0, self._selectivity))
        self.made += out.mass
        return out

    def _room(self) -> Floats:
        """The messages that each job may take in until the window towards its broker is full."""
        flows = self._writes
        passes = self._bandwidth[0][self._source[flows]] * self.step / self._size[flows]
        room = np.maximum(0.0, engines.WINDOW + passes - self._up.mass[flows])
        found = np.full(len(self._cost), np.inf)
        job = self._flow_job[flows]
        outward = np.maximum(self._selectivity[job], 1e-12)
        found[job] = np.where(self._away[flows], room / outward, np.inf)
        return found

    def _transfer(self, now: Conditions, stands: NDArray[np.bool_]) -> Queue:
        """Send what the links let pass; what arrives.  What stays at its site arrives at once."""
        far, size, step = self._far, self._far_size, self.step
        up = np.maximum(0.0, self._bandwidth[0] * now.link - self._others[0]) * step
        down = np.maximum(0.0, self._bandwidth[1] * now.link - self._others[1]) * step
        waiting, crossing = self._up.at(far), self._down
        room = engines.WINDOW + down[self._far_target] / size - crossing.mass
        desired = np.minimum(waiting.mass, np.maximum(0.0, room))
        desired *= np.where(self._far_written, 1.0, ~stands[self._far_job]) * self._window(desired)
        self.full[far] += step * (waiting.mass > _FULL * engines.WINDOW)
        granted, _ = divided(desired * size, self._far_source, up)
        self.crossed[far] += granted
        crossing.add(waiting.take(granted / size))
        arrived, self._up = self._up, Queue.empty(len(self._size))
        self._up.put(far, waiting)
        received, _ = divided(crossing.mass * size, self._far_target, down)
        arrived.put(far, crossing.take(received / size).later(-self._far_delay))
        self._sent[0][:] += np.bincount(self._far_source, granted, len(up))
        self._sent[1][:] += np.bincount(self._far_target, received, len(up))
        return arrived

    def _window(self, desired: Floats) -> Floats:
        """The share of what writers send that a full window a round trip lets pass, by site and broker."""
        total = np.bincount(self._group, desired, len(self._group_limit))
        share = np.minimum(1.0, self._group_limit / np.maximum(total, 1e-12))
        return np.asarray(share[self._group])

    def observed(self) -> Observed:
        """The figures since the last :meth:`reset`."""
        problem, seconds = self.problem, self.time - self._since
        delivered, age = {}, {}
        for total, names in (
            (self._delivered, [channel.name for channel in problem.channels]),
            (self._delivered_jobs, [job.name for job in problem.jobs]),
        ):
            for index in np.nonzero(total.mass > 0)[0]:
                delivered[names[index]] = float(total.mass[index]) / seconds
                age[names[index]] = float(total.born[index] / total.mass[index])
        cores = np.array([site.cores for site in problem.sites])
        return Observed(
            seconds=seconds,
            delivered=delivered,
            age=age,
            wan=float(self._sent[0].sum()) / seconds,
            cores=tuple(map(float, self._used / seconds / self._speed / cores)),
            up=tuple(map(float, self._sent[0] / seconds / self._bandwidth[0])),
            down=tuple(map(float, self._sent[1] / seconds / self._bandwidth[1])),
            waiting=self.waiting - self._waited,
        )
