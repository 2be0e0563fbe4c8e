"""Which jobs leave what they read, and whom each must wait for: a pure decision.

Messages are under way between two jobs when a plan changes the topic or the broker between them.  They
are not lost when the writer is switched first, the reader works off what the writer had sent it until then,
and only then reads elsewhere.  Down the graph, each reader waits for its own former writers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from speck.core.graph import Graph, sink_of, source_of
from speck.core.job import Job
from speck.core.plan import Action, Move, Stop, Update


@dataclass(frozen=True, slots=True)
class Rewiring:
    """A job that leaves what it reads: ``former`` is how it runs now; ``writers`` leave that topic too."""

    former: Job
    writers: frozenset[str]


def rewirings(actions: Mapping[str, Action], *, all_goes: bool = False) -> dict[str, Rewiring]:
    """The jobs of a plan, by name, whose session must be worked off before they leave it.

    That is each whose source changes, and each that goes.  ``all_goes`` says that nothing of the composition
    is to stay: then nobody waits for results.
    """
    if all_goes:
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
    # What runs may be of several revisions, of which no one was whole: then there is no order to keep.
    leaving = set() if graph.cycle() else {name for name in former if _leaves_sink(actions[name])}
    return {name: frozenset(graph.writers_of(job)) & leaving for name, job in former.items()}


def _leaves_sink(action: Action) -> bool:
    return isinstance(action, Stop) or (
        isinstance(action, Update | Move) and sink_of(action.previous) != sink_of(action.job)
    )
