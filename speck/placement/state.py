"""A placement that changes one unit at a time, with its objective kept up to date."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from speck.placement.cost import (
    SATURATION,
    broker_load,
    combined,
    crossings,
    evaluate,
    load,
    priced,
    reference,
    service,
    site_over,
)
from speck.placement.problem import Load, Placement, Problem


class SearchState:
    """The sites of all jobs, the homes of all channels, and the objective.

    :meth:`move` takes time proportional to the ends of the channels; the next reading of the objective,
    to the jobs at the sites that changed since the last one.
    """

    def __init__(self, problem: Problem, sites: Sequence[int]) -> None:
        """Begin with the jobs at these sites, and the best homes of the channels."""
        self.problem = problem
        self.sites = list(sites)
        self.homes = list(problem.placement(sites).homes)
        count = len(problem.sites)
        self._base = reference(problem)
        others = problem.others
        # Without and with the event loops; the latter follow the former when they are refreshed.
        self._summed, self._cores = list(others.cores), list(problem.cores_of_others)
        self._messages = list(others.messages)
        self._memory, self._slots = list(others.memory), list(others.slots)
        self._up, self._down = list(others.up), list(others.down)
        # The sums over crossings of weight x bytes at each end of a link, and of weight x latency.
        self._aged_up, self._aged_down, self._distance = [0.0] * count, [0.0] * count, [0.0] * count
        self._at: list[set[int]] = [set() for _ in range(count)]
        self._scale = self._scales()
        self._age, self._over = [0.0] * count, [0.0] * count
        self._dirty: set[int] = set(range(count))
        for job in range(len(problem.jobs)):
            self._add_job(job, 1)
        for channel in range(len(problem.channels)):
            self._add_channel(channel, 1)

    def _scales(self) -> list[float]:
        """The factor of each job's age in the relative age of results."""
        ages = self._base.age
        return [1.0 / (ages[job.composition] * len(ages)) for job in self.problem.jobs]

    @property
    def objective(self) -> float:
        """The objective of the present placement."""
        if self.problem.max_age is not None:  # the bound on the slowest path needs the whole graph
            return evaluate(self.problem, self.placement()).objective
        self._refresh()
        others = self.problem.others
        return combined(
            self.problem,
            sum(self._age),
            (sum(self._up) - sum(others.up)) / self._base.wan,
            priced(self.problem, self._cores) / self._base.cores,
            sum(self._over),
        )

    @property
    def over(self) -> float:
        """The sum of the over-shares of sites and links."""
        self._refresh()
        return sum(self._over)

    def utilisation(self, site: int) -> float:
        """The share of a site's cores in use."""
        return self._used(site) / self.problem.sites[site].cores

    def _used(self, site: int) -> float:
        return self._summed[site] + self.problem.loop_cores(site, self._messages[site])

    def slots(self, site: int) -> float:
        """The number of tasks at a site."""
        return self._slots[site]

    def over_at(self, site: int) -> float:
        """The over-shares of a site and its link, plus its greatest load."""
        self._refresh()
        return self._over[site] + self.pressure(site)

    def pressure(self, site: int) -> float:
        """The greatest of the loads of a site's cores and link, as a share of its target."""
        problem, place = self.problem, self.problem.sites[site]
        links = max(self._up[site] / place.up, self._down[site] / place.down) / problem.link_utilisation
        return max(self.utilisation(site) / problem.utilisation, links)

    def touches(self, unit: int, site: int) -> bool:
        """True if a unit is at a site, or one of its channels is."""
        jobs = self.problem.units[unit]
        return self.site_of(unit) == site or any(
            self.homes[channel] == site for job in jobs for channel in self._channels(job)
        )

    def load_without(self, units: Collection[int], channels: Collection[int]) -> Load:
        """The loads of all units and channels but these."""
        found = Load(
            list(self._summed),
            list(self._memory),
            list(self._slots),
            list(self._up),
            list(self._down),
            list(self._messages),
        )
        problem, into = self.problem, self.problem.rates.into
        for index in (job for unit in units for job in problem.units[unit]):
            job, site = problem.jobs[index], self.sites[index]
            found.cores[site] -= load(job, into[index], problem.sites[site])
            found.messages[site] -= problem.messages[index]
            found.memory[site] -= job.memory + 2 * job.state
            found.slots[site] -= job.parallelism
        for channel in channels:
            home = self.homes[channel]
            found.cores[home] -= broker_load(problem, channel, home)
            for flow in crossings(problem, channel, self.sites, home):
                found.up[flow.source] -= flow.rate * flow.size
                found.down[flow.target] -= flow.rate * flow.size
        return found

    def placement(self, bound: float | None = None) -> Placement:
        """The present placement as a value."""
        return Placement(tuple(self.sites), tuple(self.homes), bound)

    def site_of(self, unit: int) -> int:
        """The site of a unit."""
        return self.sites[self.problem.units[unit][0]]

    def permitted(self, unit: int) -> list[int]:
        """The sites to which a unit may go as all others stand."""
        taken = {self.site_of(other) for other in self.problem.opponents[unit]}
        return [site for site in self.problem.allowed(self.problem.units[unit]) if site not in taken]

    def move(self, unit: int, site: int) -> None:
        """Move a unit to a site, and re-home the free channels beside it."""
        jobs = self.problem.units[unit]
        beside = {channel for job in jobs for channel in self._channels(job)}
        for channel in beside:
            self._add_channel(channel, -1)
        for job in jobs:
            self._add_job(job, -1)
            self.sites[job] = site
            self._add_job(job, 1)
        for channel in beside:
            self.homes[channel] = self.problem.home(channel, self.sites)
            self._add_channel(channel, 1)

    def move_all(self, units: Iterable[int], site: int) -> None:
        """Move several units to one site."""
        for unit in units:
            self.move(unit, site)

    def _channels(self, job: int) -> tuple[int, ...]:
        placed = self.problem.jobs[job]
        return placed.inputs if placed.output is None else (*placed.inputs, placed.output)

    def _add_job(self, index: int, sign: int) -> None:
        job, site = self.problem.jobs[index], self.sites[index]
        self._summed[site] += sign * load(job, self.problem.rates.into[index], self.problem.sites[site])
        self._messages[site] += sign * self.problem.messages[index]
        self._memory[site] += sign * (job.memory + 2 * job.state)
        self._slots[site] += sign * job.parallelism
        if sign > 0:
            self._at[site].add(index)
        else:
            self._at[site].discard(index)
        self._dirty.add(site)

    def _add_channel(self, channel: int, sign: int) -> None:
        problem, home = self.problem, self.homes[channel]
        self._summed[home] += sign * broker_load(problem, channel, home)
        self._dirty.add(home)
        ends = problem.writers[channel] or problem.readers[channel]
        for flow in crossings(problem, channel, self.sites, home):
            traffic = sign * flow.rate * flow.size
            weight = sign * flow.weight * self._scale[ends[0]]
            self._up[flow.source] += traffic
            self._down[flow.target] += traffic
            self._aged_up[flow.source] += weight * flow.size
            self._aged_down[flow.target] += weight * flow.size
            for end in (flow.source, flow.target):
                self._distance[end] += weight * problem.sites[end].latency
            self._dirty.update((flow.source, flow.target))

    def _refresh(self) -> None:
        """Compute the terms of the sites whose sums have changed."""
        problem, into = self.problem, self.problem.rates.into
        for index in self._dirty:
            site = problem.sites[index]
            self._cores[index] = self._used(index)
            utilisation = self._cores[index] / site.cores
            age = self._distance[index]
            age += _link_age(self._aged_up[index], site.up, self._up[index])
            age += _link_age(self._aged_down[index], site.down, self._down[index])
            for job in self._at[index]:
                mean, _ = service(problem.jobs[job], into[job], site, utilisation)
                age += problem.shares[job] * self._scale[job] * mean
            self._age[index] = age
            self._over[index] = site_over(
                problem,
                index,
                self._cores[index],
                self._memory[index],
                self._slots[index],
                self._up[index],
                self._down[index],
            )
        self._dirty.clear()


def _link_age(aged_bytes: float, bandwidth: float, traffic: float) -> float:
    busy = min(SATURATION, traffic / bandwidth)
    return aged_bytes / bandwidth / (1 - busy)
