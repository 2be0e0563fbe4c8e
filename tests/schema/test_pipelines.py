"""Every composition and inventory that comes with SpecK can be loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from speck.binder import ENGINE_OF_SCHEME, Registry, installed, scheme_of
from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.core.plan import Deployed, make_plan
from speck.core.refusals import stranded_state
from speck.schema.compositions import load_composition
from speck.schema.inventory import load_inventory
from testbed import ROOT
from testbed.benches.examples import one_site
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

PIPELINES = ROOT / "pipelines"
FENCES = ("fences", "fences_any", "fences_cloud", "fences_edited")
TRAFFIC = ("road_traffic", "road_traffic_any", "road_traffic_cloud", "road_traffic_edited")
MIXED = ("road_traffic_mixed", "road_traffic_mixed_edited")
FENCES_MIXED = "fences_mixed"
KAFKA = ("road_traffic_kafka", "road_traffic_kafka_edited")
NEXMARK = {"q0": 2, "q1": 2, "q2": 2, "q3": 5, "q4": 6, "q5": 4, "q7": 3, "q8": 5, "q11": 3, "q12": 3}  # jobs
FLINK_PROGRAMS = ROOT / "jars_and_apps" / "flink" / "speck-flink-jobs.jar"


def inventory(name: str = "sites") -> Inventory:
    return load_inventory((PIPELINES / f"{name}.yaml").read_bytes())


def load(name: str, registry: Registry, root: Path) -> Mapping[str, Job]:
    text = (PIPELINES / f"{name}.yaml").read_bytes()
    sites = inventory("sites_mixed" if name in (*MIXED, FENCES_MIXED) else "sites")
    if name in KAFKA:
        cloud = replace(sites.sites["D"], broker_address="kafka://172.16.192.18:9092", broker_login=None)
        sites = replace(sites, sites={**sites.sites, "D": cloud})
    loaded = load_composition(text, inventory=sites, registry=registry, root=root, default_name=name)
    return loaded.composition.jobs


def test_no_pipeline_is_left_out() -> None:
    found = {path.stem for path in PIPELINES.glob("*.yaml")}
    others = {
        "figure3",
        "figure4",
        "hot_towns",
        "hot_towns_demo",
        "mixed_brokers",  # tests/schema/test_kafka.py
        "sites",
        "sites_mixed",
        "road_traffic_adapt",
        "road_traffic_alone",
    }
    assert found == {*FENCES, FENCES_MIXED, *TRAFFIC, *MIXED, *KAFKA, *others}
    assert {path.stem for path in PIPELINES.glob("nexmark/*.yaml")} == NEXMARK.keys()


def test_every_composition_declares_its_edges() -> None:
    for path in PIPELINES.rglob("*.yaml"):
        document = yaml.safe_load(path.read_bytes())
        if "jobs" in document or "splits" in document:
            assert document.keys() >= {"sources", "sinks"}, path.name


def jobs_on_flink(name: str) -> Mapping[str, Job]:
    sites = {
        each: one_site(each, f"http://{each.lower()}:8081/", f"tcp://{each.lower()}:1883") for each in "ABCD"
    }
    text = (PIPELINES / f"{name}.yaml").read_bytes()
    loaded = load_composition(
        text, inventory=Inventory(sites), registry=installed(), root=ROOT, default_name=name
    )
    return loaded.composition.jobs


@pytest.mark.skipif(not FLINK_PROGRAMS.exists(), reason="the Flink programs are not built (make jars)")
def test_the_adapted_road_traffic_may_move_the_statistics_of_three_sites() -> None:
    jobs = jobs_on_flink("road_traffic_adapt")
    movable = [name for name, job in jobs.items() if job.movable]
    assert movable == ["local-stats-a", "local-stats-b", "local-stats-c"]
    assert len(jobs) == 17


@pytest.mark.skipif(not FLINK_PROGRAMS.exists(), reason="the Flink programs are not built (make jars)")
def test_the_road_traffic_of_a_lone_site_has_its_jobs_and_its_edges_elsewhere() -> None:
    jobs, adapted = jobs_on_flink("road_traffic_alone"), jobs_on_flink("road_traffic_adapt")
    assert jobs.keys() == adapted.keys()
    at_a = {name: job for name, job in jobs.items() if "a:8081" in job.spe_address}
    of_a = {name: (job.source_broker, job.sink_broker) for name, job in at_a.items()}
    a, b, d = (f"tcp://{each}:1883" for each in "abd")
    assert of_a == {
        **dict.fromkeys(("clean-a1", "clean-a2"), (b, a)),
        **dict.fromkeys(("forward-a", "local-stats-a"), (a, d)),
    }


@pytest.mark.parametrize("query", NEXMARK)
def test_the_jobs_of_a_nexmark_query_are_placed_by_speck(query: str, tmp_path: Path) -> None:
    jar = tmp_path / "jars_and_apps" / "nexmark" / "speck-nexmark.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(b"the double looks into no jar")
    text = (PIPELINES / "nexmark" / f"{query}.yaml").read_bytes()
    sites = {
        each: one_site(each, f"http://{each.lower()}:8081/", f"tcp://{each.lower()}:1883") for each in "ABD"
    }
    loaded = load_composition(
        text,
        inventory=Inventory(sites),
        registry=double_kinds(World()),
        root=tmp_path,
        default_name=query,
    )
    assert len(loaded.composition.jobs) == NEXMARK[query]
    assert all(job.movable for job in loaded.composition.jobs.values())


@pytest.mark.parametrize("name", TRAFFIC)
def test_road_traffic_has_17_jobs_with_real_code(name: str) -> None:
    assert len(load(name, installed(), ROOT)) == 17


def test_geofencing_locates_at_the_edge_and_merges_in_the_cloud() -> None:
    before, after = (load(name, installed(), ROOT) for name in ("fences", "fences_edited"))
    sites = {name: job.site for name, job in before.items()}
    assert (sites["admit"], sites["spread-b"], sites["locate-b"], sites["track"]) == ("D", "D", "B", "D")
    assert before["track"].arguments["sites"] == "A,B,C"
    plan = make_plan("geofencing", 1, after, {name: Deployed(job) for name, job in before.items()})
    assert plan.counts() == {"start": 0, "stop": 0, "update": 0, "move": 2, "keep": 12}


def test_geofencing_in_the_cloud_brings_the_raw_positions_there() -> None:
    jobs = load("fences_cloud", installed(), ROOT)
    assert len(jobs) == 17
    assert len({job.spe_address for job in jobs.values()}) == 1
    abroad = {
        name
        for name, job in jobs.items()
        if {job.source_broker, job.sink_broker} != {jobs["track"].sink_broker}
    }
    assert abroad == {"collect-a", "collect-b", "collect-c"}


def test_two_jobs_of_the_placed_geofencing_may_run_anywhere() -> None:
    plain, placed = (load(name, installed(), ROOT) for name in ("fences", "fences_any"))
    assert placed.keys() - plain.keys() == {"occupancy"}
    assert [name for name, job in placed.items() if job.movable] == ["track", "occupancy"]


@pytest.mark.skipif(not FLINK_PROGRAMS.exists(), reason="the Flink programs are not built (make jars)")
def test_the_mixed_geofencing_has_the_same_jobs_and_edges() -> None:
    plain, mixed = (load(name, installed(), ROOT) for name in ("fences", FENCES_MIXED))

    def edges(jobs: Mapping[str, Job]) -> dict[str, tuple[str | None, str]]:
        return {name: (job.site, f"{job.source_topic} {job.sink_topic}") for name, job in jobs.items()}

    assert edges(mixed) == edges(plain)
    assert mixed["track"].arguments == plain["track"].arguments
    on_flink = {
        name for name, job in mixed.items() if ENGINE_OF_SCHEME[scheme_of(job.spe_address)] == "flink"
    }
    assert on_flink == {"spread-a", "spread-b", "spread-c", "locate-c", "track-c", "forward-c", "track"}


def test_hot_towns_are_split_over_three_sites() -> None:
    jobs = load("hot_towns", installed(), ROOT)
    assert [(name.partition(".")[2], job.site) for name, job in jobs.items()] == [
        ("partitioner", "D"),
        ("combiner-0", "A"),
        ("combiner-1", "B"),
        ("combiner-2", "D"),
        ("reducer", "D"),
    ]


@pytest.mark.parametrize("name", ["figure3", "figure4"])
def test_figures_of_the_paper(name: str, tmp_path: Path) -> None:
    (tmp_path / "jars_and_apps").mkdir()
    (tmp_path / "jars_and_apps" / "test-1.jar").write_bytes(b"the double looks into no jar")
    assert len(load(name, double_kinds(World()), tmp_path)) == 4


@pytest.mark.parametrize("names", [("road_traffic", "road_traffic_edited"), KAFKA])
def test_edit_of_the_road_traffic_moves_one_removes_one_and_adds_one(names: tuple[str, str]) -> None:
    before, after = (load(name, installed(), ROOT) for name in names)
    stored = {name: Deployed(job) for name, job in before.items()}
    plan = make_plan("road-traffic", 1, after, stored)
    assert plan.counts() == {"start": 1, "stop": 1, "update": 0, "move": 1, "keep": 15}


@pytest.mark.skipif(not FLINK_PROGRAMS.exists(), reason="the Flink programs are not built (make jars)")
def test_the_mixed_road_traffic_takes_engines_of_three_kinds() -> None:
    before, after = (load(name, installed(), ROOT) for name in MIXED)
    schemes = Counter(job.spe_address.partition(":")[0] for job in before.values())
    assert schemes == {"sc": 8, "http": 4, "https": 4, "spark": 1}
    stored = {name: Deployed(job) for name, job in before.items()}
    plan = make_plan("road-traffic", 1, after, stored)
    assert plan.counts() == {"start": 1, "stop": 1, "update": 0, "move": 2, "keep": 14}
    assert stranded_state(after, stored) == []


def test_the_cloud_of_the_road_traffic_with_kafka_exchanges_messages_there_alone() -> None:
    jobs = load(KAFKA[0], installed(), ROOT).values()
    assert len(jobs) == 17
    through = Counter(job.source_topic for job in jobs if job.source_broker.startswith("kafka:"))
    assert through == {"clean": 2, "readings": 1}
    assert {job.sink_topic for job in jobs if job.sink_broker.startswith("kafka:")} == through.keys()


@pytest.mark.parametrize("name", ["sites", "sites_mixed"])
def test_every_engine_has_its_kind(name: str) -> None:
    addresses = [engine.spe_address for site in inventory(name).sites.values() for engine in site.engines]
    for address in addresses:
        assert installed().engine_kind(ENGINE_OF_SCHEME[scheme_of(address)], address) is not None, address
