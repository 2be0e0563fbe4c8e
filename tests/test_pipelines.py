"""Every composition and inventory that comes with SpecK can be loaded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from speck.binder import EngineKind, Registry, installed
from speck.model import Inventory, Job
from speck.plan import Deployed, make_plan
from speck.schema import load_composition, load_inventory
from tests.doubles import World, double_kinds

ROOT = Path(__file__).parent.parent
PIPELINES = ROOT / "pipelines"
TRAFFIC = ("road_traffic", "road_traffic_cloud", "road_traffic_edited")


def inventory() -> Inventory:
    return load_inventory((PIPELINES / "sites.yaml").read_bytes())


def load(name: str, registry: Registry, root: Path) -> Mapping[str, Job]:
    text = (PIPELINES / f"{name}.yaml").read_bytes()
    loaded = load_composition(text, inventory=inventory(), registry=registry, root=root, default_name=name)
    return loaded.composition.jobs


def with_flink() -> Registry:
    doubles = double_kinds(World())
    flink = [kind for kind in doubles.engines if kind.name == "flink"]
    return Registry((*installed().engines, *flink), installed().brokers)


def test_no_pipeline_is_left_out() -> None:
    found = {path.stem for path in PIPELINES.glob("*.yaml")}
    assert found == {*TRAFFIC, "figure3", "figure4", "sites"}


@pytest.mark.parametrize("name", TRAFFIC)
def test_road_traffic_has_17_jobs_with_real_code(name: str) -> None:
    assert len(load(name, installed(), ROOT)) == 17


@pytest.mark.parametrize("name", ["figure3", "figure4"])
def test_figures_of_the_paper(name: str, tmp_path: Path) -> None:
    (tmp_path / "jars_and_apps").mkdir()
    (tmp_path / "jars_and_apps" / "test-1.jar").write_bytes(b"the double looks into no jar")
    assert len(load(name, with_flink(), tmp_path)) == 4


def test_edit_of_the_road_traffic_moves_one_removes_one_and_adds_one() -> None:
    before, after = (load(name, installed(), ROOT) for name in ("road_traffic", "road_traffic_edited"))
    stored = {name: Deployed(job) for name, job in before.items()}
    plan = make_plan("road-traffic", 1, after, stored)
    assert plan.counts() == {"start": 1, "stop": 1, "update": 0, "move": 1, "keep": 15}


def test_every_site_has_its_engine_kind() -> None:
    kinds: list[EngineKind | None] = [
        installed().engine_kind("spark", engine.spe_address)
        for site in inventory().sites.values()
        for engine in site.engines
    ]
    assert None not in kinds
