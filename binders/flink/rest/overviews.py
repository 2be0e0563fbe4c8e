"""The cluster and its jobs, in a line each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

ENDED = frozenset({"FINISHED", "FAILED", "CANCELED"})
FALTERING = frozenset({"RESTARTING", "FAILING"})  # after a failure, from which it may recover

_PLACED = ("running", "initializing", "deploying", "finished")


@dataclass(frozen=True)
class JobLine:
    """A job in ``/jobs/overview``; ``duration`` is s, ``tasks`` are counts by state in lower case."""

    id: str
    name: str
    state: str
    duration: float
    tasks: Mapping[str, int]

    @property
    def ended(self) -> bool:
        """True if it has ended and is not restarted."""
        return self.state in ENDED

    @property
    def placed(self) -> bool:
        """True if all of its tasks have their slots."""
        return 0 < self.tasks.get("total", 0) == sum(self.tasks.get(state, 0) for state in _PLACED)

    @property
    def up(self) -> bool:
        """True if all of its tasks run, or have finished."""
        running = self.tasks.get("running", 0) + self.tasks.get("finished", 0)
        return self.state == "RUNNING" and 0 < self.tasks.get("total", 0) == running


@dataclass(frozen=True)
class Overview:
    """The cluster: its version, and its task slots."""

    version: str
    slots: int
    slots_free: int
