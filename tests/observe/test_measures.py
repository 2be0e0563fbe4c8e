"""Jobs are measured while somebody asks for it: what is in memory, in the store, and what is not known."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from speck.coordinator import Services, build
from speck.core.inventory import Inventory, Scale
from speck.core.job import Job, profile_fingerprint
from speck.core.live_inventory import LiveInventory
from speck.core.profile import AckSample, JobSample
from speck.core.runtime import Capacity
from speck.core.settings import Settings
from speck.errors import OutcomeUnknown, StoreFull
from speck.observe.losses import LossRecorder
from speck.observe.measures import JobMeasure, Measures
from speck.observe.sites import site_profile
from speck.placement.profile import FIXED, JobProfile, Known, SiteProfile, Value
from speck.store import Store
from testbed.benches import user
from testbed.benches.examples import one_site
from testbed.benches.jobs_by_hand import composition, make_job, write_code
from testbed.doubles.profiled_engines import Profiled
from testbed.doubles.samples import flink_stream
from testbed.doubles.world import World

pytestmark = pytest.mark.usefixtures("known_owner")

A, D = "http://a:8081/", "http://d:8081/"
SILENT = "sc://s:1"
AT_A, AT_D = "tcp://a:1883", "tcp://d:1883"
SITES = Inventory(
    {
        "A": one_site("A", A, AT_A),
        "D": one_site("D", D, AT_D),
        "S": one_site("S", SILENT, "tcp://s:1883"),
    }
)
BEGIN = 1_000_000.0
COST = 1e-3  # s a message


def flink_job(name: str, at: str = A, **fields: object) -> Job:
    return make_job(name, f"in/{name}", f"out/{name}", engine="flink", spe_address=at, **fields)


@dataclass
class Bench:
    """A coordinator whose engines are asked when the test says so; ``now`` is Unix time, s.

    All jobs take 100 messages/s at :data:`COST`.
    """

    directory: Path
    world: World = field(default_factory=World)
    now: float = BEGIN
    acks: tuple[AckSample, ...] = ()
    costs: float = 0.0  # s of the processor, of the counts of a job

    def __post_init__(self) -> None:
        self.profiled = Profiled(lambda: self.now, self.counts)
        self.write_code = write_code(self.directory)
        self._used = threading.local()
        self.begin()

    def begin(self) -> None:
        """Open the store, and begin a coordinator."""
        self.store = Store(self.directory / "store")
        settings = Settings(roots=(self.write_code,), period=0)
        registry = self.profiled.registry(self.world)
        self.services: Services = build(self.store, registry, SITES, settings, clock=lambda: self.now)
        sampler = self.services.coordinator.sampler
        sampler.now = lambda: self.now
        sampler.processor = self.processor
        sampler.loop.start = lambda: None  # type: ignore[method-assign]  # nobody asks but the test

    def processor(self) -> float:
        """The processor time of this thread so far, s."""
        return float(getattr(self._used, "seconds", 0.0))

    def spend(self, seconds: float) -> None:
        """Let this thread take processor time."""
        self._used.seconds = self.processor() + seconds

    def end(self) -> None:
        self.services.coordinator.close()
        self.store.close()

    def counts(self, name: str, engine_id: str, now: float) -> JobSample:
        self.spend(self.costs)
        ticks = round((now - BEGIN) / 10)
        stream = flink_stream([100] * ticks, COST, begin=BEGIN, engine_id=engine_id)
        return replace(stream[-1], acks=self.acks)

    @property
    def measures(self) -> Measures:
        return self.services.profiles.measures

    def apply(self, *jobs: Job) -> None:
        operation, _ = user.apply(self.services.coordinator, composition(*jobs))
        assert operation.wait(30)
        assert operation.state == "succeeded"

    def delete(self) -> None:
        assert user.delete_composition(self.services.coordinator, "traffic").wait(30)

    def sample(self, times: int = 1) -> None:
        """Let 10 s pass so often, and have the engines asked each time."""
        for _ in range(times):
            self.now += 10
            self.ask()

    def ask(self) -> None:
        sampler = self.services.coordinator.sampler
        sampler.sample()
        sampler.await_answers()
        self.measures.write()

    def measure(self, seconds: float = 60) -> None:
        """Measure for so long."""
        self.services.profiles.measure("", seconds)
        self.ask()
        self.sample(int(seconds / 10))

    def found(self, job: Job) -> JobMeasure:
        return self.measures.jobs([job])[job.job_name]

    def profile(self, job: Job) -> JobProfile:
        return self.found(job).estimate.profile


@pytest.fixture(name="bench")
def bench_fixture(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.end()
    assert bench.world.violations == []


def known(value: Value | None) -> tuple[float, Known]:
    assert value is not None
    return round(value.value, 6), value.known


# --- sampling


def test_nobody_is_asked_while_nobody_measures(bench: Bench) -> None:
    bench.apply(flink_job("a"))
    bench.sample(4)
    assert bench.profiled.asked == []
    bench.measure(30)
    bench.sample(4)
    assert len(bench.profiled.asked) == 5  # at 0, 10, 20, 30 and 40 s; then it is over


def test_reading_keeps_the_engines_asked_for_a_minute(bench: Bench) -> None:
    bench.apply(flink_job("a"))
    bench.services.profiles.profile()
    bench.sample(10)
    assert len(bench.profiled.asked) == 6


def test_an_engine_is_asked_once_for_all_of_its_jobs(bench: Bench) -> None:
    bench.apply(*(flink_job(f"a{number}") for number in range(20)), flink_job("d", D))
    bench.measure(60)
    assert sorted(bench.profiled.asked) == [A] * 7 + [D] * 7


def test_answers_that_take_long_to_read_are_asked_for_less_often_and_are_fresh_for_longer(
    bench: Bench,
) -> None:
    """Each takes a second of the processor: every 100 s, where 1% of a core may be used."""
    job, asked = flink_job("a"), []
    bench.costs = 1.0
    bench.apply(job)
    bench.services.profiles.measure("", 900)
    for _ in range(60):
        before = len(bench.profiled.asked)
        bench.sample()
        asked += [round(bench.now - BEGIN)] * (len(bench.profiled.asked) - before)
        assert bench.found(job).fresh == (len(bench.profiled.asked) >= 3)
        assert bench.measures.inputs().fresh == ({"a"} if len(bench.profiled.asked) >= 3 else set())
    assert asked == [10, 20, 120, 220, 320, 420, 520]
    data = bench.services.profiles.profile()
    assert (data["interval"], data["cores"]) == (100, pytest.approx(0.01))
    assert bench.measures.inputs().interval == 100


def test_the_watch_over_losses_counts_as_measuring_until_somebody_reads_the_rates(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LossRecorder, "record_sample", lambda *counts: bench.spend(0.1))
    bench.apply(flink_job("a"))
    bench.measure(60)
    assert bench.services.profiles.profile()["cores"] == pytest.approx(0.1 / 20)
    monkeypatch.setattr(LossRecorder, "record_sample", lambda *counts: bench.spend(1.0))
    bench.services.coordinator.sampler.readings()
    bench.measure(50)
    assert bench.services.profiles.profile()["cores"] == pytest.approx(0.1 / 20)


def test_the_profile_of_a_job_that_runs(bench: Bench) -> None:
    job = flink_job("a")
    bench.apply(job)
    bench.measure()
    found = bench.found(job)
    assert found.fresh
    assert known(found.estimate.profile.rate_in) == (100, Known.MEASURED)
    assert known(found.estimate.profile.cost) == (COST, Known.MEASURED)
    assert known(found.estimate.profile.fixed) == (FIXED, Known.ASSUMED)
    assert [each.name for each in found.estimate.vertices] == ["source", "count"]


def test_a_job_whose_binder_reports_no_profile_has_assumptions_and_the_reason(bench: Bench) -> None:
    job = make_job("s", spe_address=SILENT)
    bench.apply(job)
    bench.measure()
    found = bench.found(job)
    assert (found.fresh, found.error) == (False, "its engine's binder reports no profile")
    assert found.estimate.profile.rate_in is None
    assert known(found.estimate.profile.cost) == (12e-6, Known.ASSUMED)


def test_the_error_of_one_job_leaves_the_others(bench: Bench) -> None:
    bench.profiled.failures["a"] = OutcomeUnknown("no answer\nin 5 s")
    bench.apply(flink_job("a"), flink_job("b"))
    bench.measure()
    assert bench.found(flink_job("a")).error == "no answer in 5 s"
    assert bench.found(flink_job("b")).fresh


def test_a_late_answer_of_the_engine_before_drops_no_samples(bench: Bench) -> None:
    job = flink_job("a")
    bench.apply(job)
    bench.measure()
    snapshots = bench.services.coordinator.deployments.snapshots()
    ((_, handle),) = (each for found in snapshots for each in found.deployed())
    before = bench.found(job)
    assert before.fresh
    bench.measures.record(job, replace(handle, engine_id="former"), bench.counts("a", "former", bench.now))
    bench.measures.record(job, replace(handle, engine_id="former"), OutcomeUnknown("no answer"))
    assert bench.found(job) == before


def test_the_age_of_a_rate_that_is_no_longer_fresh(bench: Bench) -> None:
    bench.apply(flink_job("a"), flink_job("b"))
    assert bench.measures.inputs().ages == {}  # never measured
    bench.measure()
    assert bench.measures.inputs().ages == {}
    bench.profiled.failures["a"] = OutcomeUnknown("no answer")
    bench.measure(90)
    found = bench.measures.inputs()
    assert found.fresh == {"b"}
    assert 60 < found.ages["a"] <= 150
    assert found.ages.keys() == {"a"}
    bench.now -= 7200  # the clock was set back: how old the rate is, is not known
    assert bench.measures.inputs().ages["a"] > 3600


def test_an_engine_that_cannot_be_asked(bench: Bench) -> None:
    bench.apply(flink_job("a"))
    bench.profiled.counts = lambda name, engine_id, now: 1 / 0  # type: ignore[assignment,return-value]
    bench.measure(30)
    assert bench.found(flink_job("a")).error == "internal error: ZeroDivisionError('division by zero')"


def test_odd_values_are_counted(bench: Bench) -> None:
    bench.apply(flink_job("a"))
    bench.profiled.counts = lambda name, engine_id, now: JobSample(
        engine_id=engine_id, observed=now, messages_in=-1, bytes_in=-1
    )
    bench.measure(30)
    registry = bench.services.metrics.registry
    value = registry.get_sample_value("speck_profile_rejected_total", {"reason": "invalid"})
    assert value == 2 * len(bench.profiled.asked)
    assert registry.get_sample_value("speck_profile_rejected_total", {"reason": "jump"}) == 0


# --- the store


def test_profiles_are_written_each_minute_and_read_after_a_restart(bench: Bench) -> None:
    job = flink_job("a")
    bench.apply(job)
    bench.measure(200)
    events = len(bench.store.events())
    bench.end()
    bench.begin()
    bench.now += 3600
    found = bench.found(job)
    assert not found.fresh
    assert known(found.estimate.profile.rate_in) == (100, Known.MEASURED)
    assert found.estimate.profile.rate_in is not None
    assert 3600 <= bench.now - found.estimate.profile.rate_in.until <= 3600 + 80
    assert len(bench.store.events()) == events  # not in the audit log
    bench.now += 8 * 86_400
    assert bench.profile(job).rate_in is None  # too old


def test_a_moved_job_keeps_its_profile_and_edited_code_has_it_as_an_assumption(bench: Bench) -> None:
    job = flink_job("a")
    bench.apply(job)
    bench.measure()
    moved = flink_job("a", D)
    bench.apply(moved)
    bench.sample()
    assert not bench.found(moved).fresh
    assert known(bench.profile(moved).cost) == (COST, Known.MEASURED)
    assert known(bench.profile(moved).rate_in) == (100, Known.MEASURED)
    edited = flink_job("a", D, job_path="other.py")
    bench.apply(edited)
    assert known(bench.profile(edited).cost) == (COST, Known.ASSUMED)
    assert known(bench.profile(edited).rate_in) == (100, Known.ASSUMED)
    assert not bench.found(edited).fresh
    inputs = bench.measures.inputs()
    assert "a" not in inputs.fresh | inputs.ages.keys()
    assert profile_fingerprint(inputs.forms["a"]) == profile_fingerprint(edited)
    bench.measure()
    cost = bench.profile(edited).cost
    assert cost is not None and cost.known is Known.MEASURED
    assert list(bench.store.job_profiles()) == [("a", profile_fingerprint(edited))]


def test_a_profile_goes_with_its_job(bench: Bench) -> None:
    bench.apply(flink_job("a"), flink_job("b"))
    bench.measure()
    assert [name for name, _ in bench.store.job_profiles()] == ["a", "b"]
    bench.apply(flink_job("b"))
    assert [name for name, _ in bench.store.job_profiles()] == ["b"]
    bench.delete()
    bench.measure()
    assert bench.store.job_profiles() == {}


def test_a_profile_without_a_job_is_deleted_with_the_next_write(bench: Bench) -> None:
    bench.apply(flink_job("a"))
    with bench.store.transaction() as transaction:
        transaction.put_job_profile("gone", "f" * 16, JobProfile(cost=Value(1, Known.MEASURED, BEGIN, 3)))
    bench.measure()
    assert [name for name, _ in bench.store.job_profiles()] == ["a"]


def test_a_full_disk_ends_no_measurement(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise StoreFull("the disk is full")

    bench.apply(flink_job("a"))
    monkeypatch.setattr(bench.store, "transaction", fail)
    bench.measure()
    assert bench.found(flink_job("a")).fresh
    monkeypatch.undo()


def test_the_fixed_share_outlives_the_samples_that_told_it(bench: Bench) -> None:
    job = flink_job("a")
    stored = JobProfile(fixed=Value(0.059, Known.MEASURED, BEGIN, 12))
    bench.apply(job)
    with bench.store.transaction() as transaction:
        transaction.put_job_profile("a", profile_fingerprint(job), stored)
    bench.measure()
    assert bench.profile(job).fixed == stored.fixed
    assert known(bench.profile(job).cost) == (0.0005, Known.MEASURED)  # 0.05 of 0.1 busy cores


# --- links, sites, inputs


def test_a_site_that_joins_later_is_measured(bench: Bench) -> None:
    bench.apply(flink_job("a"))
    bench.measure()
    joined = "http://j:8081/"
    inventory = bench.services.coordinator.inventory
    assert isinstance(inventory, LiveInventory)
    inventory.replace(Inventory({**SITES.sites, "J": one_site("J", joined, "tcp://j:1883")}))
    bench.acks = (AckSample(broker=AT_D, least=0.08, median=0.1, window_full=0.1),)
    bench.apply(flink_job("a"), flink_job("b", joined, sink_broker=AT_D))
    bench.measure()
    assert joined in bench.measures.engines()
    assert joined not in bench.measures.unasked()
    assert known(bench.measures.measured_links()["J", "D"].round_trip) == (0.08, Known.MEASURED)


def test_links_are_measured_by_acknowledgements(bench: Bench) -> None:
    bench.acks = (AckSample(broker=AT_D, least=0.08, median=0.1, window_full=0.1),)
    bench.apply(flink_job("a", sink_broker=AT_D))
    bench.measure()
    link = bench.measures.links()["A", "D"]
    assert known(link.round_trip) == (0.08, Known.MEASURED)
    assert known(link.load) == (50 * (60 + 95), Known.MEASURED)  # messages/s of so many bytes
    assert known(link.bandwidth) == (12.5e6, Known.ASSUMED)  # larger than the lower bound
    bench.acks = (AckSample(broker=AT_D, least=0.09, window_full=0.9),)
    bench.measure()
    full = bench.measures.links()["A", "D"]
    assert (known(full.bandwidth), full.at_least) == ((50 * (60 + 95), Known.MEASURED), False)
    assert known(bench.measures.links()["D", "A"].round_trip) == (0.04, Known.ASSUMED)
    bench.end()
    bench.begin()
    assert bench.measures.links()["A", "D"].bandwidth == full.bandwidth


def test_what_readers_take_counts_to_the_load_and_the_bandwidth_of_a_link(bench: Bench) -> None:
    writer, reader = flink_job("writer", sink_broker=AT_D), flink_job("reader", at=D, source_broker=AT_A)
    bench.acks = (AckSample(broker=AT_D, least=0.08, window_full=0.9),)
    bench.apply(writer)
    bench.measure()
    written = bench.measures.links()["A", "D"].load
    assert written is not None
    bench.apply(writer, reader)
    bench.measure()
    link = bench.measures.links()["A", "D"]
    taken = 100 * (100 + 95)  # messages/s of so many bytes
    assert known(link.load) == (written.value + taken, Known.MEASURED)
    assert (link.bandwidth, link.at_least) == (link.load, False)


def test_cores_and_memory_of_sites_are_those_of_their_engines(bench: Bench) -> None:
    bench.profiled.capacity = Capacity(cores=3, memory=5 * 2**30)
    bench.apply(flink_job("a"))
    bench.measure()
    site = bench.measures.sites()["A"]
    assert known(site.speed) == (1.0, Known.ASSUMED)
    assert known(site.cores) == (3, Known.MEASURED)
    assert known(site.memory) == (5 * 2**30, Known.MEASURED)
    assert known(bench.measures.sites()["S"].cores) == (2, Known.MEASURED)
    assert bench.measures.sites()["S"].memory is None
    bench.end()
    bench.begin()
    assert known(bench.measures.sites()["D"].cores) == (3, Known.MEASURED)


def test_declared_cores_and_speed_of_a_site() -> None:
    site = replace(SITES.sites["A"], cores=2.0, speed=0.5)
    profile = site_profile(site, {A: (BEGIN, Capacity(cores=8))}, None, BEGIN)
    assert (known(profile.cores), known(profile.speed)) == ((2.0, Known.DECLARED), (0.5, Known.DECLARED))


def test_a_cluster_without_workers_says_nothing_of_its_site() -> None:
    site = replace(SITES.sites["A"], cores=None)
    none, former = {A: (BEGIN, Capacity(cores=0, memory=0))}, SiteProfile(name="A", cores=_value(8))
    assert site_profile(site, none, None, BEGIN).cores is None
    assert known(site_profile(site, none, former, BEGIN).cores) == (8, Known.MEASURED)
    assert site_profile(site, none, None, BEGIN).memory is None


def test_a_site_has_the_cores_of_all_workers_that_its_engine_may_get() -> None:
    scaled = replace(SITES.sites["A"].engines[0], scale=Scale(least=0, most=4, cores=2.0, slots=8))
    site = replace(SITES.sites["A"], engines=(scaled,), cores=None)
    assert known(site_profile(site, {A: (BEGIN, Capacity(cores=2))}, None, BEGIN).cores) == (
        8.0,
        Known.DECLARED,
    )


def _value(value: float) -> Value:
    return Value(value, Known.MEASURED, BEGIN, 1)


def test_the_inputs_of_the_placer(bench: Bench) -> None:
    bench.apply(flink_job("a"), make_job("s", spe_address=SILENT))
    bench.measure()
    inputs = bench.services.profiles.inputs()
    assert inputs.history["a"] == [100.0] * 6
    assert {name: each.rate_in is not None for name, each in inputs.jobs.items()} == {"a": True, "s": False}
    assert set(inputs.sites) == {"A", "D", "S"}
    assert set(inputs.links) == {(one, other) for one in "ADS" for other in "ADS" if one != other}


def test_the_first_inputs_wait_for_the_capacities_of_sites(tmp_path: Path) -> None:
    """The sampler asks the engines in its own threads; one that does not answer holds up nothing."""
    world = World()
    profiled = Profiled(lambda: BEGIN, lambda name, engine_id, now: flink_stream([], COST)[0])
    with Store(tmp_path / "store") as store:
        world.fail("capacity", OutcomeUnknown("late", address=SILENT), address=SILENT, times=None)
        services = build(store, profiled.registry(world), SITES, Settings(period=0), clock=lambda: BEGIN)
        sites = services.profiles.inputs().sites
        assert {name: known(each.cores) for name, each in sites.items() if name != "S"} == {
            "A": (4, Known.MEASURED),
            "D": (4, Known.MEASURED),
        }
        assert sites["S"].cores is None
        services.coordinator.close()


def test_a_request_wakes_a_sampler_that_watches(bench: Bench) -> None:
    sampler = bench.services.coordinator.sampler
    woken = sampler.loop._wake
    woken.clear()
    bench.measures.inputs()
    assert woken.is_set()
    woken.clear()
    bench.measures.inputs()  # it is at work already
    assert not woken.is_set()
