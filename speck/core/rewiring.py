"""The jobs of a plan that must drain their source, and the writers that each waits for: a pure decision.

Messages are in flight between two jobs when a plan changes the topic or the broker between them.  None is
lost if the writer is switched first, and the reader drains the messages written until then before it reads
from its new source.  Along the graph, each reader waits for its own former writers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from speck.core.graph import Graph, sinks_of, source_of
from speck.core.job import Job
from speck.core.plan import Action, Move, Start, Stop, Update


@dataclass(frozen=True, slots=True)
class Rewiring:
    """A job that leaves its source; ``former`` is its present form, ``writers`` leave that topic as well."""

    former: Job
    writers: frozenset[str]


def rewirings(actions: Mapping[str, Action], *, delete_all: bool = False) -> dict[str, Rewiring]:
    """The jobs of a plan, by name, whose session must be drained before they leave it.

    These are the jobs that stop, or whose source changes.  There are none if the whole composition is deleted
    (``delete_all``), since no job remains that could use the results.
    """
    if delete_all:
        return {}
    former = {name: found for name, action in actions.items() if (found := _former(action)) is not None}
    writers = _writers(former, actions)
    return {
        name: Rewiring(job, writers[name])
        for name, job in former.items()
        if isinstance(actions[name], Stop) or source_of(job) != source_of(actions[name].job)
    }


def _former(action: Action) -> Job | None:
    match action:
        case Stop():
            return action.job
        case Update() | Move():
            return action.previous
        case Start() if action.changes:  # it runs no more, and messages wait for its former form
            return replace(action.job, **{each.field: each.before for each in action.changes})
    return None


def _writers(former: Mapping[str, Job], actions: Mapping[str, Action]) -> dict[str, frozenset[str]]:
    graph = Graph.of(former.values())
    # The running jobs may be of several incomplete revisions; if they form a cycle, there is no order.
    leaving = {name for name, job in former.items() if _leaves_sink(job, actions[name])}
    if graph.cycle():
        leaving = set()
    return {name: frozenset(graph.writers_of(job)) & leaving for name, job in former.items()}


def _leaves_sink(former: Job, action: Action) -> bool:
    return isinstance(action, Stop) or not set(sinks_of(former)) <= set(sinks_of(action.job))
