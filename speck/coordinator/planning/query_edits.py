"""Queries of SQL jobs against those that read and write the same topics, and against their former forms."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from speck.coordinator.planning.query_parts import part_faults, part_notes, program_of
from speck.core.graph import Graph
from speck.core.job import Job, query_name
from speck.core.plan import Deployed
from speck.core.runtime import JobState, JobStatus
from speck.errors import Fault
from speck.sql.contracts import reader_faults
from speck.sql.program import Program
from speck.sql.signature import (
    frames_end_elsewhere,
    leaves_slides,
    merges_otherwise,
    mixes,
    state_faults,
)

_QUOTED = re.compile(r"'([^']+)'")
_WRITER, _READER = "writer ", "reader "
_MIXED = "windows that are open at the change have rows of both conditions"
_SENT = "the totals of the slides that are open are sent first, before its next message"


def refused_queries(
    desired: Mapping[str, Job], stored: Mapping[str, Deployed], others: Sequence[Job]
) -> list[Fault]:
    """A fault for each query whose state, readers or writers do not fit it; ``others`` are jobs elsewhere."""
    faults = [fault for name, job in desired.items() for fault in _state_faults(job, stored.get(name))]
    faults += part_faults(desired, stored)
    running = [each.job for name, each in stored.items() if each.started and name in desired]
    faults += [*_contract_faults(desired, others), *_handover_faults(desired, running)]
    return _once(faults, {**{each.job_name: each for each in others}, **desired})


def _once(faults: Sequence[Fault], jobs: Mapping[str, Job]) -> list[Fault]:
    """The faults; of those that differ only in the jobs of one query, the first with the names of the others.

    ``jobs`` are those that may be named, by name.
    """
    groups = defaultdict[tuple[str, ...], list[Fault]](list)
    for fault in faults:
        message = _QUOTED.sub(lambda found: repr(_query(found[1], jobs)), fault.message)
        groups[_query(fault.job or "", jobs), fault.field or "", message].append(fault)
    return [_with_others(first, more, jobs) for first, *more in groups.values()]


def _query(name: str, jobs: Mapping[str, Job]) -> str:
    """The query of which a name is a job; the name itself for any other."""
    return (query_name(jobs[name]) if name in jobs else "") or name


def _with_others(fault: Fault, others: Sequence[Fault], jobs: Mapping[str, Job]) -> Fault:
    named = [set(_QUOTED.findall(each.message)) | {each.job or ""} for each in (fault, *others)]
    more = sorted(name for name in set[str]().union(*named[1:]) - named[0] if name in jobs)
    return replace(fault, message=f"{fault.message}; likewise {', '.join(more)}") if more else fault


def query_notes(desired: Mapping[str, Job], stored: Mapping[str, Deployed]) -> dict[str, str]:
    """A remark for each query whose windows will have rows of two conditions, or whose slides are sent.

    Also for each job that continues a query without the state of its former jobs.
    """
    found = {}
    for name, job in desired.items():
        before, after = _former(job, stored.get(name)), program_of(job)
        if before is None or after is None:
            continue
        if leaves_slides(before, after):
            found[name] = _SENT
        elif mixes(before, after):
            found[name] = _MIXED
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
        Fault(message, name, "cut")
        for name, job in desired.items()
        for message in _recut_faults(job, stored.get(name), statuses.get(name))
    ]
    return _once(faults, desired)


def _recut_faults(job: Job, deployed: Deployed | None, status: JobStatus | None) -> Iterator[str]:
    before = program_of(deployed.job) if deployed is not None and deployed.started else None
    after = program_of(job)
    if before is None or after is None or before.sends is None or after.sends is None:
        return
    if status is not None and status.state is JobState.RUNNING:
        return
    now = "not running" if status is None else status.state.value
    if merges_otherwise(before, after):
        cuts = f"from {before.sends.cut!r} to {after.sends.cut!r}"
        right = f"expected 'cut: {before.sends.cut}' until it runs"
        yield (
            f"the cut changes {cuts} while the job is {now}: "
            f"rows since its last checkpoint would be counted twice ({right})"
        )
    elif job.upgrade == "stateful" and frames_end_elsewhere(before, after):
        right = "expected the change once it runs, or 'upgrade: stateless'"
        yield (
            f"the frames of the query get other bounds while the job is {now}: "
            f"rows since its last checkpoint would be counted twice ({right})"
        )


def _former(job: Job, deployed: Deployed | None) -> Program | None:
    """The program whose state a job continues; ``None`` if there is none."""
    if deployed is None or not deployed.started or job.upgrade != "stateful":
        return None
    return program_of(deployed.job)


def _state_faults(job: Job, deployed: Deployed | None) -> Iterator[Fault]:
    after = program_of(job)
    if deployed is None or not deployed.started or job.upgrade != "stateful" or deployed.job == job:
        return
    before = program_of(deployed.job)
    if before is None and after is None:
        return
    right = "expected the former one, another job_name, or 'upgrade: stateless': open windows are lost then"
    if before is None or after is None:
        change = "becomes a query" if before is None else "becomes code"
        yield Fault(f"the job {change}: it cannot read the state that it has ({right})", job.job_name, "sql")
        return
    moves = deployed.job.spe_address != job.spe_address and deployed.job.engine != job.engine
    if moves and (after.stateful or leaves_slides(before, after)):
        yield Fault(f"the state cannot move between engines ({right})", job.job_name, "engine")
    if changes := list(state_faults(before, after)):
        message = f"{'; '.join(changes)}: the state does not fit the new form ({right})"
        yield Fault(message, job.job_name, "sql")


def _contract_faults(desired: Mapping[str, Job], others: Sequence[Job]) -> Iterator[Fault]:
    """A fault for each pair of queries, at least one of them desired, that do not understand each other."""
    queries = [each for each in (*desired.values(), *others) if each.query]
    if any(each.job_name in desired for each in queries):
        yield from _pairs(queries, queries, desired)


def _handover_faults(desired: Mapping[str, Job], running: Sequence[Job]) -> Iterator[Fault]:
    """A fault for each new form that does not understand what its former writer has left in the topic."""
    queries = [each for each in desired.values() if each.query]
    former = [each for each in running if each.query]
    changed = [each for each in former if desired[each.job_name] != each]
    # What does not fit now either is no fault of the change, which may be to mend it.
    known = (*_pairs(queries, queries, desired), *_pairs(former if changed else (), former, desired))
    seen = {fault.message for fault in known}
    waiting = _pairs(changed, queries, desired, former=True)
    for fault in (*waiting, *_pairs(queries, changed, desired)):
        if fault.message not in seen:
            seen.add(fault.message)
            message = (
                f"{fault.message}; during the change the topic carries both forms (expected another topic)"
            )
            yield Fault(message, fault.job, fault.field)


def _pairs(
    writers: Sequence[Job], readers: Sequence[Job], desired: Mapping[str, Job], *, former: bool = False
) -> Iterator[Fault]:
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


def _pair_faults(writer: Job, reader: Job, desired: Mapping[str, Job], former: bool) -> Iterator[Fault]:
    written, read = program_of(writer), program_of(reader)
    if written is None or read is None:
        return
    for fault in reader_faults(written, read, former=former):
        topic = f"job {writer.job_name!r} writes {writer.sink_topic!r}"
        message = f"{topic}, which job {reader.job_name!r} reads: {fault}"
        named = writer if writer.job_name in desired else reader
        yield Fault(message, named.job_name, "sql")
