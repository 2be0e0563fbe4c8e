"""The commands for placements, against the real application."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from speck.client import RequestRefused
from speck.placement.policies import solver_available
from testbed.benches.placement import NOW, ROAD_TRAFFIC, Profiler, engine_at, inventory, kinds
from testbed.doubles.world import World
from testbed.servers.base import REFUSING_PORT
from testbed.servers.rest import RestServer, rest_server
from tests.fixtures.speck_command import Speck

MOVED = [f"{job}-{edge}" for edge in "abc" for job in ("clean", "local")]
ROWS = (
    "age of results, mean",
    "age of results, p95",
    "WAN",
    "cores, reference",
    "busiest",
    "sustained multiplier",
)


@pytest.fixture(name="rest")
def rest_fixture(tmp_path: Path) -> Iterator[RestServer]:
    world = World()
    with rest_server(
        tmp_path, inventory(), world=world, registry=kinds(world), inputs=Profiler(), clock=lambda: NOW + 12
    ) as server:
        yield server


@pytest.fixture(name="file")
def file_fixture(tmp_path: Path) -> str:
    path = tmp_path / "traffic.yaml"
    path.write_text(ROAD_TRAFFIC)
    return str(path)


@pytest.fixture(name="cloudy")
def cloudy_fixture(speck: Speck, file: str) -> str:
    """The file, with all jobs deployed in the cloud."""
    identifier = speck("place", file, "--policy", "cloud", "--json").data["id"]
    assert speck("accept", identifier).code == 0
    return file


def test_plan_and_apply_show_the_figures_of_places_that_they_choose(speck: Speck, file: str) -> None:
    planned, applied = speck("plan", file), speck("apply", file)
    assert (planned.code, applied.code) == (2, 0), planned.err + applied.err
    for said in (planned, applied):
        rows = [line.split() for line in said.out.splitlines() if line.strip().startswith(ROWS)]
        assert [row[: len(each.split())] for row, each in zip(rows, ROWS, strict=True)] == [
            each.split() for each in ROWS
        ]
    again = speck("plan", file)
    assert again.code == 0
    assert "sustained multiplier" not in again.out


def test_advise_shows_every_row_and_accept_carries_it_out(
    speck: Speck, cloudy: str, rest: RestServer
) -> None:
    said = speck("advise", "traffic")
    assert said.code == 2, said.err
    lines = said.out.splitlines()
    heading = (
        "traffic (from revision 1): 0 to start, 0 to stop, 0 to update, 6 to move, 1 to keep   placement "
    )
    assert lines[0].startswith(heading)
    proven = r"policy speck, optimum to 0\.\d+ %" if solver_available() else "policy search, "
    assert re.search(proven, lines[0])
    for edge in "abc":
        assert f"  > move    clean-{edge}, local-{edge}   D -> {edge.upper()}   one step" in lines
        assert f"  ~ home    clean/{edge}   D -> {edge.upper()}" in lines
    assert "    keep    global   D   its inputs come from 3 sites" in lines
    begun = [line.strip() for line in lines]
    for row in ROWS:
        assert sum(line.startswith(row) for line in begun) == 1
    assert any(line.startswith("busiest") and "link A 0.66 of 0.80" in line for line in begun)
    assert any(
        line.startswith("cost") and "6 jobs down for 3.7 s; break-even after" in line for line in begun
    )
    known = "7 jobs measured (12 s ago), links A-D, B-D, C-D declared: speck profile --links"
    assert f"sources                 {known}" in begun
    identifier = lines[0].split("placement ")[1].split(",")[0]
    assert lines[-1].startswith(
        f"accept with: speck accept {identifier}   (valid for 15 minutes, unless the revision"
    )
    assert speck("accept", identifier, "-m", "closer to the data").code == 0
    assert rest.world.where()["local-c"] == engine_at("C")
    assert "closer to the data" in speck("history", "traffic").out


def test_nothing_better_exits_0(speck: Speck, cloudy: str) -> None:
    assert speck("apply", cloudy, "--place", "all").code == 0
    for command in (("advise",), ("place", cloudy)):
        said = speck(*command)
        assert said.code == 0
        assert said.out.splitlines()[-1] == "no better placement"
        assert "accept with" not in said.out


def test_all_jobs_are_placed_without_a_site_that_is_left_behind(
    speck: Speck, file: str, rest: RestServer
) -> None:
    Path(file).write_text(ROAD_TRAFFIC.replace("  entry_class: ", "  upgrade: stateless\n  entry_class: "))
    identifier = speck("place", file, "--policy", "cloud", "--json").data["id"]
    assert speck("accept", identifier).code == 0
    rest.world.down(engine_at("D"))
    said = speck("apply", file, "--place", "all", "--leave-behind", engine_at("D"), "--yes")
    assert said.code == 0, said.err
    jobs = rest.coordinator.deployments.composition("traffic").jobs.values()
    assert engine_at("D") not in {each.spe_address for each in jobs}


def test_apply_of_an_unchanged_file_keeps_every_place(speck: Speck, cloudy: str, rest: RestServer) -> None:
    calls = rest.world.changes()
    assert speck("plan", cloudy).code == 0
    assert speck("apply", cloudy).code == 0
    assert rest.world.changes() == calls


def test_stale_proposal_exits_1_and_touches_nothing(speck: Speck, cloudy: str, rest: RestServer) -> None:
    identifier = speck("advise", "--json").data["id"]
    assert speck("pin", "clean-a").code == 0
    calls = rest.world.changes()
    said = speck("accept", identifier)
    assert said.code == 1
    assert "base_revision 1 is stale, the last revision is 2" in said.err
    assert rest.world.changes() == calls


def test_moves_that_drop_state_are_refused_unasked(speck: Speck, file: str, rest: RestServer) -> None:
    stateless = ROAD_TRAFFIC.replace("  entry_class: ", "  upgrade: stateless\n  entry_class: ")
    assert stateless != ROAD_TRAFFIC
    Path(file).write_text(stateless)
    placed = speck("place", file, "--policy", "cloud", "--json").data["id"]
    assert speck("accept", placed).code == 0  # all jobs are new
    calls = rest.world.changes()
    advised = speck("advise", "--json").data["id"]
    for command in (("accept", advised), ("pin", "clean-a", "--site", "B")):
        said = speck(*command)
        assert said.code == 1
        assert "deletes the state of" in said.err
        assert "nothing was changed (use --yes" in said.err
    assert rest.world.changes() == calls
    assert speck("pin", "clean-a", "--site", "B", "--yes").code == 0
    assert rest.world.where()["clean-a"] == engine_at("B")
    assert speck("accept", speck("advise", "--json").data["id"], "-y").code == 0


def test_a_pin_of_another_revision_than_the_planned_one_is_refused(
    speck: Speck, cloudy: str, rest: RestServer
) -> None:
    base = rest.client.pin("clean-a", dry_run="true")["base_revision"]
    assert speck("pin", "clean-b").code == 0
    with pytest.raises(RequestRefused, match="is stale"):
        rest.client.pin("clean-a", base_revision=base)


def test_pinned_job_stays_until_it_is_unpinned(speck: Speck, cloudy: str, rest: RestServer) -> None:
    planned = speck("pin", "clean-a", "--dry-run")
    assert planned.code == 2
    assert "pin: false -> true" in planned.out
    assert speck("pin", "clean-a").code == 0
    assert "keep    clean-a   D   it is pinned" in speck("advise").out
    assert speck("unpin", "clean-a").code == 0
    assert "clean-a, local-a   D -> A" in speck("advise").out
    assert speck("pin", "clean-a", "--site", "B").code == 0
    assert rest.world.where()["clean-a"] == engine_at("B")
    assert "clean-a   B   sink_broker changed; it is pinned" in speck("advise").out


def test_wishes_of_a_request(speck: Speck, cloudy: str) -> None:
    found = speck("place", cloudy, "--pin", "clean-a", "--site-constraints", "clean-b=C,D", "--json")
    assert found.code == 2
    places = {each["job"]: each for each in found.data["verdicts"]}
    assert (places["clean-a"]["to"], places["clean-a"]["why"]) == ("D", "it is pinned")
    assert places["clean-b"]["to"] in ("C", "D")


MISTAKES: list[tuple[tuple[str, ...], str]] = [
    (("--pin", "clean-aa"), "there is no job 'clean-aa' (did you mean 'clean-a'"),
    (("--policy", "amnsi"), "there is no placement policy 'amnsi' (did you mean 'amnis'?"),
    (
        ("--site-constraints", "clean-a=E"),
        "job 'clean-a': site 'E' is not one of its sites (expected one of",
    ),
    (
        ("--site-constraints", "clean-a"),
        "'clean-a' is not a constraint (expected JOB=SITE or JOB=SITE,SITE)",
    ),
]


def test_mistakes_are_named(speck: Speck, cloudy: str) -> None:
    for arguments, error in MISTAKES:
        said = speck("place", cloudy, *arguments)
        assert said.code == 1
        assert error in said.err


@pytest.mark.slow("computes a placement by each policy")
def test_compare_has_a_row_for_each_policy(speck: Speck, cloudy: str) -> None:
    own, others = speck("policies").out.split("\n\n")
    heads = [text.splitlines()[0].split("  ")[0] for text in (own, others)]
    assert heads == ["POLICY", "FOR COMPARISON"]
    names = [line.split()[0] for text in (own, others) for line in text.splitlines()[1:]]
    assert names[:2] == ["speck", "search"] == [line.split()[0] for line in own.splitlines()[1:]]
    assert {"cloud", "source", "amnis", "forecast-greedy", "exhaustive"} <= set(names)
    lines = speck("advise", "--compare").out.splitlines()
    table = lines[next(index for index, line in enumerate(lines) if line.startswith("POLICY")) :]
    assert [line.split()[0] for line in table[1:-1]] == names


def test_policies_are_listed_without_a_server_and_the_command_says_so(speck: Speck) -> None:
    nowhere = f"http://127.0.0.1:{REFUSING_PORT}"
    there, here = speck("policies"), speck("--server", nowhere, "policies")
    assert (here.code, here.out) == (0, there.out)
    assert (
        here.err.split()
        == (
            f"no SpecK server at {nowhere} (start one with `speck serve`, or name it with --server); "
            "the policies of this installation:"
        ).split()
    )
    assert there.err == ""
    assert speck("--server", nowhere, "policies", "--json").data == speck("policies", "--json").data


def test_policies_of_a_server_that_refuses_are_not_replaced(speck: Speck, tmp_path: Path) -> None:
    with rest_server(tmp_path / "guarded", token="t" * 20) as guarded:
        said = speck("--server", guarded.url, "policies")
    assert (said.code, said.out) == (1, "")


def test_advise_asks_which_composition(speck: Speck) -> None:
    said = speck("advise")
    assert said.code == 1
    assert "no composition is deployed (expected one: speck apply FILE)" in said.err
    assert "there is no composition 'trafic'" in speck("advise", "trafic").err
