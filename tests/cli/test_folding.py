"""The jobs that one ``for_each`` made, shown as one on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from speck import cli
from speck.binder import Backlog
from speck.cli import render
from speck.cli.draw import draw_text, folded
from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.core.plan import Deployed, make_plan, plan_data
from speck.core.runtime import JobState
from testbed.benches.examples import one_site
from testbed.benches.jobs_by_hand import make_job
from testbed.servers.rest import RestServer, rest_server


def job(step: str, site: str, reads: str, writes: str, **fields: object) -> Job:
    broker = f"tcp://{site}:1883"
    fields |= {"site": site, "spe_address": f"sc://{site}:1", "template": f"{step}-*"}
    return make_job(f"{step}-{site}", reads, writes, source_broker=broker, sink_broker=broker, **fields)


SITES = [f"s{number:03}" for number in range(312)]
ALL = {
    each.job_name: each
    for site in SITES
    for each in (job("clean", site, "raw", "clean"), job("sum", site, "clean", f"sums/{site}"))
}


def plan(desired: Mapping[str, Job], deployed: Mapping[str, Job], unfold: bool = False) -> list[str]:
    stored = {name: Deployed(each) for name, each in deployed.items()}
    return [
        each.plain for each in render.plan_lines(plan_data(make_plan("city", 3, desired, stored)), unfold)
    ]


def without(*names: str) -> dict[str, Job]:
    return {name: each for name, each in ALL.items() if name not in names}


def test_a_plan_counts_the_jobs_of_an_entry() -> None:
    lines = plan(ALL, without("clean-s007", "clean-s100", "clean-s311"))
    assert lines == [
        "city (from revision 3): 3 to start, 0 to stop, 0 to update, 0 to move, 621 to keep",
        "  + clean-* at 312 sites: 3 to start, 309 to keep",
        "      start clean-s007, clean-s100, clean-s311: new in the composition",
        "    sum-* at 312 sites: 312 to keep",
    ]


def test_an_unfolded_plan_has_all_jobs() -> None:
    lines = plan(ALL, without("clean-s007"), unfold=True)
    assert len(lines) == 1 + len(ALL)
    assert "  + start   clean-s007  new in the composition" in lines


def test_changes_that_jobs_share_are_shown_once_and_others_are_named() -> None:
    after = ALL | {
        each.job_name: replace(each, parallelism=2, arguments={"site": each.site or ""})
        for each in ALL.values()
        if each.template == "sum-*"
    }
    lines = plan(after, ALL)
    assert lines[2:] == [
        "  ~ sum-* at 312 sites: 312 to update",
        "      update sum-s000, sum-s001, sum-s002, sum-s003, sum-s004 and 307 more: "
        "arguments, parallelism changed",
        "      parallelism: (none) -> 2",
        "      arguments: differ between jobs (--unfold shows each)",
    ]


def test_the_effects_of_a_stop_are_told_for_all_jobs_at_once() -> None:
    after = ALL | {
        each.job_name: replace(each, parallelism=2, upgrade="stateless")
        for each in ALL.values()
        if each.template == "sum-*"
    }
    lines = plan(after, ALL)
    assert lines[-1] == (
        "  sum-* (sum-s000, sum-s001, sum-s002, sum-s003, sum-s004 and 307 more) "
        "starts without its present state (upgrade: stateless)"
    )
    assert len(lines) < 10


def test_a_single_job_of_an_entry_is_shown_as_it_is() -> None:
    one = {"clean-s000": ALL["clean-s000"]}
    assert plan(one, {})[1:] == ["  + start   clean-s000  new in the composition"]


def test_the_graph_has_one_job_for_an_entry() -> None:
    drawn = folded(ALL.values())
    assert [(each.job_name, each.sink_topic) for each in drawn] == [
        ("clean-*", "clean"),
        ("sum-*", "sums/s*"),
    ]
    assert draw_text(drawn, Inventory()).splitlines() == [
        "s000, s001, s002, s003 and 308 more",
        "  (outside) raw --> clean-* --> clean   --> sum-*",
        "  clean         --> sum-*   --> sums/s* --> (outside)",
    ]


def test_jobs_at_some_sites_are_drawn_with_their_neighbours() -> None:
    some = [*ALL.values(), *(job("alarm", site, "clean", "alarms") for site in ("s200", "s300"))]
    text = draw_text(folded(some), Inventory())
    assert "(outside) clean" not in text


def test_what_is_alone_is_drawn_as_it_is() -> None:
    jobs = [replace(each, template=None) for each in ALL.values()][:4]
    assert folded(jobs) == jobs


COMPOSITION = """\
name: city
jobs:
- job_name: clean-${each.site}
  for_each: {site: [A, B, C]}
  source_topic: raw
  sink_topic: clean
  entry_class: work
  job_path: work.py
- job_name: report
  site: A
  source_topic: clean
  sink_topic: reports
  entry_class: work
  job_path: work.py
"""


@pytest.fixture
def city(tmp_path: Path) -> Iterator[tuple[RestServer, Path]]:
    """A server with three sites, and a composition for them."""
    path = tmp_path / "city.yaml"
    path.write_text(COMPOSITION)
    sites = {name: one_site(name, f"sc://{name}:1", f"tcp://{name}:1883") for name in ("A", "B", "C")}
    with rest_server(tmp_path / "server", Inventory(sites)) as rest:
        yield rest, path


def test_jobs_and_plans_of_a_server_are_folded(
    city: tuple[RestServer, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rest, path = city

    def speck(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["speck", "--server", rest.url, *arguments])
        with pytest.raises(SystemExit):
            cli.main()
        return capsys.readouterr().out

    assert "clean-* at 3 sites: 3 to start" in speck("plan", str(path))
    assert "  + start   clean-B" in speck("plan", str(path), "--unfold")
    speck("apply", str(path))
    names = [line.split()[0] for line in speck("jobs").splitlines()[1:]]
    assert names == ["clean-*", "report"]
    rest.world.crash("clean-B", "it fell", state=JobState.FAILED)
    rest.coordinator.observer.observe(rest.coordinator.deployments.snapshots()[0].deployed())
    lines = speck("jobs").splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["clean-*", "clean-B", "report"]
    assert "2 running, 1 failed" in lines[1]
    unfolded = [line.split()[0] for line in speck("jobs", "--unfold").splitlines()[1:]]
    assert unfolded == ["clean-A", "clean-B", "clean-C", "report"]
    ages = {"clean-A": 3.0, "clean-B": 90.0, "clean-C": None}
    monkeypatch.setattr(
        rest.coordinator.sampler,
        "backlog",
        lambda session: next((Backlog(7, seconds=ages[each]) for each in ages if each in session.name), None),
    )
    assert "21 (90 s)" in speck("jobs").splitlines()[1]
