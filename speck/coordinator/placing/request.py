"""The request of a placement, and its checks against the jobs and sites that there are."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from speck.core.draft import Draft
from speck.core.job import Job
from speck.core.suggestions import similar_names
from speck.errors import Fault, InvalidInput


@dataclass(frozen=True, kw_only=True)
class PlacementRequest:
    """The part of a placement that its request decides.

    ``policy`` is a name (empty: the composition's own); ``constraints`` are the only sites of a job, by its
    name; ``pins`` the names of jobs that stay where they run.  ``explain`` are jobs to be explained in full.
    ``forbidden`` are sites to which a job does not move, by its name; with ``homes_stay`` no topic moves.
    """

    policy: str = ""
    constraints: Mapping[str, Sequence[str]] = field(default_factory=dict)
    pins: Collection[str] = ()
    explain: Collection[str] = ()
    compare: bool = False
    forbidden: Mapping[str, Collection[str]] = field(default_factory=dict)
    homes_stay: bool = False


NO_REQUEST = PlacementRequest()


def check_request(draft: Draft, request: PlacementRequest) -> None:
    """Raise :class:`~speck.errors.InvalidInput` for names of jobs and sites that a request has wrong."""
    faults = [
        *(_unknown_job(name, draft.jobs, field) for field, name in _named(request) if name not in draft.jobs),
        *_wrong_constraints(draft, request.constraints),
        *_wrong_pins(draft, request.pins),
    ]
    if faults:
        raise InvalidInput(faults, f"placement of {draft.name!r}")


def _named(request: PlacementRequest) -> Iterator[tuple[str, str]]:
    yield from (("constraint", name) for name in request.constraints)
    yield from (("pin", name) for name in request.pins)
    yield from (("explain", name) for name in request.explain)


def _unknown_job(name: str, jobs: Mapping[str, Job], field: str) -> Fault:
    return Fault(f"there is no job {name!r}{similar_names(name, jobs)}", field=field, value=name)


def _wrong_constraints(draft: Draft, constraints: Mapping[str, Sequence[str]]) -> Iterator[Fault]:
    for name, sites in constraints.items():
        job = draft.jobs.get(name)
        if job is None:
            continue
        if not job.movable:
            message = "its site is fixed (expected a job with 'site: any' or 'sites: [...]')"
            yield Fault(message, job=name, field="constraint", value=",".join(sites))
            continue
        for site in sites:
            if site not in draft.candidates[name]:
                known = ", ".join(draft.candidates[name]) or "none"
                near = similar_names(site, draft.candidates[name])
                message = f"site {site!r} is not one of its sites{near} (expected one of: {known})"
                yield Fault(message, job=name, field="constraint", value=site)


def _wrong_pins(draft: Draft, pins: Collection[str]) -> Iterator[Fault]:
    for name in pins:
        if name in draft.jobs and draft.jobs[name].movable and name not in draft.sites:
            message = "it does not run yet, so there is no site to stay at (expected a constraint: JOB=SITE)"
            yield Fault(message, job=name, field="pin", value=name)
