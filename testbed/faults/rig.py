"""Two chains of two jobs over two engines and two brokers, under load, to be hurt.

::

    in/1 -> forward (Spark) -> mid/1 -> count (Flink)  -> out/1
    in/2 -> forward (Flink) -> mid/2 -> count (Spark)  -> out/2

Every message is another text, and the second job of each chain counts texts: one that was lost has no count,
one that was doubled between the jobs has a count above 1.  The outer topics are at the broker ``edge``, which
no fault touches; the inner ones at ``middle``, behind a ``link`` that can be cut, a Kafka instead of MQTT if
that is asked for.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from werkzeug.serving import make_server

from speck.apply.operation import Operation
from speck.binder import installed
from speck.coordinator import Services, build
from speck.core.inventory import Engine, Inventory, Site
from speck.core.settings import Settings
from speck.schema.compositions import load_composition
from speck.server.api import create_app
from speck.store import Store
from speck.testing.wire_trouble import Relay
from testbed import ROOT
from testbed.benches import user
from testbed.benches.job_text import FLINK_CODE, SPARK_CODE, job
from testbed.benches.mqtt_client import subscribe
from testbed.faults.middle import MIDDLES, Middle
from testbed.servers.base import free_port
from testbed.servers.flink import QUICK_HEARTBEATS, FlinkServer
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.spark import SparkServer
from testbed.servers.standalone import LooseCluster
from testbed.waiting import PATIENCE, await_that

# s without an arrival, after which a job may be over: Flink gives one up that fails four times in a minute,
# Spark one whose broker answers late, and the reconciler, which starts such jobs again, is off.
_GIVEN_UP = 45.0
# The tasks of a JobManager that was killed run on for the time-out, which is 50 s by default.
_HEARTBEATS = {**QUICK_HEARTBEATS, "heartbeat.timeout": "20 s"}

_T = TypeVar("_T")


@dataclass(frozen=True)
class Account:
    """The outcome of ``messages`` that were sent: counts of lost ones and of those counted more than once.

    ``mixed`` are inputs whose outputs are of two versions of a job, or not all of one.
    """

    messages: int
    lost: int
    doubled: int
    mixed: int = 0


class CuttableRelay(Relay):
    """A way to a broker; while it is cut, nothing comes through, without an error."""

    def __init__(self, server_port: int, scheme: str = "tcp") -> None:
        super().__init__(server_port)
        self._scheme = scheme
        self._whole = threading.Event()
        self._whole.set()
        self._is_shut = False

    @property
    def address(self) -> str:
        """The broker's address by this way."""
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def cut(self, seconds: float) -> None:
        """Let nothing through for this time; open connections are lost then."""
        self._whole.clear()
        time.sleep(seconds)
        self.close_connections()
        self._whole.set()

    def shut(self) -> None:
        """Close all connections, and each new one at once, as a port that refuses them."""
        self._is_shut = True
        self.close_connections()

    def open(self) -> None:
        """Accept connections again; those from before end."""
        self._is_shut = False
        self.close_connections()

    @contextmanager
    def refused(self) -> Iterator[None]:
        """While the block runs, all connections are closed at once."""
        self.shut()
        try:
            yield
        finally:
            self.open()

    def serve(self, connection: object) -> None:
        self._whole.wait()
        if self._is_shut:
            self.close_connections()
            return
        super().serve(connection)  # type: ignore[arg-type]

    def _pieces(self, source: object) -> Iterator[bytes]:
        for piece in super()._pieces(source):  # type: ignore[arg-type]
            self._whole.wait()
            yield piece


class Counts:
    """The highest count that the counting jobs report, by text."""

    def __init__(self, broker: MosquittoServer) -> None:
        self._counts: dict[str, int] = {}
        self._client = paho_client(broker)
        subscribe(self._client, "out/#", self._take)

    def _take(self, client: paho.Client, data: object, message: paho.MQTTMessage) -> None:
        text, _, count = message.payload.decode().replace(",", " ").lower().rpartition(" ")
        self._counts[text] = max(self._counts.get(text, 0), int(count))

    def __len__(self) -> int:
        return len(self._counts)

    def of(self, sent: Sequence[str]) -> list[int]:
        """The count of each of these texts; 0: none came."""
        return [self._counts.get(text, 0) for text in sent]

    def account(self, sent: list[str]) -> Account:
        """Compare with what was sent."""
        counts = dict(self._counts)
        lost = sum(text not in counts for text in sent)
        return Account(len(sent), lost, sum(counts.get(text, 1) - 1 for text in sent))

    def close(self) -> None:
        """Stop listening."""
        self._client.disconnect()
        self._client.loop_stop()


def paho_client(broker: MosquittoServer) -> paho.Client:
    """A client that is connected and runs."""
    client = paho.Client(CallbackAPIVersion.VERSION2, f"rig-{uuid.uuid4().hex}", protocol=paho.MQTTv5)
    client.connect("127.0.0.1", broker.port)
    client.loop_start()
    return client


class Load:
    """Sends texts of its own to some topics, in turn, in the background."""

    def __init__(
        self, broker: MosquittoServer, prefix: str, messages: int, rate: float, topics: Sequence[str]
    ) -> None:
        self.texts = [f"{prefix}-{number}" for number in range(messages)]
        self.sent = 0
        self._rate, self._topics = rate, topics
        self._client = paho_client(broker)
        self.paused = threading.Lock()  # nothing is sent while another holds it
        self._going = True
        self._thread = threading.Thread(target=self._send, name="load")
        self._thread.start()

    def _send(self) -> None:
        begun, taken = time.monotonic(), []
        for number, text in enumerate(self.texts):
            ready = time.monotonic()
            with self.paused:
                begun += time.monotonic() - ready
                if not self._going:
                    return
                taken.append(self._client.publish(self._topics[number % len(self._topics)], text, 1))
                self.sent = number + 1
            ahead = begun + number / self._rate - time.monotonic()
            if ahead > 0:
                time.sleep(ahead)
        for each in taken:
            each.wait_for_publish(60)

    def await_sent(self, share: float) -> None:
        """Wait until such a share of the texts is sent."""
        await_that(lambda: self.sent, lambda sent: sent >= share * len(self.texts))

    @contextmanager
    def held_at(self, share: float) -> Iterator[None]:
        """Wait until this share of the texts is sent, and pause sending within the block.

        To await arrivals there: on a slow machine all would be sent before the first one arrives.
        """
        self.await_sent(share)
        with self.paused:
            yield

    def await_more(self, messages: int) -> None:
        """Wait until this number of further messages is sent, or all."""
        enough = min(self.sent + messages, len(self.texts))
        await_that(lambda: self.sent, lambda sent: sent >= enough)

    def finish(self) -> None:
        """Wait until all are sent."""
        self._thread.join(PATIENCE)

    def close(self) -> None:
        """Stop sending."""
        self._going = False
        self.finish()
        self._client.disconnect()
        self._client.loop_stop()


@contextmanager
def _served(services: Services, port: int) -> Iterator[None]:
    """The coordinator's REST interface, from which a standalone cluster fetches the files of jobs."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # not a line for each request
    server = make_server("127.0.0.1", port, create_app(services, None), threaded=True)
    thread = threading.Thread(target=server.serve_forever, name="rest")
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Rig:
    """The engines, brokers and jobs; a context manager.

    ``settings`` are lines of the configuration of a Mosquitto in the middle, ``middle`` the kind of broker.
    """

    period = 0  # s between two rounds of the reconciler; 0: an apply alone starts jobs again

    def __init__(self, directory: Path, settings: str = "autosave_interval 5", middle: str = "mqtt") -> None:
        self.directory = directory
        self.edge = MosquittoServer(directory / "edge")
        self.middle: Middle = MIDDLES[middle](directory / "middle", settings)
        self.link = CuttableRelay(self.middle.port, self.middle.scheme)
        self.middle.reached_at(self.link.port)
        self.spark = SparkServer(directory / "spark")
        self.flink = FlinkServer(directory / "flink", conf=_HEARTBEATS)
        self.standalone = LooseCluster(directory / "standalone")  # started by the trial that needs it
        self._stack = ExitStack()
        self._applied: dict[str, str] = {}
        self._loads = 0

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for server in (self.edge, self.middle, self.link, self.spark, self.flink):
                stack.enter_context(server)
            store = stack.enter_context(Store(self.directory / "store"))
            port = free_port()
            url = f"http://127.0.0.1:{port}"
            settings = Settings(roots=(ROOT,), period=self.period, advertise=url)
            services = build(store, installed(), self._inventory(), settings)
            self.coordinator, self.losses = services.coordinator, services.queries.losses
            stack.callback(self.coordinator.close)
            self.coordinator.start()
            stack.enter_context(_served(services, port))
            self.counts = Counts(self.edge)
            stack.callback(self.counts.close)
            self.apply()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _inventory(self) -> Inventory:
        checkpoints = str(self.directory / "checkpoints")
        spark = Engine(spe_address=self.spark.address, checkpoint_dir=checkpoints)
        flink = Engine(
            spe_address=self.flink.address,
            checkpoint_dir=self.flink.cluster.checkpoints.as_uri(),
            savepoint_dir=self.flink.cluster.savepoints.as_uri(),
        )
        standalone = Engine(spe_address=self.standalone.address, **self.standalone.engine)
        engines = (spark, flink, standalone)
        return Inventory({"A": Site(name="A", engines=engines, broker_address=self.edge.address)})

    def composition(self) -> str:
        """The two chains."""
        spark, flink = self.spark.address, self.flink.address
        edge, middle = self.edge.address, self.link.address
        first, second = self.middle.topic(1), self.middle.topic(2)
        flink_jobs = "io.speck.flink.jobs"
        return "jobs:\n" + "".join(
            [
                job("forward-1", spark, (edge, "in/1"), (middle, first), (SPARK_CODE, "upper")),
                job(
                    "count-1",
                    flink,
                    (middle, first),
                    (edge, "out/1"),
                    (FLINK_CODE, f"{flink_jobs}.CountByKey"),
                ),
                job(
                    "forward-2",
                    flink,
                    (edge, "in/2"),
                    (middle, second),
                    (FLINK_CODE, f"{flink_jobs}.Forward"),
                ),
                job("count-2", spark, (middle, second), (edge, "out/2"), (SPARK_CODE, "count")),
            ]
        )

    def apply(
        self, text: str = "", name: str = "chains", leave_behind: Sequence[str] = (), *, give_up: bool = False
    ) -> Operation:
        """Apply a composition (the two chains); raises :class:`RuntimeError` when that fails."""
        self._applied[name] = text = text or self.composition()
        loaded = load_composition(
            text,
            inventory=self.coordinator.inventory,
            registry=installed(),
            root=ROOT,
            default_name=name,
        )
        operation, _ = user.apply(
            self.coordinator, loaded.composition, leave_behind=leave_behind, give_up=give_up
        )
        if not operation.wait(PATIENCE) or operation.state != "succeeded":
            raise RuntimeError(f"the apply failed: {operation.to_dict()}")
        return operation

    def apply_again(self) -> None:
        """Apply all compositions as they were applied last; raises as :meth:`apply`."""
        for name, text in list(self._applied.items()):
            self.apply(text, name)

    def delete(self, composition: str) -> None:
        """Delete a composition; raises :class:`RuntimeError` when that fails."""
        self._applied.pop(composition, None)
        operation = user.delete_composition(self.coordinator, composition)
        if not operation.wait(PATIENCE) or operation.state != "succeeded":
            raise RuntimeError(f"the deletion failed: {operation.to_dict()}")

    @contextmanager
    def load(self, messages: int, rate: float, topics: Sequence[str] = ("in/1", "in/2")) -> Iterator[Load]:
        """Send this number of messages, ``rate`` a second."""
        self._loads += 1
        self.sending = load = Load(self.edge, f"t{self._loads}", messages, rate, topics)
        try:
            yield load
        finally:
            load.close()

    def trial(
        self,
        fault: Callable[[Rig], object],
        messages: int,
        rate: float = 500.0,
        patience: float = PATIENCE,
        settled: Callable[[], bool] = lambda: True,
    ) -> Account:
        """Send messages, do harm in the midst of them, and count what arrives.

        Waits as :meth:`await_arrivals`.
        """
        before = len(self.counts)
        with self.load(messages, rate) as load:
            with load.held_at(0.4):
                self.await_that(lambda: len(self.counts), lambda count: count > before)
            fault(self)
            load.finish()
            self.await_arrivals(load, patience, settled)
            return self.counts.account(load.texts)

    def await_that(self, ask: Callable[[], _T], accept: Callable[[_T], bool]) -> _T:
        """Wait for what the jobs do, as :func:`await_that`; once, what is applied is applied again."""
        with suppress(TimeoutError):
            return await_that(ask, accept, _GIVEN_UP)
        self.apply_again()
        return await_that(ask, accept)

    def await_arrivals(
        self, load: Load, patience: float = PATIENCE, settled: Callable[[], bool] = lambda: True
    ) -> None:
        """Wait until all that was sent has arrived, or nothing has for this time (s).

        While a rig is not ``settled``, as some messages are still to be read, that is :data:`PATIENCE`.
        After some silence, what is applied is applied again, once, and its copies get the same time.
        """
        missing, since, again = len(load.texts), time.monotonic(), False
        while missing and (
            (silent := time.monotonic() - since) < patience or (silent < PATIENCE and not settled())
        ):
            if silent > _GIVEN_UP and not again:
                again = True
                self.apply_again()
                since = time.monotonic()
            time.sleep(0.2)
            now = self.counts.account(load.texts).lost
            if now != missing:
                missing, since = now, time.monotonic()
        time.sleep(1)  # what comes once too often comes at once
