"""Microscopy images on a real Spark standalone cluster: its workers scaled by SpecK, or a fixed number.

Plates are loaded at the times of :data:`LOADED`.  Each has a PySpark job of its own
(:mod:`benchmarks.irm.nuclei`), which a revision of the composition adds, and which the next one leaves out
when the last image of the plate is analysed.  The microscope takes :data:`RATE` images a second as soon as
the job runs.  Every result is compared with the same analysis in this process.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import paho.mqtt.client as paho
import psutil
import yaml
from paho.mqtt.enums import CallbackAPIVersion

from benchmarks.irm.background import in_background
from benchmarks.irm.nuclei import described, generated
from speck import local
from speck.client import Client
from speck.schema.inventory import read_inventory
from testbed.faults.served import Served

LOADED = (0.0, 30.0, 35.0, 40.0, 150.0, 155.0)  # s, when each plate is there: one, three together, two
RATE = 1.5  # images/s of a plate
MOST = 4  # workers
BOUNDS = {"speck": (1, MOST), "fixed": (MOST, MOST)}

_IDLE = "15 s"  # a minute by default: longer than the pauses of this short run
_DIFFERENT = 12  # images, taken again and again: their analysis here takes as long as there
_PATIENCE = 180.0  # s


@dataclass(frozen=True, slots=True)
class Sample:
    """At ``at`` (s) of a run: the processor time (s) of each worker with its drivers and executors, by id."""

    at: float
    processor: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Course:
    """One run: the samples, and for each image the time (s) at which it was taken and analysed.

    ``odd`` are the results of the images that have none, several, or another one than here, by topic.
    """

    rule: str
    plates: int
    samples: Sequence[Sample]
    taken: Sequence[float]
    analysed: Sequence[float]
    odd: Mapping[str, Sequence[str]]

    def to_dict(self) -> dict[str, Any]:
        """The run as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Course:
        """The inverse of :meth:`to_dict`."""
        return cls(**{**data, "samples": [Sample(**each) for each in data["samples"]]})

    def figures(self) -> dict[str, float]:
        """The figures of the run, from the first plate until the last result.

        ``seconds`` until the last result; ``worker_seconds`` the sum of the times that workers were there;
        ``core_seconds`` the processor time of workers, drivers and executors; ``age_p95`` (s) of a result.
        ``repeated``: images whose result came again (stamps are not read here); ``wrong``: all others that
        have no result, or another one than here.
        """
        end = max(self.analysed)
        there = [each for each in self.samples if each.at <= end]
        steps = list(pairwise(there))
        ages = [late - early for early, late in zip(self.taken, self.analysed, strict=True)]
        repeated = sum(len(each) > 1 and len(set(each)) == 1 for each in self.odd.values())
        return {
            "images": len(self.taken),
            "wrong": len(self.odd) - repeated,
            "repeated": repeated,
            "seconds": end,
            "worker_seconds": sum((late.at - early.at) * len(early.processor) for early, late in steps),
            "core_seconds": sum(_used(early, late) for early, late in steps),
            "workers_most": max(len(each.processor) for each in there),
            "age_p95": quantiles(ages, n=20)[-1],
        }

    def shares(self, worker: str, width: float = 5.0) -> list[tuple[float, float]]:
        """The processor time of a worker a second, by time (s): means over ``width`` s."""
        found = [each for each in self.samples if worker in each.processor]
        shares = []
        for late in found:
            early = next((each for each in found if late.at - width <= each.at < late.at), None)
            if early is not None:
                used = late.processor[worker] - early.processor[worker]
                shares.append((late.at, max(0.0, used) / (late.at - early.at)))
        return shares


def _used(early: Sample, late: Sample) -> float:
    """The processor time (s) of those workers that are there at both times."""
    both = early.processor.keys() & late.processor.keys()
    return sum(max(0.0, late.processor[each] - early.processor[each]) for each in both)


def medians(runs: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
    """The median of each figure."""
    return {name: median(each[name] for each in runs) for name in (runs[0] if runs else ())}


@dataclass
class Plates:
    """The plates of a run, the microscope that takes their images, and the results."""

    port: int
    images: Sequence[bytes]
    per_plate: int
    taken: dict[str, float] = field(default_factory=dict)
    analysed: dict[str, float] = field(default_factory=dict)
    results: Counter[tuple[str, str]] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._client = paho.Client(CallbackAPIVersion.VERSION2, "microscope", protocol=paho.MQTTv5)
        self._client.on_message = self._on_result
        self._client.connect("127.0.0.1", self.port)
        self._client.subscribe("counts/#", 1)
        self._client.loop_start()

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()

    def take(self, plate: int) -> None:
        """Take all images of a plate, at its rate."""
        due = time.monotonic()
        for number in range(self.per_plate):
            time.sleep(max(0.0, due - time.monotonic()))
            due += 1 / RATE
            topic = f"plates/{plate}/{number}"
            self.taken[topic] = time.monotonic()
            self._client.publish(topic, self.images[number % len(self.images)], 1)

    def await_results(self, plate: int) -> None:
        deadline = time.monotonic() + _PATIENCE
        while sum(topic.startswith(f"plates/{plate}/") for topic in [*self.analysed]) < self.per_plate:
            if time.monotonic() > deadline:
                raise TimeoutError(f"plate {plate}: {len(self.analysed)} results in all")
            time.sleep(0.2)

    def odd(self) -> dict[str, list[str]]:
        """The results of those images that do not have exactly the one that the analysis gives here."""
        expected = [described(each) for each in self.images]
        found: dict[str, list[str]] = {topic: [] for topic in self.taken}
        for topic, result in self.results.elements():
            found.setdefault(topic, []).append(result)
        return {
            topic: results
            for topic, results in found.items()
            if results != [expected[int(topic.rpartition("/")[2]) % len(expected)]]
        }

    def _on_result(self, client: paho.Client, data: Any, message: paho.MQTTMessage) -> None:
        topic, _, result = message.payload.decode().partition(" ")
        self.results[topic, result] += 1
        self.analysed.setdefault(topic, time.monotonic())


def run(rule: str, per_plate: int, plates: int) -> Course:
    """Run the plates, each with ``per_plate`` images, on a cluster of their own."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="speck-plates-")))
        kinds, bounds = {"A": ["spark-standalone"]}, {"A": BOUNDS[rule]}
        sites = stack.enter_context(local.up(directory / "local", 1, engines=kinds, workers=bounds))
        (site,) = read_inventory(sites.inventory).sites.values()
        inventory = _impatient(sites.inventory)
        root, log = Path(__file__).parent, directory / "serve.log"
        server = stack.enter_context(Served(directory / "store", inventory, root, log))
        client = server.client()
        if client is None:
            raise RuntimeError(f"the server did not start: {log.read_text(encoding='utf-8')[-2000:]}")
        _await_workers(client, BOUNDS[rule][0])
        images = [generated(seed, nuclei=40 + 10 * (seed % 7)) for seed in range(_DIFFERENT)]
        port = int(site.broker_address.rpartition(":")[2])
        stage = Plates(port, images, per_plate)
        stack.callback(stage.close)
        begin, samples = time.monotonic(), list[Sample]()
        with _sampling(directory / "local", begin, samples):
            _analyse(client, stage, begin, LOADED[:plates])
        topics = sorted(stage.taken)
        return Course(
            rule,
            plates,
            samples,
            [stage.taken[each] - begin for each in topics],
            [stage.analysed[each] - begin for each in topics],
            stage.odd(),
        )


def _impatient(inventory: Path) -> Path:
    """The inventory with workers that go sooner than by default."""
    document = yaml.safe_load(inventory.read_text(encoding="utf-8"))
    for site in document["sites"].values():
        for engine in site.get("engines", [site]):
            engine["scale"]["idle"] = _IDLE
    changed = inventory.with_name("impatient.yaml")
    changed.write_text(yaml.safe_dump(document), encoding="utf-8")
    return changed


def _await_workers(client: Client, number: int) -> None:
    deadline = time.monotonic() + _PATIENCE
    while client.workers()[0]["present"] < number:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{number} workers were not there within {_PATIENCE:g} s")
        time.sleep(0.5)


def _analyse(client: Client, stage: Plates, begin: float, loaded: Sequence[float]) -> None:
    """Load each plate at its time, and unload it when its last image is analysed."""
    present: set[int] = set()
    lock = threading.Lock()  # of the composition: a revision is made of all plates that are there
    failures: list[BaseException] = []

    def change(plate: int, *, there: bool) -> None:
        with lock:
            (present.add if there else present.discard)(plate)
            client.apply(_composition(sorted(present)), "plates", wait=_PATIENCE)

    def follow(plate: int, at: float) -> None:
        try:
            time.sleep(max(0.0, begin + at - time.monotonic()))
            change(plate, there=True)
            stage.take(plate)
            stage.await_results(plate)
            change(plate, there=False)
        except BaseException as error:  # raised again where the plates are awaited
            failures.append(error)

    threads = [threading.Thread(target=follow, args=each, daemon=True) for each in enumerate(loaded)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    if failures:
        raise failures[0]


def _composition(plates: Sequence[int]) -> bytes:
    jobs = [
        {
            "job_name": f"nuclei-{plate}",
            "site": "A",
            "engine": "spark",
            "source_topic": f"plates/{plate}/+",
            "sink_topic": f"counts/{plate}",
            "entry_class": "nuclei",
            "job_path": "nuclei.py",
        }
        for plate in plates
    ]
    return yaml.safe_dump({"jobs": jobs}).encode()


@contextmanager
def _sampling(directory: Path, begin: float, samples: list[Sample]) -> Iterator[None]:
    def sample(ended: threading.Event) -> None:
        while not ended.wait(1.0):
            workers = local.status(directory).workers
            used = {each.log.stem: _processor_time(each.pid) for each in workers if each.pid is not None}
            samples.append(Sample(time.monotonic() - begin, used))

    with in_background(sample):
        yield


def _processor_time(pid: int) -> float:
    """The processor time (s) of a process, of all below it, and of those below it that ended."""
    try:
        worker = psutil.Process(pid)
        tree = [worker, *worker.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0.0
    total = 0.0
    for each in tree:
        try:
            times = each.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total
