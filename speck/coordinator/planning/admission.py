"""Admission of a composition: its claims to job names and sessions, and the quotas of a coordinator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from speck.core.graph import Endpoint, Graph
from speck.core.inventory import Inventory
from speck.core.job import Composition, Job, is_query_part, query_name
from speck.core.plan import Action, Keep, Move, Plan, Start
from speck.core.quotas import refuse_composition, refuse_jobs
from speck.core.settings import Quotas
from speck.core.split import Role, part_of
from speck.core.split_changes import growing_splits
from speck.errors import Fault, InvalidInput
from speck.schema.compositions import client_id_conflicts
from speck.store import Store
from speck.store.deployments import last_revisions


def refuse_removed_sites(plan: Plan, inventory: Inventory) -> None:
    """Raise :class:`InvalidInput` for each job that a plan brings to a site that the inventory has no more.

    The site may have been removed since the composition was read: it is an earlier revision, or a plan that
    was shown.  Nobody knows the way to its addresses any more, which may be those of other places here.
    """
    known = ", ".join(sorted(inventory.sites)) or "none"
    jobs = [each.job for each in plan.actions if _arrives(each, plan)]
    faults = [
        Fault(
            f"site {job.site!r}, which had engine {job.spe_address}, is not in the inventory any more "
            f"(expected another site; known: {known})",
            job=job.job_name,
            field="site",
            value=job.site,
        )
        for job in jobs
        if job.site is not None
        and job.site not in inventory.sites
        and inventory.site_of_engine(job.spe_address) is None
    ]
    if faults:
        raise InvalidInput(faults, f"composition {plan.composition!r}")


def _arrives(action: Action, plan: Plan) -> bool:
    """True for an action by which a job gets to another engine than it is at, or to its first one."""
    new = action.job.job_name not in plan.basis.stored
    moved = any(each.field == "spe_address" for each in action.changes)
    return isinstance(action, Start | Move) and (new or moved)


def refuse_part(job: Job | None) -> None:
    """Raise :class:`InvalidInput` when a job that is to be deleted alone is a part of several jobs.

    The others would continue to write to it.
    """
    if job is None:
        return
    part = part_of(job)
    if part is not None and part.role is not Role.WHOLE:
        whole = f"key_split of {part.of!r}"
    elif is_query_part(job):
        whole = f"query {query_name(job)!r}"
    else:
        return
    message = (
        f"is one of the jobs of the {whole}, whose others would continue to write to it or wait for it "
        "(expected an apply of the composition without the whole of it)"
    )
    raise InvalidInput([Fault(message, job=job.job_name)], "job")


def refuse_claimed(store: Store, quotas: Quotas, composition: Composition) -> None:
    """Raise :class:`InvalidInput` when a job name or a session belongs to another composition.

    Raises :class:`~speck.errors.Conflict` when a quota would be exceeded.
    """
    elsewhere = desired_elsewhere(store, composition.name)
    # Both reads name owners: another composition may be accepted between them.
    owners = {job.job_name: owner for owner, jobs in elsewhere.items() for job in jobs}
    owners |= {record.name: record.composition for record in store.jobs()}
    refuse_composition(quotas, {head.name for head in store.heads()}, composition.name)
    refuse_jobs(quotas, composition.name, composition.jobs, owners)
    faults = [
        Fault(
            f"job_name {name!r} is already a job of composition {owners[name]!r} (expected another name; "
            f"to change that composition, give this one its name: 'name: {owners[name]}')",
            job=name,
            field="job_name",
            value=name,
        )
        for name in composition.jobs
        if owners.get(name, composition.name) != composition.name
    ]
    taken = {fault.job for fault in faults}
    others = [job for job in chain.from_iterable(elsewhere.values()) if job.job_name not in taken]
    faults += client_id_conflicts([*others, *composition.jobs.values()])
    if not faults:
        faults += _mixed_channels(composition, others, owners)
    if faults:
        raise InvalidInput(faults, f"composition {composition.name!r}")


def _mixed_channels(
    composition: Composition, others: Sequence[Job], owners: Mapping[str, str]
) -> Iterator[Fault]:
    """A fault for each topic placed by SpecK that would carry messages of two compositions.

    Reading another composition's channel at its broker is no fault: nothing is mixed.
    """
    if not any(len(job.placed) > 1 for job in (*composition.jobs.values(), *others)):
        return
    graph = Graph.of([*composition.jobs.values(), *others])
    for topic, writers in graph.writers.items():
        own = [name for name in writers if name in composition.jobs]
        foreign = [name for name in writers if name not in composition.jobs]
        if own and foreign and any("sink_broker" in graph.jobs[name].placed for name in writers):
            yield _mixed_channel(own[0], "sink_topic", topic, foreign[0], owners)
    for read, matched in graph.matched.items():
        for topic in matched:
            yield from _mixed_readers(graph, composition, read, topic, owners)


def _mixed_readers(
    graph: Graph, composition: Composition, read: Endpoint, topic: Endpoint, owners: Mapping[str, str]
) -> Iterator[Fault]:
    placed = [name for name in graph.readers[read] if "source_broker" in graph.jobs[name].placed]
    for reader in placed:
        own = reader in composition.jobs
        mixed = [name for name in graph.writers[topic] if (name in composition.jobs) != own]
        if mixed:
            named = (reader, "source_topic", mixed[0]) if own else (mixed[0], "sink_topic", reader)
            yield _mixed_channel(named[0], named[1], topic, named[2], owners)
            return


def _mixed_channel(job: str, field: str, topic: Endpoint, other: str, owners: Mapping[str, str]) -> Fault:
    message = (
        f"{field} {topic.topic!r} at {topic.broker} is placed by SpecK, and a topic of job {other!r} of "
        f"composition {owners.get(other, '')!r} there (expected another topic, or another broker)"
    )
    return Fault(message, job=job, field=field, value=topic.topic)


def desired_elsewhere(store: Store, name: str) -> dict[str, list[Job]]:
    """The desired jobs of the other compositions, by composition."""
    others = ((head, last) for head, last in last_revisions(store) if head.name != name)
    return {head.name: list(last.jobs.values()) for head, last in others}


def refuse_growth(plan: Plan, *, atomic: bool, waves: bool) -> None:
    """Raise :class:`InvalidInput` for splits with further combiners that a revert would have to remove.

    A split does not get fewer.  Its partitioner changes after the combiners were started, so that the change
    of one split alone can be reverted, though not in ``waves``, which settle after it.
    """
    actions = {each.job.job_name: each for each in plan.actions if not isinstance(each, Keep)}
    faults = []
    for split in growing_splits(actions) if atomic or waves else ():
        others = sorted(actions.keys() - {split.partitioner, *split.combiners})
        if waves:
            case, right = "a wave does not settle", "this change without waves"
        elif others:
            case, right = f"job {others[0]!r} fails", "them in a change of their own, or one not atomic"
        else:
            continue
        more = f"the split gets further combiners ({split.after} instead of {split.before})"
        message = f"{more}, which cannot be reverted if {case} (expected {right})"
        faults.append(Fault(message, job=split.name, field="key_split"))
    if faults:
        raise InvalidInput(faults, f"composition {plan.composition!r}")
