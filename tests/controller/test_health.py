"""Liveness and readiness of a coordinator: the answers, and their times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from speck.coordinator import Coordinator, Services, build
from speck.core.settings import Settings
from speck.loop import Loop
from speck.server.api import create_app
from speck.store import Store
from speck.testing.waiting import eventually
from testbed.benches import user
from testbed.benches.jobs_by_hand import composition, make_job, write_code
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World


@dataclass
class Bench:
    """Coordinators, one after the other, over one world and one store; they go round by themselves."""

    world: World
    directory: Path
    services: Services
    store: Store

    @property
    def coordinator(self) -> Coordinator:
        return self.services.coordinator

    @staticmethod
    def _made(world: World, directory: Path) -> tuple[Services, Store]:
        store = Store(directory / "store")
        return build(
            store, double_kinds(world), settings=Settings(roots=(write_code(directory),), period=0.05)
        ), store

    @classmethod
    def begin(cls, directory: Path) -> Bench:
        world = World()
        return cls(world, directory, *cls._made(world, directory))

    def restart(self) -> None:
        """A new coordinator that is not started yet."""
        self.close()
        self.services, self.store = self._made(self.world, self.directory)

    def close(self) -> None:
        self.coordinator.close()
        self.store.close()

    def get(self, path: str) -> tuple[int, Any]:
        answer = create_app(self.services).test_client().get(path)
        return answer.status_code, answer.get_json(force=True)


@pytest.fixture(name="bench")
def bench_fixture(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench.begin(tmp_path)
    yield bench
    bench.close()


def test_ready_when_recovered_and_looked_at(bench: Bench) -> None:
    bench.coordinator.start()
    operation, _ = user.apply(bench.coordinator, composition(make_job("a")))
    assert operation.wait(30)
    bench.restart()
    status, problem = bench.get("/readyz")
    assert (status, problem["detail"]) == (503, "interrupted operations have not been resumed yet")
    hold = bench.world.hold("statuses")
    bench.coordinator.start()
    assert hold.reached.wait(30)
    status, problem = bench.get("/readyz")
    assert (status, problem["detail"]) == (503, "the engines have not been observed yet")
    assert bench.get("/healthz") == (200, {"status": "ok"})
    hold.release()
    eventually(lambda: bench.get("/readyz"), lambda answer: answer == (200, {"status": "ok"}))


def test_not_ready_while_it_shuts_down(bench: Bench) -> None:
    bench.coordinator.start()
    eventually(lambda: bench.get("/readyz")[0], lambda status: status == 200)
    bench.coordinator.finish_operations()
    status, problem = bench.get("/readyz")
    assert (status, problem["detail"]) == (503, "the server is shutting down")
    assert bench.get("/healthz")[0] == 200


def test_a_coordinator_without_a_loop_is_ready_at_once(tmp_path: Path) -> None:
    with Store(tmp_path / "store") as store:
        coordinator = build(store, double_kinds(World()), settings=Settings(period=0)).coordinator
        coordinator.start()
        assert coordinator.unready_reasons() == []
        coordinator.close()


def test_not_alive_when_a_round_takes_for_ever(bench: Bench) -> None:
    bench.coordinator.start()
    operation, _ = user.apply(bench.coordinator, composition(make_job("a")))
    assert operation.wait(30)
    bench.coordinator.observer.patience = 60.0  # so long a round waits for its engines
    hold = bench.world.hold("statuses")
    assert hold.reached.wait(30)
    bench.coordinator.reconciler.loop.patience = 0.0
    try:
        _, problem = eventually(lambda: bench.get("/healthz"), lambda answer: answer[0] == 503)
        assert problem["detail"].startswith("a reconcile round has taken ")
        assert bench.get("/readyz")[0] == 503
    finally:
        hold.release()
        bench.coordinator.reconciler.loop.patience = 300.0
    eventually(lambda: bench.get("/healthz")[0], lambda status: status == 200)


# Of each loop: its name in /healthz, the part of the coordinator, and what its rounds call first.
LOOPS = [
    ("reconciler", "reconciler", "round"),
    ("adaptation", "adaptation", "round"),
    ("workers", "workers", "round"),
    ("split watch", "splits", "round"),
    ("sampler", "sampler", "_pace"),  # once outside of what an error was caught in
    ("prober", "prober", "probes"),
    ("presence", "agents", "_sites"),
]


@pytest.mark.parametrize(("name", "part", "call"), LOOPS)
def test_a_thread_that_dies_is_named(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, name: str, part: str, call: str
) -> None:
    loop = begin(bench, monkeypatch, part, call, SystemExit("a defect"))
    eventually(loop.fault, bool)
    status, problem = bench.get("/healthz")
    assert (status, problem["detail"]) == (503, f"the {name} thread died: SystemExit('a defect')")
    assert f"the {name} thread died" in bench.get("/readyz")[1]["detail"]
    bench.coordinator.close()
    assert bench.get("/healthz")[0] == 200  # it is closed, which is no fault


@pytest.mark.parametrize(("name", "part", "call"), LOOPS)
def test_an_error_of_a_round_is_logged_once_and_ends_no_thread(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
    part: str,
    call: str,
) -> None:
    loop = begin(bench, monkeypatch, part, call, ValueError(f"a defect of the {name}"))
    eventually(lambda: loop._failures, lambda count: count >= 3)
    monkeypatch.undo()
    loop.wake()
    eventually(lambda: loop._failures, lambda count: count == 0)
    assert bench.get("/healthz") == (200, {"status": "ok"})
    logged = [each for each in caplog.records if each.name == "speck.loop"]
    assert [each.levelname for each in logged] == ["ERROR"]
    assert logged[0].getMessage() == f"{loop.noun} failed, and is tried again"


def begin(bench: Bench, monkeypatch: pytest.MonkeyPatch, part: str, call: str, error: BaseException) -> Loop:
    """Start a loop whose rounds end with an error; the others stand still."""

    def fail(*_: Any) -> Any:
        raise error

    owner = getattr(bench.coordinator, part)
    monkeypatch.setattr(owner, call, fail)
    loop: Loop = owner.loop
    loop.first_pause = 0.01
    if part == "sampler":
        owner.watch()
    else:
        loop.start()
    return loop


def test_a_failed_look_makes_nobody_ready(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.coordinator.reconciler, "deployments", None)  # a defect, whatever it is
    bench.coordinator.start()
    failures = bench.services.metrics.registry.get_sample_value
    eventually(lambda: failures("speck_round_failures_total"), lambda count: (count or 0) > 1)
    assert bench.coordinator.unready_reasons() == ["the engines have not been observed yet"]
