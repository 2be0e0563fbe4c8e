"""The reasons behind a placement, job by job, in words; and the most loaded site or link."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from speck.placement.cost import Figures, SiteFigures, evaluate
from speck.placement.move import after_moving
from speck.placement.problem import Placement, Problem

# A change of the objective below this share is none, or not worth a move.
SAME, WORTH = 1e-6, 0.02
# Jobs that stay are compared with their other sites in problems of up to this number of jobs.
COMPARED = 150


@dataclass(frozen=True, slots=True)
class Load:
    """A load of a site or of its link: ``share`` of the capacity, against its ``target``.

    ``kind`` is ``site`` or ``link``, ``resource`` one of cores, memory, slots, up and down.
    """

    kind: str
    site: str
    resource: str
    share: float
    target: float

    @property
    def ratio(self) -> float:
        """The load relative to its target."""
        return self.share / self.target


@dataclass(frozen=True, slots=True)
class Explanation:
    """A job, its sites (index) before and after, and the reason."""

    job: int
    before: int
    after: int
    why: str


def loads(problem: Problem, figures: Figures) -> Iterator[Load]:
    """All loads of sites and links that have a limit."""
    for site, found in zip(problem.sites, figures.sites, strict=True):
        yield from _loads(problem, site.name, found)


def _loads(problem: Problem, name: str, found: SiteFigures) -> Iterator[Load]:
    yield Load("site", name, "cores", found.cores, problem.utilisation)
    if found.memory is not None:
        yield Load("site", name, "memory", found.memory, 1.0)
    if found.slots is not None:
        yield Load("site", name, "slots", found.slots, 1.0)
    yield Load("link", name, "up", found.up, problem.link_utilisation)
    yield Load("link", name, "down", found.down, problem.link_utilisation)


def busiest(problem: Problem, figures: Figures, kind: str) -> Load:
    """The site or link (``kind``) that is nearest to its target, or farthest above it."""
    return max((each for each in loads(problem, figures) if each.kind == kind), key=lambda each: each.ratio)


def verdicts(
    problem: Problem,
    before: Placement | None,
    after: Placement,
    fixed: Mapping[int, str],
    asked: Sequence[int] = (),
) -> list[Explanation]:
    """A verdict on each job; ``before`` is the present placement (``None``: nothing runs).

    ``fixed`` has the reasons of jobs that no policy may move.  ``asked`` are jobs to be compared with their
    other sites in problems too large to compare all.
    """
    now = evaluate(problem, after)
    found = []
    for job in range(len(problem.jobs)):
        place = after.sites[job]
        was = place if before is None else before.sites[job]
        if job in fixed:
            why = fixed[job]
        elif was != place:
            why = _why_moved(problem, after, now, job, was)
        elif len(problem.jobs) <= COMPARED or job in asked:
            why = _why_stays(problem, after, now, job)
        else:
            why = "no other site is better"
        found.append(Explanation(job, was, place, why))
    return found


def _why_moved(problem: Problem, after: Placement, now: Figures, job: int, was: int) -> str:
    """The reason for a move: the effect of going back."""
    jobs = problem.units[problem.unit_of[job]]
    back = evaluate(problem, _moved(problem, after, jobs, was))
    if worse := _overload(problem, now, back):
        return f"{worse.site} {_overloaded(worse)} otherwise"
    if back.objective <= now.objective * (1 + SAME):
        return "moves with the jobs that it is connected to"
    return _difference(problem, back, now)


def _why_stays(problem: Problem, after: Placement, now: Figures, job: int) -> str:
    unit = problem.unit_of[job]
    jobs, place = problem.units[unit], after.sites[job]
    taken = {after.sites[problem.units[other][0]] for other in problem.opponents[unit]}
    others = [site for site in problem.allowed(jobs) if site != place and site not in taken]
    if not others:
        return "no other site is allowed"
    compared = [(evaluate(problem, _moved(problem, after, jobs, site)), site) for site in others]
    best, site = min(compared, key=lambda each: each[0].objective)
    name = problem.sites[site].name
    if worse := _overload(problem, now, best):
        return f"{worse.site} {_overloaded(worse)}"
    if best.objective < now.objective * (1 - WORTH):
        return f"at {name}: {_difference(problem, now, best)}, which this policy does not regard"
    if best.objective <= now.objective * (1 + SAME):
        return f"no better at {name}"
    if (count := _input_sites(problem, after, job)) > 1:
        return f"its inputs come from {count} sites"
    return f"at {name}: {_difference(problem, now, best)}"


def _moved(problem: Problem, placement: Placement, jobs: Sequence[int], site: int) -> Placement:
    """The placement with some jobs at another site, and the best homes of the channels beside them."""
    sites = after_moving(problem, placement, jobs, site)
    homes = list(placement.homes)
    for job in jobs:
        placed = problem.jobs[job]
        for channel in (*placed.inputs, *(() if placed.output is None else (placed.output,))):
            homes[channel] = problem.home(channel, sites)
    return Placement(sites, tuple(homes))


def _overload(problem: Problem, now: Figures, then: Figures) -> Load | None:
    """The worst load above its target that would be caused by a change."""
    pairs = zip(loads(problem, now), loads(problem, then), strict=True)
    caused = [then for now, then in pairs if then.ratio > max(1.0, now.ratio) + SAME]
    return max(caused, key=lambda each: each.ratio, default=None)


def _overloaded(load: Load) -> str:
    what = load.resource if load.kind == "site" else f"link, {load.resource}"
    return f"would be {load.ratio:.2f} times its target ({what})"


def _input_sites(problem: Problem, placement: Placement, job: int) -> int:
    """The number of sites at which the inputs of a job are written."""
    found: set[int] = set()
    for channel in problem.jobs[job].inputs:
        writers = problem.writers[channel]
        found.update(placement.sites[writer] for writer in writers)
        if not writers:
            found.add(placement.homes[channel])
    return len(found)


def _difference(problem: Problem, one: Figures, other: Figures) -> str:
    """The figure of ``other`` that differs most from that of ``one``, by its part in the objective."""
    weights = problem.weights
    age, wan, cores = other.age - one.age, other.wan - one.wan, other.cores - one.cores
    parts = (
        (weights.latency * age / max(one.age, other.age, 1e-9), f"results {span(abs(age))} {_than(age)}"),
        (weights.wan * wan / max(one.wan, other.wan, 1e-9), f"{rate(wan)} of WAN traffic"),
        (weights.cores * cores / max(one.cores, other.cores, 1e-9), f"{cores:+.3f} cores"),
    )
    return max(parts, key=lambda each: abs(each[0]))[1]


def _than(seconds: float) -> str:
    return "younger" if seconds < 0 else "older"


def span(seconds: float) -> str:
    """A short time in words: ``1.9 s``, ``410 ms``."""
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


def rate(traffic: float) -> str:
    """A change of traffic, bytes/s, in words: ``-374 kB/s``."""
    for unit, size in (("MB/s", 1e6), ("kB/s", 1e3)):
        if abs(traffic) >= size:
            return f"{traffic / size:+.3g} {unit}"
    return f"{traffic:+.3g} B/s"


def traffic(amount: float) -> str:
    """Traffic, bytes/s, in words: ``374 kB/s``."""
    return rate(amount).lstrip("+")
