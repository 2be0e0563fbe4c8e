"""Profiles of jobs, links and sites: the measured, declared or assumed inputs of the cost model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from typing import Any

from speck.core.job import Job, is_load_alike
from speck.core.placement import Expects

# Cores of a job without messages, in all processes of its engine.  Of Flink: 0.005 in its TaskManager,
# and 0.004 in its JobManager for checkpoints and requests (benchmarks/placement/README.md, by process).
FIXED = 0.009
BATCH_OVERHEAD = 0.025  # s of a Spark batch, without its rows
_COST = {"flink": 8e-6, "spark": 12e-6}  # s of a reference core, a message
_OTHER_COST = 12e-6  # of an engine of another package: the larger


class Known(StrEnum):
    """The source of a value, the best first."""

    MEASURED = "measured"
    DECLARED = "declared"
    ASSUMED = "assumed"


@dataclass(frozen=True, slots=True)
class Value:
    """A value with its source; ``until`` is the time (Unix, s) of its last sample, ``count`` their number."""

    value: float
    known: Known
    until: float = 0.0
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobProfile:
    """The load of a job; ``None``: unknown.

    ``rate_in`` and ``rate_out`` are messages/s; ``bytes_in`` and ``bytes_out`` the size of a message with its
    topic; ``cost`` processor time of a reference core, s a message; ``fixed`` cores without messages;
    ``selectivity`` messages out per message in; ``batch_overhead`` s; ``state`` bytes.  ``true_rate_in`` and
    ``true_rate_out`` are messages/s of a job that never waits; ``busiest`` names its most loaded vertex.
    ``event_loop`` is reference cores per root of the messages/s in and out of its Flink process.
    """

    rate_in: Value | None = None
    rate_out: Value | None = None
    bytes_in: Value | None = None
    bytes_out: Value | None = None
    cost: Value | None = None
    fixed: Value | None = None
    selectivity: Value | None = None
    batch_overhead: Value | None = None
    state: Value | None = None
    true_rate_in: Value | None = None
    true_rate_out: Value | None = None
    event_loop: Value | None = None
    busiest: str = ""

    def values(self) -> dict[str, Value]:
        """The known values by the names of their fields."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in found.items() if isinstance(value, Value)}

    def since(self, oldest: float) -> JobProfile:
        """The profile without the values that were measured before ``oldest`` (Unix time, s)."""
        old: dict[str, Any] = {
            name: None
            for name, value in self.values().items()
            if value.known is Known.MEASURED and value.until < oldest
        }
        return replace(self, **old) if old else self

    def only_measured(self) -> JobProfile:
        """The profile without the values that were not measured."""
        others: dict[str, Any] = {
            name: None for name, value in self.values().items() if value.known is not Known.MEASURED
        }
        return replace(self, **others)

    def as_assumed(self, *but: str) -> JobProfile:
        """The profile as that of another form of its job: only the fields of these names stay measured.

        The figures of the former code are a better guess than those of any job; what is declared goes before
        both.
        """
        values = {name: each.value for name, each in self.values().items() if name not in but}
        former: dict[str, Any] = {name: Value(value, Known.ASSUMED) for name, value in values.items()}
        return replace(self, **former, busiest="")


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkProfile:
    """A path from the engines of site ``source`` to the broker of site ``target``.

    ``round_trip`` is s, ``bandwidth`` bytes/s; ``at_least`` marks a bandwidth that was never filled.
    """

    source: str
    target: str
    round_trip: Value | None = None
    bandwidth: Value | None = None
    at_least: bool = False
    load: Value | None = None  # bytes/s


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteProfile:
    """A site: ``speed`` relative to the reference core, its number of ``cores``, its ``memory`` in bytes."""

    name: str
    speed: Value | None = None
    cores: Value | None = None
    memory: Value | None = None

    def since(self, oldest: float) -> SiteProfile:
        """The profile without the values that were measured before ``oldest`` (Unix time, s)."""
        values = (self.speed, self.cores, self.memory)
        speed, cores, memory = (
            each if each is not None and each.until >= oldest else None for each in values
        )
        return SiteProfile(name=self.name, speed=speed, cores=cores, memory=memory)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """All profiles: of jobs by name, of links by the names of both sites, of sites by name.

    ``forms`` are the jobs that the profiles of jobs are of, by name; one without is of any form.
    ``history`` has the past rates into jobs by name, messages/s, one every ``interval`` s, the newest last.
    ``fresh`` are the names of the jobs whose rate is of the last minute, or of the last three intervals where
    that is longer; ``ages`` has the age of the last measured rate (s) of the other ones, as far as they have
    one.  ``pressed`` are the jobs that wait for their sink most of the time.
    """

    jobs: Mapping[str, JobProfile] = field(default_factory=dict)
    links: Mapping[tuple[str, str], LinkProfile] = field(default_factory=dict)
    sites: Mapping[str, SiteProfile] = field(default_factory=dict)
    history: Mapping[str, Sequence[float]] = field(default_factory=dict)
    fresh: frozenset[str] = frozenset()
    ages: Mapping[str, float] = field(default_factory=dict)
    pressed: frozenset[str] = frozenset()
    interval: float = 10.0
    forms: Mapping[str, Job] = field(default_factory=dict)

    def of(self, job: Job) -> JobProfile:
        """The profile of a job in this form.

        Of one that was edited, what comes in is as measured before if it reads the same, and all else is
        assumed to be as it was before.
        """
        found, form = self.jobs.get(job.job_name, JobProfile()), self.forms.get(job.job_name)
        if form is None or is_load_alike(form, job):
            return found
        if not _reads_alike(form, job):
            return replace(found.as_assumed(), rate_in=None, bytes_in=None)
        return found.as_assumed("rate_in", "bytes_in", "event_loop")

    def history_of(self, job: Job) -> Sequence[float]:
        """The past rates into a job in this form; empty if they are not known."""
        form = self.forms.get(job.job_name)
        return self.history.get(job.job_name, ()) if form is None or _reads_alike(form, job) else ()

    def measured_costs(self) -> dict[str, float]:
        """The measured processor time of a message, s on a reference core, by job name."""
        return {
            name: profile.cost.value
            for name, profile in self.jobs.items()
            if profile.cost is not None and profile.cost.known is Known.MEASURED
        }


def _reads_alike(one: Job, other: Job) -> bool:
    """True if two forms of a job read the same messages; the broker of a topic may be another one."""
    return (one.source_topic, one.split) == (other.source_topic, other.split)


def assumed_cost(engine: str) -> float:
    """The processor time (s) of a message at an engine of this kind, where it was not measured."""
    return _COST.get(engine, _OTHER_COST)


def assumed_profile(engine: str) -> JobProfile:
    """The profile of a job that was never measured, at an engine of this kind: costs, and no rates."""
    overhead = Value(BATCH_OVERHEAD, Known.ASSUMED) if engine == "spark" else None
    return JobProfile(
        cost=Value(assumed_cost(engine), Known.ASSUMED),
        fixed=Value(FIXED, Known.ASSUMED),
        batch_overhead=overhead,
    )


def better_of(first: Value | None, second: Value | None) -> Value | None:
    """The value that is better known; the first of two that are known equally well."""
    known = [each for each in (first, second) if each is not None]
    order = list(Known)
    return min(known, key=lambda each: order.index(each.known), default=None)


def combined(first: JobProfile, second: JobProfile) -> JobProfile:
    """The better known of each two values; the first profile's of two that are known equally well."""
    found = {
        each.name: better_of(getattr(first, each.name), getattr(second, each.name))
        for each in fields(JobProfile)
        if each.name != "busiest"
    }
    return JobProfile(**found, busiest=first.busiest or second.busiest)


def with_expected(profile: JobProfile, expects: Expects | None) -> JobProfile:
    """The profile with the declared values where none was measured."""
    if expects is None:
        return profile
    declared = {
        "rate_in": expects.rate,
        "bytes_out": expects.bytes,
        "cost": expects.cost,
        "selectivity": expects.selectivity,
        "state": expects.state,
    }
    values = {name: Value(value, Known.DECLARED) for name, value in declared.items() if value is not None}
    better: dict[str, Any] = {
        name: better_of(getattr(profile, name), value) for name, value in values.items()
    }
    return replace(profile, **better)
