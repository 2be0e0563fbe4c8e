"""The pause between two waves: the jobs of the first one must run all the while."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from speck.apply.startup_probe import PATIENCE
from speck.binder.asking import ask
from speck.binder.pool import BinderPool
from speck.core.job import Job
from speck.core.lifecycle import AttemptPhase
from speck.core.runtime import Handle, JobState, JobStatus
from speck.errors import SpeckError, Unreachable
from speck.store import Store

_LOOK = 1.0  # s between two observations of all jobs


class Unhealthy(SpeckError):
    """A job of a wave does not run, so that the next wave does not begin."""


@dataclass(frozen=True)
class Settling:
    """Looks at jobs; ``clock`` gives seconds, and ``report`` receives the reason why the next wave waits."""

    store: Store
    pool: BinderPool
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep
    report: Callable[[str], object] = lambda _: None

    def settle(self, jobs: Iterable[Job], seconds: float, patience: float = PATIENCE) -> None:
        """Return once all ``jobs`` have been running for ``seconds``.

        A copy that is being started may take ``patience`` s, and an engine that does not answer as long.
        Raises :class:`Unhealthy`, and :class:`~speck.errors.Unreachable`.
        """
        watched = {each.job_name: each for each in jobs}
        begun, running = self.clock(), dict[str, float]()  # since when, by job
        while watched:
            away = self._look(watched, running)
            now = self.clock()
            if len(running) == len(watched) and now - max(running.values()) >= seconds:
                return
            if now - begun > patience + seconds:
                if away:
                    raise Unreachable(away)
                slow = min(watched.keys() - running.keys(), default="")
                raise Unhealthy(f"job {slow!r} was not running after {patience + seconds:g} s")
            self.report(awaited(watched, running, away, seconds))
            self.sleep(min(_LOOK, max(seconds, 0.05)))

    def _look(self, watched: Mapping[str, Job], running: dict[str, float]) -> str:
        """Ask all engines about their jobs; returns the error of a silent one, or an empty text."""
        engines = self._by_engine(watched)
        asked = ask(
            engines,
            lambda name: self.pool.engine(watched[name]).statuses(engines[name].values()),
            name="settle",
        )
        away = ""
        for name, error in asked.failures().items():
            away = str(error)
            for job in engines[name]:
                running.pop(job, None)
        for name, found in asked.answers.items():
            for job, handle in engines[name].items():
                away = self._judge(job, found[handle.engine_id], running) or away
        return away

    def _by_engine(self, watched: Mapping[str, Job]) -> Mapping[str, Mapping[str, Handle]]:
        """The handles of the jobs at each engine, by the name of one of its jobs."""
        found = dict[tuple[str, str], dict[str, Handle]]()
        for name, job in watched.items():
            found.setdefault((job.engine, job.spe_address), {})[name] = self._handle(name)
        return {next(iter(handles)): handles for handles in found.values()}

    def _judge(self, name: str, status: JobStatus, running: dict[str, float]) -> str:
        """Note whether a job runs; returns the words of an engine that does not answer, or an empty text.

        Raises :class:`Unhealthy` for a job that has ended, or starts again.
        """
        said = f": {status.message}" if status.message else ""
        if status.state is JobState.RUNNING:
            running.setdefault(name, self.clock())
        elif status.state is JobState.UNKNOWN:
            running.pop(name, None)
            return f"job {name!r} is unknown{said}"
        elif status.state.ended or name in running:
            again = "" if status.state.ended else " again"
            raise Unhealthy(f"job {name!r} is {status.state.value}{again}{said}")
        return ""

    def _handle(self, job: str) -> Handle:
        records = self.store.attempts(job)
        handle = next((each.handle for each in records if each.phase is AttemptPhase.RUNNING), None)
        if handle is None:
            raise Unhealthy(f"job {job!r} is not started")
        return handle


def awaited(jobs: Collection[str], running: Collection[str], away: str, seconds: float) -> str:
    """The reason why the next wave waits for these; ``away`` is the error of a silent engine, or empty."""
    behind = min(set(jobs).difference(running), default=None)
    if behind is None:
        return f"all its jobs must have been running for {seconds:g} s"
    return f"{away or f'job {behind!r} is not running yet'} ({len(running)} of {len(jobs)} jobs are running)"
