"""Changes of jobs on which the order of a plan depends: a job leaves its source, or takes another's place.

Pure decisions, as in :mod:`speck.core.split_changes`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType

from speck.core.graph import Endpoint, Graph, outputs_of, sinks_of, source_of
from speck.core.job import Job, is_query_part, query_name
from speck.core.plan import Action, Start, Stop, former_of
from speck.core.topic import matches


@dataclass(frozen=True, slots=True)
class Rewiring:
    """A job that leaves its source; ``former`` is its present form, ``writers`` leave that topic as well."""

    former: Job
    writers: frozenset[str]


def rewirings(
    actions: Mapping[str, Action],
    *,
    delete_all: bool = False,
    left: Mapping[str, Collection[Endpoint]] = MappingProxyType({}),
) -> dict[str, Rewiring]:
    """The jobs of a plan, by name, whose session must be drained before they leave it.

    These are the jobs that stop, or whose source changes.  There are none if the whole composition is deleted
    (``delete_all``), since no job remains that could use the results.  ``left`` are the sources of
    sessions that jobs leave, by name, besides those that their former forms read.
    """
    if delete_all:
        return {}
    former = {name: found for name, action in actions.items() if (found := former_of(action)) is not None}
    writers = _writers(former, actions, left)
    return {
        name: Rewiring(job, writers[name])
        for name, job in former.items()
        if isinstance(actions[name], Stop) or source_of(job) != source_of(actions[name].job)
    }


def _writers(
    former: Mapping[str, Job], actions: Mapping[str, Action], left: Mapping[str, Collection[Endpoint]]
) -> dict[str, frozenset[str]]:
    """For each job in its present form, the writers that leave its source, or another one that it leaves."""
    gone = {name: _gone(job, actions[name]) for name, job in former.items()}
    graph = Graph.of(former.values(), lambda job: gone[job.job_name])
    if graph.cycle():  # parked messages may be repaired, and written back to where they came from
        graph = Graph.of(former.values(), lambda job: gone[job.job_name].intersection(sinks_of(job)))
    if graph.cycle():  # the running jobs may be of several incomplete revisions: there is no order
        return dict.fromkeys(former, frozenset())
    found = {name: frozenset(graph.writers_of(job)) for name, job in former.items()}
    if not left:
        return found
    more = {name: each.union(_at(graph, left.get(name, ()))) - {name} for name, each in found.items()}
    return found if has_cycle(more) else more


def _at(graph: Graph, sources: Iterable[Endpoint]) -> Iterator[str]:
    """The jobs that write to some sources, which need not be read in the graph."""
    for source in sources:
        for written, names in graph.writers.items():
            if written.broker == source.broker and matches(source.topic, written.topic):
                yield from names


def has_cycle(needs: Mapping[str, Iterable[str]]) -> bool:
    """True if jobs, by name, need each other."""
    try:
        TopologicalSorter(needs).prepare()
    except CycleError:
        return True
    return False


def _gone(former: Job, action: Action) -> frozenset[Endpoint]:
    """The endpoints that a job writes to no more after an action."""
    kept = () if isinstance(action, Stop) else outputs_of(action.job)
    return frozenset(outputs_of(former)).difference(kept)


# --- queries that get or lose their cut


def replacements(actions: Mapping[str, Action]) -> dict[str, frozenset[str]]:
    """The jobs that start, by name, and those that they replace: the ones of a query in its other form.

    Jobs that have run before are none of them: a job that stops may wait for what they have written.
    """
    stopped: dict[tuple[str, bool], set[str]] = defaultdict(set)
    for name, action in actions.items():
        if isinstance(action, Stop) and (query := query_name(action.job)):
            stopped[query, is_query_part(action.job)].add(name)
    return {
        name: frozenset(others)
        for name, action in actions.items()
        if isinstance(action, Start) and not action.changes
        if (others := stopped.get((query_name(action.job), not is_query_part(action.job))))
    }
