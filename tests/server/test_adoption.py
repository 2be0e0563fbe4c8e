"""The adoption of a lost store's jobs over REST and by the command, over engines and brokers in memory."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from speck.client import RequestRefused
from speck.core.job import session_name
from testbed.doubles.world import CHANGES, World
from testbed.servers.rest import RestServer, rest_server, yaml_of
from tests.fixtures.speck_command import Speck

BROKER, ENGINE = "tcp://b1:1883", "sc://e1:15002"
TWO = yaml_of("a t0 t1 arguments: {least: 3}", "b t1 t2")


@pytest.fixture(name="lost")
def lost_fixture(tmp_path: Path) -> tuple[World, str]:
    """A world with the jobs of a store that is gone, and that store's identity."""
    world = World()
    with rest_server(tmp_path, world=world) as server:
        assert server.client.apply(TWO.encode(), "two", wait=30)["state"] == "succeeded"
        owner = server.coordinator.store.identity
    shutil.rmtree(tmp_path / "store")
    return world, owner


@pytest.fixture(name="rest")
def rest_fixture(lost: tuple[World, str], tmp_path: Path) -> Iterator[RestServer]:
    """A server with a new store."""
    with rest_server(tmp_path, world=lost[0]) as server:
        yield server


@pytest.fixture(name="two")
def two_fixture(tmp_path: Path) -> Path:
    (file := tmp_path / "two.yaml").write_text(TWO)
    return file


def changed(world: World) -> list[tuple[str, str, str]]:
    return [call for call in world.calls if call[0] in CHANGES | {"adopt_session"}]


def test_over_rest(rest: RestServer, lost: tuple[World, str]) -> None:
    world, owner = lost
    client, copies = rest.client, {each.job.job_name: each.attempt.id for each in world.running()}
    with pytest.raises(RequestRefused, match=f"by store {owner}.*speck adopt"):
        client.apply(TWO.encode(), "two", wait=30)
    plan = client.adopt(TWO.encode(), "two", dry_run="true")
    assert plan["adopts"][0] == {
        "job": "a",
        "owner": owner,
        "address": ENGINE,
        "attempt": copies["a"],
        "number": 1,
        "broker": BROKER,
        "session": session_name("a", owner),
        "fenced": 1,
        "incarnation": 0,
        "origin": 0,
        "lineage": "",
    }
    assert (plan["refuses"], plan["absent"], plan["own"]) == ([], [], [])
    assert [each["field"] for each in plan["warnings"]] == ["source_topic", "sink_topic"]
    before = changed(world)
    operation = client.adopt(TWO.encode(), "two", wait=30, author="ann", message="the disk died")
    assert (operation["state"], operation["kind"], operation["revision"]) == ("succeeded", "adopt", 1)
    assert f"adopted: attempt 1 ({copies['a']}) at {ENGINE}, of store {owner}" in str(operation["actions"])
    assert [call[0] for call in changed(world)[len(before) :]] == ["adopt_session", "adopt_session"]
    assert client.plan(TWO.encode(), "two")["counts"]["keep"] == 2
    (revision,) = client.revisions("two")
    assert (revision["author"], revision["message"], revision["outcome"]) == (
        "ann",
        "the disk died",
        "applied",
    )
    assert [each["state"] for each in client.jobs()] == ["running", "running"]
    assert [each["message"].split(":")[0] for each in client.events(50) if each["kind"] == "adopted"] == [
        "job 'a' adopted",
        "job 'b' adopted",
    ]
    operation = client.apply(TWO.replace("least: 3", "least: 4").encode(), "two", wait=30)
    assert operation["state"] == "succeeded"
    with pytest.raises(RequestRefused, match="runs a copy of another store") as refused:
        client.adopt(TWO.encode(), "two")
    assert refused.value.status == 409


def test_by_the_command(rest: RestServer, lost: tuple[World, str], speck: Speck, two: Path) -> None:
    world, owner = lost
    said = speck("adopt", str(two), "--dry-run")
    assert said.code == 2
    assert "two (from revision 0): 2 to adopt, 0 not adoptable" in said.out
    assert f"+ adopt  a  attempt 1 at {ENGINE}, of store {owner}" in said.out
    assert "come from the file" in said.out
    before = changed(world)
    said = speck("adopt", str(two))
    assert said.code == 1
    assert f"2 jobs of store {owner} will belong to this one; no terminal to confirm it" in said.err
    assert changed(world) == before
    assert speck("adopt", str(two), "--yes", "--job", "a", "--json").data["state"] == "succeeded"
    said = speck("adopt", str(two), "--dry-run")
    assert "a already belongs to this store" in said.out
    assert speck("adopt", str(two), "--yes").code == 0
    assert speck("plan", str(two)).code == 0
    said = speck("adopt", str(two))
    assert (said.code, "0 to adopt" in said.out) == (0, True)
    assert speck("adopt", "two", "--dry-run").code == 0
    assert "there is no composition 'three'" in speck("adopt", "three").err


def test_a_composition_that_the_server_has(rest: RestServer, lost: tuple[World, str], speck: Speck) -> None:
    """Its engine and its broker were out of reach when it was applied."""
    world, _ = lost
    for place in (ENGINE, BROKER):
        world.down(place)
    assert rest.client.apply(TWO.encode(), "two", wait=30)["state"] == "waiting"
    said = speck("adopt", "two", "--yes")
    assert said.code == 1
    assert "cannot be reached" in said.err and "adopt again when it does" in said.err
    for place in (ENGINE, BROKER):
        world.up(place)
    assert speck("adopt", "two", "--yes").code == 0
    assert len(rest.client.revisions("two")) == 1
    assert rest.client.plan(TWO.encode(), "two")["counts"]["keep"] == 2


def test_a_refusal_names_each_job_and_a_way_on(
    rest: RestServer, lost: tuple[World, str], speck: Speck, two: Path
) -> None:
    world, _ = lost
    before = changed(world)
    two.write_text(TWO.replace("least: 3", "least: 4"))
    for words in ([], ["--yes"], ["--dry-run"]):
        said = speck("adopt", str(two), *words)
        assert said.code == 1
        assert "a cannot be adopted: its copy at sc://e1:15002" in said.out
        assert "runs in another form than the file's" in said.out
    assert "job 'a' cannot be adopted" in speck("adopt", str(two), "--yes").err
    said = speck("adopt", str(two), "--yes", "--json")
    assert "with the file from which it was deployed" in said.data["error"]
    assert changed(world) == before
    with pytest.raises(RequestRefused, match="'x': is not a job of composition 'two'") as refused:
        rest.client.adopt(TWO.encode(), "two", job=["x"])
    assert refused.value.status == 422
    assert speck("adopt", str(two), "--yes", "--job", "b").code == 0
