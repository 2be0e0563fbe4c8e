"""How new copies are watched, over an engine in memory."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from speck.apply import startup_probe
from speck.core.runtime import Attempt, JobState
from tests.support.doubles import InMemoryEngine, World
from tests.support.examples import job

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
