"""Cycles of jobs, within a composition and through several.

Within a composition a cycle is refused.  One through several works until its sessions fill: then each job
waits for room in the session of the next, and acknowledges nothing meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from speck.core.graph import Graph, cycle_fault
from speck.core.job import Job
from speck.core.plan import Keep, Plan, Stop
from speck.errors import Fault

_MOST = 10  # cycles that are named at a time


def refused_cycles(desired: Iterable[Job], former: Iterable[Job]) -> list[Fault]:
    """A fault for each cycle within a composition that its former revision did not have."""
    found = list(Graph.of(desired).cycles(_MOST))
    known = {name for names in Graph.of(former).cycles(_MOST) for name in names} if found else set()
    return [cycle_fault(names) for names in found if not known.issuperset(names)]


def shared_cycles(compositions: Mapping[str, Iterable[Job]]) -> Iterator[tuple[list[str], str]]:
    """The first cycles through several compositions: the jobs' names, and the path with compositions."""
    owners = {job.job_name: name for name, jobs in compositions.items() for job in jobs}
    for names in Graph.of(job for jobs in compositions.values() for job in jobs).cycles(_MOST):
        if len({owners[each] for each in names}) > 1:
            yield names, " -> ".join(f"{each} ({owners[each]})" for each in [*names, names[0]])


def cycle_notes(
    plan: Plan, desired: Mapping[str, Job], elsewhere: Mapping[str, Sequence[Job]]
) -> dict[str, str]:
    """A remark on each job of a plan that forms a cycle with jobs ``elsewhere``, by job name.

    ``elsewhere`` are the jobs of the other compositions, by composition.
    """
    changed = {each.job.job_name for each in plan.actions if not isinstance(each, Stop | Keep)}
    if not changed or not elsewhere:
        return {}
    cycles = shared_cycles({**elsewhere, plan.composition: list(desired.values())})
    return {name: cycle_text(path) for names, path in cycles for name in changed.intersection(names)}


def cycle_text(path: str) -> str:
    """The remark on the jobs of a cycle."""
    return (
        f"its results come back to it: {path}; if the sessions of these jobs fill, each waits for the next "
        "and none continues (docs/faults.md, A broker that is full)"
    )
