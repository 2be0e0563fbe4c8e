"""Probes of links and sites: on request alone, one at a time, and refused where they would disturb."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from speck.binder import Registry
from speck.coordinator import Services, build
from speck.core.inventory import Inventory
from speck.core.live_inventory import LiveInventory
from speck.core.profile import AckSample, CoreProbe, LinkProbe
from speck.core.settings import Settings
from speck.errors import Conflict, NoCapacity, OutcomeUnknown
from speck.observe.probing import REFERENCE, Probe, Prober, ProbeState
from speck.placement.profile import Known
from speck.store import Store
from testbed.benches import user
from testbed.benches.examples import one_site
from testbed.benches.jobs_by_hand import composition, make_job, write_code
from testbed.doubles.profiled_engines import Profiled
from testbed.doubles.samples import BEGIN, flink_stream
from testbed.doubles.world import World
from tests.support.threads import without_threads

A, D, SILENT = "http://a:8081/", "http://d:8081/", "sc://s:1"
SITES = Inventory(
    {
        "A": one_site("A", A, "tcp://a:1883"),
        "D": one_site("D", D, "tcp://d:1883"),
        "S": one_site("S", SILENT, "tcp://s:1883"),
    }
)


@dataclass
class Bench:
    """A coordinator whose Flink engines have probes; ``now`` is Unix time, s."""

    directory: Path
    now: float = BEGIN
    world: World = field(default_factory=World)

    def __post_init__(self) -> None:
        self.profiled = Profiled(lambda: self.now, lambda name, engine_id, now: flink_stream([], 1e-3)[0])
        self.store = Store(self.directory / "store")
        settings = Settings(roots=(write_code(self.directory),), period=0)
        registry: Registry = self.profiled.registry(self.world)
        self.services: Services = build(self.store, registry, SITES, settings, clock=lambda: self.now)
        self.services.coordinator.sampler.loop.start = lambda: None  # type: ignore[method-assign]

    @property
    def prober(self) -> Prober:
        return self.services.profiles.prober

    def probe(self, *, links: tuple[tuple[str, str], ...] = (), sites: tuple[str, ...] = ()) -> list[Probe]:
        """Probe, and wait for the end."""
        self.prober.begin(links, sites)
        assert self.prober.await_end(30)
        return self.prober.probes()


pytestmark = pytest.mark.usefixtures("known_owner")


@pytest.fixture(name="bench")
def bench_fixture(tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path)
    yield bench
    bench.services.coordinator.close()
    bench.store.close()


def test_a_link_is_measured_and_stored(bench: Bench) -> None:
    bench.profiled.link = LinkProbe(rtt=0.16, bandwidth=250_000, bytes_sent=1 << 20)
    found = bench.probe(links=(("A", "D"),))
    assert found == [Probe("A", "D", ProbeState.DONE, "160 ms, 2 Mbit/s")]
    link = bench.services.profiles.measures.links()["A", "D"]
    assert link.round_trip is not None
    assert link.bandwidth is not None
    assert (link.round_trip.value, link.round_trip.known) == (0.16, Known.MEASURED)
    assert (link.bandwidth.value, link.bandwidth.known) == (250_000, Known.MEASURED)
    assert bench.profiled.probed == ["tcp://d:1883"]


def test_a_link_is_probed_once_an_hour(bench: Bench) -> None:
    bench.probe(links=(("A", "D"),))
    bench.now += 3540
    (again,) = bench.probe(links=(("A", "D"),))
    assert (again.state, again.message) == (
        ProbeState.REFUSED,
        "it was probed 59 min ago (once an hour is enough)",
    )
    bench.now += 61
    assert bench.probe(links=(("A", "D"),))[0].state is ProbeState.DONE
    assert len(bench.profiled.probed) == 2


def test_a_link_that_jobs_use_is_not_probed(bench: Bench) -> None:
    operation, _ = user.apply(
        bench.services.coordinator,
        composition(make_job("a", engine="flink", spe_address=A, sink_broker="tcp://d:1883")),
    )
    assert operation.wait(30)
    ((job, handle),) = (
        each for found in bench.services.coordinator.deployments.snapshots() for each in found.deployed()
    )
    acks = (AckSample(broker="tcp://d:1883", least=0.1, window_full=0.9),)
    for sample in flink_stream([100] * 6, 1e-3, begin=bench.now):
        bench.services.profiles.measures.record(job, handle, replace(sample, acks=acks))
    (found,) = bench.probe(links=(("A", "D"),))
    assert (found.state, found.message) == (
        ProbeState.REFUSED,
        "jobs use 1.00 of it (a probe would disturb them above 0.5)",
    )
    assert bench.profiled.probed == []


def test_the_speed_of_a_site_is_relative_to_the_reference_core(bench: Bench) -> None:
    bench.profiled.core = CoreProbe(stateless=REFERENCE.stateless / 2, keyed=REFERENCE.keyed / 8)
    found = bench.probe(sites=("A",))
    assert found == [Probe("A", "", ProbeState.DONE, "speed 0.25")]
    speed = bench.services.profiles.measures.sites()["A"].speed
    assert speed is not None
    assert (speed.value, speed.known) == (0.25, Known.MEASURED)


def test_an_impossible_speed_is_refused(bench: Bench) -> None:
    bench.profiled.core = CoreProbe(stateless=0.0, keyed=1.0)
    (found,) = bench.probe(sites=("A",))
    assert (found.state, found.message) == (
        ProbeState.FAILED,
        "the measured speed of a core, 0, is implausible (expected 0.01 to 100)",
    )


@pytest.mark.parametrize(
    ("rtt", "bandwidth"),
    [(math.nan, 1e6), (-0.1, 1e6), (0.1, math.nan), (0.1, 0.0), (0.1, -1.0), (0.1, math.inf)],
)
def test_an_impossible_link_is_refused(bench: Bench, rtt: float, bandwidth: float) -> None:
    before = bench.services.profiles.measures.links()
    bench.profiled.link = LinkProbe(rtt=rtt, bandwidth=bandwidth, bytes_sent=1 << 20)
    (found,) = bench.probe(links=(("A", "D"),))
    assert found.state is ProbeState.FAILED
    assert "is implausible" in found.message
    assert bench.services.profiles.measures.links() == before


def test_an_engine_without_a_probe_is_named(bench: Bench) -> None:
    found = bench.probe(links=(("S", "A"),), sites=("S",))
    message = "the engine at sc://s:1 has no probe"
    assert found == [
        Probe("S", "A", ProbeState.REFUSED, message),
        Probe("S", "", ProbeState.REFUSED, message),
    ]


def test_failures_leave_the_other_probes(bench: Bench) -> None:
    bench.profiled.trouble = [NoCapacity("no slot", address=A), OutcomeUnknown("no\nend", address=A)]
    found = bench.probe(links=(("A", "D"), ("A", "S"), ("D", "A")))
    assert [(each.state, each.message) for each in found] == [
        (ProbeState.REFUSED, "no slot"),
        (ProbeState.FAILED, "no end"),
        (ProbeState.DONE, "20 ms, 8 Mbit/s"),
    ]


def test_one_probe_runs_at_a_time(bench: Bench) -> None:
    reached, gate = threading.Event(), threading.Event()
    bench.profiled.during = lambda: (reached.set(), gate.wait(30))[1]
    bench.prober.begin([("A", "D"), ("D", "A")], [])
    assert reached.wait(30)
    assert [each.state for each in bench.prober.probes()] == [ProbeState.RUNNING, ProbeState.WAITING]
    with pytest.raises(Conflict, match="probes are already running"):
        bench.prober.begin([("A", "D")], [])
    gate.set()
    assert bench.prober.await_end(30)
    assert [each.state for each in bench.prober.probes()] == [ProbeState.DONE] * 2


def test_places_that_were_removed_before_their_probe_are_named(bench: Bench) -> None:
    inventory = bench.services.coordinator.inventory
    reached, gate = threading.Event(), threading.Event()
    bench.profiled.during = lambda: (reached.set(), gate.wait(30))[1]
    bench.prober.begin([("A", "D"), ("A", "S"), ("S", "A")], ["S"])
    assert reached.wait(30)
    assert isinstance(inventory, LiveInventory)
    inventory.replace(Inventory({name: site for name, site in inventory.sites.items() if name != "S"}))
    gate.set()
    assert bench.prober.await_end(30)
    assert [(each.state, each.message) for each in bench.prober.probes()[1:]] == [
        (ProbeState.REFUSED, "'S' is no longer in the inventory"),
        (ProbeState.REFUSED, "site 'S' is no longer in the inventory"),
        (ProbeState.REFUSED, "site 'S' is no longer in the inventory"),
    ]


def test_a_probe_without_a_thread_leaves_none_waiting(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    without_threads(monkeypatch, "prober")
    with pytest.raises(RuntimeError):
        bench.prober.begin([("A", "D")], [])
    monkeypatch.undo()
    assert [each.state for each in bench.probe(links=(("A", "D"),))] == [ProbeState.DONE]


def test_nothing_is_probed_unasked(bench: Bench) -> None:
    bench.services.profiles.measure("", 60)
    bench.services.profiles.links()
    assert bench.prober.probes() == []
    assert bench.profiled.probed == []


def test_only_the_places_of_a_composition_are_probed(bench: Bench) -> None:
    job = make_job(
        "a", engine="flink", spe_address=A, source_broker="tcp://a:1883", sink_broker="tcp://d:1883"
    )
    operation, _ = user.apply(bench.services.coordinator, composition(job))
    assert operation.wait(30)
    bench.services.profiles.measure("traffic", 60, links=True, sites=True)
    assert bench.prober.await_end(30)
    assert [(each.site, each.target) for each in bench.prober.probes()] == [
        ("A", "D"),
        ("D", "A"),
        ("A", ""),
        ("D", ""),
    ]
