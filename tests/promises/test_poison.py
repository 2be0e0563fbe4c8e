"""Messages on which a job's code fails are parked while the engine is killed under it.

::

    in -> first (on_error: park) -> mid -> count -> out
            |
            +-> parked

Every message is another text, so that a sound one that was lost has no count, and one that was doubled
between the jobs a count above 1.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import paho.mqtt.client as paho
import pytest

from speck.binder import installed
from speck.controller.backoff import Backoff
from speck.coordinator import Coordinator, build
from speck.core.inventory import Engine, Inventory, Site
from speck.core.job import Composition
from speck.core.settings import Settings
from speck.schema.compositions import load_composition
from speck.store import Store
from testbed import ROOT
from testbed.benches import user
from testbed.benches.job_text import FLINK_CODE, SPARK_CODE, job
from testbed.faults.flow import Listener, client
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.spark import SparkServer
from testbed.waiting import PATIENCE, await_that
from tests.support.requirements import NEEDS_RIG
from tests.support.trials import trial

pytestmark = [pytest.mark.engine, NEEDS_RIG]

KILLS = 2

Server = SparkServer | FlinkServer


@dataclass(frozen=True)
class Kind:
    """A kind of engine, the code of its two jobs, and the beginning of a message that the first fails on."""

    server: Callable[[Path], Server]
    code: str
    entries: tuple[str, str]
    poison: bytes
    messages: int
    every: int  # one of so many is poisonous
    arguments: str = "{}"
    trigger: str = ""  # of the first job

    def contents(self, number: int) -> bytes:
        """A message."""
        return (self.poison if self.is_poisonous(number) else b"") + b"m%d" % number

    def is_poisonous(self, number: int) -> bool:
        """True if the message of this number is one that the first job fails on."""
        return number % self.every == self.every // 2


FLINK = Kind(
    partial(FlinkServer, heap="256m", slots=4),
    FLINK_CODE,
    ("io.speck.flink.jobs.Forward", "io.speck.flink.jobs.CountByKey"),
    b"\xff",  # no text
    400,
    20,
    "{site: A}",
)
SPARK = Kind(SparkServer, SPARK_CODE, ("numbered", "count"), b"poison-", 200, 50)
REAL_TIME = replace(SPARK, trigger=", trigger: real-time")


class Results(Listener):
    """The highest count of each text."""

    def last_counts(self) -> Counter[str]:
        highest: Counter[str] = Counter()
        for _, text in list(self.received):
            word, _, number = text.replace(" ", ",").replace(",A", "").rpartition(",")
            highest[word] = max(highest[word], int(number))
        return highest


class Parked(Listener):
    """The contents that were parked, whatever their bytes are."""

    def _keep(self, connection: paho.Client, data: object, message: paho.MQTTMessage) -> None:
        self.received.append((time.monotonic(), message.payload.decode("latin-1")))

    def counts(self) -> Counter[bytes]:
        """The number of times that each content was parked."""
        return Counter(text.encode("latin-1") for _, text in list(self.received))


class Line:
    """The two jobs at an engine that can be killed; a context manager."""

    def __init__(self, kind: Kind, directory: Path, broker: str) -> None:
        self.kind, self.directory, self.broker = kind, directory, broker
        self._stack = ExitStack()

    def __enter__(self) -> Line:
        with ExitStack() as stack:
            self.engine = stack.enter_context(self.kind.server(self.directory / "engine"))
            self.results = Results(stack.enter_context(client(self.broker)), "out")
            self.parked = Parked(stack.enter_context(client(self.broker)), "parked")
            store = stack.enter_context(Store(self.directory / "store"))
            site = Site(name="A", engines=(self._known(),), broker_address=self.broker)
            settings = Settings(roots=(ROOT,), period=1, adapt=0)
            self.coordinator: Coordinator = build(
                store,
                installed(),
                Inventory({"A": site}),
                settings,
                backoff=Backoff(lambda tries: 2.0),  # on Spark a failure ends the job several times
            ).coordinator
            stack.callback(self.coordinator.close)
            self.coordinator.start()
            operation, _ = user.apply(self.coordinator, self._composition())
            assert operation.wait(PATIENCE)
            assert operation.state == "succeeded", operation.to_dict()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        user.delete_composition(self.coordinator, "line").wait(PATIENCE)
        self._stack.close()

    def _known(self) -> Engine:
        known = Engine(spe_address=self.engine.address, checkpoint_dir=str(self.directory / "checkpoints"))
        if isinstance(self.engine, SparkServer):
            return known
        places = self.engine.cluster
        return replace(
            known, checkpoint_dir=places.checkpoints.as_uri(), savepoint_dir=places.savepoints.as_uri()
        )

    def _composition(self) -> Composition:
        codes = [(self.kind.code, entry) for entry in self.kind.entries]
        first = job("first", self.engine.address, (self.broker, "in"), (self.broker, "mid"), codes[0])
        options = f", on_error: park, park_topic: parked, arguments: {self.kind.arguments}"
        options += f"{self.kind.trigger}}}\n"
        second = job("count", self.engine.address, (self.broker, "mid"), (self.broker, "out"), codes[1])
        return load_composition(
            f"jobs:\n{first.rstrip().removesuffix('}')}{options}{second}",
            inventory=self.coordinator.inventory,
            registry=installed(),
            root=ROOT,
            default_name="line",
        ).composition

    def send(self, sent: list[int], rate: float) -> None:
        """Send all messages, ``rate`` a second; the numbers of those that were sent come into ``sent``."""
        with client(self.broker) as connection:
            taken = []
            for number in range(self.kind.messages):
                taken.append(connection.publish("in", self.kind.contents(number), 1))
                sent.append(number)
                time.sleep(1 / rate)
            for each in taken:
                each.wait_for_publish(PATIENCE)


@pytest.fixture(name="line")
def line_fixture(
    request: pytest.FixtureRequest, tmp_path: Path, mosquitto: MosquittoServer
) -> Iterator[Line]:
    with Line(request.param, tmp_path, mosquitto.address) as line:
        yield line


@pytest.mark.timeout(900)
@trial("test_contents_that_are_no_text of tests/binders/flink/test_contents.py")
@pytest.mark.parametrize(
    "line",
    [
        pytest.param(FLINK, id="flink"),
        pytest.param(SPARK, id="spark-connect"),
        pytest.param(REAL_TIME, id="real-time"),
    ],
    indirect=True,
)
def test_sound_messages_come_once_and_others_are_parked_while_the_engine_is_killed(line: Line) -> None:
    numbers, sent = range(line.kind.messages), list[int]()
    sound = {line.kind.contents(each).decode() for each in numbers if not line.kind.is_poisonous(each)}
    poisonous = {line.kind.contents(each) for each in numbers if line.kind.is_poisonous(each)}
    sending = threading.Thread(target=line.send, args=(sent, 40.0))
    sending.start()
    try:
        for kill in range(1, KILLS + 1):
            # Just after a poisonous one: it is read, or its failure is being noted.
            every = line.kind.every
            due = kill * len(numbers) // (KILLS + 1) // every * every + every // 2
            await_that(lambda: len(sent), lambda count, due=due: count > due)  # type: ignore[misc]
            time.sleep(0.3)
            line.engine.kill()
            line.engine.start()
    finally:
        sending.join()
    await_that(lambda: len(sound - line.results.last_counts().keys()), lambda lost: not lost, PATIENCE)
    await_that(lambda: len(poisonous - line.parked.counts().keys()), lambda lost: not lost, PATIENCE)
    counts, parked = line.results.last_counts(), line.parked.counts()
    print({"sound": len(counts), "poisonous": len(parked), "parked again": parked.total() - len(parked)})
    assert {text: count for text, count in counts.items() if count != 1} == {}
    assert counts.keys() == sound
    assert parked.keys() == poisonous
