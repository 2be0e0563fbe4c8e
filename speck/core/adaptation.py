"""The adaptation of a composition's placement: its decisions and its memory.

Times are Unix time, s.  A *group* is the names of jobs that move together, sorted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

ENTRIES = 50  # of the decisions that are remembered
LONGEST_PAUSE = 30 * 86_400.0  # s
_CUTS = "cut "  # no site has a name that begins so


class Cuts(str):
    """Cuts of the jobs of a step: its source or its target, where other steps have names of sites.

    It is stored and shown as its text.
    """

    __slots__ = ()

    @classmethod
    def of(cls, cuts: Sequence[str]) -> Cuts:
        """The cuts of jobs in the order of their names, at least one."""
        return cls(_CUTS + (cuts[0] if len(set(cuts)) == 1 else ", ".join(cuts)))

    def by_job(self, jobs: Collection[str]) -> dict[str, str]:
        """The cut of each job."""
        found = self.removeprefix(_CUTS).split(", ")
        return dict(zip(sorted(jobs), found * len(jobs) if len(found) == 1 else found, strict=True))


def place_in(text: str) -> str:
    """The source or the target of a step by its text: :class:`Cuts`, or the name of a site."""
    return Cuts(text) if text.startswith(_CUTS) else text


class Decision(StrEnum):
    """The answer of one round of the loop."""

    HOLD = "hold"
    ADVISE = "advise"  # a better placement exists, and is a user's to accept
    STEP = "step"
    BACK = "back"  # a step that did not hold what was predicted is taken back


class Trigger(StrEnum):
    """The cause of a round."""

    PERIOD = "period"
    RATES = "rates"
    CORES = "cores"
    MEMORY = "memory"
    LINK = "link"
    LAG = "lag"
    SILENT = "silent"
    VERDICT = "verdict"  # a step is to be judged
    RESUMED = "resumed"


class StepOutcome(StrEnum):
    """The end of a step."""

    PENDING = "pending"
    KEPT = "kept"
    BACK = "back"
    FAILED = "failed"
    SUPERSEDED = "superseded"  # by a user's apply


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One decision with its reason, and the step that it is about, if any.

    ``gain`` is the predicted fall of the objective as a share of it; ``repeated`` counts the same decision
    for the same reason in a row, of which ``at`` is the last and ``since`` the first (Unix time, s).
    """

    at: float
    since: float
    decision: Decision
    trigger: Trigger
    reason: str
    jobs: tuple[str, ...] = ()
    source: str = ""
    target: str = ""
    gain: float | None = None
    operation: str = ""
    repeated: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Streak:
    """A step that was the best one in ``count`` decisions in a row."""

    jobs: tuple[str, ...]
    target: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ban:
    """A group that may not move to a site ``until`` a Unix time (s), after ``times`` bans there."""

    jobs: tuple[str, ...]
    target: str
    until: float
    times: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """A step with its prediction, stored before it is carried out.

    Its jobs move from the site ``source`` to ``target``, or get other cuts (:class:`Cuts`).
    ``objective`` and ``age_p95`` (s) are the figures before it, ``predicted`` is the objective after it, at
    the rates of ``at``; it is judged from ``due`` on.  ``revision`` is the one made by it, ``operation`` the
    id of its operation (empty: not begun).  ``windows`` counts the windows in which it was looked at,
    ``good`` those that held; ``looked`` is the time of the last.  ``back``: the step takes a former one back.
    ``costs`` are the processor times of a message (s, reference core) of its jobs as they were predicted,
    where they were measured; ``catch_up`` is the predicted time (s) in which they work off what waited
    meanwhile.  ``lagging`` are the jobs of the composition that fell behind at ``at``.  ``speed`` is that of
    its source as it was observed, for the profile of that site once the step has begun (0: none, or it is in
    the profile).  ``at``, ``due`` and ``looked`` are Unix time, s.
    """

    jobs: tuple[str, ...]
    source: str
    target: str
    at: float
    due: float
    objective: float
    predicted: float
    age_p95: float
    revision: int = 0
    operation: str = ""
    outcome: StepOutcome = StepOutcome.PENDING
    windows: int = 0
    good: int = 0
    looked: float = 0.0
    back: bool = False
    costs: Mapping[str, float] = field(default_factory=dict)
    catch_up: float = 0.0
    lagging: tuple[str, ...] = ()
    speed: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class AdaptationState:
    """The state of a composition's adaptation loop; in the store, so that it outlives the server.

    ``revision`` is the one that the streak belongs to.  ``steps`` are those of the last day, oldest first;
    the last may be pending.  ``paused`` is the end of a pause (Unix time, s; 0: none), ``advise_only_until``
    that of the time without steps, after those of an hour or a day were made.  ``rates`` are those into each
    job at the last decision, messages/s.
    """

    revision: int = 0
    streak: Streak | None = None
    bans: tuple[Ban, ...] = ()
    steps: tuple[StepRecord, ...] = ()
    entries: tuple[Entry, ...] = ()
    paused: float = 0.0
    advise_only_until: float = 0.0
    rates: Mapping[str, float] = field(default_factory=dict)

    @property
    def pending(self) -> StepRecord | None:
        """The step that is not judged yet."""
        last = self.steps[-1] if self.steps else None
        return last if last is not None and last.outcome is StepOutcome.PENDING else None

    def to_dict(self) -> dict[str, Any]:
        """The state as plain data."""
        data = dataclasses.asdict(self)
        data["fell"] = data.pop("advise_only_until")  # as it is stored
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> AdaptationState:
        """The inverse of :meth:`to_dict`."""
        streak = data.get("streak")
        return cls(
            revision=data["revision"],
            streak=None if streak is None else Streak(**_grouped(streak)),
            bans=tuple(Ban(**_grouped(each)) for each in data["bans"]),
            steps=tuple(
                StepRecord(**_grouped(each) | {"outcome": StepOutcome(each["outcome"])})
                for each in data["steps"]
            ),
            entries=tuple(
                Entry(
                    **_grouped(each)
                    | {"decision": Decision(each["decision"]), "trigger": Trigger(each["trigger"])}
                )
                for each in data["entries"]
            ),
            paused=data["paused"],
            advise_only_until=data["fell"],
            rates=dict(data["rates"]),
        )


def _grouped(data: Mapping[str, Any]) -> dict[str, Any]:
    """The data of a step with its groups and its places as they are in memory."""
    places = {name: place_in(data[name]) for name in ("source", "target") if name in data}
    groups = {name: tuple(data[name]) for name in ("jobs", "lagging") if name in data}
    return {**data, **places, **groups}
