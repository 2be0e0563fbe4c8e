"""Placement problems of drafts: channels, rates, held jobs, sites and links."""

from __future__ import annotations

from dataclasses import replace

import pytest

from speck.core.draft import Draft
from speck.core.inventory import Engine, Inventory, Link, Scale, Uplink
from speck.core.job import Composition
from speck.core.placement import Expects, PlacementOptions
from speck.core.profile import EVENT_LOOP
from speck.placement.advice import advise
from speck.placement.cost import evaluate, wire
from speck.placement.model import (
    COST,
    NO_RATE,
    RATE,
    STAMP_BYTES,
    Model,
    Surroundings,
    model_of,
)
from speck.placement.policies import Budget, policy
from speck.placement.problem import EngineModel, Tier
from speck.placement.profile import BATCH_OVERHEAD, Inputs, Known, LinkProfile, SiteProfile, Value
from speck.placement.sites import BANDWIDTH, CORES, LATENCY, site_table
from testbed.benches.examples import REGISTRY
from testbed.benches.jobs_by_hand import composition, make_job
from testbed.benches.placement import (
    Profiler,
    broker_at,
    engine_at,
    inventory,
    measured,
    movable,
    road_traffic,
)


def _model(
    desired: Composition, inputs: Inputs | None = None, known: Inventory | None = None, **around: object
) -> Model:
    known, inputs = known or inventory(), inputs or Inputs()
    draft = Draft.of(desired, known, REGISTRY)
    table = site_table(known, inputs, draft.jobs.values())
    return model_of(draft, Surroundings(table=table, inputs=inputs, **around))  # type: ignore[arg-type]


def _rates(model: Model) -> dict[str, float]:
    return dict(zip(model.jobs, model.problem.rates.into, strict=True))


def test_measured_rates_flow_through_the_channels() -> None:
    model = _model(road_traffic(), Profiler(rate=900)())
    assert _rates(model)["clean-a"] == 900
    assert _rates(model)["local-a"] == pytest.approx(900 * 0.98)
    assert _rates(model)["global"] == pytest.approx(3 * 900 * 0.98 * 0.01)
    assert {each.known for each in model.sources.values()} == {Known.MEASURED}


def test_stamps_in_binary_form_take_less_of_the_uplinks() -> None:
    desired = road_traffic()
    compact = replace(desired, placement=PlacementOptions(stamps="compact"))
    texts, binary = (each.problem for each in map(_model, (desired, compact)))
    saved = {wire(texts, each, True) - wire(binary, each, True) for each in range(len(texts.channels))}
    assert saved == {0, STAMP_BYTES["text"] - STAMP_BYTES["compact"]}  # those of devices have no stamps


def test_stamps_between_the_parts_of_a_query_are_short_whatever_the_engines_have() -> None:
    at_a = {"spe_address": engine_at("A"), "source_broker": broker_at("A")}
    at_d = {"spe_address": engine_at("D"), "source_broker": broker_at("D")}
    jobs = [
        make_job("q.t-a", "in", "speck/sql/q/0/t-a", sink_broker=broker_at("D"), **at_a),
        make_job("q.rest", "speck/sql/q/0/+", sink_broker=broker_at("D"), **at_d),
    ]
    problem = _model(composition(*jobs)).problem
    sizes = {
        each.name.rpartition(" ")[2]: wire(problem, index, True) - each.size - problem.overhead
        for index, each in enumerate(problem.channels)
    }
    assert sizes["speck/sql/q/0/t-a"] == STAMP_BYTES["compact"] + problem.acknowledgement
    assert sizes["out"] == STAMP_BYTES["text"] + problem.acknowledgement


def test_the_event_loop_is_the_mean_of_the_measured_ones_by_the_rates_of_their_jobs() -> None:
    inputs = Profiler(rate=900)()
    assert _model(road_traffic(), inputs).problem.event_loop == EVENT_LOOP
    profiles = dict(inputs.jobs)
    for name, constant in (("clean-a", 0.001), ("global", 0.002)):
        profiles[name] = replace(profiles[name], event_loop=Value(constant, Known.MEASURED))
    model = _model(road_traffic(), replace(inputs, jobs=profiles))
    rates = _rates(model)
    mean = (0.001 * rates["clean-a"] + 0.002 * rates["global"]) / (rates["clean-a"] + rates["global"])
    assert model.problem.event_loop == pytest.approx(mean)


def test_declared_rates_are_used_until_they_are_measured() -> None:
    desired = road_traffic(expects=Expects(rate=50, bytes=200, cost=1e-3, selectivity=0.5))
    declared = _model(desired)
    assert _rates(declared)["clean-a"] == 50
    assert declared.problem.jobs[0].cost == 1e-3
    assert {each.known for each in declared.sources.values()} == {Known.DECLARED}
    assert _rates(_model(desired, Profiler(rate=900)()))["clean-a"] == 900


def _measured_of(former: Composition) -> Inputs:
    """Profiles of the jobs as they are in a composition, with 900 messages/s of each edge."""
    return replace(Profiler(rate=900)(), forms=dict(former.jobs))


def test_profiles_of_unchanged_jobs_stay_measured() -> None:
    elsewhere = _all_at("B")  # its addresses are other ones
    model = _model(road_traffic(), _measured_of(elsewhere))
    assert {each.known for each in model.sources.values()} == {Known.MEASURED}


@pytest.mark.parametrize(
    "change",
    [{"job_path": "other.py"}, {"arguments": {"depth": 9}}, {"query": {"program": "{}"}}, {"parallelism": 2}],
    ids=lambda change: next(iter(change)),
)
def test_edited_jobs_have_former_figures_only_where_none_are_declared(change: dict[str, object]) -> None:
    inputs = _measured_of(road_traffic())
    edited = _model(road_traffic(**change), inputs)
    assert _rates(edited)["clean-a"] == 900  # of what it reads, whatever it does with it
    assert edited.problem.jobs[0].cost == 30e-6
    assert (edited.sources["clean-a"].known, edited.sources["clean-a"].value) == (Known.ASSUMED, "bytes")
    declared = _model(road_traffic(**change, expects=Expects(rate=50, bytes=200, cost=1e-3)), inputs)
    assert _rates(declared)["clean-a"] == 900
    assert {job.cost for job in declared.problem.jobs} == {1e-3}
    assert {each.known for each in declared.sources.values()} == {Known.DECLARED}


def test_a_job_that_reads_another_topic_has_no_measured_rate() -> None:
    former = composition(movable("a", "old", "out", source="A", sink="A"))
    job = movable("a", "new", "out", source="A", sink="A")
    profile = replace(Profiler()().jobs["clean-a"], rate_in=measured(5000), bytes_in=measured(900))
    inputs = Inputs(jobs={"a": profile}, forms=dict(former.jobs), history={"a": [5000.0, 4000.0]})
    model = _model(composition(job), inputs)
    assert _rates(model) == {"a": RATE}
    assert not model.problem.history
    assert model.problem.channels[model.problem.jobs[0].inputs[0]].size != 900
    assert _model(former, inputs).problem.history


def test_an_assumed_rate_does_not_count_beside_a_measured_one() -> None:
    jobs = [movable(name, "sensors", f"out/{name}", source="A", sink="A") for name in ("a", "b")]
    former = replace(Profiler()().jobs["clean-a"], rate_in=Value(5000, Known.ASSUMED))
    profiles = {"a": former, "b": replace(former, rate_in=measured(10))}
    assert _rates(_model(composition(*jobs), Inputs(jobs=profiles))) == {"a": 10, "b": 10}
    assert _rates(_model(composition(jobs[0]), Inputs(jobs=profiles))) == {"a": 5000}


def test_a_job_whose_rate_is_assumed_stays() -> None:
    inputs = Profiler()()
    assumed = {name: each.as_assumed() for name, each in inputs.jobs.items()}
    model = _model(_all_at("B"), replace(inputs, jobs=assumed))
    assert set(model.fixed.values()) == {NO_RATE}


def test_nothing_known_is_assumed_and_said() -> None:
    model = _model(road_traffic())
    assert _rates(model)["clean-a"] == RATE
    assert model.problem.jobs[0].cost == COST[EngineModel.FLINK]
    assert model.sources["clean-a"].known is Known.ASSUMED


def test_free_topics_of_one_filter_are_one_channel_and_born_topics_have_their_brokers() -> None:
    model = _model(road_traffic())
    homes = {each.name: each.homes for each in model.problem.channels}
    everywhere = (0, 1, 2, 3)
    assert homes["free stats/a"] == homes["free clean/a"] == everywhere
    assert "free stats/b" not in homes
    assert homes[f"{broker_at('A')} sensors"] == (0,)
    assert homes[f"{broker_at('D')} report"] == (3,)


def test_reader_of_one_topic_of_a_shared_home_gets_its_rate_alone() -> None:
    desired = road_traffic(expects=Expects(rate=100, selectivity=1.0))
    one = movable("one", "stats/b", "out", sink="D")
    model = _model(Composition("traffic", {**desired.jobs, "one": one}))
    assert _rates(model)["one"] == 100
    assert _rates(model)["global"] == 300
    homes = {each.homes for each in model.problem.channels if each.name.startswith("free stats")}
    assert homes == {(3,)}
    chosen = model.problem.all_in_cloud
    settled = model.draft.settled(model.sites(chosen), model.homes(chosen))
    assert settled.jobs["one"].source_broker == settled.jobs["global"].source_broker == broker_at("D")


def test_readers_of_what_is_parked_leave_the_results_their_home() -> None:
    desired = road_traffic(expects=Expects(rate=100, selectivity=1.0))
    parks = replace(desired.jobs["local-a"], park_topic="bad")
    repair = movable("repair", "bad", "clean/a", expects=Expects(rate=2, selectivity=1.0))
    model = _model(Composition("traffic", {**desired.jobs, "local-a": parks, "repair": repair}))
    homes = {each.name: each.homes for each in model.problem.channels}
    assert (homes["free clean/a"], homes[" bad"]) == ((0, 1, 2, 3), (3,))
    assert (_rates(model)["repair"], _rates(model)["local-a"]) == (2, 102)
    chosen = model.problem.all_in_cloud
    settled = model.draft.settled(model.sites(chosen), {**model.homes(chosen), "clean/a": "A"})
    assert settled.jobs["repair"].source_broker == settled.jobs["local-a"].source_broker == broker_at("A")
    moved = _model(settled)
    assert {each.name: each.homes for each in moved.problem.channels}[" bad"] == (0,)


def test_jobs_outside_the_inventory_are_at_sites_of_their_own() -> None:
    desired = composition(
        make_job("far", "x", "y", spe_address="http://far:8081", engine="flink"),
        *road_traffic().jobs.values(),
    )
    model = _model(desired)
    index = model.number["far"]
    assert model.fixed[index] == "its site is fixed in the file"
    (site,) = model.problem.jobs[index].allowed
    assert model.table.name(site) == "http://far:8081"
    assert model.problem.sites[model.problem.cloud].name == "D"


def test_spark_jobs_have_batches() -> None:
    spark = make_job("s", "x", "y", trigger="500 milliseconds")
    job = _model(composition(spark)).problem.jobs[0]
    assert (job.engine, job.trigger, job.batch_overhead) == (EngineModel.SPARK, 0.5, BATCH_OVERHEAD)


def _all_at(site: str) -> Composition:
    model = _model(road_traffic())
    index = model.table.index(site)
    placement = model.problem.placement([index] * len(model.jobs))
    return model.draft.settled(model.sites(placement), model.homes(placement))


@pytest.mark.parametrize("name", ["speck", "cloud", "source", "first-fit", "search"])
def test_held_jobs_and_topics_are_never_moved(name: str) -> None:
    model = _model(_all_at("B"), Profiler()(), running=list(road_traffic().jobs), hold=True)
    advice = advise(model, policy(name), Budget())
    assert advice.steps == ()
    assert advice.placement.sites == model.sites_now
    assert advice.placement.homes == model.homes_now


def test_present_place_is_that_of_the_composition() -> None:
    model = _model(_all_at("B"), Profiler()())
    assert {model.table.name(site) for site in model.sites_now if site is not None} == {"B"}
    assert evaluate(model.problem, model.incumbent).objective > 0
    assert not _model(road_traffic()).complete


def _at(sites: dict[str, str]) -> Model:
    model = _model(road_traffic(), Profiler()())
    chosen = [model.table.index(sites[name]) for name in model.jobs]
    placement = model.problem.placement(chosen)
    settled = model.draft.settled(model.sites(placement), model.homes(placement))
    return _model(settled, Profiler()())


def test_groups_that_gain_next_to_nothing_stay() -> None:
    best = {name: name[-1].upper() if name != "global" else "D" for name in road_traffic().jobs}
    model = _at(best | {"clean-a": "D", "local-a": "D"})
    quiet = replace(
        model.problem,
        channels=[
            replace(each, rate=1.0) if each.name == f"{broker_at('B')} sensors" else each
            for each in model.problem.channels
        ],
    )
    elsewhere = model.problem.placement(
        [
            model.table.index("D") if name in ("clean-a", "local-a", "clean-b", "local-b") else site
            for name, site in zip(model.jobs, model.incumbent.sites, strict=True)
        ]
    )
    now = replace(model, problem=quiet, sites_now=elsewhere.sites, homes_now=elsewhere.homes)
    advice = advise(now, policy("speck"), Budget())
    moved = {model.jobs[job] for step in advice.steps for job in step.jobs}
    assert moved == {"clean-a", "local-a"}


@pytest.mark.parametrize("name", ["speck", "search", "amnis", "source", "cloud"])
def test_advice_is_stable_once_it_is_taken(name: str) -> None:
    model = _at(dict.fromkeys(road_traffic().jobs, "D"))
    once = advise(model, policy(name), Budget())
    taken = replace(model, sites_now=once.placement.sites, homes_now=once.placement.homes)
    again = advise(taken, policy(name), Budget())
    assert again.steps == ()
    assert again.placement.homes == once.placement.homes


# --- sites and links


def _path(source: str, target: str, trip: float, bandwidth: float, *, at_least: bool = False) -> LinkProfile:
    return LinkProfile(
        source=source,
        target=target,
        round_trip=measured(trip),
        bandwidth=measured(bandwidth),
        at_least=at_least,
    )


def test_sites_are_as_declared() -> None:
    edge, *_, cloud = site_table(inventory(), Inputs(), ()).sites
    assert (edge.up, edge.down, edge.latency, edge.cores) == (250e3, 250e3, 0.02, 4)
    assert (edge.tier, cloud.tier, cloud.cores) == (Tier.EDGE, Tier.CLOUD, 16)


def test_an_engine_that_scales_counts_with_all_workers_that_it_may_get() -> None:
    known = inventory()
    scaled = Engine(spe_address=engine_at("A"), scale=Scale(least=0, most=4, cores=2.0, slots=8))
    site = replace(known.sites["A"], engines=(scaled,), cores=None)
    edge = site_table(replace(known, sites={**known.sites, "A": site}), Inputs(), ()).sites[0]
    assert (edge.cores, edge.slots) == (8, 32)


def test_a_site_that_reports_no_cores_is_one_that_nothing_is_known_of() -> None:
    """As a cluster of Spark standalone does without workers, in stores of former versions too."""
    known = inventory()
    sites = {**known.sites, "A": replace(known.sites["A"], cores=None)}
    inputs = replace(Profiler()(), sites={"A": SiteProfile(name="A", cores=measured(0))})
    model = _model(road_traffic(), inputs, replace(known, sites=sites))
    assert model.problem.sites[0].cores == CORES
    assert evaluate(model.problem, model.incumbent).objective > 0


def test_measured_links_replace_declared_ones_and_lower_bounds_only_raise_them() -> None:
    paths = [
        _path("A", "D", 0.1, 100e3),
        _path("D", "A", 0.1, 80e3),
        _path("B", "D", 0.02, 1e3, at_least=True),
        _path("C", "D", 0.04, 9e6, at_least=True),
    ]
    inputs = Inputs(links={(each.source, each.target): each for each in paths})
    sites = {site.name: site for site in site_table(inventory(), inputs, ()).sites}
    assert (sites["A"].up, sites["A"].down) == (100e3, 80e3)
    assert (sites["B"].up, sites["C"].up) == (500e3, 9e6)
    assert sites["A"].latency + sites["D"].latency == pytest.approx(0.05, rel=0.01)
    assert sites["B"].latency + sites["D"].latency == pytest.approx(0.01, abs=0.002)


def test_full_path_is_the_measure_of_its_lesser_end() -> None:
    paths = [_path("A", "D", 0.1, 60e3), _path("B", "D", 0.1, 50e3, at_least=True)]
    inputs = Inputs(links={(each.source, each.target): each for each in paths})
    sites = {site.name: site for site in site_table(inventory(), inputs, ()).sites}
    assert (sites["A"].up, sites["D"].down) == (60e3, 125e6)


def test_declared_links_count_for_sites_without_an_uplink() -> None:
    known = inventory()
    sites = {name: replace(site, uplink=Uplink()) for name, site in known.sites.items()}
    linked = Inventory(sites, {}, (Link(source="A", target="D", bandwidth=8e5, latency=30),))
    found = {site.name: site for site in site_table(linked, Inputs(), ()).sites}
    assert (found["A"].up, found["A"].down, found["B"].up) == (1e5, 1e5, BANDWIDTH)
    assert found["B"].latency == LATENCY


def test_measured_speed_goes_before_the_declared_one() -> None:
    known = inventory()
    slow = Inventory({name: replace(site, speed=0.5) for name, site in known.sites.items()})
    probed = Inputs(sites={"A": SiteProfile(name="A", speed=Value(0.8, Known.MEASURED))})
    found = site_table(slow, probed, ()).sites
    assert [site.speed for site in found] == [0.8, 0.5, 0.5, 0.5]
    assert engine_at("A") in site_table(slow, probed, ()).engines
