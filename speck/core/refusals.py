"""The changes of running jobs that are refused, since their state does not outlive them.  Pure decisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from speck.core.job import Job
from speck.core.plan import Deployed, continued_jobs
from speck.core.split import Role, part_of
from speck.errors import Fault


def stranded_state(desired: Mapping[str, Job], stored: Mapping[str, Deployed]) -> list[Fault]:
    """A fault for each job whose state would have to move to another kind of engine, which cannot read it."""
    return [
        Fault(
            f"engine {after.engine!r} cannot read the state that the job has on {before.engine!r} "
            "(write 'upgrade: stateless' to start it there without its state, or keep its engine)",
            job=after.job_name,
            field="engine",
            value=after.engine,
        )
        for before, after in continued_jobs(desired, stored)
        if before.engine != after.engine and after.upgrade == "stateful"
    ]


def refused_splits(desired: Mapping[str, Job], stored: Mapping[str, Deployed]) -> list[Fault]:
    """A fault for each change of a split that its state does not outlive, unless the state is given up.

    A change of its shape is refused in any case: the parts that are kept count on the former one.
    """
    faults: list[Fault] = []
    for before, after in continued_jobs(desired, stored):
        faults += _shape_faults(before, after)
        faults += _state_faults(before, after) if after.upgrade == "stateful" else ()
    return faults


def _shape_faults(before: Job, after: Job) -> Iterator[Fault]:
    old, new = part_of(before), part_of(after)
    if old is None or new is None or new.role is Role.WHOLE:
        return
    remedy = "another job_name, under which the split starts again without its open windows"
    if new.workers < old.workers:
        fewer = f"the split has fewer combiners: {new.workers} instead of {old.workers}"
        yield _refused_split(after, fewer, f"'weight: 0' for each that is to retire, or {remedy}")
    yield from _shard_faults(before, after, f"the former, or {remedy}")


def _state_faults(before: Job, after: Job) -> Iterator[Fault]:
    old, new = part_of(before), part_of(after)
    if old is None and new is None:
        return
    remedy = "'upgrade: stateless': the open windows are lost then"
    if old is None or new is None:
        done = "gets a key_split" if old is None else "loses its key_split"
        change = f"the job {done}: it cannot read the state that it has"
        yield _refused_split(after, change, f"another job_name, or {remedy}")
        return
    windows = (old.window_us, old.slide_us) != (new.window_us, new.slide_us)
    if windows and new.role in (Role.PARTITIONER, Role.WHOLE):  # they are the same in all parts
        spans = [f"{each.window_us / 1e6:g} s by {each.slide_us / 1e6:g} s" for each in (old, new)]
        change = f"the windows change from {spans[0]} to {spans[1]}"
        yield _refused_split(after, change, f"the former ones, or {remedy}")
    if new.role is Role.WHOLE:
        yield from _shard_faults(before, after, f"the former, or {remedy}")


def _shard_faults(before: Job, after: Job, right: str) -> Iterator[Fault]:
    old, new = before.parallelism or 1, after.parallelism or 1
    if old != new:
        change = f"parallelism changes from {old} to {new} in {after.job_name}"
        yield _refused_split(after, f"{change}, whose state has that many shards", right)


def _refused_split(job: Job, change: str, right: str) -> Fault:
    name = str(job.split["of"]) if job.split else job.job_name
    return Fault(f"{change} (expected {right})", job=name, field="key_split")
