"""The jobs of an engine that have run for a while, of which the coordinator need not ask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from speck.agent.durable_engine import DurableEngine
from speck.agent.run_state import Phase, Record
from speck.core.runtime import Found, JobState, JobStatus
from speck.errors import BinderError
from speck.link.look import AGAIN, Look

SETTLED = 60.0  # s: a younger job may be that of an update, whose failure is noticed at once


@dataclass
class Settling:
    """Used in one thread."""

    _since: dict[tuple[str, int], float] = field(default_factory=dict, init=False)  # by attempt and run
    _running: tuple[Found, ...] | None = field(default=None, init=False)
    _listed: float | None = field(default=None, init=False)  # the time of the last list
    _former: tuple[str, ...] = field(default=(), init=False)

    def look(
        self, engine: DurableEngine, records: Iterable[Record], seen: Mapping[str, JobStatus], now: float
    ) -> Look:
        """The look at an engine: ``seen`` are the statuses of attempts, by their ids; ``now`` is steady, s.

        A job whose engine says something of it is not settled, as a look has no words.
        """
        running = {
            (each.attempt.id, each.runs): each.handle.engine_id
            for each in records
            if each.handle is not None
            and each.phase is Phase.RUNNING
            and seen[each.attempt.id].state is JobState.RUNNING
            and not seen[each.attempt.id].message
        }
        self._since = {key: self._since.get(key, now) for key in running}
        ages = {name: now - self._since[key] for key, name in running.items()}
        settled = tuple(
            sorted(name for name, age in ages.items() if age >= SETTLED and self._is_included(name, ages))
        )
        return Look(engine=engine.address, settled=settled, running=self._list(engine, settled, now))

    def _is_included(self, name: str, ages: Mapping[str, float]) -> bool:
        """False for one that waits for others, so that jobs that started together are in one look.

        The coordinator asks for all jobs of an engine as long as one is missing in the look.
        """
        awaited = any(SETTLED - AGAIN <= age < SETTLED for age in ages.values())
        return not awaited or name in self._former or ages[name] >= SETTLED + AGAIN

    def _list(self, engine: DurableEngine, settled: tuple[str, ...], now: float) -> tuple[Found, ...] | None:
        """The list of what runs, which is asked for from time to time, and when the jobs have changed."""
        if not settled:
            self._listed, self._running = None, None
        elif self._listed is None or settled != self._former or now - self._listed >= AGAIN:
            try:
                self._running = tuple(sorted(engine.running(), key=lambda found: found.engine_id))
            except BinderError:  # the coordinator asks
                self._running = None
            self._listed = now
        self._former = settled
        return self._running
