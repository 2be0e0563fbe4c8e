"""Gates the actions of a plan: those to take now, and the reasons of those that wait.  A pure decision.

An action waits while an engine or a broker that it needs is silent, while its own next try is not due, and
while a job that waits itself blocks it (:func:`~speck.core.schedule.blocked`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from dataclasses import dataclass, field

from speck.core.plan import Action, Keep, Move, Plan, Stop, Update
from speck.core.schedule import Step, blocked
from speck.store.deployments import EngineKey

_SOURCE = frozenset({"source_broker", "source_topic"})


@dataclass(frozen=True, slots=True)
class GatedPlan:
    """The actions of a plan, divided.

    ``due`` are those to take now; ``waits`` has the reasons of the others, by job name.
    """

    due: tuple[Action, ...]
    waits: Mapping[str, str]


def engines_of(action: Action) -> set[EngineKey]:
    """The engines that an action asks, other than those of unfinished attempts."""
    jobs = [action.job, action.previous] if isinstance(action, Update | Move) else [action.job]
    return {(job.engine, job.spe_address) for job in jobs}


def brokers_of(action: Action) -> set[str]:
    """The addresses of the brokers that an action asks."""
    if isinstance(action, Stop):
        return {action.job.source_broker}
    return {action.job.source_broker, action.job.sink_broker}


@dataclass(frozen=True, slots=True, kw_only=True)
class Blockers:
    """The reasons for which actions wait, beside other actions.

    ``delayed`` has the reasons of jobs that wait by themselves, ``pending`` those of kept jobs that have not
    come up, for which others wait, by job name.  ``silent`` has those of engines and brokers that do not
    answer, by address; ``left_behind`` are the addresses of which jobs that leave them need no answer.
    """

    delayed: Mapping[str, str] = field(default_factory=dict)
    pending: Mapping[str, str] = field(default_factory=dict)
    silent: Mapping[str, str] = field(default_factory=dict)
    left_behind: Set[str] = frozenset()


def gate_actions(
    plan: Plan,
    steps: Collection[Step],
    engines: Mapping[str, Set[EngineKey]],
    begun: Set[str],
    blockers: Blockers,
) -> GatedPlan:
    """Divide the actions of a plan, whose schedule has these ``steps``.

    ``engines`` are those that each action asks, by job name; ``begun`` the jobs that had an attempt once.
    """
    actions = {each.job.job_name: each for each in plan.actions if not isinstance(each, Keep)}
    delayed, silent = blockers.delayed, blockers.silent
    waits = {name: delayed[name] for name in actions if name in delayed}
    for name, action in actions.items():
        addresses = {address for _, address in engines[name]} | brokers_of(action)
        addresses -= blockers.left_behind - _stays_at(action)
        reasons = [f"waits for {address}: {silent[address]}" for address in sorted(addresses & silent.keys())]
        if reasons and name not in waits:
            waits[name] = reasons[0]
    found = with_blocked(plan, steps, {**waits, **blockers.pending}, begun)
    waits = {name: found[name] for name in actions if name in found}
    return GatedPlan(tuple(action for name, action in actions.items() if name not in waits), waits)


def with_blocked(
    plan: Plan, steps: Collection[Step], waits: Mapping[str, str], begun: Set[str]
) -> dict[str, str]:
    """The jobs of ``waits``, and all jobs of a plan that these block, with their reasons.

    ``steps`` and ``begun`` as in :func:`gate_actions`.
    """
    acting = (each for each in plan.actions if not isinstance(each, Keep))
    prepared = {each.job.job_name for each in acting if not _changes_source(each)} & begun
    return blocked(steps, waits, prepared)


def _stays_at(action: Action) -> set[str]:
    return set() if isinstance(action, Stop) else {action.job.spe_address}


def _changes_source(action: Action) -> bool:
    return any(each.field in _SOURCE for each in action.changes)
