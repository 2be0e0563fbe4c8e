"""Queries that continue in other jobs: with a cut or without, or with other inputs.

A job does not inherit the state of another one, and each has a session of its own: what is published while
one replaces the other is read by both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from speck.core.graph import source_of
from speck.core.job import Job, is_query_part, query_name
from speck.core.plan import Deployed
from speck.errors import Fault
from speck.sql.program import Program, parsed

_OTHERS = "another job_name, or 'upgrade: stateless': open windows are lost then"
_TWICE = "results of messages that arrive during the change may come twice"


def program_of(job: Job) -> Program | None:
    """The program of a SQL job; ``None`` for another one."""
    return parsed(str(job.query["program"])) if job.query else None


@dataclass(frozen=True)
class _Handover:
    """A query that continues: the running jobs that it ``leaves``, and all that it is to have."""

    leaves: tuple[Job, ...]
    desired: tuple[Job, ...]
    begins: tuple[Job, ...]  # of ``desired``, those that do not run now

    @property
    def results(self) -> list[Job]:
        """The jobs that are to write its results."""
        return [job for job in self.desired if not _sends(job)]


def _handovers(desired: Mapping[str, Job], stored: Mapping[str, Deployed]) -> Iterator[_Handover]:
    """The queries that leave jobs and have others; one that loses all of its jobs has ended."""
    running = {name for name, each in stored.items() if each.started}
    left = defaultdict[str, list[Job]](list)
    for name in sorted(running - desired.keys()):
        if query := query_name(stored[name].job):
            left[query].append(stored[name].job)
    if not left:
        return
    jobs = defaultdict[str, list[Job]](list)
    for name, job in desired.items():
        if (query := query_name(job) or name) in left:
            jobs[query].append(job)
    for query, found in jobs.items():
        begins = tuple(job for job in found if job.job_name not in running)
        yield _Handover(tuple(left[query]), tuple(found), begins)


def part_faults(desired: Mapping[str, Job], stored: Mapping[str, Deployed]) -> Iterator[Fault]:
    """A fault for each state that a query leaves behind, and for inputs that would count rows twice."""
    for found in _handovers(desired, stored):
        yield from _state_faults(found)
        yield from _twice_faults(found)
    yield from _rest_faults(desired, stored)


def part_notes(desired: Mapping[str, Job], stored: Mapping[str, Deployed]) -> dict[str, str]:
    """A remark for each job that continues a query without the state of the jobs that it leaves."""
    notes: dict[str, str] = {}
    for found in _handovers(desired, stored):
        for job in found.results:
            if note := _note(job, found):
                notes[job.job_name] = note
    for job, _ in _rest_changes(desired, stored):
        notes.setdefault(job.job_name, f"{_TWICE}; none are lost")
    return notes


def _state_faults(found: _Handover) -> Iterator[Fault]:
    heir = next(iter(found.results), None)
    if heir is None or heir.upgrade != "stateful":
        return
    stateful = [job for job in found.leaves if _is_stateful(job)]
    states = [each for each in stateful if not _sends(each)]
    yield from (_state_fault(job, heir) for job in states)
    if stateful and not states:
        yield _totals_fault(stateful, heir)


def _totals_fault(inputs: Sequence[Job], heir: Job) -> Fault:
    cuts = ", ".join(f"{each.query['input']}: columns" for each in inputs)
    right = f"expected 'cut: {{{cuts}}}' first, which sends them, or 'upgrade: stateless': they are lost then"
    names = ", ".join(repr(each.job_name) for each in inputs)
    loses, have = ("an input", "has") if len(inputs) == 1 else ("inputs", "have")
    message = f"the query loses {loses}: {names} {have} totals of slides that are open ({right})"
    return Fault(message, heir.job_name, "cut")


def _state_fault(job: Job, heir: Job) -> Fault:
    state = f"the state is that of {job.job_name!r}"
    if not _is_stateful(heir) and heir.query:
        return Fault(f"the query loses its windows: {state} (expected {_OTHERS})", heir.job_name, "sql")
    if is_query_part(heir):
        message = f"the query gets a cut: {state} (expected as before, {_OTHERS})"
    else:
        message = f"the query loses its cut: {state} (expected {_as_whole(heir)}; {_OTHERS})"
    return Fault(message, heir.job_name, "cut")


def _as_whole(job: Job) -> str:
    whole = (
        f"'cut: columns' with 'rest: {job.site}'" if job.site else "'cut: columns' with that site as 'rest'"
    )
    return f"{whole}, which runs all of it where its table is published and keeps the state"


def _twice_faults(found: _Handover) -> Iterator[Fault]:
    """A fault for inputs under other names: the rest would count what both jobs of such an input read."""
    renamed = [
        (former, job)
        for job in filter(_sends, found.begins)
        for former in filter(_sends, found.leaves)
        if source_of(job) == source_of(former)
    ]
    if renamed:
        inputs = [f"{former.query['input']!r} becomes {job.query['input']!r}" for former, job in renamed]
        message = (
            f"input{'s' * (len(inputs) > 1)} {', '.join(inputs)}, and rows that arrive during the change "
            "would be counted twice (expected the former names of the table and of the site, or another "
            "job_name)"
        )
        yield Fault(message, renamed[0][1].job_name, "sql")


def _rest_faults(desired: Mapping[str, Job], stored: Mapping[str, Deployed]) -> Iterator[Fault]:
    """A fault for each query without windows that gets or loses its rest.

    Results that its jobs write again after a failure would go to another topic, whose readers know none of
    them.
    """
    for job, gets in _rest_changes(desired, stored):
        if job.upgrade == "stateful":
            right = f"expected as before, another job_name, or 'upgrade: stateless': {_TWICE} then"
            yield Fault(f"the query {'gets' if gets else 'loses'} its rest ({right})", job.job_name, "rest")


def _rest_changes(desired: Mapping[str, Job], stored: Mapping[str, Deployed]) -> Iterator[tuple[Job, bool]]:
    """A job that is to write the results of each query without windows that ``gets`` or loses its rest."""
    former, jobs = defaultdict[str, list[Job]](list), defaultdict[str, list[Job]](list)
    for each in stored.values():
        if each.started and (query := query_name(each.job)):
            former[query].append(each.job)
    for job in desired.values():
        if (query := query_name(job)) in former:
            jobs[query].append(job)
    for query, found in jobs.items():
        gets, had = (any(map(_is_rest, each)) for each in (found, former[query]))
        results = [job for job in found if not _sends(job)]
        if gets != had and results and not any(map(_is_stateful, (*found, *former[query]))):
            yield results[0], gets


def _is_rest(job: Job) -> bool:
    return job.query.get("role") == "rest"


def _note(job: Job, found: _Handover) -> str:
    """A remark on a job that writes the results of a query; empty if there is nothing to say."""
    states = [each.job_name for each in found.leaves if _is_stateful(each) and not _sends(each)]
    if states and not _is_stateful(job):
        return f"the windows that are open in {states[0]!r} are lost"
    if states and job in found.begins:
        return (
            f"starts without the state of {states[0]!r}: results of windows that are open at the change lack "
            "the rows before it, and some windows are written by both"
        )
    both = [each.job_name for each in found.leaves if source_of(each) == source_of(job)]
    if both and job in found.begins and not _is_stateful(job):
        return (
            f"messages that arrive during the change are also read by {both[0]!r}: their results may come "
            "twice; none are lost"
        )
    return ""


def _sends(job: Job) -> bool:
    """True for an input job whose rows go to a rest."""
    program = program_of(job)
    return program is not None and program.sends is not None


def _is_stateful(job: Job) -> bool:
    program = program_of(job)
    return program is not None and program.stateful
