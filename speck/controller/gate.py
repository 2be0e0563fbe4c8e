"""Gates the actions of a plan: those to take now, and the reasons of those that wait.  A pure decision.

An action waits while an engine or a broker that it needs is silent, while its own next try is not due, and
while a job that waits itself would lose messages by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass

from speck.core.graph import Graph
from speck.core.job import Job
from speck.core.plan import Action, Keep, Move, Plan, Stop, Update
from speck.core.schedule import rewirings
from speck.store.deployments import EngineKey

_SOURCE = frozenset({"source_broker", "source_topic"})


@dataclass(frozen=True, slots=True)
class GatedPlan:
    """``due`` are the actions to take now; ``waits`` has the reasons of the others, by job name."""

    due: tuple[Action, ...]
    waits: Mapping[str, str]


def engines_of(action: Action) -> set[EngineKey]:
    """The engines that an action asks, besides those of unfinished attempts."""
    jobs = [action.job, action.previous] if isinstance(action, Update | Move) else [action.job]
    return {(job.engine, job.spe_address) for job in jobs}


def brokers_of(action: Action) -> set[str]:
    """The addresses of the brokers that an action asks."""
    if isinstance(action, Stop):
        return {action.job.source_broker}
    return {action.job.source_broker, action.job.sink_broker}


def gate_actions(
    plan: Plan,
    desired: Mapping[str, Job],
    engines: Mapping[str, Set[EngineKey]],
    begun: Set[str],
    delayed: Mapping[str, str],
    silent: Mapping[str, str],
    left_behind: Set[str] = frozenset(),
) -> GatedPlan:
    """Divide a plan's actions.

    ``engines`` are those that each action asks, by job name; ``begun`` the jobs that had an attempt once;
    ``delayed`` the reasons of jobs that wait by themselves; ``silent`` the engines and brokers that do
    not answer, by address, with their reasons; ``left_behind`` the addresses of which no answer is needed,
    for jobs that leave them.
    """
    actions = {each.job.job_name: each for each in plan.actions if not isinstance(each, Keep)}
    waits = {name: delayed[name] for name in actions if name in delayed}
    for name, action in actions.items():
        addresses = {address for _, address in engines[name]} | brokers_of(action)
        addresses -= left_behind - _stays_at(action)
        reasons = [f"waits for {address}: {silent[address]}" for address in sorted(addresses & silent.keys())]
        if reasons and name not in waits:
            waits[name] = reasons[0]
    _propagate(actions, Graph.of(desired.values()), begun, waits)
    return GatedPlan(tuple(action for name, action in actions.items() if name not in waits), waits)


def _stays_at(action: Action) -> set[str]:
    return set() if isinstance(action, Stop) else {action.job.spe_address}


def _propagate(actions: Mapping[str, Action], desired: Graph, begun: Set[str], waits: dict[str, str]) -> None:
    """Let the actions wait too that are ordered after one that waits."""
    behind: dict[str, list[str]] = {}
    rewired = rewirings(actions, delete_all=not desired.jobs)
    for name, action in actions.items():
        # It leaves its source when no writer is left there.
        former = rewired[name].writers if name in rewired else frozenset()
        for other in (*former, *_readers_without_session(action, actions, desired, begun)):
            behind.setdefault(other, []).append(name)
    reached = list(waits)
    while reached:
        other = reached.pop()
        for name in behind.get(other, ()):
            if name not in waits:
                waits[name] = f"waits for job {other!r}, which {waits[other]}"
                reached.append(name)


def _readers_without_session(
    action: Action, actions: Mapping[str, Action], desired: Graph, begun: Set[str]
) -> Iterable[str]:
    """The readers of a job that is to start which have no session yet for its output."""
    if isinstance(action, Stop):
        return
    for reader in desired.readers_of(action.job):
        other = actions.get(reader)
        if other is not None and reader != action.job.job_name and not _has_session(other, begun):
            yield reader


def _has_session(action: Action, begun: Set[str]) -> bool:
    """True if the session that the job is to read through stands already."""
    if action.job.job_name not in begun:
        return False
    return not any(each.field in _SOURCE for each in action.changes)
