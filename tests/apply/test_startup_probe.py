"""The observation of new copies, over an engine in memory."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack

import pytest

from speck.apply import startup_probe
from speck.core.runtime import Attempt, Handle, JobState, JobStatus
from testbed.benches.examples import job
from testbed.doubles.engine import InMemoryEngine
from testbed.doubles.world import World

ADDRESS = "http://edge:8081/"


def test_copies_at_one_engine_are_observed_at_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup_probe, "_FRESH", 1000.0)
    world = World()
    engine = InMemoryEngine(world, ADDRESS, "flink")
    names = [f"job-{number}" for number in range(8)]
    attempts = [Attempt(id=name, job_name=name, number=1, session=f"speck-{name}") for name in names]
    handles = [engine.submit(job(each.job_name), each) for each in attempts]
    probe = startup_probe.StartupProbe(engine)
    with ExitStack() as watched:
        for handle in handles[:-1]:
            watched.enter_context(probe.watching(handle))
        world.crash(names[3])
        reported = [probe.status(handle).state for handle in handles[:-1]]
        assert reported == [JobState.FAILED if name == names[3] else JobState.RUNNING for name in names[:-1]]
        assert world.counts()["statuses"] == 1
        with probe.watching(handles[-1]):  # who comes later is not told what was seen before
            assert probe.status(handles[-1]).state is JobState.RUNNING
        assert world.counts()["statuses"] == 2
        assert probe.status(handles[0]).state is JobState.RUNNING
        assert world.counts()["statuses"] == 2
        monkeypatch.setattr(startup_probe, "_FRESH", 0.0)
        world.crash(names[0])
        assert probe.status(handles[0]).state is JobState.FAILED
    assert world.counts()["status"] == 0


class Clock:
    """A clock that only sleep moves, by which answers of an engine are timed."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Evident(InMemoryEngine):
    """An engine whose copies have worked from a time after their start on; ``None`` or false before."""

    def __init__(self, clock: Clock, after: float, before: bool | None = None, dies: float = 1e9) -> None:
        super().__init__(World(), ADDRESS, "flink")
        self.clock, self.begun, self.after, self.before, self.dies = clock, clock.now, after, before, dies

    def has_worked(self, handle: Handle) -> bool | None:
        return True if self.clock.now - self.begun >= self.after else self.before

    def statuses(self, handles: Iterable[Handle]) -> dict[str, JobStatus]:
        if self.clock.now - self.begun >= self.dies:
            self.world.crash("hop")
        return super().statuses(handles)


@pytest.fixture(name="clock")
def clock_fixture(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(startup_probe, "time", clock)
    return clock


def watched(engine: Evident, seconds: float = 2.0) -> tuple[str | None, float]:
    """The fault of a copy, and how long it was observed, s."""
    attempt = Attempt(id="a1", job_name="hop", number=1, session="speck-hop")
    handle = engine.submit(job("hop"), attempt)
    fault = startup_probe.startup_fault(startup_probe.StartupProbe(engine), handle, seconds)
    return fault, round(engine.clock.now - engine.begun, 1)


@pytest.mark.parametrize(
    ("after", "before", "took"),
    [
        (0.0, None, 0.5),  # for 0.3 s it must have run, which is seen after 0.2 s
        (1.0, None, 1.0),
        (1e9, None, 2.2),  # no evidence: it has run for as long as without a probe
        (0.0, False, 0.5),
        (9.2, False, 9.2),  # it is known that it has not worked
        (1e9, False, 30.7),
    ],
)
def test_a_copy_is_up_as_soon_as_it_has_worked(
    clock: Clock, after: float, before: bool | None, took: float
) -> None:
    fault, seconds = watched(Evident(clock, after, before))
    assert fault is None
    assert seconds == pytest.approx(took, abs=0.5 if took > 2.2 else 0.01)


def test_a_copy_that_worked_and_died_is_not_up(clock: Clock) -> None:
    fault, seconds = watched(Evident(clock, 0.1, dies=0.4))
    assert fault == "it was started, but is failed: it crashed"
    assert seconds == 0.4


def test_evidence_is_not_asked_for_where_copies_are_not_observed_that_long(clock: Clock) -> None:
    assert watched(Evident(clock, 0.0), seconds=0.1) == (None, 0.3)
