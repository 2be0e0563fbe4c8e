"""The placement as a mixed integer linear program, solved by HiGHS; the only module that imports it.

Variables: ``x[unit, site]`` and ``z[channel, home]`` (binary), and for each end of a channel and site one
for "the end is there and the home is not" and one for the reverse.  Queueing is left out, so that the
program's bound holds for the objective too.  For the same reason the event loop of a site is one of
several chords of the exact one (:mod:`speck.placement.chords`), chosen by binary variables.  Capacities are
soft, at :data:`~speck.placement.cost.PENALTY` a share: there is always an answer.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import highspy
import numpy as np

from speck.placement.chords import Chord, chord, chords
from speck.placement.cost import PENALTY, broker_load, load, reference, service, wire
from speck.placement.problem import Load, Placement, Problem

GAP = 1e-4  # share of the objective by which a placement may miss the optimum


@dataclass
class _Model:
    """Columns and rows of the program, collected before HiGHS gets them."""

    costs: list[float] = field(default_factory=list)
    uppers: list[float] = field(default_factory=list)
    integral: list[int] = field(default_factory=list)
    lower_bounds: list[float] = field(default_factory=list)
    upper_bounds: list[float] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    indices: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)

    def column(self, cost: float, *, upper: float = 1.0, integer: bool = False) -> int:
        """Add a variable from 0 to ``upper``; returns its index."""
        self.costs.append(cost)
        self.uppers.append(upper)
        if integer:
            self.integral.append(len(self.costs) - 1)
        return len(self.costs) - 1

    def row(self, entries: Sequence[tuple[int, float]], lower: float, upper: float) -> None:
        """Add a constraint on a weighted sum; the entries are (variable, weight)."""
        self.starts.append(len(self.indices))
        for column, value in entries:
            self.indices.append(column)
            self.values.append(value)
        self.lower_bounds.append(lower)
        self.upper_bounds.append(upper)


@dataclass
class _Ends:
    """The load that the variables put on each site, as entries of its capacity rows."""

    cores: list[list[tuple[int, float]]]
    memory: list[list[tuple[int, float]]]
    slots: list[list[tuple[int, float]]]
    up: list[list[tuple[int, float]]]
    down: list[list[tuple[int, float]]]

    @classmethod
    def of(cls, count: int) -> _Ends:
        return cls(*([[] for _ in range(count)] for _ in range(5)))  # type: ignore[arg-type]


class Program:
    """The linear program of a problem.

    ``candidates`` are the sites of each unit to be placed, and the one site of each unit that stays and
    shares a channel with those; ``background`` is the load of all others (``None``: there are none).
    """

    def __init__(
        self, problem: Problem, candidates: Mapping[int, Sequence[int]], background: Load | None = None
    ) -> None:
        """Build the program."""
        self._problem = problem
        self._candidates = candidates
        self._background = background
        self._base = reference(problem)
        self._model = _Model()
        self._ends = _Ends.of(len(problem.sites))
        self._others = background or problem.others
        self._present = self._certain_messages()
        self._pieces: dict[int, list[tuple[Chord, int]]] = {}  # the chords of a site, and their variables
        self._x: dict[tuple[int, int], int] = {}
        self._z: dict[tuple[int, int], int] = {}
        for unit in candidates:
            self._add_unit(unit)
        self._add_apart()
        for channel in channels_of(problem, candidates):
            self._add_channel(channel)
        for place in range(len(problem.sites)):
            self._add_event_loop(place)
        self._add_capacities()

    def _add_unit(self, unit: int) -> None:
        problem, base = self._problem, self._base
        for place in self._candidates[unit]:
            site, cost = problem.sites[place], 0.0
            for index in problem.units[unit]:
                job, rate = problem.jobs[index], problem.rates.into[index]
                used = load(job, rate, site)
                mean, _ = service(job, rate, site, 0.0)
                cost += problem.weights.latency * problem.shares[index] * mean * self._scale(index)
                cost += problem.weights.cores * site.price * site.speed * used / base.cores
            column = self._x[unit, place] = self._model.column(cost, integer=True)
            self._load_site(unit, place, column)
        self._model.row([(self._x[unit, place], 1.0) for place in self._candidates[unit]], 1.0, 1.0)

    def _load_site(self, unit: int, place: int, column: int) -> None:
        problem, site = self._problem, self._problem.sites[place]
        jobs = [problem.jobs[index] for index in problem.units[unit]]
        rates = [problem.rates.into[index] for index in problem.units[unit]]
        used = sum(load(job, rate, site) for job, rate in zip(jobs, rates, strict=True))
        self._ends.cores[place].append((column, used))
        self._ends.memory[place].append((column, sum(job.memory + 2 * job.state for job in jobs)))
        self._ends.slots[place].append((column, float(sum(job.parallelism for job in jobs))))

    def _certain_messages(self) -> list[float]:
        """The messages/s at each site of all others, and of the units that can be nowhere else."""
        found = list(self._others.messages)
        for unit, places in self._candidates.items():
            if len(places) == 1:
                found[places[0]] += self._messages(unit)
        return found

    def _messages(self, unit: int) -> float:
        return sum(self._problem.messages[job] for job in self._problem.units[unit])

    def _optional(self, place: int) -> dict[int, float]:
        """The messages/s of the units that may be at a site, and elsewhere."""
        return {
            unit: self._messages(unit)
            for unit, places in self._candidates.items()
            if len(places) > 1 and place in places
        }

    def _add_event_loop(self, place: int) -> None:
        """Add what the event loop of a site takes beyond that of all others."""
        problem, optional, present = self._problem, self._optional(place), self._present[place]
        certain = chord(
            problem, place, self._others.messages[place], 0.0, present - self._others.messages[place]
        )
        if (steady := certain.slope * certain.upper) > 0:
            column = self._loop_column(place, steady)
            self._model.row([(column, 1.0)], 1.0, 1.0)
        pieces = chords(problem, place, present, list(optional.values()))
        if not pieces:
            return
        total = pieces[-1].upper  # the unit of the variables of messages
        taken = [(self._x[unit, place], -messages / total) for unit, messages in optional.items()]
        chosen: list[tuple[Chord, int]] = []
        for each in pieces:
            here = self._loop_column(place, each.fixed, integer=True)
            messages = self._loop_column(place, each.slope * total)
            self._model.row([(messages, 1.0), (here, -each.upper / total)], -highspy.kHighsInf, 0.0)
            self._model.row([(messages, 1.0), (here, -each.lower / total)], 0.0, highspy.kHighsInf)
            taken.append((messages, 1.0))
            chosen.append((each, here))
        self._model.row(taken, 0.0, 0.0)
        self._model.row([(here, 1.0) for _, here in chosen], 0.0, 1.0)
        self._pieces[place] = chosen

    def _loop_column(self, place: int, cores: float, *, integer: bool = False) -> int:
        """Add a variable for a part of a site's event loop, which takes ``cores`` where it is 1."""
        site = self._problem.sites[place]
        cost = self._problem.weights.cores * site.price * site.speed * cores / self._base.cores
        column = self._model.column(cost, integer=integer)
        self._ends.cores[place].append((column, cores))
        return column

    def _scale(self, job: int) -> float:
        return 1.0 / (self._base.age[self._problem.jobs[job].composition] * len(self._base.age))

    def _add_apart(self) -> None:
        for unit in self._candidates:
            for other in self._problem.opponents[unit]:
                later = other > unit and other in self._candidates
                shared = set(self._candidates[unit]) & set(self._candidates[other]) if later else ()
                for place in shared:
                    self._model.row([(self._x[unit, place], 1.0), (self._x[other, place], 1.0)], 0.0, 1.0)

    def _add_channel(self, channel: int) -> None:
        problem = self._problem
        into, out, through = problem.rates
        homes = problem.channels[channel].homes
        for home in homes:
            self._add_home(channel, home, sole=len(homes) == 1)
        if len(homes) > 1:
            self._model.row([(self._z[channel, home], 1.0) for home in homes], 1.0, 1.0)
        for writer in problem.writers[channel]:
            self._add_crossing(channel, writer, out[writer], problem.shares[writer], written=True)
        for reader in problem.readers[channel]:
            share = through[channel] / into[reader] if into[reader] else 0.0
            self._add_crossing(
                channel, reader, through[channel], problem.shares[reader] * share, written=False
            )

    def _add_home(self, channel: int, home: int, *, sole: bool) -> None:
        used = broker_load(self._problem, channel, home)
        site = self._problem.sites[home]
        cost = self._problem.weights.cores * site.price * site.speed * used / self._base.cores
        column = self._model.column(cost, integer=not sole)
        if sole:
            self._model.row([(column, 1.0)], 1.0, 1.0)
        self._z[channel, home] = column
        self._ends.cores[home].append((column, used))

    def _add_crossing(self, channel: int, job: int, rate: float, weight: float, *, written: bool) -> None:
        """Add the flow between a job and the home of its channel, at both ends."""
        problem = self._problem
        unit, size = problem.unit_of[job], wire(problem, channel, written)
        scaled = problem.weights.latency * weight * self._scale(job)
        for place in {*self._candidates[unit], *problem.channels[channel].homes}:
            x, z = self._x.get((unit, place)), self._z.get((channel, place))
            site = problem.sites[place]
            for end, other, is_job in ((x, z, True), (z, x, False)):
                if end is None:
                    continue
                upwards = written is is_job  # at the writer, or at the home towards a reader
                bandwidth = site.up if upwards else site.down
                cost = scaled * (site.latency + size / bandwidth)
                # A crossing has two ends; its bytes count once.
                cost += problem.weights.wan * rate * size / self._base.wan if is_job else 0.0
                column = self._model.column(cost)
                entries = [(column, 1.0), (end, -1.0)] + ([] if other is None else [(other, 1.0)])
                self._model.row(entries, 0.0, highspy.kHighsInf)
                (self._ends.up if upwards else self._ends.down)[place].append((column, rate * size))

    def _add_capacities(self) -> None:
        problem, ends = self._problem, self._ends
        other, used = self._others, problem.used_cores(self._others)
        for index, site in enumerate(problem.sites):
            self._add_capacity(ends.cores[index], used[index], site.cores * problem.utilisation)
            self._add_capacity(ends.up[index], other.up[index], site.up * problem.link_utilisation)
            self._add_capacity(ends.down[index], other.down[index], site.down * problem.link_utilisation)
            if problem.max_wan is not None:
                own = 0.0 if self._background is None else other.up[index] - problem.others.up[index]
                self._add_capacity(ends.up[index], own, problem.max_wan)
            if site.memory is not None:
                self._add_capacity(ends.memory[index], other.memory[index], site.memory)
            if site.slots:
                self._add_capacity(ends.slots[index], other.slots[index], float(site.slots))

    def _add_capacity(self, entries: Sequence[tuple[int, float]], other: float, capacity: float) -> None:
        if other + sum(value for _, value in entries) > capacity and entries:
            excess = self._model.column(PENALTY, upper=highspy.kHighsInf)
            shares = [(column, value / capacity) for column, value in entries]
            self._model.row([*shares, (excess, -1.0)], -highspy.kHighsInf, 1.0 - other / capacity)

    def solve(self, incumbent: Sequence[int], seconds: float, seed: int) -> Placement | None:
        """The best placement within ``seconds`` (``None``: none was found), with its bound.

        ``incumbent`` has a site for each job, to begin with; jobs that are not placed stay there.
        """
        solver = highspy.Highs()  # type: ignore[no-untyped-call]
        solver.setOptionValue("output_flag", False)
        solver.setOptionValue("threads", 1)
        solver.setOptionValue("random_seed", seed)
        solver.setOptionValue("time_limit", seconds)
        solver.setOptionValue("mip_rel_gap", GAP)
        solver.passModel(self._linear_program())
        solver.setSolution(self._start(incumbent))
        solver.run()
        info = solver.getInfo()
        if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            return None
        return self._placement(incumbent, solver.getSolution().col_value, info.mip_dual_bound)

    def _linear_program(self) -> highspy.HighsLp:
        model, program = self._model, highspy.HighsLp()
        program.num_col_, program.num_row_ = len(model.costs), len(model.starts)
        program.col_cost_ = np.array(model.costs)
        program.col_lower_ = np.zeros(len(model.costs))
        program.col_upper_ = np.array(model.uppers)
        program.row_lower_ = np.array(model.lower_bounds)
        program.row_upper_ = np.array(model.upper_bounds)
        program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        program.a_matrix_.start_ = np.array([*model.starts, len(model.indices)])
        program.a_matrix_.index_ = np.array(model.indices)
        program.a_matrix_.value_ = np.array(model.values)
        kinds = [highspy.HighsVarType.kContinuous] * len(model.costs)
        for column in model.integral:
            kinds[column] = highspy.HighsVarType.kInteger
        program.integrality_ = kinds
        return program

    def _start(self, incumbent: Sequence[int]) -> highspy.HighsSolution:
        """A solution with the binary variables of a placement, from which HiGHS derives the others."""
        problem, solution = self._problem, highspy.HighsSolution()
        values = [0.0] * len(self._model.costs)
        for unit in self._candidates:
            column = self._x.get((unit, incumbent[problem.units[unit][0]]))
            if column is not None:
                values[column] = 1.0
        for channel in channels_of(problem, self._candidates):
            values[self._z[channel, problem.home(channel, incumbent)]] = 1.0
        for place, pieces in self._pieces.items():
            units = self._optional(place).items()
            messages = sum(each for unit, each in units if incumbent[problem.units[unit][0]] == place)
            if messages > 0:
                last = pieces[-1][1]
                values[next((here for each, here in pieces if messages <= each.upper), last)] = 1.0
        solution.col_value = values
        return solution

    def _placement(self, incumbent: Sequence[int], values: Sequence[float], bound: float) -> Placement:
        problem = self._problem
        sites = list(incumbent)
        for unit, places in self._candidates.items():
            place = max(places, key=lambda each: values[self._x[unit, each]])
            for job in problem.units[unit]:
                sites[job] = place
        return problem.placement(sites, bound)


def _messages(problem: Problem, unit: int) -> float:
    return sum(problem.messages[job] for job in problem.units[unit])


def channels_of(problem: Problem, units: Collection[int]) -> list[int]:
    """The channels with an end at one of these units."""
    return [
        channel
        for channel in range(len(problem.channels))
        if any(
            problem.unit_of[job] in units for job in (*problem.writers[channel], *problem.readers[channel])
        )
    ]


def solve(
    problem: Problem,
    incumbent: Sequence[int],
    candidates: Mapping[int, Sequence[int]],
    seconds: float,
    seed: int,
    background: Load | None = None,
) -> Placement | None:
    """The best placement of the units by the linear model (``None``: none was found within ``seconds``).

    ``incumbent`` as of :meth:`Program.solve`, the others as of :class:`Program`.
    """
    return Program(problem, candidates, background).solve(incumbent, seconds, seed)
