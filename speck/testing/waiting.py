"""Waiting for an answer of an engine, and the attempts that benches submit; without pytest."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import TypeVar

from speck.binder import EngineBinder
from speck.core.job import Job, client_id
from speck.core.runtime import Attempt, Handle, JobState, JobStatus, State

PATIENCE = 180.0  # s; a start of Spark takes a minute on two slow cores that three tests share
OWNER = "0a1b2c3d4e5f6071"  # the identity of a store

# What an engine reports of a job that was stopped: some remember it for a while.
GONE = frozenset({JobState.LOST, JobState.STOPPED})

T = TypeVar("T")


def attempt_of(job: Job, number: int = 1, state: State | None = None) -> Attempt:
    """An attempt at a job with a new id, of the store :data:`OWNER`."""
    return Attempt(
        id=uuid.uuid4().hex,
        job_name=job.job_name,
        number=number,
        session=client_id(job.job_name),
        state=state,
        owner=OWNER,
    )


def await_state(engine: EngineBinder, handle: Handle, *states: JobState) -> JobStatus:
    """Wait until the engine reports one of these states."""
    return eventually(lambda: engine.status(handle), lambda status: status.state in states)


def eventually(ask: Callable[[], T], desired: Callable[[T], bool], patience: float = PATIENCE) -> T:
    """Ask until the answer is as desired: at first often, since doubles in memory answer at once.

    Later the pauses grow to 3% of the time waited: each answer takes processor time of an engine that starts.
    """
    begun = time.monotonic()
    pause = 0.002
    while not desired(answer := ask()):
        waited = time.monotonic() - begun
        assert waited < patience, f"still {answer!r} after {patience} s"
        time.sleep(pause)
        pause = min(2 * pause, max(0.05, min(0.03 * waited, 0.15)))
    return answer
