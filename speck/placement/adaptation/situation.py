"""The values that a decision on a composition's placement is made of.  Times are Unix time, s."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from speck.core.adaptation import Trigger
from speck.core.lifecycle import OperationState
from speck.core.placement import PlacementOptions

SUSTAINED = 1.05  # least multiplier of rates that are sustained
# The same where jobs fall behind: what is full measures as nearly full, as predicted loads are right within
# 15% or so (benchmarks/placement, gates) and samples have noise.
SUSTAINED_BESIDE_LAG = 1.25


def is_overloaded(multiplier: float, *, lag_grows: bool) -> bool:
    """True if rates with this multiplier are not sustained; ``lag_grows``: jobs fall behind."""
    return multiplier < (SUSTAINED_BESIDE_LAG if lag_grows else SUSTAINED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A step: ``jobs`` (sorted names) from one site, or cut, to another, and its figures, alone.

    ``gain`` is the fall of the objective as a share of it; ``objective``, ``age_p95`` (s) and ``multiplier``
    are those after it; ``utilisation`` is the share of the target's cores in use then, for which assumed
    costs count tenfold.  ``pays_after``, ``standstill`` and ``catch_up`` are s; ``state`` is bytes.
    ``costs`` are processor times of a message by job, s, where they are measured.  ``refused`` is the reason
    why it may not be taken.

    Where rates are not fresh, ``gain``, ``multiplier``, ``utilisation`` and ``pays_after`` are the worst
    within the bounds of these rates; the other figures are those at the last rates.
    """

    jobs: tuple[str, ...]
    source: str
    target: str
    gain: float
    objective: float
    age_p95: float
    multiplier: float
    utilisation: float
    pays_after: float
    standstill: float = 0.0
    catch_up: float = 0.0
    state: float = 0.0
    costs: Mapping[str, float] = field(default_factory=dict)
    refused: str = ""

    @property
    def is_finite(self) -> bool:
        """True if all figures that a decision needs are numbers."""
        return all(map(math.isfinite, (self.gain, self.objective, self.age_p95, self.utilisation)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The operation of a step: its state, its end (0: none) and its error."""

    state: OperationState
    ended: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Realised:
    """A step as it turned out: the objective with it and without it, at present rates and measured costs.

    ``age_p95`` (s) and ``multiplier`` are with it, ``age_p95_without`` and ``multiplier_without`` are not.
    ``speed_ratio`` is the observed speed of the target relative to the one that was counted with.
    ``lag_grows``: one of its jobs falls behind, or one at its target that kept up before it.
    """

    objective: float
    without: float
    age_p95: float
    age_p95_without: float
    multiplier: float
    multiplier_without: float
    speed_ratio: float = 1.0
    lag_grows: bool = False

    @property
    def gain(self) -> float:
        """The fall of the objective as a share of it."""
        return (self.without - self.objective) / self.without if self.without else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A composition at the moment of a decision.

    ``revision`` is the last one, ``automatic`` is true if a step made it; ``applied``: a user has applied
    something since the last decision.  ``objective``, ``age_p95`` (s) and
    ``multiplier`` are the present figures; ``gain`` is that of all candidates together, as a share, and
    ``reachable`` the multiplier after them.
    ``rates`` are those into each job, messages/s.  ``candidates`` are the steps in the order of the advice.
    ``hold`` is the reason why nothing of it may be moved now (empty: it may), ``silent`` has the sites it
    uses that do not answer, with their reasons.  ``moving`` counts the steps that run on other compositions.
    ``lagging`` are the jobs that fall behind, ``draining`` those that work off a backlog.  ``rewires`` is the
    gain of advice that also moves topics, which is a user's to accept.  ``progress`` is that of the pending
    step's operation (``None``: there is none), ``realised`` its effect (``None``: not measured), ``failing``
    are its jobs that have failed since it was looked at, though their engine answers; ``stranded``: they have
    no way back, as the site of that has left the inventory.  ``interval`` is the time between two samples of
    a job, s.

    ``undecidable`` are the jobs that are not moved, since no message reaches them, or since their own rate or
    that of a job beside them is not fresh, for the reason ``stale``; ``idle`` are those of them that no
    message reaches, ``awaited`` those whose rates were fresh until lately.
    """

    revision: int
    trigger: Trigger = Trigger.PERIOD
    automatic: bool = False
    applied: bool = False
    options: PlacementOptions = field(default_factory=PlacementOptions)
    objective: float = 0.0
    age_p95: float = 0.0
    multiplier: float = math.inf
    gain: float = 0.0
    reachable: float = 0.0
    rates: Mapping[str, float] = field(default_factory=dict)
    candidates: Sequence[Candidate] = ()
    hold: str = ""
    silent: Mapping[str, str] = field(default_factory=dict)
    moving: int = 0
    lagging: Sequence[str] = ()
    draining: Sequence[str] = ()
    rewires: float = 0.0
    progress: Progress | None = None
    failing: Sequence[str] = ()
    stranded: bool = False
    realised: Realised | None = None
    interval: float = 0.0
    undecidable: Collection[str] = ()
    idle: Collection[str] = ()
    awaited: Collection[str] = ()
    stale: str = ""

    @property
    def lag_grows(self) -> bool:
        """True if jobs fall behind."""
        return bool(self.lagging)
