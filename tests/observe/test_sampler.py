"""The engines are asked what their jobs do: by whom, how often, and what comes of their silence."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from speck.coordinator import Coordinator, Services, build
from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.core.runtime import Handle, JobMetrics
from speck.core.settings import Settings
from speck.errors import BinderError, OutcomeUnknown, Rejected
from speck.observe.sampler import Sampler
from speck.store import SessionRecord, Store
from speck.testing.waiting import eventually
from testbed.benches import user
from testbed.benches.examples import one_site
from testbed.benches.jobs_by_hand import chain, composition, make_job, write_code
from testbed.benches.sessions import named
from testbed.doubles.engine import InMemoryEngine
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

pytestmark = pytest.mark.usefixtures("known_owner")

NEAR, FAR = "sc://e1:1", "sc://e2:1"
SITES = Inventory({"north": one_site("north", NEAR, "tcp://b1:1883")})
UNKNOWN = dict.fromkeys(("observed", "input_rate", "output_rate", "waiting", "work_seconds", "error"))


@dataclass
class Bench:
    """A coordinator whose engines are asked when the test says so; ``now`` is the telemetry's clock, s."""

    world: World
    services: Services
    now: float = 0.0

    @property
    def coordinator(self) -> Coordinator:
        return self.services.coordinator

    @property
    def telemetry(self) -> Sampler:
        return self.coordinator.sampler

    def sample(self, seconds: float = 5.0) -> None:
        """Let time pass, and have the engines asked; those that answer have done so."""
        self.now += seconds
        self.telemetry.sample()

    def rates(self) -> dict[str, dict[str, Any]]:
        return {each["job_name"]: each for each in self.services.queries.rates()["jobs"]}

    def reported(self, *names: str) -> dict[str, dict[str, Any]]:
        """The rates, as soon as these jobs' engines have told or failed to."""
        return eventually(
            self.rates, lambda found: all(found[name]["observed"] or found[name]["error"] for name in names)
        )

    def apply(self, *jobs: Job) -> None:
        operation, _ = user.apply(self.coordinator, composition(*jobs))
        assert operation.wait(30)
        assert operation.state == "succeeded"

    def questions(self, address: str) -> int:
        return sum(call[:2] == ("metrics", address) for call in self.world.calls)


@pytest.fixture(name="bench")
def bench_fixture(tmp_path: Path) -> Iterator[Bench]:
    world = World()
    with Store(tmp_path / "store") as store:
        settings = Settings(roots=(write_code(tmp_path),), period=0)
        bench = Bench(world, build(store, double_kinds(world), SITES, settings))
        coordinator = bench.coordinator
        coordinator.sampler.now = lambda: bench.now
        coordinator.sampler.period = 5.0
        yield bench
        coordinator.close()


def quiet(bench: Bench) -> None:
    """From now on nobody asks but the test."""
    bench.telemetry._keep_sampling = lambda: None  # type: ignore[method-assign]


def test_rates_are_told_as_the_engine_has_them(bench: Bench) -> None:
    quiet(bench)
    bench.apply(*chain("a", "b"))
    assert {name: value for name, value in bench.rates()["a"].items() if name in UNKNOWN} == UNKNOWN
    bench.world.metrics["a"] = JobMetrics(
        77.0, input_rate=5.0, output_rate=4.0, waiting=3, batch_duration_ms=200.0
    )
    bench.sample()
    assert bench.reported("a", "b")["a"] == {
        "job_name": "a",
        "composition": "traffic",
        "site": "north",
        "source_topic": "t0",
        "sink_topic": "t1",
        "observed": 77.0,
        "input_rate": 5.0,
        "output_rate": 4.0,
        "waiting": 3,
        "behind": None,
        "behind_seconds": None,
        "work_seconds": 0.2,
        "error": None,
    }
    assert bench.services.queries.rates()["observed"] == bench.rates()["b"]["observed"]  # the newer one


def test_a_slow_engine_holds_up_no_other(bench: Bench) -> None:
    quiet(bench)
    bench.apply(make_job("near"), make_job("far", spe_address=FAR))
    hold = bench.world.hold("metrics", address=FAR)
    try:
        for samples in range(1, 4):
            bench.sample()
            eventually(lambda: bench.questions(NEAR), lambda count, samples=samples: count == samples)
        assert bench.reported("near")["far"]["observed"] is None
        assert bench.questions(FAR) == 1  # and is not asked again before it has answered
    finally:
        hold.release()
    assert bench.reported("far")["far"]["error"] is None


def test_an_engine_is_left_alone_for_a_multiple_of_the_time_that_it_took(bench: Bench) -> None:
    quiet(bench)
    bench.apply(make_job("far", spe_address=FAR))
    hold = bench.world.hold("metrics", address=FAR)
    bench.sample()
    assert hold.reached.wait(30)
    bench.now += 4.0  # so long it takes
    hold.release()
    bench.telemetry.await_answers()
    asked = []
    for _ in range(4):
        bench.sample()
        bench.telemetry.await_answers()
        asked.append(bench.questions(FAR))
    assert asked == [1, 1, 1, 2]  # at 9, 14, 19 and 24 s after it was asked: due after 20


def test_an_engine_that_does_not_answer_costs_one_question(bench: Bench) -> None:
    quiet(bench)
    bench.apply(*chain("a", "b", "c"))
    bench.world.fail("metrics", OutcomeUnknown("no answer\nin time", address=NEAR), times=None)
    bench.sample()
    found = bench.reported("a", "b", "c")
    assert {each["error"] for each in found.values()} == {"no answer in time"}
    assert bench.questions(NEAR) == 1


def test_a_job_that_its_engine_cannot_tell_of_hides_no_other(bench: Bench) -> None:
    quiet(bench)
    bench.apply(*chain("a", "b"))
    bench.world.fail("metrics", Rejected("it runs no more", address=NEAR), name="a", times=None)
    bench.sample()
    found = bench.reported("a", "b")
    assert (found["a"]["error"], found["b"]["error"]) == ("it runs no more", None)
    bench.world.heal()
    bench.telemetry.await_answers()
    bench.sample()
    eventually(lambda: bench.rates()["a"]["error"], lambda error: error is None)


def test_a_defect_of_a_binder_is_told_and_asked_past(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: InMemoryEngine, handle: Handle) -> JobMetrics:
        raise RuntimeError("nobody thought of this")

    quiet(bench)
    bench.apply(make_job("a"))
    with monkeypatch.context() as patch:
        patch.setattr(InMemoryEngine, "metrics", broken)
        bench.sample()
        assert bench.reported("a")["a"]["error"] == "internal error: RuntimeError('nobody thought of this')"
    bench.telemetry.await_answers()  # an engine is not asked again before its call has ended
    bench.sample()
    eventually(lambda: bench.rates()["a"]["error"], lambda error: error is None)


def test_a_defect_in_the_use_of_an_answer_ends_no_sampling(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet(bench)
    bench.apply(make_job("near"), make_job("far", spe_address=FAR))

    def fail(*_: object) -> None:
        raise ValueError("a count that nobody expected")

    monkeypatch.setattr(bench.telemetry.losses, "record_sample", fail)
    for times in (1, 2, 3):
        bench.sample()
        bench.telemetry.await_answers()
        assert (bench.questions(NEAR), bench.questions(FAR)) == (times, times)


def test_profiles_that_cannot_be_written_end_no_sampling(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet(bench)
    bench.apply(make_job("a"))
    measures = bench.telemetry.measures
    assert measures is not None

    def fail() -> None:
        raise ValueError("a profile that nobody expected")

    snapshots = bench.coordinator.deployments.snapshots()
    ((job, handle),) = (each for found in snapshots for each in found.deployed())
    measures.record(job, replace(handle, engine_id="former"), OutcomeUnknown("no answer"))
    monkeypatch.setattr(measures, "_write", fail)
    bench.sample()
    bench.telemetry.await_answers()
    assert bench.questions(NEAR) == 1


def test_losses_of_any_number_of_jobs_and_brokers_are_counted_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speck.observe.losses.MOST_JOBS", 0)
    monkeypatch.setattr("speck.observe.losses.MOST_BROKERS", 0)
    quiet(bench)
    names = ("a", "b", "c")
    bench.apply(*(make_job(name, source_broker=f"tcp://{name}:1883") for name in names))
    recorder = bench.telemetry.losses
    assert recorder is not None
    for name in names:
        bench.world.metrics[name] = JobMetrics(7.0, details={"lostMessages": 2})
        bench.world.broker(f"tcp://{name}:1883").dropped = 5
    for _ in range(3):
        bench.sample(30.0)
        bench.telemetry.await_answers()
    assert [(each.job, each.total) for each in recorder.counts()] == [(name, 2) for name in names]
    assert recorder.dropped() == {f"tcp://{name}:1883": 5 for name in names}


def test_a_late_answer_of_the_engine_before_changes_nothing(bench: Bench) -> None:
    quiet(bench)
    bench.apply(make_job("a", spe_address=FAR))
    hold = bench.world.hold("metrics", address=FAR)
    try:
        bench.sample()
        bench.apply(make_job("a"))
        bench.world.metrics["a"] = JobMetrics(78.0, input_rate=7.0)
        bench.sample()
        assert bench.reported("a")["a"]["input_rate"] == 7.0
        before = bench.telemetry.readings()
    finally:
        hold.release()
    bench.telemetry.await_answers()
    assert bench.telemetry.readings() == before


class Measuring(InMemoryEngine):
    """An engine that is asked once for all of its jobs, and leaves out one."""

    def measure(self, handles: Iterable[Handle]) -> dict[str, JobMetrics | BinderError]:
        with self.world.call("measure", self.address, ""):
            metrics = self.world.metrics
            jobs = {each.engine_id: each.details["job"] for each in handles}
            return {key: metrics[job] for key, job in jobs.items() if job in metrics}


def test_one_question_for_many_jobs(tmp_path: Path) -> None:
    world = World()
    kinds = double_kinds(world)
    registry = replace(
        kinds, engines=(replace(kinds.engines[0], connect=lambda address, _: Measuring(world, address)),)
    )
    with Store(tmp_path / "store") as store:
        bench = Bench(world, build(store, registry, SITES, Settings(roots=(write_code(tmp_path),), period=0)))
        quiet(bench)
        bench.apply(*chain("a", "b", "c"))
        world.metrics = {name: JobMetrics(7.0, input_rate=5.0) for name in ("a", "b")}
        bench.sample()
        found = bench.reported("a", "b", "c")
        assert [found[name]["input_rate"] for name in ("a", "b", "c")] == [5.0, 5.0, None]
        assert found["c"]["error"] == "the answer of its engine's binder does not include it"
        assert (world.counts()["measure"], world.counts()["metrics"]) == (1, 0)
        bench.coordinator.close()


def test_brokers_tell_what_they_keep(bench: Bench) -> None:
    quiet(bench)
    bench.apply(make_job("a"), make_job("b", "in", "out", source_broker="tcp://b2:1883"))
    bench.world.broker("tcp://b1:1883").backlog[named("a")] = 40
    bench.world.down("tcp://b2:1883")
    bench.sample()
    eventually(bench.telemetry.stored, lambda stored: stored == {"tcp://b1:1883": 40})
    for _ in range(5):
        bench.sample()
    assert [call[1] for call in bench.world.calls if call[0] == "stored"].count("tcp://b1:1883") == 1
    bench.now += 90
    assert bench.telemetry.stored() == {}  # too old


def test_the_rest_of_a_full_buffer_grows_with_the_store_of_its_broker(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, telemetry = SessionRecord("tcp://b1:1883", "s", "t"), bench.telemetry
    monkeypatch.setattr(telemetry, "waiting", lambda: {"a": 500})
    monkeypatch.setattr(telemetry, "stored", lambda: {session.broker: 2000})
    monkeypatch.setattr(telemetry, "details", lambda: {"a": {"bufferFull": 1}, "b": {"bufferFull": 0}})
    assert [telemetry.held(each, session) for each in ("a", "b", "c")] == [2500, None, None]
    assert telemetry.held("a", replace(session, broker="tcp://other:1883")) is None


FULL, READING, AWAY = {"bufferFull": 1, "connected": 1}, {"bufferFull": 0, "connected": 1}, {"connected": 0}


@pytest.mark.parametrize(
    ("others", "held"),
    [
        ({}, 2500),
        ({"b": READING}, 2200),  # the store also has the 300 that b has not acknowledged
        ({"b": FULL}, 2500),  # both are behind
        ({"b": AWAY}, None),  # its session fills
        ({"b": None}, None),  # nobody has heard of it
        ({"b": READING, "c": AWAY}, None),
    ],
)
def test_the_store_of_a_broker_counts_for_a_full_buffer_while_all_other_jobs_read(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    others: Mapping[str, Mapping[str, int] | None],
    held: int | None,
) -> None:
    session, telemetry = SessionRecord("tcp://b1:1883", "s", "t"), bench.telemetry
    details = {"a": FULL} | {name: each for name, each in others.items() if each is not None}
    monkeypatch.setattr(telemetry, "_readers", {session.broker: frozenset({"a", *others})})
    monkeypatch.setattr(telemetry, "waiting", lambda: {"a": 500, "b": 300})
    monkeypatch.setattr(telemetry, "stored", lambda: {session.broker: 2000})
    monkeypatch.setattr(telemetry, "details", lambda: details)
    assert telemetry.held("a", session) == held
    if others:
        telemetry._errors["b"] = ("b1", "its engine does not answer")
        assert telemetry.held("a", session) is None


def test_the_sampler_knows_which_jobs_read_at_a_broker(bench: Bench) -> None:
    quiet(bench)
    bench.apply(make_job("a"), make_job("b", "in", "out", source_broker="tcp://b2:1883"))
    bench.sample()
    assert bench.telemetry._readers == {"tcp://b1:1883": {"a"}, "tcp://b2:1883": {"b"}}


def test_what_was_told_of_a_copy_goes_with_it(bench: Bench) -> None:
    quiet(bench)
    bench.apply(make_job("a"))
    bench.sample()
    bench.reported("a")
    bench.apply(make_job("a", spe_address=FAR))
    assert {name: value for name, value in bench.rates()["a"].items() if name in UNKNOWN} == UNKNOWN
    bench.sample()
    assert bench.reported("a")["a"]["error"] is None
    bench.apply()
    bench.sample()
    assert bench.telemetry.readings() == {}


def test_engines_are_asked_only_while_somebody_looks(bench: Bench) -> None:
    bench.telemetry.period = 0.01
    bench.apply(make_job("a"))
    assert bench.questions(NEAR) == 0
    bench.rates()
    first = eventually(lambda: bench.questions(NEAR), bool)
    bench.now += 6
    eventually(lambda: bench.questions(NEAR), lambda count: count > first)
    bench.now += 61
    eventually(bench.telemetry.details, lambda found: not found)
    count = bench.questions(NEAR)
    assert bench.rates()["a"]["observed"] is None  # what was told then is too old now
    bench.now += 1  # the last question may have been asked just now
    eventually(lambda: bench.questions(NEAR), lambda later: later > count)


def test_closing_ends_the_asking(bench: Bench) -> None:
    bench.telemetry.now = time.monotonic
    bench.telemetry.period = 0.01
    bench.apply(make_job("a"))
    bench.rates()
    eventually(lambda: bench.questions(NEAR), bool)
    bench.telemetry.close()
    count = bench.questions(NEAR)
    bench.rates()
    eventually(lambda: {each.name for each in threading.enumerate()}, {"sampler", "sample"}.isdisjoint)
    assert bench.questions(NEAR) == count


def test_the_rates_of_the_last_hour_are_retained(bench: Bench) -> None:
    quiet(bench)
    bench.apply(*chain("a", "b"))
    bench.world.metrics["a"] = JobMetrics(77.0, input_rate=3.0, waiting=5)
    bench.sample()
    bench.reported("a")
    found = bench.services.queries.curves("a")
    assert (found["job_name"], len(found["input_rate"])) == ("a", 60)
    assert (found["input_rate"][-1], found["waiting"][-1], found["input_rate"][0]) == (3.0, 5.0, None)
