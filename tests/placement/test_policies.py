"""Policies: properties over random problems, each against the exhaustive optimum or another law."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import EntryPoint

import pytest
from hypothesis import given
from hypothesis import strategies as st

from speck.core.profile import EVENT_LOOP
from speck.errors import InvalidInput
from speck.placement import policies as placement_policies
from speck.placement.cost import evaluate
from speck.placement.policies import (
    COMPARISON_GROUP,
    GROUP,
    Budget,
    Policy,
    Search,
    catalogue,
    place,
    policies,
    policy,
    solver_available,
)
from speck.placement.problem import Channel, PlacedJob, Placement, Problem, SiteModel, Tier
from speck.placement.state import SearchState
from speck_baselines.exhaustive import exhaustive
from testbed.placement.random_problems import make
from tests.support.properties import tries
from tests.support.trials import trial

# Of two times fifteen problems, where two times five show the same.
MORE = [pytest.mark.slow("more of the same"), trial("seeds 0 to 4")]

problems = st.builds(
    make,
    st.integers(0, 10_000),
    jobs=st.integers(2, 5),
    sites=st.integers(2, 4),
    load=st.sampled_from((1.0, 4.0)),
    event_loop=st.sampled_from((0.0, EVENT_LOOP)),
)


def _line(
    *, rate: float = 1000.0, selectivity: float = 0.1, allowed: tuple[int, ...] = (0, 1), **limits: float
) -> Problem:
    """Two jobs in a row; the data are born at an edge and needed in the cloud."""
    sites = [
        SiteModel(name="edge", cores=2.0, slots=8, up=250e3, latency=0.04, **limits),  # type: ignore[arg-type]
        SiteModel(name="cloud", cores=16.0, tier=Tier.CLOUD, up=125e6, down=125e6, latency=0.002),
    ]
    channels = [
        Channel(name="born", homes=(0,), rate=rate),
        Channel(name="clean", homes=(0, 1)),
        Channel(name="result", homes=(1,)),
    ]
    jobs = [
        PlacedJob(name="clean", allowed=allowed, inputs=(0,), output=1, selectivity=selectivity),
        PlacedJob(name="count", allowed=allowed, inputs=(1,), output=2, selectivity=0.01),
    ]
    return Problem(sites=sites, jobs=jobs, channels=channels)


def _best(problem: Problem, name: str = "speck") -> Placement:
    return place(problem, problem.all_in_cloud, policy(name), Budget())


@tries(25)
@given(problems, st.integers(0, 1000))
def test_objective_kept_over_moves_equals_that_from_the_beginning(problem: Problem, seed: int) -> None:
    chance, state = random.Random(seed), SearchState(problem, problem.all_in_cloud.sites)
    for _ in range(60):
        unit = chance.randrange(len(problem.units))
        state.move(unit, chance.choice(state.permitted(unit)))
    assert state.objective == pytest.approx(evaluate(problem, state.placement()).objective, rel=1e-9)
    assert state.placement().homes == problem.placement(state.sites).homes


@pytest.mark.slow("every placement of each problem")
@tries(12)
@given(problems)
def test_no_policy_is_better_than_the_exhaustive_one(problem: Problem) -> None:
    best = evaluate(problem, exhaustive(problem)).objective
    for name in policies():
        assert evaluate(problem, _best(problem, name)).objective >= best * (1 - 1e-9)


@pytest.mark.skipif(not solver_available(), reason="HiGHS (highspy) is not installed")
@pytest.mark.parametrize(
    "seed",
    [*range(5), *(pytest.param(each, marks=MORE) for each in range(5, 20))],
)
@pytest.mark.parametrize("event_loop", [0.0, 5 * EVENT_LOOP], ids=["sums", "event-loop"])
def test_default_policy_is_optimal_and_its_bound_holds(seed: int, event_loop: float) -> None:
    problem = make(seed, jobs=4 + seed % 3, event_loop=event_loop)
    best, found = evaluate(problem, exhaustive(problem)).objective, _best(problem)
    assert evaluate(problem, found).objective == pytest.approx(best, rel=1e-6)
    assert found.bound is not None
    assert found.bound <= best * (1 + 1e-6)


@tries(20)
@given(problems, st.floats(0.1, 5))
def test_scaled_rates_scale_traffic_and_divide_the_multiplier(problem: Problem, factor: float) -> None:
    scaled = replace(problem, channels=[replace(each, rate=each.rate * factor) for each in problem.channels])
    free = [replace(each, fixed=0.0) for each in problem.jobs]
    problem, scaled = replace(problem, jobs=free), replace(scaled, jobs=free)
    one, other = evaluate(problem, problem.all_in_cloud), evaluate(scaled, scaled.all_in_cloud)
    assert other.wan == pytest.approx(one.wan * factor)
    assert other.multiplier == pytest.approx(one.multiplier / factor)


@tries(12)
@given(problems, st.randoms(use_true_random=False))
def test_order_of_jobs_and_sites_changes_no_optimum(problem: Problem, chance: random.Random) -> None:
    sites, jobs = list(range(len(problem.sites))), list(range(len(problem.jobs)))
    chance.shuffle(sites)
    chance.shuffle(jobs)
    there = {old: new for new, old in enumerate(sites)}
    shuffled = replace(
        problem,
        sites=[problem.sites[each] for each in sites],
        jobs=[_relabelled(problem.jobs[each], there) for each in jobs],
        channels=[
            replace(each, homes=tuple(there[home] for home in each.homes)) for each in problem.channels
        ],
    )
    before, after = evaluate(problem, exhaustive(problem)), evaluate(shuffled, exhaustive(shuffled))
    assert after.objective == pytest.approx(before.objective)


def _relabelled(job: PlacedJob, there: dict[int, int]) -> PlacedJob:
    return replace(job, allowed=tuple(there[site] for site in job.allowed))


@tries(20)
@given(problems, st.integers(0, 3))
def test_twice_the_bandwidth_never_raises_the_objective_of_a_placement(problem: Problem, number: int) -> None:
    index = number % len(problem.sites)
    wider = [replace(each, up=each.up * 2) if at == index else each for at, each in enumerate(problem.sites)]
    placement = exhaustive(problem)
    before, after = evaluate(problem, placement), evaluate(replace(problem, sites=wider), placement)
    assert after.age <= before.age * (1 + 1e-9)
    assert after.over <= before.over + 1e-9


@pytest.mark.parametrize("name", list(policies()))
def test_groups_pins_and_opponents_are_kept(name: str) -> None:
    base = make(11, jobs=5)
    pinned = [replace(job, allowed=(1,)) if index == 2 else job for index, job in enumerate(base.jobs)]
    problem = replace(base, jobs=pinned, together=[(0, 1)], apart=[(3, 4)])
    assert not problem.faults(_best(problem, name).sites)


def test_packages_are_searched_once_for_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    found = policies()
    monkeypatch.setattr("speck.placement.policies.entry_points", lambda group: pytest.fail(group))
    policies().clear()  # a copy
    assert policies() == found


class Own:
    """A policy of another package."""

    name, about = "own", "all at the first site that is allowed"

    def place(self, problem: Problem, incumbent: Placement, budget: Budget) -> Placement:
        return problem.placement([each.allowed[0] for each in problem.jobs])


@pytest.fixture
def packages(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, list[EntryPoint]]]:
    """The entry points of other packages, by group."""
    found: dict[str, list[EntryPoint]] = {}
    monkeypatch.setattr("speck.placement.policies.entry_points", lambda group: found.get(group, []))
    _forget()
    yield found
    _forget()


def _forget() -> None:
    placement_policies._installed.cache_clear()
    placement_policies._loaded.cache_clear()


def test_policies_of_other_packages_come_before_those_for_comparison(
    packages: dict[str, list[EntryPoint]],
) -> None:
    own = f"{__name__}:Own"
    packages[COMPARISON_GROUP] = [EntryPoint(name, own, COMPARISON_GROUP) for name in ("b", "a", "own")]
    packages[GROUP] = [EntryPoint(name, own, GROUP) for name in ("own", "search")]
    assert [(each.name, each.comparison) for each in catalogue()] == [
        ("speck", False),
        ("search", False),
        ("own", False),
        ("a", True),
        ("b", True),
    ]
    assert policies()["search"].about == Search.about
    with pytest.raises(InvalidInput, match=r"expected one of: speck, search, own; for comparison: a, b\)"):
        policy("fastest")


def test_a_policy_that_cannot_be_imported_leaves_the_others_alone(
    packages: dict[str, list[EntryPoint]],
) -> None:
    packages[GROUP] = [EntryPoint("broken", "no_such_package:POLICY", GROUP)]
    packages[COMPARISON_GROUP] = [EntryPoint("own", f"{__name__}:Own", COMPARISON_GROUP)]
    problem = _line(rate=1.0)
    assert not problem.faults(place(problem, problem.all_in_cloud, policy("speck"), Budget()).sites)
    assert catalogue()[2].about == "cannot be loaded: No module named 'no_such_package'"
    with pytest.raises(
        InvalidInput, match=r"policy 'broken' cannot be loaded: No module .* \(expected a pack"
    ):
        place(problem, problem.all_in_cloud, policy("broken"), Budget())


@pytest.mark.slow("starts a new interpreter")
def test_policies_for_comparison_are_imported_when_they_are_used() -> None:
    code = (
        "import sys; import speck.schema; import speck.placement.advice as _; "
        "from speck.placement.policies import policy, policy_names; policy('speck'); policy_names(); "
        "before = [each for each in sys.modules if each.startswith('speck_baselines')]; policy('first-fit'); "
        "print(before, 'speck_baselines.policies' in sys.modules, 'speck_baselines.learned' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[0] == "[] True False"


def test_filter_moves_to_the_data_when_the_link_is_slow() -> None:
    problem = _line(rate=1000.0)
    found = _best(problem)
    assert found.sites[0] == 0
    assert evaluate(problem, found).wan < evaluate(problem, problem.all_in_cloud).wan / 5


def test_incumbent_wins_a_tie() -> None:
    problem = _line(rate=1.0, selectivity=1.0, allowed=(1,))
    incumbent = _best(problem)
    assert place(problem, incumbent, policy("speck"), Budget()).sites == incumbent.sites


def test_group_without_a_common_site_is_refused() -> None:
    base = make(3, jobs=3)
    apart = [replace(job, allowed=(index % 2,)) for index, job in enumerate(base.jobs)]
    with pytest.raises(InvalidInput, match=r"job 'job0-0' has no site to run at"):
        replace(base, jobs=apart, together=[(0, 1)])


def test_cycle_is_refused_with_its_jobs() -> None:
    channels = [Channel(name="a", homes=(0,), rate=1.0), Channel(name="b", homes=(0,))]
    jobs = [
        PlacedJob(name="there", allowed=(0,), inputs=(0,), output=1),
        PlacedJob(name="back", allowed=(0,), inputs=(1,), output=0),
    ]
    with pytest.raises(InvalidInput, match=r"'there' -> 'back'|'back' -> 'there'"):
        Problem(sites=[SiteModel(name="one", cores=1.0)], jobs=jobs, channels=channels)


def test_unknown_policy_is_refused_with_the_names() -> None:
    with pytest.raises(InvalidInput, match=r"no placement policy 'fastest' \(expected one of: speck, search"):
        policy("fastest")


def test_policy_that_answers_with_a_forbidden_site_is_named() -> None:
    class Rogue:
        name, about = "rogue", "ignores the allowed sites"

        def place(self, problem: Problem, incumbent: Placement, budget: Budget) -> Placement:
            return problem.placement([0] * len(problem.jobs))

    rogue: Policy = Rogue()
    problem = _line(allowed=(1,))
    with pytest.raises(InvalidInput, match=r"policy 'rogue': job 'clean' is not allowed at site 'edge'"):
        place(problem, problem.all_in_cloud, rogue, Budget())
