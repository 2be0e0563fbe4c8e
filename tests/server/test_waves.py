"""A change in waves, over engines in memory: some sites first, the others once their jobs run."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from speck.apply.operation import Operation
from speck.apply.operations import Operations
from speck.apply.planned import PlannedChange
from speck.apply.settling import Settling
from speck.client import RequestRefused
from speck.coordinator import Coordinator, build
from speck.core.inventory import Inventory
from speck.core.job import Composition, Job
from speck.core.runtime import JobState
from speck.core.settings import Settings
from speck.errors import StoreFull
from speck.store import Store
from speck.testing.waiting import eventually
from testbed.benches import user
from testbed.benches.examples import one_site
from testbed.benches.jobs_by_hand import make_job, write_code
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World
from testbed.servers.rest import RestServer, rest_server
from testbed.servers.terminal import piped
from tests.support.threads import without_threads

SITES = Inventory(
    {f"s{each}": one_site(f"s{each}", f"sc://e{each}:15002", f"tcp://b{each}:1883") for each in "123"}
)


def text(trigger: str = "2 seconds") -> bytes:
    """A composition with a job at each site."""
    jobs = [
        {
            "job_name": f"j{each}",
            "site": f"s{each}",
            "source_topic": f"in{each}",
            "sink_topic": f"out{each}",
            "entry_class": "work",
            "job_path": "work.py",
            "trigger": trigger,
        }
        for each in "123"
    ]
    return json.dumps({"jobs": jobs}).encode()


NEWER = text("3 seconds")


@pytest.fixture(name="rest")
def rest_fixture(tmp_path: Path) -> Iterator[RestServer]:
    with rest_server(tmp_path, SITES) as rest:
        rest.client.apply(text(), "one", wait=60)
        yield rest


def running(world: World) -> dict[str, str]:
    """The form in which each job runs."""
    return {each.job.job_name: str(each.job.trigger) for each in world.running()}


def triggers(rest: RestServer) -> dict[str, str]:
    return running(rest.world)


def states(operation: dict[str, Any]) -> dict[str, str]:
    return {each["job"]: each["state"] for each in operation["actions"]}


def test_the_plan_shows_the_waves(rest: RestServer) -> None:
    plan = rest.client.plan(NEWER, "one", wave=["s2", "50%"], steps=True)
    assert [(each["sites"], each["jobs"]) for each in plan["waves"]] == [
        (["s2"], ["j2"]),
        (["s1", "s3"], ["j1", "j3"]),
    ]
    assert [each["subject"] for each in plan["steps"] if each["kind"] == "settle"] == ["1"]
    assert "waves" not in rest.client.plan(NEWER, "one")


def test_one_wave_of_all_sites_is_no_roll_out(rest: RestServer) -> None:
    done = rest.client.apply(NEWER, "one", wave=["100%"], settle=3600, wait=60)
    assert (done["state"], done.keys() & {"waves", "wave", "waits"}) == ("succeeded", set())


def test_the_next_wave_begins_when_the_first_has_settled(rest: RestServer) -> None:
    hold = rest.world.hold("submit", name="j2")
    operation = rest.client.apply(NEWER, "one", wave=["s2"], settle=0.1)
    assert hold.reached.wait(60)
    shown = rest.client.operation(operation["id"])
    assert (shown["atomic"], shown["waves"], shown["settle"]) == (True, ["s2"], 0.1)
    assert (shown["wave"], shown["waits"]) == (1, "")
    assert {each["job"]: (each["wave"], each["note"]) for each in shown["actions"]}["j1"] == (
        "wave 2 of 2",
        "",
    )
    assert rest.client.job("j1")["rollout"] == "wave 2 of 2"
    assert {each: form for each, form in triggers(rest).items() if each != "j2"} == {
        "j1": "2 seconds",
        "j3": "2 seconds",
    }
    hold.release()
    *_, ended = rest.client.follow(operation["id"])
    assert (ended["state"], ended["wave"], ended["waits"]) == ("succeeded", 2, "")
    assert set(triggers(rest).values()) == {"3 seconds"}
    assert "rollout" not in rest.client.job("j1")


def test_a_wave_that_does_not_run_takes_all_back(rest: RestServer) -> None:
    """No job of the next wave was touched."""
    first = [each.attempt.id for each in rest.world.running("j1")]
    rest.world.doomed = lambda job: job.job_name == "j2" and job.trigger == "3 seconds"
    ended = rest.client.apply(NEWER, "one", wave=["s2"], settle=0.1, wait=60)
    assert ended["state"] == "failed"
    assert states(ended)["j1"] == states(ended)["j3"] == "skipped"
    assert "wave 1 did not settle" in str(ended["actions"])
    by = eventually(lambda: rest.client.operation(ended["id"])["replaced_by"], bool, 60)
    *_, back = rest.client.follow(by)
    assert back["state"] == "succeeded"
    assert triggers(rest) == {"j1": "2 seconds", "j2": "2 seconds", "j3": "2 seconds"}
    assert [each.attempt.id for each in rest.world.running("j1")] == first


def test_a_way_back_that_is_refused_changes_no_further_wave(
    rest: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest.world.doomed = lambda job: job.job_name == "j2" and job.trigger == "3 seconds"
    begin = Operations.begin

    def full(operations: Operations, planned: PlannedChange, *rest: Any) -> Operation:
        if planned.restored:
            raise StoreFull("no space left on the device")
        return begin(operations, planned, *rest)

    monkeypatch.setattr(Operations, "begin", full)
    newer = json.loads(NEWER)
    newer["jobs"].append(newer["jobs"][2] | {"job_name": "j4", "sink_topic": "out4"})
    ended = rest.client.apply(json.dumps(newer).encode(), "one", wave=["s2"], settle=0.1, wait=60)
    assert (ended["state"], ended["error"]) == ("failed", "not reverted: no space left on the device")
    for _ in range(3):
        rest.coordinator.reconciler.round()
        rest.coordinator.operations.join()
    found = triggers(rest)
    assert (found["j1"], found["j3"], "j4" in found) == ("2 seconds", "2 seconds", False)
    assert rest.client.job("j1")["waits"].startswith("is held back: its roll-out in waves failed")
    monkeypatch.undo()
    rest.world.doomed = lambda job: False
    assert rest.client.apply(json.dumps(newer).encode(), "one", wait=60)["state"] == "succeeded"
    assert set(triggers(rest).values()) == {"3 seconds"}


def test_a_roll_out_without_a_thread_is_not_carried_out_without_its_waves(
    rest: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_threads(monkeypatch, "operation-")
    ended = rest.client.apply(NEWER, "one", wave=["s2"], settle=0.1, wait=60)
    assert ended["error"] == "it did not begin: can't start new thread (apply again, or roll back)"
    monkeypatch.undo()
    rest.coordinator.reconciler.round()
    rest.coordinator.operations.join()
    assert set(triggers(rest).values()) == {"2 seconds"}


def test_a_wave_that_has_to_wait_takes_all_back(rest: RestServer) -> None:
    rest.world.down("tcp://b2:1883")
    ended = rest.client.apply(NEWER, "one", wave=["s2"], settle=0, wait=60)
    assert (ended["state"], set(states(ended).values())) == ("waiting", {"waiting"})
    assert "wave 1 did not settle" in str(ended["actions"])
    eventually(lambda: rest.client.operation(ended["id"])["replaced_by"], bool, 60)
    assert set(triggers(rest).values()) == {"2 seconds"}


def test_a_job_that_dies_later_ends_the_roll_out(rest: RestServer) -> None:
    operation = rest.client.apply(NEWER, "one", wave=["s2"], settle=60)
    eventually(lambda: triggers(rest).get("j2"), lambda trigger: trigger == "3 seconds", 60)
    shown = eventually(
        lambda: rest.client.operation(operation["id"]), lambda found: "must have been" in found["waits"], 60
    )
    assert (shown["wave"], shown["waits"]) == (1, "all its jobs must have been running for 60 s")
    listed = piped(rest.url, "operation", operation["id"])
    assert "wave 1 of 2 settles: all its jobs must have been running for 60 s" in " ".join(
        listed.stdout.split()
    )
    rest.world.crash("j2")
    *_, ended = rest.client.follow(operation["id"])
    assert (states(ended)["j1"], ended["wave"], ended["waits"]) == ("skipped", 1, "")
    assert f"wave 1 did not settle: job 'j2' is {JobState.FAILED.value}" in str(ended["actions"])


def test_a_roll_out_that_was_interrupted_goes_on_with_its_waves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sites that came first stay the first, also where a share of them was given."""
    world = World()
    former = {each.job_name: replace(each, trigger="2 seconds") for each in jobs_at_sites()}
    newer = {name: replace(job, trigger="3 seconds") for name, job in former.items()}
    with coordinator(tmp_path, world) as first:
        user.apply(first, Composition("one", former))[0].wait(60)
        operation, _ = user.apply(first, Composition("one", newer), waves=("1", "50%"), settle=3600.0)
        eventually(lambda: running(world).get("j1"), lambda trigger: trigger == "3 seconds", 60)
    settling, settle = threading.Event(), Settling.settle

    def noted(self: Settling, jobs: Iterable[Job], seconds: float) -> None:
        jobs = list(jobs)
        if ([each.job_name for each in jobs], seconds) == (["j1"], 3600.0):
            settling.set()
        settle(self, jobs, seconds)

    monkeypatch.setattr(Settling, "settle", noted)
    with coordinator(tmp_path, world) as second:
        found = second.operations.live(operation.id)
        assert found is not None
        assert found.request.waves == ("s1",)
        assert found.actions["j2"].wave == "wave 2 of 2"
        assert settling.wait(60)  # so that nothing but preparations of the second wave may begin
        assert running(world) == {"j1": "3 seconds", "j2": "2 seconds", "j3": "2 seconds"}


def test_a_roll_out_that_was_interrupted_keeps_the_numbers_of_its_waves(tmp_path: Path) -> None:
    """Also when no job is left at the sites of the first one."""
    world = World()
    former = {each.job_name: replace(each, trigger="2 seconds") for each in jobs_at_sites()}
    newer = {name: replace(former[name], trigger="3 seconds") for name in ("j2", "j3")}
    with coordinator(tmp_path, world) as first:
        user.apply(first, Composition("one", former))[0].wait(60)
        operation, _ = user.apply(first, Composition("one", newer), waves=("s1", "s2"), settle=3600.0)
        eventually(lambda: (operation.wave, operation.waits != ""), lambda found: found == (2, True), 60)
        assert running(world) == {"j2": "3 seconds", "j3": "2 seconds"}
    with coordinator(tmp_path, world) as second:
        found = second.operations.live(operation.id)
        assert found is not None
        assert found.actions["j3"].wave == "wave 3 of 3"
        eventually(lambda: (found.wave, found.waits != ""), lambda shown: shown == (2, True), 60)


def test_a_job_that_dies_while_no_coordinator_runs_takes_all_back(tmp_path: Path) -> None:
    """No job of the next wave was touched."""
    world = World()
    former = {each.job_name: replace(each, trigger="2 seconds") for each in jobs_at_sites()}
    newer = {name: replace(job, trigger="3 seconds") for name, job in former.items()}
    with coordinator(tmp_path, world) as first:
        user.apply(first, Composition("one", former))[0].wait(60)
        operation, _ = user.apply(first, Composition("one", newer), waves=("s1",), settle=3600.0)
        eventually(lambda: "must have been" in operation.waits, bool, 60)
    untouched = [each.attempt.id for each in world.running() if each.job.job_name != "j1"]
    world.doomed = lambda job: job.trigger == "3 seconds"
    world.crash("j1")
    with coordinator(tmp_path, world):
        eventually(lambda: running(world).get("j1"), lambda trigger: trigger == "2 seconds", 60)
    assert set(running(world).values()) == {"2 seconds"}
    assert [each.attempt.id for each in world.running() if each.job.job_name != "j1"] == untouched


def test_a_roll_out_whose_sites_were_renamed_meanwhile_is_taken_back(tmp_path: Path) -> None:
    """The server starts nevertheless: the inventory takes effect with a restart, also amid a roll-out."""
    world = World()
    former = {each.job_name: each for each in two_at_a_topic("raw")}
    newer = {each.job_name: each for each in two_at_a_topic("valid")}
    with coordinator(tmp_path, world) as first:
        user.apply(first, Composition("one", former))[0].wait(60)
        hold = world.hold("check", "writer")
        operation, _ = user.apply(first, Composition("one", newer), waves=("s1", "s2"), settle=3600.0)
        assert hold.reached.wait(60)
        with first.store.database.paused():
            shutil.copytree(tmp_path / "store", tmp_path / "killed" / "store")
        renamed = {"s9" if name == "s1" else name: each for name, each in SITES.sites.items()}
        sites = Inventory({name: replace(each, name=name) for name, each in renamed.items()})
        with coordinator(tmp_path / "killed", world, sites) as second:
            ended = second.store.operation(operation.id)
            assert ended is not None
            assert set(states(ended).values()) == {"skipped"}
            assert "leaves its source in wave 2" in str(ended["actions"])
            eventually(lambda: second.store.outcomes("one").get(3), lambda found: found is not None, 60)
            eventually(lambda: second.operations.running(), lambda found: not found, 60)
            outcomes = {number: each.state.value for number, each in second.store.outcomes("one").items()}
            assert outcomes == {1: "applied", 2: "rolled back", 3: "applied"}
            assert {each.job.source_topic for each in world.running("reader")} == {"raw"}
        hold.release()


def two_at_a_topic(topic: str) -> list[Job]:
    """A job of the first site that writes a topic, one of the second that reads it, and one of the third."""
    writer, reader, other = jobs_at_sites()
    return [
        replace(writer, job_name="writer", sink_topic=topic),
        replace(reader, job_name="reader", source_topic=topic, source_broker=writer.sink_broker),
        replace(other, trigger="2 seconds" if topic == "raw" else "3 seconds"),
    ]


@contextmanager
def coordinator(directory: Path, world: World, sites: Inventory = SITES) -> Iterator[Coordinator]:
    """A coordinator that ends without waiting for its operations."""
    with Store(directory / "store") as store:
        settings = Settings(roots=(write_code(directory),), period=0)
        made = build(store, double_kinds(world), sites, settings=settings).coordinator
        made.start()
        yield made
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("speck.binder.pool.CLOSING", 0.1)  # s; a wave that settles takes longer
            made.close(0)


def jobs_at_sites() -> list[Job]:
    return [
        make_job(
            f"j{each}",
            f"in{each}",
            f"out{each}",
            spe_address=f"sc://e{each}:15002",
            source_broker=f"tcp://b{each}:1883",
            sink_broker=f"tcp://b{each}:1883",
        )
        for each in "123"
    ]


def test_waves_that_are_none_change_nothing(rest: RestServer) -> None:
    touched = rest.world.changes()
    with pytest.raises(RequestRefused, match="is not a site of the inventory"):
        rest.client.apply(NEWER, "one", wave=["s9"])
    assert rest.world.changes() == touched


def test_the_command_line_shows_and_makes_waves(rest: RestServer, tmp_path: Path) -> None:
    file = tmp_path / "one.yaml"
    file.write_bytes(NEWER.replace(b"work.py", str(rest.root / "work.py").encode()))
    planned = piped(rest.url, "plan", str(file), "--wave", "s2", "--steps", "--root", str(rest.root))
    assert "wave 1: s2 (1 job)" in planned.stdout, planned.stderr
    assert "wave 2: s1, s3 (2 jobs)" in planned.stdout
    done = piped(
        rest.url, "apply", str(file), "--wave", "s2", "--settle", "0s", "--yes", "--root", str(rest.root)
    )
    assert done.returncode == 0, done.stderr
    assert set(triggers(rest).values()) == {"3 seconds"}
