"""Real processes: a pool of small Flink clusters, and instances that each burn an eighth of one.

An instance takes :data:`BURN` of processor time for each message, :data:`RATE` times a second.  An engine is
declared with :data:`CORES`, 8 instances' worth.  The processor time is that of the TaskManager's process by
the operating system, less what it takes without jobs.
"""

from __future__ import annotations

import hashlib
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from itertools import accumulate, repeat
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import psutil
from paho.mqtt.enums import CallbackAPIVersion

from benchmarks.irm.account import Sample, Series, figures
from benchmarks.irm.background import in_background
from speck import local
from speck.binder import installed
from speck.coordinator import Services, build
from speck.core.inventory import Engine, Inventory, Site
from speck.core.job import POOLED, Composition, Job
from speck.core.settings import Settings
from speck.placement.packing import loose_fit, strict_fit
from speck.schema.inventory import read_inventory
from speck.store import Store
from testbed.benches import user
from testbed.servers.flink import FlinkServer, compile_jobs
from testbed.servers.mosquitto import MosquittoServer

BURN = 0.0025  # s; 30 instances of twice that, with their engines, are more than 2 cores carry
RATE = 10.0  # messages/s of an instance
CORES = 0.2  # of an engine
SHARE = BURN * RATE / CORES
BURSTS = (1, 3, 6)  # instances at a time, again and again

_HEAP = "160m"
_SLOTS = 12
_BETWEEN = {"singly": 5.0, "bursts": 10.0}  # s between two arrivals
_STEADY = 60.0  # s after the last arrival, in which the shares become measured
_PATIENCE = 120.0


def arrivals(kind: str, instances: int) -> list[int]:
    """The numbers of instances that are there after each arrival."""
    steps = repeat(1, instances) if kind == "singly" else (BURSTS[at % 3] for at in range(instances))
    numbers = [min(each, instances) for each in accumulate(steps)]
    return numbers[: numbers.index(instances) + 1]


@dataclass
class Bench:
    """A pool of clusters, a broker, and a coordinator of them."""

    engines: Sequence[FlinkServer]
    broker: MosquittoServer
    jar: Path
    services: Services
    running: int = 0
    idle: Mapping[str, float] = field(default_factory=dict)  # cores of an engine without jobs

    def jobs(self, count: int, addresses: Sequence[str] = ()) -> Mapping[str, Job]:
        """So many instances: at these addresses, or where the pool chooses."""
        found = {}
        for number in range(count):
            name = f"burn-{number:02}"
            found[name] = Job(
                job_name=name,
                spe_address=addresses[number] if addresses else self.engines[0].address,
                placed=() if addresses else POOLED,
                site="A",
                source_broker=self.broker.address,
                source_topic=f"in/{number}",
                sink_broker=self.broker.address,
                sink_topic=f"out/{number}",
                entry_class="streets.Burning",
                job_path=str(self.jar),
                engine="flink",
                arguments={"micros": int(BURN * 1e6)},
                code_hash=_hash_of(self.jar),
            )
        return found

    def apply(self, jobs: Mapping[str, Job]) -> None:
        """Apply, and wait until all of them run."""
        operation, _ = user.apply(self.services.coordinator, Composition("burning", jobs))
        if not operation.wait(_PATIENCE):
            raise TimeoutError(f"{len(jobs)} instances did not start within {_PATIENCE:g} s")
        self.running = len(jobs)

    def sample(self, begin: float) -> Sample:
        """The processor time of each engine, its instances, and the cores that SpecK counts for them."""
        (pool,) = self.services.coordinator.workers.pools
        allocated = {each.engine.spe_address: each.load * CORES for each in pool.engines}
        counts = {each.engine.spe_address: len(each.jobs) for each in pool.engines}
        addresses = [each.address for each in self.engines]
        return Sample(
            time.monotonic() - begin,
            tuple(_processor_time(each) for each in self.engines),
            tuple(counts[each] for each in addresses),
            tuple(allocated[each] for each in addresses),
        )


def _hash_of(jar: Path) -> str:
    return hashlib.sha256(jar.read_bytes()).hexdigest()


def _processor_time(engine: FlinkServer) -> float:
    times = psutil.Process(engine.task_manager_pid).cpu_times()
    return float(times.user + times.system)


@contextmanager
def bench(directory: Path, engines: int) -> Iterator[Bench]:
    """The bench, its engines started one after the other."""
    with ExitStack() as stack:
        jar = compile_jobs(directory)
        broker = stack.enter_context(MosquittoServer(directory / "broker"))
        servers = [
            stack.enter_context(FlinkServer(directory / f"flink-{number}", heap=_HEAP, slots=_SLOTS))
            for number in range(engines)
        ]
        listed = tuple(
            Engine(
                spe_address=each.address,
                savepoint_dir=str(each.cluster.savepoints),
                cores=CORES,
                slots=_SLOTS,
                pool="small",
            )
            for each in servers
        )
        site = Site(name="A", engines=listed, broker_address=broker.address)
        store = stack.enter_context(Store(directory / "store"))
        settings = Settings(roots=(directory,), period=1, adapt=0)
        services = build(store, installed(), Inventory({"A": site}), settings)
        services.coordinator.start()
        stack.callback(services.coordinator.close)
        yield Bench(servers, broker, jar, services)


@contextmanager
def _load(found: Bench) -> Iterator[None]:
    """Send to each running instance at its rate."""
    client = paho.Client(CallbackAPIVersion.VERSION2, "burn-load", protocol=paho.MQTTv5)
    client.connect("127.0.0.1", found.broker.port)
    client.loop_start()

    def send(ended: threading.Event) -> None:
        due = time.monotonic()
        while not ended.wait(max(0.0, due - time.monotonic())):
            due += 1 / RATE
            for number in range(found.running):
                client.publish(f"in/{number}", b"picture", 1)

    try:
        with in_background(send):
            yield
    finally:
        client.disconnect()
        client.loop_stop()


@contextmanager
def _sampling(found: Bench, samples: list[Sample]) -> Iterator[None]:
    begin = time.monotonic()

    def sample(ended: threading.Event) -> None:
        while not ended.wait(1.0):
            samples.append(found.sample(begin))

    with in_background(sample):
        yield


def run(found: Bench, rule: str, kind: str, instances: int) -> tuple[Series, dict[str, float]]:
    """One rule and one kind of arrivals: the series, and its figures."""
    coordinator = found.services.coordinator
    fit = strict_fit if rule == "published" else loose_fit
    pools = replace(coordinator.placer.pools, fit=fit)
    placer = replace(coordinator.placer, pools=pools)
    coordinator.changes = replace(coordinator.changes, placer=placer)
    addresses = [each.address for each in found.engines]
    spread = [addresses[number % len(addresses)] for number in range(instances)] if rule == "even" else []
    baseline = _baseline(found)
    samples: list[Sample] = []
    with _load(found), _sampling(found, samples):
        for count in arrivals(kind, instances):
            found.apply(found.jobs(count, spread))
            time.sleep(_BETWEEN[kind])
        time.sleep(_STEADY)
    found.running = 0
    user.delete_composition(found.services.coordinator, "burning").wait(_PATIENCE)
    series = Series(rule, kind, CORES, SHARE, baseline, tuple(samples))
    return series, figures(series)


def _baseline(found: Bench) -> tuple[float, ...]:
    """The cores of each engine without jobs, over 10 s."""
    time.sleep(5)
    before = [_processor_time(each) for each in found.engines]
    time.sleep(10)
    after = [_processor_time(each) for each in found.engines]
    return tuple((late - early) / 10 for early, late in zip(before, after, strict=True))


def measure(
    instances: int, engines: int, rules: Sequence[str], kinds: Sequence[str]
) -> Iterator[tuple[Series, dict[str, float]]]:
    """All rules over both kinds of arrivals, on the same engines."""
    with (
        tempfile.TemporaryDirectory(prefix="speck-irm-") as directory,
        bench(Path(directory), engines) as found,
    ):
        for rule in rules:
            for kind in kinds:
                yield run(found, rule, kind, instances)


def idle_gone() -> dict[str, Any]:
    """The time (s) from the end of the last job until the spare TaskManager of a local site is gone."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="speck-irm-")))
        jar = compile_jobs(directory)
        place, workers = directory / "local", {"A": (1, 2)}
        sites = stack.enter_context(local.up(place, 1, engines={"A": ["flink"]}, heap=_HEAP, workers=workers))
        store = stack.enter_context(Store(directory / "store"))
        settings = Settings(roots=(directory,), period=1, adapt=0)
        services = build(store, installed(), read_inventory(sites.inventory), settings)
        services.coordinator.start()
        stack.callback(services.coordinator.close)
        site = sites.sites[0]
        job = Job(
            job_name="burn",
            spe_address=site.engine.address,
            source_broker=site.broker.address,
            source_topic="in",
            sink_broker=site.broker.address,
            sink_topic="out",
            entry_class="streets.Burning",
            job_path=str(jar),
            engine="flink",
            code_hash=_hash_of(jar),
        )
        user.apply(services.coordinator, Composition("burning", {"burn": job}))
        _await(lambda: _present(services) == 2)
        user.delete_composition(services.coordinator, "burning").wait(_PATIENCE)
        begin = time.monotonic()
        _await(lambda: _present(services) == 1)
        return {"idle_gone_seconds": time.monotonic() - begin}


def _present(services: Services) -> int:
    (found,) = services.sites.workers("A")
    return int(found["present"])


def _await(reached: Any) -> None:
    deadline = time.monotonic() + 2 * _PATIENCE
    while not reached():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not reached within {2 * _PATIENCE:g} s")
        time.sleep(0.5)
