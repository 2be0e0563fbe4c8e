from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from speck.cli import cli
from speck.cli.draw import draw_image, draw_text
from speck.cli.draw.grouping import by_site
from speck.core.graph import Graph
from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.errors import InvalidInput, SpeckError
from testbed import ROOT
from testbed.benches.examples import job, one_site

if TYPE_CHECKING:
    from speck.cli.draw.picture import Layout

INVENTORY = Inventory({name: one_site(name, f"sc://{name}:15002", f"tcp://{name}:1883") for name in "ABCD"})


def at(site: str, name: str, source: str, sink: str, to: str | None = None) -> Job:
    brokers = {"source_broker": f"tcp://{site}:1883", "sink_broker": f"tcp://{to or site}:1883"}
    return job(name, source, sink, spe_address=f"sc://{site}:15002", engine="spark", **brokers)


def road_traffic() -> list[Job]:
    """The shape of the demonstration: 17 jobs over 4 sites."""
    jobs = [at("D", "global", "all", "stats/global")]
    for site in "ABCD":
        jobs += [at(site, f"clean-{site}{stream}", f"raw/{stream}", "clean") for stream in (1, 2)]
        jobs.append(at(site, f"forward-{site}", "clean", "all", to="D"))
        jobs.append(at(site, f"local-{site}", "clean", f"stats/{site}"))
    return jobs


def test_jobs_are_grouped_by_site_in_the_order_of_the_data() -> None:
    jobs = [at("A", "a", "in", "mid", to="D"), at("D", "d", "mid", "out"), job("else", "x", "y", site="Z")]
    groups = by_site(Graph.of(jobs), INVENTORY)
    assert [(group.name, group.address, group.jobs) for group in groups] == [
        ("A", "sc://A:15002", ("a",)),
        ("Z", "http://edge:8081/", ("else",)),
        ("D", "sc://D:15002", ("d",)),
    ]


def test_an_engine_without_a_site_is_named_by_its_address() -> None:
    (group,) = by_site(Graph.of([job("a")]), INVENTORY)
    assert group.name == "http://edge:8081/"


def test_text() -> None:
    jobs = [
        at("A", "clean", "raw", "clean"),
        at("A", "forward", "clean", "all", to="D"),
        at("D", "sum", "all", "out"),
    ]
    assert (
        draw_text(jobs, INVENTORY)
        == """\
A  sc://A:15002
  (outside) raw --> clean   --> clean --> forward
  clean         --> forward --> all   --> sum @ D

D  sc://D:15002
  all           --> sum     --> out   --> (outside)"""
    )


def test_what_is_parked_does_not_come_from_outside() -> None:
    parks = replace(at("A", "clean", "raw", "clean"), park_topic="parked")
    jobs = [parks, at("A", "repair", "parked", "raw")]
    assert "\n  parked --> repair --> raw" in draw_text(jobs, INVENTORY)


def test_text_of_many_readers_stays_short() -> None:
    jobs = [job("writer", "in", "hub"), *(job(f"r{n}", "hub", f"out{n}") for n in range(9))]
    assert "--> r0, r1, r2, r3 and 5 more" in draw_text(jobs, INVENTORY)


def test_nothing_to_draw() -> None:
    assert draw_text([], INVENTORY) == ""


@pytest.mark.slow("draws by Matplotlib")
@pytest.mark.parametrize("suffix", [".svg", ".png", ".PNG"])
@pytest.mark.parametrize("jobs", [[], [job("a")], road_traffic()], ids=["none", "one", "road traffic"])
def test_the_same_jobs_make_the_same_picture(tmp_path: Path, suffix: str, jobs: list[Job]) -> None:
    first, second = tmp_path / f"first{suffix}", tmp_path / f"second{suffix}"
    draw_image(jobs, INVENTORY, first)
    draw_image(reversed(jobs), INVENTORY, second)
    assert first.read_bytes() == second.read_bytes()
    if suffix == ".svg":
        assert ElementTree.parse(first).getroot().tag.endswith("svg")  # noqa: S314 - just written
    else:
        assert first.read_bytes().startswith(b"\x89PNG")


def test_names_that_look_like_mathematics_are_drawn(tmp_path: Path) -> None:
    draw_image([job("a", "$SYS/$x_1$", "out/$y^2$")], INVENTORY, tmp_path / "picture.svg")


def texts(path: Path) -> list[str]:
    """The texts of a picture, which matplotlib writes as comments beside their outlines."""
    return re.findall("<!-- (.*) -->", path.read_text(encoding="utf-8"))


def test_declared_topics_are_named_below_the_sites(tmp_path: Path) -> None:
    path = tmp_path / "picture.svg"
    declared = {
        "sources": {"raw": "readings of $x_1$"},
        "sinks": {"alarms": "for the duty officer", "out": ""},
    }
    draw_image([job("a", "raw", "out")], INVENTORY, path, declared)
    assert texts(path)[:7] == [
        "sources",
        "raw",
        "readings of $x_1$",
        "sinks",
        "alarms",
        "for the duty officer",
        "out",
    ]
    bare = tmp_path / "bare.svg"
    draw_image([job("a", "raw", "out")], INVENTORY, bare)
    height, more = (float(ElementTree.parse(each).getroot().attrib["height"][:-2]) for each in (bare, path))  # noqa: S314
    assert more - height == pytest.approx(72 * (5 * 0.19 + 0.25), abs=1)  # points


def test_the_command_draws_the_declared_topics_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "picture.svg"
    file, sites = (str(ROOT / "pipelines" / name) for name in ("road_traffic.yaml", "sites.yaml"))
    result = CliRunner().invoke(cli, ["graph", file, "--sites", sites, "-o", str(path)])
    assert result.exit_code == 0, result.stderr
    assert "readings of the first sensor of a site" in texts(path)


def lay_out(graph: Graph) -> Layout:
    """The layout of a graph, by site."""
    from speck.cli.draw import picture  # here, since matplotlib takes a second to import

    return picture.lay_out(graph, by_site(graph, INVENTORY))


def test_no_job_lies_on_another_or_outside_of_its_site() -> None:
    jobs = road_traffic()
    graph = Graph.of(jobs)
    layout = lay_out(graph)
    boxes = list(layout.jobs.values())
    for index, box in enumerate(boxes):
        for other in boxes[index + 1 :]:
            beside = box.right <= other.left or other.right <= box.left
            assert beside or abs(box.middle - other.middle) >= (box.height + other.height) / 2
    for name, box in layout.jobs.items():
        site = layout.sites[graph.jobs[name].spe_address]
        assert site.left < box.left
        assert box.right < site.right
        assert abs(box.middle - site.middle) + box.height / 2 < site.height / 2


def test_data_flows_to_the_right() -> None:
    jobs = road_traffic()
    graph = Graph.of(jobs)
    layout = lay_out(graph)
    for each in jobs:
        for reader in graph.readers_of(each):
            assert layout.jobs[each.job_name].right < layout.jobs[reader].left


def test_edges_into_the_middle_of_a_site_get_a_lane() -> None:
    graph = Graph.of(road_traffic())
    assert list(lay_out(graph).lanes) == [("in", "global")]


def test_another_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"has an unknown suffix \(expected .svg or .png\)"):
        draw_image([], INVENTORY, tmp_path / "picture.gif")


def test_a_picture_without_the_extra_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "speck.cli.draw.picture", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SpeckError, match=r"package matplotlib.*\(pip install 'speck\[graph\]'\)"):
        draw_image([job("a")], INVENTORY, tmp_path / "picture.svg")
    assert "a" in draw_text([job("a")], INVENTORY)


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="cannot be written: No such file"):
        draw_image([], INVENTORY, tmp_path / "none" / "picture.svg")


def test_a_cycle_cannot_be_drawn(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="a -> a"):
        draw_image([job("a", "t", "t")], INVENTORY, tmp_path / "picture.svg")


def test_jobs_that_are_not_placed_yet_are_a_group_of_their_own(tmp_path: Path) -> None:
    nowhere = {"spe_address": "", "engine": "spark", "sites": ("any",), "placed": ("spe_address",)}
    jobs = [
        at("A", "first", "raw", "clean"),
        job("second", "clean", "all", source_broker="tcp://A:1883", sink_broker="", **nowhere),
        job("third", "all", "out", source_broker="", sink_broker="tcp://A:1883", **nowhere),
        at("A", "last", "out", "end"),
    ]
    text = draw_text(jobs, INVENTORY)
    assert text.splitlines()[0] == "A  sc://A:15002"
    assert "placed by SpecK\n" in text
    assert "--> second @ placed by SpecK" in text
    draw_image(jobs, INVENTORY, tmp_path / "graph.svg")
    assert "placed by SpecK" in (tmp_path / "graph.svg").read_text(encoding="utf-8")
