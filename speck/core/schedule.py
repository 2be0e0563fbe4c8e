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
from dataclasses import dataclass, field, replace
from enum import StrEnum
from graphlib import TopologicalSorter
from typing import Any

from speck.core.graph import Endpoint, Graph, outputs_of, source_of
from speck.core.job import Job
from speck.core.plan import Action, Keep, Move, Plan, Stop, Update
from speck.core.rewiring import Rewiring, has_cycle, replacements, rewirings
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """The traces of earlier operations, on which the order of the next one depends.

    ``reached`` are the jobs that had a session or an attempt once: others can be stopped without their
    broker.  ``fallbacks`` are the former forms of jobs on trial, which can be started again until the present
    ones have come up, ``prunable`` the jobs with sessions or states of earlier changes.  ``left`` are the
    sources of sessions that jobs leave, by name, besides those that their former forms read.
    """

    reached: Collection[str] = frozenset()
    fallbacks: Mapping[str, Job] = field(default_factory=dict)
    prunable: Collection[str] = frozenset()
    left: Mapping[str, Collection[Endpoint]] = field(default_factory=dict)


_NO_LEFTOVERS = Leftovers()


def schedule(
    plan: Plan,
    leftovers: Leftovers = _NO_LEFTOVERS,
    *,
    delete_all: bool = False,
    left_behind: Collection[str] = frozenset(),
    waves: Sequence[Collection[str]] = (),
) -> tuple[Step, ...]:
    """The steps of a plan, each after those that it needs; a kept job has none unless named here.

    ``delete_all``: the whole composition goes, so nothing is drained.  ``left_behind`` are addresses that are
    not asked.  ``waves`` are all jobs, in the order of a roll-out: between two waves, the jobs of the former
    one settle.  No running job of a later wave is touched before; sessions are made beforehand.

    Linear in the jobs of the plan, and in the pairs of a changed writer and a changed reader of its output.
    """
    actions, fallbacks = _changing(plan), leftovers.fallbacks
    wave_of = {job: number for number, jobs in enumerate(waves) for job in jobs}
    leaving = rewirings(actions, delete_all=delete_all, left=leftovers.left)
    order = _order(plan, leaving, wave_of, leftovers)
    awaited = order.reverting_writers() - actions.keys()  # kept
    last = {name: _last_step(action, fallbacks) for name, action in actions.items()}
    brokers = {name: _brokers(action, left_behind, leftovers.reached) for name, action in actions.items()}
    changed_jobs = Graph.of(each.job for each in actions.values() if not isinstance(each, Stop)).with_parked
    on_jobs = [
        step for name in order.names(actions) for step in _steps_of(actions[name], order, changed_jobs, last)
    ]
    return (
        *(Step(StepKind.BROKER, address) for address in sorted(set().union(*brokers.values()))),
        *(Step(StepKind.PREPARE, name, _on(StepKind.BROKER, brokers[name])) for name in actions),
        *(Step(StepKind.AWAIT_RUNNING, name) for name in sorted(awaited)),
        *_in_waves(on_jobs, waves, wave_of, last),
        *_unfinished(plan, last, fallbacks.keys() - awaited, set(leftovers.prunable) - awaited),
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


# --- the jobs that others wait for


@dataclass(frozen=True, slots=True)
class _Order:
    """The jobs that others of a plan wait for, by the name of the one that waits.

    ``drained`` has the writers that are changed before a job drains its source, for each job that does;
    ``reverting`` further ones, which may yet be put back to where the job leaves.  ``replaced`` has the jobs
    whose place one takes, ``heirs`` the same by the name of the replaced one.  ``added`` has the combiners
    that are added to the split of a partitioner.  ``wave_of`` is the number of each job's wave, if there are
    waves.
    """

    drained: Mapping[str, frozenset[str]]
    reverting: Mapping[str, frozenset[str]]
    replaced: Mapping[str, frozenset[str]]
    heirs: Mapping[str, Sequence[str]]
    added: Mapping[str, frozenset[str]]
    wave_of: Mapping[str, int]

    def reverting_writers(self) -> set[str]:
        """The writers that may yet be put back, and that a job waits for."""
        return set().union(*self.reverting.values())

    def names(self, actions: Mapping[str, Action]) -> Iterable[str]:
        """The names of the jobs that change, each after those that it waits for."""
        others = self.replaced, self.added, self.reverting
        if not any(self.drained.values()) and not any(others):
            return actions
        sorter: TopologicalSorter[str] = TopologicalSorter()
        for name in actions:
            needs = (before.get(name, ()) for before in (self.drained, *others))
            sorter.add(name, *(each for found in needs for each in sorted(found)))
        return [each for each in sorter.static_order() if each in actions]


def _order(
    plan: Plan, leaving: Mapping[str, Rewiring], wave_of: Mapping[str, int], leftovers: Leftovers
) -> _Order:
    actions = _changing(plan)
    kept = {each.job.job_name: each.job for each in plan.actions if isinstance(each, Keep)}
    changes = list(class_changes(actions, kept))
    drained = _drained(leaving, changes, wave_of)
    replaced = replacements(actions)
    heirs: dict[str, list[str]] = defaultdict(list)
    for heir, jobs in replaced.items():
        for name in jobs:
            heirs[name].append(heir)
    added = {each.partitioner: each.combiners for each in growing_splits(actions)}
    found = _reverting(_outputs_again(plan, leftovers.fallbacks), leaving, changes, leftovers.left)
    waited = {name: frozenset(_not_later(writers, name, wave_of)) for name, writers in found.items()}
    reverting = {name: writers for name, writers in waited.items() if writers}
    if reverting and _wait_for_each_other(reverting, drained, replaced, added):  # in forms of two revisions
        reverting = {}
    return _Order(drained, reverting, replaced, heirs, added, wave_of)


def _drained(
    leaving: Mapping[str, Rewiring], changes: Iterable[ClassChange], wave_of: Mapping[str, int]
) -> dict[str, frozenset[str]]:
    """The jobs that drain their source, by name, and the writers that are changed before.

    A combiner in an earlier wave than its partitioner cannot wait for it.
    """
    found = {name: each.writers for name, each in leaving.items()}
    for each in changes:
        if _not_later([each.partitioner], each.combiner, wave_of):
            writers = frozenset({each.partitioner} if each.follows else ())
            found[each.combiner] = found.get(each.combiner, frozenset()) | writers
    return found


def _outputs_again(plan: Plan, fallbacks: Mapping[str, Job]) -> dict[str, set[Endpoint]]:
    """The outputs that jobs on trial write no more, and write again if they are put back, by job name.

    A crash has broken off the wait for their copies.  Their present form may be the desired one.
    """
    tried = {each.job.job_name: each.job for each in plan.actions if not isinstance(each, Stop)}
    return {
        name: set(outputs_of(fallbacks[name])).difference(outputs_of(job))
        for name, job in tried.items()
        if name in fallbacks
    }


def _reverting(
    again: Mapping[str, Collection[Endpoint]],
    leaving: Mapping[str, Rewiring],
    changes: Iterable[ClassChange],
    left: Mapping[str, Collection[Endpoint]],
) -> Mapping[str, Collection[str]]:
    """The writers on trial, by the job that waits for them, since they may be put back to what they wrote."""
    found: dict[str, list[str]] = defaultdict(list)
    for name, rewiring in leaving.items():
        sources = (source_of(rewiring.former), *left.get(name, ()))
        found[name] += [each for each, outputs in again.items() if each != name and _feed(outputs, sources)]
    for change in changes:
        found[change.combiner] += again.keys() & {change.partitioner}
    return found


def _feed(outputs: Iterable[Endpoint], sources: Iterable[Endpoint]) -> bool:
    """True if one of these sources collects what is written to one of these outputs."""
    pairs = ((each, source) for each in outputs for source in sources)
    return any(each.broker == source.broker and matches(source.topic, each.topic) for each, source in pairs)


def _wait_for_each_other(*waits: Mapping[str, Collection[str]]) -> bool:
    return has_cycle(
        {name: [one for each in waits for one in each.get(name, ())] for each in waits for name in each}
    )


def _not_later(names: Iterable[str], name: str, wave_of: Mapping[str, int]) -> list[str]:
    """Those of these jobs that are in no later wave than the one of this name."""
    return [each for each in names if wave_of.get(each, 0) <= wave_of.get(name, 0)]


# --- the steps of actions


def _steps_of(
    action: Action, order: _Order, changed_jobs: Graph, last: Mapping[str, StepKey]
) -> Iterator[Step]:
    """The steps of one action after its preparation; ``last`` are those with which the actions are done."""
    name = action.job.job_name
    needs = {(StepKind.PREPARE, name), *_on(StepKind.ACT, order.replaced.get(name, ()))}
    needs |= {last[each] for each in _not_later(order.added.get(name, ()), name, order.wave_of)}
    if name in order.drained:
        # A writer that does not come up is rolled back, and writes what and where it wrote before.
        writers = (*order.drained[name], *order.reverting.get(name, ()))
        switched = [last.get(each, (StepKind.AWAIT_RUNNING, each)) for each in writers]
        # What comes after the drain must be in the sessions of those that replace the job.
        prepared = _on(StepKind.PREPARE, [name, *order.heirs.get(name, ())])
        yield Step(StepKind.DRAIN, name, prepared.union(switched))
        needs.add((StepKind.DRAIN, name))
    if not isinstance(action, Stop):
        needs |= _on(StepKind.PREPARE, changed_jobs.readers_of(action.job))
    yield Step(StepKind.ACT, name, frozenset(needs))
    if last[name] != (StepKind.ACT, name):
        yield Step(*last[name], frozenset({(StepKind.ACT, name)}))


def _in_waves(
    steps: Sequence[Step],
    waves: Sequence[Collection[str]],
    wave_of: Mapping[str, int],
    last: Mapping[str, StepKey],
) -> Iterator[Step]:
    """The steps on jobs, wave by wave, with the steps in which a wave settles."""
    if len(waves) < 2:
        yield from steps
        return
    in_wave: dict[int, list[Step]] = defaultdict(list)
    for step in steps:
        in_wave[wave_of[step.subject]].append(step)
    settled: frozenset[StepKey] = frozenset()
    for count, jobs in enumerate(waves):
        for step in in_wave[count]:
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
