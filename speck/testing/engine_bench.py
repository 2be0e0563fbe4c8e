"""The surroundings of an engine that the tests of its binder need."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol

from speck.binder import EngineBinder
from speck.core.job import Job
from speck.core.runtime import Handle
from speck.testing.wire_trouble import Trouble


class EngineBench(Protocol):
    """One engine and the things around it.

    A method with a default may be left out by a bench whose engine lacks what it is about.
    """

    def binder(self) -> EngineBinder:
        """Another binder of the engine, as another coordinator would have; closed by the bench."""

    def dead_binder(self) -> EngineBinder:
        """A binder of an engine that is not there."""

    def troubled_binder(self, trouble: Trouble) -> AbstractContextManager[EngineBinder]:
        """A binder of an address where something listens that is no good; it loses patience soon."""

    def slow_binder(self) -> AbstractContextManager[EngineBinder]:
        """A binder of the engine over a wire that is slow, as far as the engine has a wire."""

    def losing_binder(self, job: Job) -> AbstractContextManager[EngineBinder]:
        """A binder whose next submit of the job reaches the engine, and whose answer is lost."""

    def room_for_one(self) -> AbstractContextManager[EngineBinder]:
        """A binder of the engine while it has room for just one more job."""

    def job(self, name: str, behaviour: str = "good") -> Job:
        """A job, its session made.

        It is ``good``, ``fails_at_build``, ``fails_at_run``, ``missing`` (its class) or ``corrupt`` (its
        file).  The good one counts; a failing one raises an error that says ``no such street``.
        """

    def feed(self, job: Job) -> None:
        """Send the job a message, if it takes any."""

    def passing_job(self, name: str) -> Job:
        """A job that passes each message on as it is, its session made; for profiles and plans."""
        return self.job(name)

    def send(self, job: Job, texts: Sequence[str]) -> None:
        """Send a job of :meth:`passing_job` these messages."""
        raise NotImplementedError("a bench of an engine with profiles or plans sends messages")

    def running(self, job_name: str) -> int:
        """The number of copies of a job that run on the engine, queried from the engine itself."""

    def forgotten(self, handle: Handle) -> Handle:
        """The handle of a job that the engine does not know, in the form that this engine gives handles."""
        return replace(handle, engine_id=uuid.uuid4().hex)

    def without_state(self, handle: Handle) -> AbstractContextManager[Handle]:
        """The handle of a stopped job whose state the engine has lost, until the block ends."""

    def log_words(self) -> Sequence[str]:
        """Further content of the log of a job that failed while it ran, where the engine has logs."""
        return ()

    def fault_place(self) -> str:
        """The file and line at which ``fails_at_build`` fails; empty if the engine does not report it."""
        return ""
