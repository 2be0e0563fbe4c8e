"""Simulator (b): messages one by one, from a heap of events, for up to a hundred jobs.

Processors and the ends of links are shared equally by those that have something to do (processor sharing):
tasks of jobs and brokers, of one core at most each, and connections.  Sources are Poisson processes.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable

from speck.placement.problem import EngineModel, PlacedJob, Placement, Problem
from testbed.simulate import engines
from testbed.simulate.observed import Observed

Call = Callable[[], None]
_INSTANT = 1e-9  # s: tasks that end within this end together, since a clock of floats resolves no less


class Clock:
    """A heap of calls, each at its time, s."""

    def __init__(self) -> None:
        """Begin at 0."""
        self.now = 0.0
        self._heap: list[tuple[float, int, Call]] = []
        self._number = 0

    def at(self, time: float, call: Call) -> None:
        """Call at a time."""
        self._number += 1
        heapq.heappush(self._heap, (time, self._number, call))

    def run(self, until: float) -> None:
        """Make all calls until a time."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            self.now, _, call = heapq.heappop(heap)
            call()
        self.now = until


class Shared:
    """A resource of ``capacity`` a second, shared equally by its tasks, each at most ``most`` a second.

    Virtual time passes at the rate of each task, so that a task ends when it has passed by its work.
    """

    def __init__(self, clock: Clock, capacity: float, most: float = math.inf) -> None:
        """Begin idle."""
        self._clock, self.capacity, self._most = clock, max(1e-9, capacity), most
        self._virtual, self._since, self._rate = 0.0, 0.0, 0.0
        self._tasks: list[tuple[float, int, Call]] = []
        self._number = 0
        self._awaited = math.inf
        self.used = 0.0

    def add(self, work: float, done: Call) -> None:
        """Begin a task; ``done`` is called at its end."""
        self._advance()
        self._number += 1
        heapq.heappush(self._tasks, (self._virtual + work, self._number, done))
        self.used += work
        self._await()

    def _advance(self) -> None:
        self._virtual += (self._clock.now - self._since) * self._rate
        self._since = self._clock.now

    def _await(self) -> None:
        if not self._tasks:
            self._rate, self._awaited = 0.0, math.inf
            return
        self._rate = min(self._most, self.capacity / len(self._tasks))
        time = self._clock.now + max(0.0, self._tasks[0][0] - self._virtual) / self._rate
        # An event that comes too early finds nothing done, and waits again.
        if time < self._awaited:
            self._awaited = time
            self._clock.at(time, self._check)

    def _check(self) -> None:
        if self._clock.now < self._awaited:
            return
        self._awaited = math.inf
        self._advance()
        limit = self._virtual + _INSTANT * self._rate
        done: list[Call] = []
        while self._tasks and self._tasks[0][0] <= limit:
            done.append(heapq.heappop(self._tasks)[2])
        self._await()
        for each in done:
            each()


class Connection:
    """Messages on their way over both ends of a link, one at a time at each end."""

    def __init__(self, clock: Clock, up: Shared, down: Shared, size: float, delay: float) -> None:
        """A connection for messages of ``size`` bytes, with a one-way delay, s."""
        self._clock, self._ends, self.size, self._delay = clock, (up, down), size, delay
        self._queues: tuple[deque[Call], deque[Call]] = (deque(), deque())
        self.sent = 0

    def send(self, arrived: Call) -> None:
        """Send a message; ``arrived`` is called when it has crossed."""
        self._enqueue(0, arrived)

    def _enqueue(self, end: int, arrived: Call) -> None:
        self._queues[end].append(arrived)
        if len(self._queues[end]) == 1:
            self._begin(end)

    def _begin(self, end: int) -> None:
        self._ends[end].add(self.size, lambda: self._passed(end))

    def _passed(self, end: int) -> None:
        arrived = self._queues[end].popleft()
        if self._queues[end]:
            self._begin(end)
        if end == 0:
            self.sent += 1
            self._clock.at(self._clock.now + self._delay, lambda: self._enqueue(1, arrived))
        else:
            arrived()


class Window:
    """Messages that are not acknowledged yet: at most ``size``; the others wait for their turn."""

    def __init__(self, size: float) -> None:
        """Begin empty."""
        self.size, self.used = size, 0
        self._waiting: deque[Call] = deque()

    def enter(self, call: Call) -> None:
        """Call when there is room."""
        if self.used < self.size and not self._waiting:
            self.used += 1
            call()
        else:
            self._waiting.append(call)

    def leave(self) -> None:
        """One message less."""
        self.used -= 1
        while self._waiting and self.used < self.size:
            self.used += 1
            self._waiting.popleft()()

    @property
    def waiting(self) -> int:
        """The number of calls that wait."""
        return len(self._waiting)


class _Broker:
    """One thread that takes in messages and sends a copy to each reader."""

    def __init__(self, run: Messages, site: int) -> None:
        self._run, self._site = run, site
        self._queue: deque[tuple[int, float, Call | None]] = deque()

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def receive(self, channel: int, born: float, acknowledge: Call | None) -> None:
        self._queue.append((channel, born, acknowledge))
        if len(self._queue) == 1:
            self._begin()

    def _begin(self) -> None:
        run, (channel, _, _) = self._run, self._queue[0]
        passes = max(1, len(run.problem.readers[channel]))
        run.processors[self._site].add(run.problem.broker_cost * passes, self._done)

    def _done(self) -> None:
        channel, born, acknowledge = self._queue.popleft()
        if self._queue:
            self._begin()
        if acknowledge is not None:
            acknowledge()
        self._run.pass_on(channel, born)


class _Job:
    """A job: its input queue, and the window that it sends into."""

    def __init__(self, run: Messages, index: int) -> None:
        self.run, self.index = run, index
        self.job: PlacedJob = run.problem.jobs[index]
        self.site = run.placement.sites[index]
        self.queue: deque[float] = deque()
        self.fraction = run.chance.random()
        self.blocked = 0

    @property
    def waiting(self) -> int:
        return len(self.queue)

    def receive(self, born: float) -> None:
        self.queue.append(born)

    def emit(self, born: float, sent: Call) -> None:
        """Pass on what a message gives; ``sent`` when all of it is in the window."""
        run, job = self.run, self.job
        if job.output is None:
            run.deliver(job.name, born)
            sent()
            return
        self.fraction += job.selectivity
        remaining = count = int(self.fraction)
        self.fraction -= count
        if not count:
            sent()
            return

        def one() -> None:
            nonlocal remaining
            remaining -= 1
            if not remaining:
                sent()

        for _ in range(count):
            run.publish(self.index, born, one)


class _FlinkJob(_Job):
    """A job that takes messages one by one, on as many tasks as its parallelism."""

    def __init__(self, run: Messages, index: int) -> None:
        super().__init__(run, index)
        self.free = self.job.parallelism
        self.unacknowledged = 0
        run.clock.at(run.chance.uniform(0, engines.CHECKPOINT_PERIOD), self.check_point)

    def check_point(self) -> None:
        self.unacknowledged = 0
        self.run.clock.at(self.run.clock.now + engines.CHECKPOINT_PERIOD, self.check_point)
        self.work()

    def receive(self, born: float) -> None:
        self.queue.append(born)
        self.work()

    def work(self) -> None:
        while self.free and self.queue and self.unacknowledged < engines.SESSION_WINDOW:
            born = self.queue.popleft()
            self.free -= 1
            self.unacknowledged += 1
            self.run.processors[self.site].add(self.job.cost, lambda born=born: self.done(born))  # type: ignore[misc]

    def done(self, born: float) -> None:
        delay = self.run.chance.uniform(0, 2 * engines.FLINK_DELAY)
        # The connectors' delay is before or after the work of a task, and holds up none.
        self.emit(born - delay, self.release)

    def release(self) -> None:
        self.free += 1
        self.work()


class _SparkJob(_Job):
    """A job that takes all messages of some time in a batch."""

    def __init__(self, run: Messages, index: int) -> None:
        super().__init__(run, index)
        self.ready = True
        self.began = 0.0
        self.remaining = 0

    def receive(self, born: float) -> None:
        self.queue.append(born)
        if self.ready:
            self.begin()

    def gathered(self) -> None:
        self.ready = True
        if self.queue:
            self.begin()

    def begin(self) -> None:
        self.ready = False
        self.began = self.run.clock.now
        batch = list(self.queue)
        self.queue.clear()
        speed = self.run.problem.sites[self.site].speed
        self.run.clock.at(self.began + self.job.batch_overhead / speed, lambda: self.work(batch))

    def work(self, batch: list[float]) -> None:
        tasks = min(len(batch), self.job.parallelism)
        self.remaining = tasks
        for _ in range(tasks):
            self.run.processors[self.site].add(
                self.job.cost * len(batch) / tasks, lambda: self.task_done(batch)
            )

    def task_done(self, batch: list[float]) -> None:
        self.remaining -= 1
        if self.remaining:
            return
        self.remaining = len(batch)
        for born in batch:
            self.emit(born, self.sent)

    def sent(self) -> None:
        self.remaining -= 1
        if self.remaining:
            return
        now = self.run.clock.now
        linger = min(engines.LINGER_MOST, engines.LINGER_RATIO * (now - self.began))
        self.run.clock.at(max(now + linger, self.began + self.job.trigger), self.gathered)


class Messages:
    """A placed problem that is simulated message by message, from time 0 on."""

    def __init__(self, problem: Problem, placement: Placement, *, seed: int = 0, qos: int = 1) -> None:
        """Begin with empty queues; with ``qos`` 0 no message is acknowledged, and no window bounds them."""
        self.problem, self.placement, self._qos = problem, placement, qos
        self.clock, self.chance = Clock(), random.Random(seed)
        others = problem.others
        fixed, messages = list(others.cores), list(others.messages)
        for index, (job, site) in enumerate(zip(problem.jobs, placement.sites, strict=True)):
            fixed[site] += job.fixed / problem.sites[site].speed
            messages[site] += problem.messages[index]
        # An event loop is simulated by what it takes at the mean rates.
        fixed = [each + problem.loop_cores(site, messages[site]) for site, each in enumerate(fixed)]
        self._fixed = [min(each, site.cores) for each, site in zip(fixed, problem.sites, strict=True)]
        self.processors = [
            Shared(self.clock, (site.cores - used) * site.speed, site.speed)
            for site, used in zip(problem.sites, self._fixed, strict=True)
        ]
        self._up = [
            Shared(self.clock, site.up - others.up[index]) for index, site in enumerate(problem.sites)
        ]
        self._down = [
            Shared(self.clock, site.down - others.down[index]) for index, site in enumerate(problem.sites)
        ]
        self._brokers = [_Broker(self, site) for site in range(len(problem.sites))]
        self._jobs: list[_Job] = [
            _FlinkJob(self, index) if job.engine is EngineModel.FLINK else _SparkJob(self, index)
            for index, job in enumerate(problem.jobs)
        ]
        self._windows: dict[tuple[int, int], Window] = {}
        self._written: dict[int, Connection] = {}
        self._read: dict[tuple[int, int], tuple[Connection, Window]] = {}
        self._ages: dict[str, list[float]] = {}
        self._connect()
        for channel, each in enumerate(problem.channels):
            if each.rate > 0:
                self._born(channel, each.rate)

    def _connect(self) -> None:
        problem, placement = self.problem, self.placement
        window = engines.WINDOW if self._qos else math.inf
        for channel, home in enumerate(placement.homes):
            for job in problem.writers[channel]:
                site = placement.sites[job]
                self._windows.setdefault((site, home), Window(window))
                if site != home:
                    self._written[job] = self._connection(site, home, channel, True)
            for job in problem.readers[channel]:
                site = placement.sites[job]
                if site != home:
                    # A connection's buffers hold some messages; the others stay in the broker's session.
                    self._read[channel, job] = (
                        self._connection(home, site, channel, False),
                        Window(engines.WINDOW),
                    )

    def _connection(self, source: int, target: int, channel: int, written: bool) -> Connection:
        problem = self.problem
        size = engines.on_wire(problem, channel, written=written)
        return Connection(self.clock, self._up[source], self._down[target], size, self._delay(source, target))

    def _delay(self, one: int, other: int) -> float:
        sites = self.problem.sites
        return 0.0 if one == other else sites[one].latency + sites[other].latency

    def _born(self, channel: int, rate: float) -> None:
        broker = self._brokers[self.placement.homes[channel]]

        def born() -> None:
            broker.receive(channel, self.clock.now, None)
            self.clock.at(self.clock.now + self.chance.expovariate(rate), born)

        self.clock.at(self.chance.expovariate(rate), born)

    def publish(self, job: int, born: float, entered: Call) -> None:
        """Send a message of a job to its channel; ``entered`` when the window had room for it."""
        channel = self.problem.jobs[job].output
        assert channel is not None
        site, home = self.placement.sites[job], self.placement.homes[channel]
        window, broker, back = self._windows[site, home], self._brokers[home], self._delay(site, home)

        def acknowledge() -> None:
            if back:
                self.clock.at(self.clock.now + back, window.leave)
            else:
                window.leave()

        def enter() -> None:
            if job in self._written:
                self._written[job].send(lambda: broker.receive(channel, born, acknowledge))
            else:
                broker.receive(channel, born, acknowledge)
            entered()

        window.enter(enter)

    def pass_on(self, channel: int, born: float) -> None:
        """Send a message of a channel to all its readers."""
        readers = self.problem.readers[channel]
        if not readers:
            self.deliver(self.problem.channels[channel].name, born)
        for job in readers:
            if (channel, job) in self._read:
                connection, window = self._read[channel, job]
                window.enter(lambda c=connection, w=window, j=job: self._cross(c, w, j, born))  # type: ignore[misc]
            else:
                self._jobs[job].receive(born)

    def _cross(self, connection: Connection, window: Window, job: int, born: float) -> None:
        def arrived() -> None:
            window.leave()
            self._jobs[job].receive(born)

        connection.send(arrived)

    def deliver(self, sink: str, born: float) -> None:
        """Count a result."""
        self._ages.setdefault(sink, []).append(self.clock.now - born)

    def _totals(self) -> tuple[list[float], list[float], list[float], float]:
        connections = [*self._written.values(), *(each for each, _ in self._read.values())]
        return (
            [each.used for each in self.processors],
            [each.used for each in self._up],
            [each.used for each in self._down],
            sum(each.sent * each.size for each in connections),
        )

    def observe(self, warm: float, seconds: float) -> Observed:
        """Simulate ``warm`` s, and observe the ``seconds`` after."""
        self.clock.run(self.clock.now + warm)
        self._ages.clear()
        waiting = self._waiting
        before = self._totals()
        self.clock.run(self.clock.now + seconds)
        cores, up, down = (
            [(new - old) / seconds for new, old in zip(after, former, strict=True)]
            for after, former in zip(self._totals()[:3], before[:3], strict=True)
        )
        sites = self.problem.sites
        return Observed(
            seconds=seconds,
            delivered={name: len(ages) / seconds for name, ages in self._ages.items()},
            age={name: sum(ages) / len(ages) for name, ages in self._ages.items()},
            p95={name: sorted(ages)[int(0.95 * len(ages))] for name, ages in self._ages.items()},
            wan=(self._totals()[3] - before[3]) / seconds,
            cores=[
                (used / site.speed + fixed) / site.cores
                for used, fixed, site in zip(cores, self._fixed, sites, strict=True)
            ],
            up=[used / site.up for used, site in zip(up, sites, strict=True)],
            down=[used / site.down for used, site in zip(down, sites, strict=True)],
            waiting=self._waiting - waiting,
        )

    @property
    def _waiting(self) -> int:
        windows = [*self._windows.values(), *(each for _, each in self._read.values())]
        return (
            sum(each.waiting for each in self._jobs)
            + sum(each.waiting for each in self._brokers)
            + sum(each.waiting for each in windows)
        )
