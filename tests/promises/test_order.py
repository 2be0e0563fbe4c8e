"""The order of steps, with real engines that fail at the wrong moment: nothing is lost, nothing doubled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from speck.apply.operation import Operation
from speck.binder import installed
from speck.coordinator import Coordinator, build
from speck.core.inventory import Engine, Inventory, Site
from speck.core.settings import Settings
from speck.schema.compositions import load_composition
from speck.store import Store
from testbed import ROOT
from testbed.benches import user
from testbed.benches.job_text import FLINK_CODE, SPARK_CODE, job
from testbed.faults.flow import Listener, Sender, client
from testbed.faults.rig import Counts, CuttableRelay, Load
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.spark import SparkServer
from testbed.waiting import PATIENCE, await_that
from tests.support.requirements import NEEDS_RIG
from tests.support.trials import trial

MESSAGES = 1000
COUNT = (FLINK_CODE, "io.speck.flink.jobs.CountByKey")
FORWARD = (FLINK_CODE, "io.speck.flink.jobs.Forward")

pytestmark = [pytest.mark.engine, NEEDS_RIG]


class Way(CuttableRelay):
    """The way to a cluster's REST interface."""

    def lose_answers(self, marker: bytes) -> None:
        """Lose the answer to the request that contains these bytes, and be shut then."""
        self._marker = marker

    def open_again(self) -> None:
        self._marker = b""
        self._seen.clear()
        self.lost.clear()


@contextmanager
def begun(directory: Path, inventory: Inventory) -> Iterator[Coordinator]:
    """A coordinator with a store of its own, whose loop runs only when a test says so."""
    with Store(directory / "store") as store:
        settings = Settings(roots=(ROOT,), period=0, drain=PATIENCE)
        coordinator = build(store, installed(), inventory, settings).coordinator
        coordinator.start()
        try:
            yield coordinator
        finally:
            coordinator.close()


def apply(coordinator: Coordinator, text: str, *leave_behind: str) -> Operation:
    """Apply a composition named ``one``; answers the operation, which has ended."""
    loaded = load_composition(
        text, inventory=coordinator.inventory, registry=installed(), root=ROOT, default_name="one"
    )
    operation, _ = user.apply(coordinator, loaded.composition, leave_behind=leave_behind)
    assert operation.wait(PATIENCE)
    return operation


class Sites:
    """Two clusters with their states in one place; the first is reached by a way that can be shut.

    The second, ``far``, is started by the tests that need it.
    """

    def __init__(self, directory: Path, broker: MosquittoServer, stack: ExitStack) -> None:
        self.broker = broker
        self.near, self.far = (
            FlinkServer(directory / name, heap="200m", slots=2, small=True) for name in ("near", "far")
        )
        self._stack = stack
        stack.enter_context(self.near)
        self.way = stack.enter_context(Way(self.near.ports[0]))
        self.address = f"http://127.0.0.1:{self.way.port}/"
        self.coordinator = stack.enter_context(begun(directory, self._inventory()))
        self.counts = Counts(broker)
        stack.callback(self.counts.close)

    def start_far(self) -> None:
        """Start the second cluster."""
        self._stack.enter_context(self.far)

    def _inventory(self) -> Inventory:
        place = {
            "checkpoint_dir": self.near.cluster.checkpoints.as_uri(),
            "savepoint_dir": self.near.cluster.savepoints.as_uri(),
        }
        engines = (Engine(spe_address=each, **place) for each in (self.address, self.far.address))
        return Inventory({"A": Site(name="A", engines=tuple(engines), broker_address=self.broker.address)})

    def apply(
        self,
        engine: str,
        source: str = "in/1",
        *leave_behind: str,
        fields: str = "upgrade: stateful",
        sink: str = "out/1",
    ) -> Operation:
        broker = self.broker.address
        code = COUNT if sink == "out/1" else FORWARD
        text = "jobs:\n" + job("count", engine, (broker, source), (broker, sink), code)
        text = text.replace("}", f", {fields}}}")
        return apply(self.coordinator, text, *leave_behind)

    def load(self, prefix: str, messages: int, topic: str = "in/1") -> Load:
        return Load(self.broker, prefix, messages, 500.0, [topic])

    def heal(self) -> None:
        """A round of the loop, in which the job is due."""
        self.coordinator.backoff.forget(["count"])
        self.coordinator.reconciler.round()
        await_that(lambda: self.coordinator.operations.is_idle("one"), bool)


@pytest.fixture
def sites(mosquitto: MosquittoServer, tmp_path: Path) -> Iterator[Sites]:
    with ExitStack() as stack:
        yield Sites(tmp_path, mosquitto, stack)


@trial("a copy on a site that was left, of tests/promises/test_faults.py")
def test_a_copy_that_goes_on_behind_a_port_that_refuses_is_left_behind(sites: Sites) -> None:
    sites.start_far()
    assert sites.apply(sites.address).state == "succeeded"
    load = sites.load("left", MESSAGES)
    try:
        await_that(lambda: len(sites.counts), lambda count: count > 100)
        await_that(lambda: list(sites.near.cluster.checkpoints.glob("*/chk-*/_metadata")), bool)
        sites.way.shut()
        operation = sites.apply(sites.far.address, "in/1", sites.address)
        assert operation.state == "succeeded", operation.to_dict()
        load.finish()
        await_that(lambda: sites.counts.account(load.texts).lost, lambda lost: lost == 0)
        sites.way.open()
        sites.coordinator.reconciler.reaper.reap()
        assert sites.coordinator.store.abandoned_attempts() == []
    finally:
        load.close()
    again = Load(sites.broker, "left", MESSAGES, 1000.0, ["in/1"])  # each text for the second time
    again.finish()
    await_that(lambda: sites.counts.account(again.texts).doubled, lambda seconds: seconds >= MESSAGES)
    again.close()
    assert sites.counts.account(again.texts).doubled == MESSAGES


@trial("the same of an engine in memory in tests/apply/test_rewiring.py, and lost answers in test_kills.py")
def test_a_job_whose_start_was_not_answered_is_rewired(sites: Sites) -> None:
    sites.way.lose_answers(b"/run HTTP/1.1")
    assert sites.apply(sites.address).state == "waiting"
    load = sites.load("backlog", MESSAGES)
    load.finish()
    load.close()
    await_that(lambda: len(sites.counts), lambda count: count == MESSAGES)  # it runs, and nobody knows
    await_that(lambda: list(sites.near.cluster.checkpoints.glob("*/chk-*/_metadata")), bool)
    sites.near.kill()
    waiting = sites.load("waiting", MESSAGES)
    waiting.finish()
    waiting.close()
    sites.near.start()
    sites.way.open_again()
    operation = sites.apply(sites.address, "in/2")
    for _ in range(3):
        if operation.state == "succeeded":
            break
        sites.heal()
        operation = sites.apply(sites.address, "in/2")
    assert operation.state == "succeeded", operation.to_dict()
    await_that(lambda: len(sites.counts), lambda count: count == 2 * MESSAGES)
    texts = [*load.texts, *waiting.texts]
    account = sites.counts.account(texts)
    assert (account.lost, account.doubled) == (0, 0)
    last = sites.load("last", 10, "in/2")
    last.finish()
    last.close()
    await_that(lambda: sites.counts.account(last.texts).lost, lambda lost: lost == 0)


@trial("the same of a query on Spark")
def test_a_stateless_job_is_updated_without_a_batch_for_the_second_time(sites: Sites) -> None:
    sites.start_far()
    with client(sites.broker.address) as connection:
        results = Listener(connection, "passed/1")
        fields = "upgrade: stateless"
        assert sites.apply(sites.far.address, fields=fields, sink="passed/1").state == "succeeded"
        sender = Sender(sites.broker.address, "in/1", 200.0, "stateless-{}".format).start()
        try:
            for tasks in (1, 2, 1):
                seen = len(results.received)
                await_that(lambda: len(results.received), lambda now: now > seen + 200)  # noqa: B023
                fields = f"upgrade: stateless, parallelism: {tasks}"
                assert sites.apply(sites.far.address, fields=fields, sink="passed/1").state == "succeeded"
        finally:
            sent = Counter(sender.stop())
        await_that(lambda: len(results.received), lambda total: total >= sent.total())
        assert results.texts() == sent


def test_a_stateless_query_is_updated_without_a_batch_for_the_second_time(
    spark_server: SparkServer, mosquitto: MosquittoServer, tmp_path: Path
) -> None:
    broker, text = mosquitto.address, "jobs:\n"
    text += job("upper", spark_server.address, (broker, "in/1"), (broker, "up/1"), (SPARK_CODE, "upper"))
    engine = Engine(spe_address=spark_server.address, checkpoint_dir=str(tmp_path / "checkpoints"))
    inventory = Inventory({"A": Site(name="A", engines=(engine,), broker_address=broker)})
    with begun(tmp_path, inventory) as coordinator, client(broker) as connection:
        results = Listener(connection, "up/1")
        sender = Sender(broker, "in/1", 100.0, "q{}".format)
        sent = Counter[str]()
        for number, suffix in enumerate(("", "!", "?")):
            # A batch is due every 4 s: in between, the last one waits for its acknowledgement.
            fields = f"upgrade: stateless, trigger: 4 seconds, arguments: {{suffix: '{suffix}'}}"
            assert apply(coordinator, text.replace("}", f", {fields}}}")).state == "succeeded"
            if number == 0:
                sender.start()
            seen = len(results.received)
            await_that(lambda: len(results.received), lambda now: now > seen)  # noqa: B023
        sent = Counter(text.upper() for text in sender.stop())
        await_that(lambda: len(results.received), lambda total: total >= sent.total())
        assert Counter(each.rstrip("!?") for each in results.texts().elements()) == sent
