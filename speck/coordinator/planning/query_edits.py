"""Queries of SQL jobs against those that read and write the same topics, and against their former forms."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from speck.coordinator.planning.query_parts import part_faults, part_notes, program_of
from speck.core.graph import Graph
from speck.core.job import Job, query_name
from speck.core.plan import Deployed, continued_jobs
from speck.core.runtime import JobState, JobStatus
from speck.errors import Fault
from speck.sql.contracts import reader_faults
from speck.sql.signature import (
    frames_end_elsewhere,
    leaves_slides,
    merges_otherwise,
    mixes,
    state_faults,
)

_WRITER, _READER = "writer ", "reader "
_MIXED = "windows that are open at the change have rows of both conditions"
_SENT = "the totals of the slides that are open are sent first, before its next message"


class _Named(NamedTuple):
    """A fault, and the names of the jobs that it is about."""

    fault: Fault
    jobs: tuple[str, ...]


def refused_queries(
    desired: Mapping[str, Job], stored: Mapping[str, Deployed], others: Sequence[Job]
) -> list[Fault]:
    """A fault for each query whose state, readers or writers do not fit it; ``others`` are jobs elsewhere."""
    faults = [
        _Named(fault, (after.job_name,))
        for before, after in continued_jobs(desired, stored)
        for fault in _state_faults(before, after)
    ]
    faults += (_Named(fault, ()) for fault in part_faults(desired, stored))
    running = [each.job for name, each in stored.items() if each.started and name in desired]
    faults += [*_contract_faults(desired, others), *_handover_faults(desired, running)]
    return _once(faults, {**{each.job_name: each for each in others}, **desired})


def _once(faults: Sequence[_Named], jobs: Mapping[str, Job]) -> list[Fault]:
    """The faults; of those of one query with one cause, the first with the names of the other jobs.

    ``jobs`` are all that the faults are about, by name.
    """
    groups = defaultdict[Hashable, list[_Named]](list)
    for number, each in enumerate(faults):
        cause = number if each.fault.cause is None else each.fault.cause
        queries = tuple(query_name(jobs[name]) or name for name in each.jobs)
        groups[queries, each.fault.field, cause].append(each)
    return [_with_others(first, more) for first, *more in groups.values()]


def _with_others(first: _Named, others: Sequence[_Named]) -> Fault:
    more = sorted(set[str]().union(*(each.jobs for each in others)).difference(first.jobs))
    fault = first.fault
    return replace(fault, message=f"{fault.message}; likewise {', '.join(more)}") if more else fault


def query_notes(desired: Mapping[str, Job], stored: Mapping[str, Deployed]) -> dict[str, str]:
    """A remark for each query whose windows will have rows of two conditions, or whose slides are sent.

    Also for each job that continues a query without the state of its former jobs.
    """
    found = {}
    for deployed, job in continued_jobs(desired, stored):
        before = program_of(deployed) if job.upgrade == "stateful" else None
        after = program_of(job)
        if before is None or after is None:
            continue
        if leaves_slides(before, after):
            found[job.job_name] = _SENT
        elif mixes(before, after):
            found[job.job_name] = _MIXED
    return found | part_notes(desired, stored)


def refused_recuts(
    desired: Mapping[str, Job], stored: Mapping[str, Deployed], statuses: Mapping[str, JobStatus]
) -> list[Fault]:
    """A fault for each input job that begins or ends to merge rows while its former form does not run.

    It would start from the last checkpoint, and send the rows since then again in a form in which the rest
    cannot recognise them.  In its former form it repeats them as they were.  So it is with frames that end
    at other messages than before, as those of another version may; 'upgrade: stateless' accepts that, since
    no file gives the job its former form again.
    """
    faults = [
        _Named(fault, (job.job_name,))
        for deployed, job in continued_jobs(desired, stored)
        for fault in _recut_faults(deployed, job, statuses.get(job.job_name))
    ]
    return _once(faults, desired)


def _recut_faults(deployed: Job, job: Job, status: JobStatus | None) -> Iterator[Fault]:
    before, after = program_of(deployed), program_of(job)
    if before is None or after is None or before.sends is None or after.sends is None:
        return
    if status is not None and status.state is JobState.RUNNING:
        return
    now = "not running" if status is None else status.state.value
    if merges_otherwise(before, after):
        cuts = f"from {before.sends.cut!r} to {after.sends.cut!r}"
        right = f"expected 'cut: {before.sends.cut}' until it runs"
        message = (
            f"the cut changes {cuts} while the job is {now}: "
            f"rows since its last checkpoint would be counted twice ({right})"
        )
        yield Fault(message, job.job_name, "cut", cause=("cut", before.sends.cut, after.sends.cut, now))
    elif job.upgrade == "stateful" and frames_end_elsewhere(before, after):
        right = "expected the change once it runs, or 'upgrade: stateless'"
        message = (
            f"the frames of the query get other bounds while the job is {now}: "
            f"rows since its last checkpoint would be counted twice ({right})"
        )
        yield Fault(message, job.job_name, "cut", cause=("frames", now))


def _state_faults(deployed: Job, job: Job) -> Iterator[Fault]:
    if job.upgrade != "stateful" or deployed == job:
        return
    before, after = program_of(deployed), program_of(job)
    if before is None and after is None:
        return
    right = "expected the former one, another job_name, or 'upgrade: stateless': open windows are lost then"
    if before is None or after is None:
        change = "becomes a query" if before is None else "becomes code"
        message = f"the job {change}: it cannot read the state that it has ({right})"
        yield Fault(message, job.job_name, "sql", cause=change)
        return
    moves = deployed.spe_address != job.spe_address and deployed.engine != job.engine
    if moves and (after.stateful or leaves_slides(before, after)):
        message = f"the state cannot move between engines ({right})"
        yield Fault(message, job.job_name, "engine", cause="moves")
    if changes := list(state_faults(before, after)):
        message = f"{'; '.join(changes)}: the state does not fit the new form ({right})"
        yield Fault(message, job.job_name, "sql", cause=tuple(changes))


def _contract_faults(desired: Mapping[str, Job], others: Sequence[Job]) -> Iterator[_Named]:
    """A fault for each pair of queries, at least one of them desired, that do not understand each other."""
    queries = [each for each in (*desired.values(), *others) if each.query]
    if any(each.job_name in desired for each in queries):
        yield from _pairs(queries, queries, desired)


def _handover_faults(desired: Mapping[str, Job], running: Sequence[Job]) -> Iterator[_Named]:
    """A fault for each new form that does not understand what its former writer has left in the topic."""
    queries = [each for each in desired.values() if each.query]
    former = [each for each in running if each.query]
    changed = [each for each in former if desired[each.job_name] != each]
    # What does not fit now either is no fault of the change, which may be to mend it.
    known = (*_pairs(queries, queries, desired), *_pairs(former if changed else (), former, desired))
    seen = {(fault.cause, jobs) for fault, jobs in known}
    waiting = _pairs(changed, queries, desired, former=True)
    for fault, jobs in (*waiting, *_pairs(queries, changed, desired)):
        if (fault.cause, jobs) not in seen:
            seen.add((fault.cause, jobs))
            message = (
                f"{fault.message}; during the change the topic carries both forms (expected another topic)"
            )
            yield _Named(replace(fault, message=message, cause=("handover", fault.cause)), jobs)


def _pairs(
    writers: Sequence[Job], readers: Sequence[Job], desired: Mapping[str, Job], *, former: bool = False
) -> Iterator[_Named]:
    if not writers or not readers:
        return
    # A job may be on both sides, in two forms.
    sides = {
        _WRITER: {each.job_name: each for each in writers},
        _READER: {each.job_name: each for each in readers},
    }
    graph = Graph.of(
        replace(job, job_name=f"{side}{name}") for side, jobs in sides.items() for name, job in jobs.items()
    )
    for reader in readers:
        for found in graph.writers_of(graph.jobs[f"{_READER}{reader.job_name}"]):
            name = found.removeprefix(_WRITER)
            if found.startswith(_WRITER) and {name, reader.job_name} & desired.keys():
                yield from _pair_faults(sides[_WRITER][name], reader, desired, former)


def _pair_faults(writer: Job, reader: Job, desired: Mapping[str, Job], former: bool) -> Iterator[_Named]:
    written, read = program_of(writer), program_of(reader)
    if written is None or read is None:
        return
    for fault in reader_faults(written, read, former=former):
        topic = f"job {writer.job_name!r} writes {writer.sink_topic!r}"
        message = f"{topic}, which job {reader.job_name!r} reads: {fault}"
        named = writer if writer.job_name in desired else reader
        cause = (writer.sink_topic, fault)
        yield _Named(Fault(message, named.job_name, "sql", cause=cause), (writer.job_name, reader.job_name))
