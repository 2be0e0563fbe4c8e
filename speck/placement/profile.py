"""Profiles of jobs, links and sites: the measured, declared or assumed inputs of the cost model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Known(StrEnum):
    """How a value is known, the best first."""

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
    busiest: str = ""


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
    """The computing power of a site: ``speed`` relative to the reference core, and its number of cores."""

    name: str
    speed: Value | None = None
    cores: Value | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """All profiles: of jobs by name, of links by the names of both sites, of sites by name.

    ``history`` has the past rates into jobs by name, messages/s, one every 10 s, the newest last.
    """

    jobs: Mapping[str, JobProfile] = field(default_factory=dict)
    links: Mapping[tuple[str, str], LinkProfile] = field(default_factory=dict)
    sites: Mapping[str, SiteProfile] = field(default_factory=dict)
    history: Mapping[str, Sequence[float]] = field(default_factory=dict)
