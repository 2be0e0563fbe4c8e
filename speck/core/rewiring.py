"""The jobs of a plan that must drain their source, and the writers that each waits for: a pure decision.

Messages are in flight between two jobs when a plan changes the topic or the broker between them.  None is
lost if the writer is switched first, and the reader drains the messages written until then before it reads
from its new source.  Along the graph, each reader waits for its own former writers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from speck.core.graph import Graph, sink_of, source_of
from speck.core.job import Job
from speck.core.plan import Action, Move, Stop, Update


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
        if isinstance(actions[name], Stop) or _changes_source(actions[name])
    }


def _former(action: Action) -> Job | None:
    match action:
        case Stop():
            return action.job
        case Update() | Move():
            return action.previous
    return None


def _changes_source(action: Action) -> bool:
    return isinstance(action, Update | Move) and source_of(action.previous) != source_of(action.job)


def _writers(former: Mapping[str, Job], actions: Mapping[str, Action]) -> dict[str, frozenset[str]]:
    graph = Graph.of(former.values())
    # The running jobs may be of several incomplete revisions; if they form a cycle, there is no order.
    leaving = set() if graph.cycle() else {name for name in former if _leaves_sink(actions[name])}
    return {name: frozenset(graph.writers_of(job)) & leaving for name, job in former.items()}


def _leaves_sink(action: Action) -> bool:
    return isinstance(action, Stop) or (
        isinstance(action, Update | Move) and sink_of(action.previous) != sink_of(action.job)
    )
