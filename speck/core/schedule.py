"""The order of an operation as data: its steps, and the steps that each of them needs.  A pure decision.

Each action has two steps at least.  *Prepare* changes no running job.  *Act* stops and starts copies, after
all readers of the job's output, its results and what it parks, were prepared, so that nothing is written
before the session stands that keeps it.  A job that stops, or is to read elsewhere, *drains* its source in
between, after its former writers have been switched to others and have come up: so the messages written until
then are processed, and none is lost.  Along the graph, each reader waits for its own former writers: also for
one that was switched before a crash and whose new copy was not observed, as it may be put back.

The combiners of a split whose class changes drain in the same way, although they stay at their source: after
the partitioner, whose rows of the former class only they can read.  A split gets further combiners before its
partitioner writes to them: from then on it does not get fewer.

A query with a cut is several jobs, one without is another: those of its new form start once those of the
former one have stopped, so that both never write its results together.

The executor carries the steps out, the gate of the reconciler asks which jobs are blocked by others, and
``speck plan --steps`` prints them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType
from typing import Any

from speck.core.graph import Endpoint, Graph, outputs_of, sinks_of, source_of
from speck.core.job import Job, is_query_part, query_name
from speck.core.plan import Action, Keep, Move, Plan, Start, Stop, Update, former_of
from speck.core.split_changes import ClassChange, class_changes, growing_splits
from speck.core.topic import matches


class StepKind(StrEnum):
    """The kinds of steps.  The subject of ``BROKER`` is an address, of ``CHANGED`` a composition, else a job.

    ``BROKER``: the broker answers.  ``PREPARE``: an unanswered start is looked for, the engine is asked for
    room and code, the session is made; no running job is changed.  ``DRAIN``: the job processes the messages
    that wait where it will not read any more, or that its next form may not read.  ``ACT``: its copy is
    stopped, its next one started.  ``AWAIT_RUNNING``: the new copy has come up, or the former one is put
    back.  ``SETTLE``: the jobs of a wave, whose number is the subject, have been running for a while.
    ``CHANGED``: all actions are done.  ``PRUNE``: sessions and states of earlier changes are deleted.
    """

    BROKER = "broker"
    PREPARE = "prepare"
    DRAIN = "drain"
    ACT = "act"
    AWAIT_RUNNING = "await_running"
    SETTLE = "settle"
    CHANGED = "changed"
    PRUNE = "prune"


StepKey = tuple[StepKind, str]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of an operation; ``needs`` are the steps that must have succeeded before."""

    kind: StepKind
    subject: str
    needs: frozenset[StepKey] = frozenset()

    @property
    def key(self) -> StepKey:
        """The step as others need it."""
        return self.kind, self.subject


def schedule(
    plan: Plan,
    *,
    delete_all: bool = False,
    left_behind: Collection[str] = frozenset(),
    reached: Collection[str] = frozenset(),
    on_trial: Collection[str] = frozenset(),
    fallbacks: Mapping[str, Job] = MappingProxyType({}),
    prunable: Collection[str] = frozenset(),
    waves: Sequence[Collection[str]] = (),
    left: Mapping[str, Collection[Endpoint]] = MappingProxyType({}),
) -> tuple[Step, ...]:
    """The steps of a plan, each after those that it needs; a kept job has none unless named here.

    ``delete_all``: the whole composition goes, so nothing is drained.  ``left_behind`` are addresses that are
    not asked.  ``reached`` are the jobs that had a session or an attempt once: others can be stopped without
    their broker.  ``on_trial`` are the jobs whose former form can be started again until the present one has
    come up, ``fallbacks`` those forms, ``prunable`` the jobs with sessions or states of earlier changes.
    ``waves`` are all jobs, in the order of a roll-out: between two waves, the jobs of the former one settle.
    No running job of a later wave is touched before; sessions are made beforehand.  ``left`` are the sources
    of sessions that jobs leave, by name, besides those that their former forms read.

    Linear in the jobs of the plan, and in the pairs of a changed writer and a changed reader of its output.
    """
    actions, tried = _changing(plan), {*on_trial, *fallbacks}
    leaving = rewirings(actions, delete_all=delete_all, left=left)
    kept = {each.job.job_name: each.job for each in plan.actions if isinstance(each, Keep)}
    changes = list(class_changes(actions, kept))
    drained = _drained(leaving, changes, waves)
    replaced = replacements(actions)
    grown = {each.partitioner: each.combiners for each in growing_splits(actions)}
    tried_writers = _reverting(plan, leaving, changes, fallbacks, left, waves)
    reverting = _in_order(tried_writers, drained, replaced, grown)
    awaited = sorted(set().union(*reverting.values()) - actions.keys())  # kept
    heirs: dict[str, list[str]] = defaultdict(list)
    for heir, jobs in replaced.items():
        for name in jobs:
            heirs[name].append(heir)
    last = {name: _last_step(action, tried) for name, action in actions.items()}
    brokers = {name: _brokers(action, left_behind, reached) for name, action in actions.items()}
    changed_jobs = Graph.of(each.job for each in actions.values() if not isinstance(each, Stop)).with_parked
    return (
        *(Step(StepKind.BROKER, address) for address in sorted(set().union(*brokers.values()))),
        *(Step(StepKind.PREPARE, name, _on(StepKind.BROKER, brokers[name])) for name in actions),
        *(Step(StepKind.AWAIT_RUNNING, name) for name in awaited),
        *_in_waves(
            [
                step
                for name in _along_the_graph(actions, drained, replaced, grown, reverting)
                for step in _steps_of(
                    actions[name],
                    drained.get(name),
                    replaced.get(name, ()),
                    _not_later(grown.get(name, ()), name, waves),
                    heirs[name],
                    reverting.get(name, ()),
                    changed_jobs,
                    last,
                )
            ],
            waves,
            last,
        ),
        *_unfinished(plan, last, tried.difference(awaited), set(prunable).difference(awaited)),
    )


def _changing(plan: Plan) -> dict[str, Action]:
    return {each.job.job_name: each for each in plan.actions if not isinstance(each, Keep)}


def _on(kind: StepKind, subjects: Iterable[str]) -> frozenset[StepKey]:
    return frozenset((kind, subject) for subject in subjects)


def _last_step(action: Action, on_trial: Collection[str]) -> StepKey:
    """The step with which an action is done: a copy that replaces another must have come up."""
    awaited = isinstance(action, Update | Move) or action.job.job_name in on_trial
    return StepKind.AWAIT_RUNNING if awaited else StepKind.ACT, action.job.job_name


def _brokers(action: Action, left_behind: Collection[str], reached: Collection[str]) -> set[str]:
    """The brokers without which an action waits."""
    job = action.job
    if not isinstance(action, Stop):
        return {job.source_broker, job.sink_broker}
    # A job that never reached its broker (a wrong address, say) can be deleted without it.
    return {job.source_broker}.difference(left_behind) if job.job_name in reached else set()


def _drained(
    leaving: Mapping[str, Rewiring], changes: Iterable[ClassChange], waves: Sequence[Collection[str]]
) -> dict[str, frozenset[str]]:
    """The jobs that drain their source, by name, and the writers that are changed before.

    A combiner in an earlier wave than its partitioner cannot wait for it.
    """
    found = {name: each.writers for name, each in leaving.items()}
    for each in changes:
        if _not_later([each.partitioner], each.combiner, waves):
            writers = frozenset({each.partitioner} if each.follows else ())
            found[each.combiner] = found.get(each.combiner, frozenset()) | writers
    return found


def _reverting(
    plan: Plan,
    leaving: Mapping[str, Rewiring],
    changes: Iterable[ClassChange],
    fallbacks: Mapping[str, Job],
    left: Mapping[str, Collection[Endpoint]],
    waves: Sequence[Collection[str]],
) -> dict[str, frozenset[str]]:
    """The writers on trial, by the job that waits for them, since they may be put back to what they wrote.

    A crash has broken off the wait for their copies.  Their present form may be the desired one.
    """
    tried = {each.job.job_name: each.job for each in plan.actions if not isinstance(each, Stop)}
    again = {
        name: set(outputs_of(fallbacks[name])).difference(outputs_of(job))
        for name, job in tried.items()
        if name in fallbacks
    }
    found: dict[str, list[str]] = defaultdict(list)
    for name, rewiring in leaving.items():
        sources = (source_of(rewiring.former), *left.get(name, ()))
        found[name] += [each for each, outputs in again.items() if each != name and _feed(outputs, sources)]
    for change in changes:
        found[change.combiner] += again.keys() & {change.partitioner}
    waited = {name: frozenset(_not_later(writers, name, waves)) for name, writers in found.items()}
    return {name: writers for name, writers in waited.items() if writers}


def _feed(outputs: Iterable[Endpoint], sources: Iterable[Endpoint]) -> bool:
    """True if one of these sources collects what is written to one of these outputs."""
    pairs = ((each, source) for each in outputs for source in sources)
    return any(each.broker == source.broker and matches(source.topic, each.topic) for each, source in pairs)


def _in_order(
    more: Mapping[str, frozenset[str]], *others: Mapping[str, Collection[str]]
) -> Mapping[str, frozenset[str]]:
    """Further jobs that jobs wait for; none if two would wait for each other, in forms of two revisions."""
    every = (more, *others)
    needs = {name: [one for each in every for one in each.get(name, ())] for each in every for name in each}
    return {} if more and _has_cycle(needs) else more


def _along_the_graph(
    actions: Mapping[str, Action],
    drained: Mapping[str, Collection[str]],
    *others: Mapping[str, Collection[str]],
) -> Iterable[str]:
    """The names of the jobs, each after those that it waits for: writers that it drains after, and others."""
    if not any(drained.values()) and not any(others):
        return actions
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for name in actions:
        sorter.add(name, *(each for before in (drained, *others) for each in sorted(before.get(name, ()))))
    return [each for each in sorter.static_order() if each in actions]


def _steps_of(
    action: Action,
    writers: Collection[str] | None,
    replaced: Collection[str],
    added: Collection[str],
    heirs: Collection[str],
    reverting: Collection[str],
    changed_jobs: Graph,
    last: Mapping[str, StepKey],
) -> Iterator[Step]:
    """The steps of one action after its preparation; it replaces some jobs, or ``heirs`` replace it.

    ``writers`` are changed before the job drains its source; ``None``: it does not.  ``added`` are combiners
    that are added to the split, ``reverting`` writers that may yet be put back to where the job leaves.
    """
    name = action.job.job_name
    needs = {(StepKind.PREPARE, name), *((StepKind.ACT, each) for each in replaced)}
    needs |= {last[each] for each in added}
    if writers is not None:
        # A writer that does not come up is rolled back, and writes what and where it wrote before.
        switched = [last.get(each, (StepKind.AWAIT_RUNNING, each)) for each in (*writers, *reverting)]
        # What comes after the drain must be in the sessions of those that replace the job.
        prepared = _on(StepKind.PREPARE, [name, *heirs])
        yield Step(StepKind.DRAIN, name, prepared.union(switched))
        needs.add((StepKind.DRAIN, name))
    if not isinstance(action, Stop):
        needs |= _on(StepKind.PREPARE, changed_jobs.readers_of(action.job))
    yield Step(StepKind.ACT, name, frozenset(needs))
    if last[name] != (StepKind.ACT, name):
        yield Step(*last[name], frozenset({(StepKind.ACT, name)}))


def _in_waves(
    steps: Sequence[Step], waves: Sequence[Collection[str]], last: Mapping[str, StepKey]
) -> Iterator[Step]:
    """The steps on jobs, wave by wave, with the steps in which a wave settles."""
    if len(waves) < 2:
        yield from steps
        return
    number = {job: count for count, jobs in enumerate(waves) for job in jobs}
    settled: frozenset[StepKey] = frozenset()
    for count, jobs in enumerate(waves):
        for step in steps:
            if number[step.subject] == count:
                gated = step.kind in (StepKind.DRAIN, StepKind.ACT)
                yield replace(step, needs=step.needs | settled) if gated else step
        if count < len(waves) - 1:
            done = frozenset(last[job] for job in jobs if job in last)
            settle = Step(StepKind.SETTLE, str(count + 1), done | settled)
            yield settle
            settled = frozenset({settle.key})


def _unfinished(
    plan: Plan, last: Mapping[str, StepKey], on_trial: Collection[str], prunable: Collection[str]
) -> Iterator[Step]:
    """The steps on kept jobs: what earlier operations have left to be awaited or deleted."""
    unchanged = [each.job.job_name for each in plan.actions if isinstance(each, Keep)]
    yield from (Step(StepKind.AWAIT_RUNNING, name) for name in unchanged if name in on_trial)
    # The former form of a job on trial may have to be started again.
    pruned = [name for name in unchanged if name in prunable and name not in on_trial]
    if not pruned:
        return
    changed = [Step(StepKind.CHANGED, plan.composition, frozenset(last.values()))] if last else []
    yield from changed
    needs = frozenset(each.key for each in changed)
    yield from (Step(StepKind.PRUNE, name, needs) for name in pruned)


def schedule_data(steps: Collection[Step]) -> list[dict[str, Any]]:
    """Steps as plain data, numbered from 1; ``needs`` are the numbers of earlier ones."""
    numbers = {step.key: number for number, step in enumerate(steps, 1)}
    return [
        {
            "number": numbers[step.key],
            "kind": step.kind,
            "subject": step.subject,
            "needs": sorted(numbers[need] for need in step.needs),
        }
        for step in steps
    ]


# --- blocked jobs


def blocked(steps: Iterable[Step], waits: Mapping[str, str], prepared: Set[str]) -> dict[str, str]:
    """The jobs that must not be changed now, with the reasons: those of ``waits``, and all behind them.

    ``prepared`` are the jobs that have a session already where they are to read: they hold up no writer.
    """
    behind: dict[str, list[str]] = defaultdict(list)
    for step in steps:
        if step.kind in (StepKind.DRAIN, StepKind.ACT):
            for kind, other in step.needs:
                if other != step.subject and not (kind is StepKind.PREPARE and other in prepared):
                    behind[other].append(step.subject)
    found, cause = dict(waits), {name: name for name in waits}
    reached = list(found)
    while reached:
        other = reached.pop()
        for name in behind.get(other, ()):
            if name not in found:
                # The first cause alone, not each job on the way: along a long chain that would be quadratic.
                root = cause[name] = cause[other]
                way = f"job {other!r}" if other == root else f"job {other!r}, blocked by job {root!r}"
                found[name] = f"waits for {way}, which {waits[root]}"
                reached.append(name)
    return found


# --- jobs that drain their source


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
    (``delete_all``), since no job remains that could use the results.  ``left`` is as in :func:`schedule`.
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
    return found if _has_cycle(more) else more


def _at(graph: Graph, sources: Iterable[Endpoint]) -> Iterator[str]:
    """The jobs that write to some sources, which need not be read in the graph."""
    for source in sources:
        for written, names in graph.writers.items():
            if written.broker == source.broker and matches(source.topic, written.topic):
                yield from names


def _has_cycle(needs: Mapping[str, Iterable[str]]) -> bool:
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


def _not_later(names: Collection[str], name: str, waves: Sequence[Collection[str]]) -> list[str]:
    """Those of these jobs that are in no later wave than the one of this name."""
    number = {job: count for count, jobs in enumerate(waves) for job in jobs}
    return [each for each in names if number.get(each, 0) <= number.get(name, 0)]
