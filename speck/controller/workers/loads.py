"""The load of jobs at engines with workers: the cores that each takes, as far as they are measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from speck.core.job import Job
from speck.core.profile import event_loop_cores, mean_event_loop
from speck.observe.measures import JobMeasure
from speck.placement.profile import Known


@dataclass(frozen=True, slots=True)
class JobLoad:
    """A job of an engine: the cores that it takes (``None``: not measured), at ``measured`` (Unix time, s).

    ``waiting`` are the messages that wait for it, at ``counted`` (Unix time, s).
    """

    job: Job
    cores: float | None = None
    measured: float = 0.0
    waiting: int | None = None
    counted: float = 0.0


def code_of(job: Job) -> str:
    """Identifies the code of a job; the name stands for one without a hash."""
    return f"{job.code_hash or job.job_name} {job.entry_class or ''}"


def job_load(job: Job, measure: JobMeasure, speed: float, loop: float = 0.0) -> JobLoad:
    """The cores that a job takes at the speed of its site, as far as both cost and rate are measured.

    ``loop`` is the event loop of its engine, reference cores for a message/s.
    """
    profile = measure.estimate.profile
    rate, cost, fixed = profile.rate_in, profile.cost, profile.fixed
    if not measure.fresh or rate is None or cost is None:
        return JobLoad(job)
    if rate.value and cost.known is not Known.MEASURED:
        return JobLoad(job)
    reference = rate.value * cost.value + (fixed.value if fixed is not None else 0.0)
    reference += loop * _messages(measure)
    return JobLoad(job, cores=reference / speed, measured=rate.until)


def loop_shares(jobs: Mapping[str, Job], found: Mapping[str, JobMeasure]) -> dict[str, float]:
    """The reference cores of each Flink engine's event loop for a message/s of its jobs, by its address.

    By the factor that the jobs there have measured: their costs are what is left of the engine's processor
    time without such a loop.
    """
    loads: dict[str, list[tuple[float | None, float]]] = {}
    for name, job in jobs.items():
        if job.engine == "flink" and found[name].fresh:
            factor = found[name].estimate.profile.event_loop
            measured = None if factor is None else factor.value
            loads.setdefault(job.spe_address, []).append((measured, _messages(found[name])))
    totals = {address: sum(each for _, each in there) for address, there in loads.items()}
    return {
        address: event_loop_cores(total, mean_event_loop(loads[address])) / total
        for address, total in totals.items()
        if total > 0
    }


def _messages(measure: JobMeasure) -> float:
    """The messages/s into and out of a job, as far as they are known."""
    profile = measure.estimate.profile
    return sum(rate.value for rate in (profile.rate_in, profile.rate_out) if rate is not None)
