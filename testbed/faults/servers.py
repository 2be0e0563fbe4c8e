"""A site, its neighbours, and a real ``speck serve`` whose loop heals, to be hurt.

A Spark Connect server and the broker ``edge`` stand for the neighbours; the site is a Flink cluster, whose
REST interface is behind a relay, and a Mosquitto with the configuration that SpecK recommends.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import paho.mqtt.client as paho
import yaml

from binders.flink.local.cluster import CONNECTOR, flink_home
from binders.mqtt.local import site_configuration
from speck.client import RequestRefused
from testbed import ROOT
from testbed.benches.job_text import FLINK_CODE
from testbed.benches.mqtt_client import subscribe
from testbed.faults.flow import Sender
from testbed.faults.mixed import BRANCHES, A, Counts, Ends, ExpandForm, Mixed, account
from testbed.faults.rig import Account, CuttableRelay, paho_client
from testbed.faults.served import Served
from testbed.jdk import tool
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.spark import SparkServer
from testbed.servers.standalone import LooseCluster
from testbed.waiting import await_that

PATIENCE = 300.0  # s, for an operation
_QUIET = 150.0  # s without a new output, after which what is missing is lost; a start may take Flink 120 s
_STARTS = 3  # tries: on a busy machine Flink's own time-outs may end a process that starts
_BUSY = 409  # another operation, such as one of the reconciler, is running
_HERE = Path(__file__).parent


def insist(ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The operation that a request began, which waits for another one that is running."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return ask()
        except RequestRefused as error:
            if error.status != _BUSY or time.monotonic() > deadline:
                raise
        time.sleep(0.2)


@dataclass(frozen=True)
class Layout:
    """The size of the site: ``workers`` TaskManagers; jobs with a shuffle have ``parallelism`` tasks.

    With ``executors`` there is a Spark standalone cluster of that many workers, on which ``expand-2`` runs.
    With ``stored`` the writers' bound of the broker's store is that many megabytes instead of 64, and that of
    a session half as much again, which is the ratio of the recommended ones.
    """

    workers: int = 1
    parallelism: int = 1
    executors: int = 0
    stored: int = 0

    @property
    def session_bytes(self) -> int:
        """The bound of a session at the site's broker; 0: as recommended."""
        return self.stored * 1_500_000

    @property
    def writers_bytes(self) -> int:
        """The bound of the broker's store at which writers stop; 0: the connector's own."""
        return self.stored << 20

    @property
    def java(self) -> Mapping[str, str]:
        """Variables of the engines' processes."""
        option = f"-Dspeck.sink.brokerMegabytes={self.stored}"
        return {"JAVA_TOOL_OPTIONS": option} if self.stored else {}


SMALL = Layout()


class ShippedBroker(MosquittoServer):
    """A Mosquitto with ``pipelines/mosquitto.conf``, except for port, paths and the bound of a session."""

    def __init__(self, directory: Path, session_bytes: int = 0) -> None:
        super().__init__(directory)
        self._session_bytes = session_bytes

    def _configuration(self) -> str:
        text = site_configuration(self.port, self.directory)
        if not self._session_bytes:
            return text
        option = f"max_queued_bytes {self._session_bytes}"
        text, replaced = re.subn(r"^max_queued_bytes .*$", option, text, flags=re.MULTILINE)
        assert replaced == 1
        return text


class SmallFlink(FlinkServer):
    """A cluster with this number of TaskManagers, of two slots each, or one of eight."""

    def __init__(
        self, directory: Path, workers: int, checkpoints: Path, java: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        conf = {
            "taskmanager.data.port": "0",
            "execution.checkpointing.dir": (checkpoints / "checkpoints").as_uri(),
            "execution.checkpointing.savepoint-dir": (checkpoints / "savepoints").as_uri(),
        }
        super().__init__(directory, heap="256m", slots=8 if workers == 1 else 2, conf=conf)
        self._workers, self._java = workers, java

    def variables(self) -> dict[str, str]:
        return super().variables() | dict(self._java)

    def commands(self) -> list[list[str]]:
        manager, worker = super().commands()
        return [manager, *[worker] * self._workers]

    def start(self) -> Self:
        """Start the cluster, again when a process does not come up, as a site's supervisor does."""
        for remaining in reversed(range(_STARTS)):
            try:
                return super().start()
            except RuntimeError:
                if not remaining:
                    raise
        raise AssertionError

    def processes(self) -> Sequence[subprocess.Popen[bytes]]:
        """The JobManager, and the TaskManagers."""
        return self._processes

    def kill_job_manager_alone(self) -> None:
        """End the JobManager by SIGKILL; :meth:`kill_job_manager` starts another."""
        self._processes[0].kill()
        self._processes[0].wait()


class Outputs:
    """The highest count of each output, by branch."""

    def __init__(self, broker: MosquittoServer, mixed: Mixed) -> None:
        self.counts: dict[str, Counter[str]] = {branch: Counter() for branch in BRANCHES}
        self._prefix = mixed.topic("out/")
        self._client = paho_client(broker)
        subscribe(self._client, f"{self._prefix}#", self._take)

    def _take(self, client: paho.Client, data: object, message: paho.MQTTMessage) -> None:
        text, _, count = message.payload.decode().rpartition(",")
        counts = self.counts[message.topic.removeprefix(self._prefix)]
        counts[text] = max(counts[text], int(count))

    def copy(self) -> dict[str, Counts]:
        """The counts as they are now."""
        return {branch: dict(counts) for branch, counts in self.counts.items()}

    def total(self) -> int:
        """The sum of all counts."""
        return sum(sum(counts.values()) for counts in self.copy().values())

    def close(self) -> None:
        """Stop listening."""
        self._client.disconnect()
        self._client.loop_stop()


class Testbed:
    """The servers and the coordinator; a context manager."""

    __test__ = False  # not a test, though pytest would take it for one by its name

    def __init__(self, directory: Path, layout: Layout = SMALL) -> None:
        self.directory, self.layout = directory, layout
        self.edge = MosquittoServer(directory / "edge")
        self.broker = ShippedBroker(directory / "broker", layout.session_bytes)
        self.spark = SparkServer(directory / "spark")
        self.spark.environment |= layout.java
        self.flink = SmallFlink(directory / "flink", layout.workers, directory / "states", layout.java)
        self.far = SmallFlink(directory / "far", 1, directory / "states")
        self.standalone = LooseCluster(directory / "standalone")
        self.rest = CuttableRelay(self.flink.ports[0])
        self.served: Served | None = None
        self._stack = ExitStack()
        self._trials = 0

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._bring_code()
            for server in (self.edge, self.broker, self.spark, self.flink, self.rest):
                stack.enter_context(server)
            if self.layout.executors:
                self._start_standalone(stack)
            stack.callback(self.stop_coordinator)
            self._write_inventory()
            self.start_coordinator()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def ends(self) -> Ends:
        """The addresses of a composition at the site."""
        rest = f"http://127.0.0.1:{self.rest.port}/"
        return Ends(self.spark.address, rest, self.edge.address, self.broker.address)

    def start_coordinator(self) -> None:
        """Start ``speck serve`` on the store that is there."""
        log = self.directory / "serve.log"
        self.served = Served(self.directory / "store", self.directory / "sites.yaml", self._code, log)
        client = self.served.client()
        if client is None:
            raise RuntimeError(f"speck serve does not start: {log.read_text()[-2000:]}")
        self.client = client

    def stop_coordinator(self) -> None:
        """End it by SIGKILL."""
        if self.served is not None:
            self.served.kill()

    def far_site(self) -> str:
        """The address of another Flink cluster that sees the same states; starts it."""
        self._stack.enter_context(self.far)
        return self.far.address

    @contextmanager
    def trial(self, first: ExpandForm = A) -> Iterator[LoadTrial]:
        """A composition of its own, which runs; it is deleted afterwards, also after an error."""
        self._trials += 1
        trial = LoadTrial(self, self._mixed(f"t{self._trials}", first))
        try:
            trial.apply()
            yield trial
        finally:
            trial.close()

    def _mixed(self, mark: str, first: ExpandForm) -> Mixed:
        layout = self.layout
        there = {"spe_address": self.standalone.address, "parallelism": layout.executors}
        extra = {"expand-2": there} if layout.executors else {}
        return Mixed(mark, self.ends, first, parallelism=layout.parallelism, extra=extra)

    def _start_standalone(self, stack: ExitStack) -> None:
        stack.enter_context(self.standalone)
        for number in range(1, self.layout.executors):
            self.standalone.add_worker(f"worker-{number}")
        await_that(self.standalone.workers, lambda workers: workers == self.layout.executors)

    @property
    def _code(self) -> Path:
        return self.directory / "code"

    def _bring_code(self) -> None:
        self._code.mkdir(parents=True)
        shutil.copy(_HERE / "spark_jobs.py", self._code)
        shutil.copy(ROOT / FLINK_CODE, self._code)
        compile_expand(self._code)

    def _write_inventory(self) -> None:
        states = {
            "checkpoint_dir": (self.directory / "states/checkpoints").as_uri(),
            "savepoint_dir": (self.directory / "states/savepoints").as_uri(),
        }
        ends = self.ends
        known = {
            "neighbour": {
                "spe_address": ends.spark,
                "broker_address": ends.edge,
                "checkpoint_dir": str(self.directory / "spark-checkpoints"),
            },
            "site": {"spe_address": ends.flink, "broker_address": ends.site, **states},
            "cluster": {
                "spe_address": self.standalone.address,
                "broker_address": ends.edge,
                **self.standalone.engine,
            },
            "far": {"spe_address": self.far.address, "broker_address": ends.edge, **states},
        }
        (self.directory / "sites.yaml").write_text(yaml.safe_dump({"sites": known}), encoding="utf-8")


class LoadTrial:
    """A composition under load on a test bed."""

    def __init__(self, bed: Testbed, mixed: Mixed) -> None:
        self.bed, self.mixed = bed, mixed
        self.forms = [mixed.form]
        self.outputs = Outputs(bed.edge, mixed)
        self._senders: list[Sender] = []

    def apply(self, expected: str = "succeeded", leave_behind: Sequence[str] = (), **changes: Any) -> None:
        """Change the composition; raises :class:`RuntimeError` when it does not end as expected."""
        self.mixed = replace(self.mixed, **changes)
        if self.mixed.form not in self.forms:
            self.forms.append(self.mixed.form)
        operation = insist(
            lambda: self.bed.client.apply(
                self.mixed.text(), self.mixed.name, wait=PATIENCE, leave_behind=list(leave_behind)
            )
        )
        if operation["state"] != expected:
            raise RuntimeError(f"the apply {operation['state']}: {_errors(operation)}")

    # --- the load

    def send(self, rate: float, text: Callable[[str, int], str] = "{}-{}".format) -> None:
        """Begin to send to both writers, ``rate`` messages/s in all."""
        for number, name in (("1", "left"), ("2", "right")):
            topic = self.mixed.topic(f"in/{number}")
            sender = Sender(self.bed.edge.address, topic, rate / 2, lambda n, name=name: text(name, n))  # type: ignore[misc]
            self._senders.append(sender.start())

    @property
    def sent(self) -> int:
        """The number of messages so far."""
        return sum(len(each.sent) for each in self._senders)

    @property
    def number(self) -> int:
        """The highest number of a message so far."""
        return max(len(each.sent) for each in self._senders)

    def await_sent(self, more: int) -> None:
        """Wait until this number of further messages is sent."""
        enough = self.sent + more
        await_that(lambda: self.sent, lambda sent: sent >= enough)

    def await_outputs(self, more: int = 1, patience: float = PATIENCE) -> None:
        """Wait for this number of further outputs of each branch."""

        def totals() -> list[int]:
            return [sum(counts.values()) for counts in self.outputs.copy().values()]

        enough = [total + more for total in totals()]
        await_that(totals, lambda now: all(a >= b for a, b in zip(now, enough, strict=True)), patience)

    def stop_sending(self) -> list[str]:
        """End the load; answers what was sent, all of which the broker took."""
        return [text for each in self._senders for text in each.stop()]

    def account(self, sent: Sequence[str]) -> Account:
        """Compare with what was sent."""
        return account(sent, self.outputs.copy(), self.forms)

    def final_account(self, quiet: float = _QUIET) -> Account:
        """End the load, and wait until nothing is missing, or nothing came for this time (s)."""
        sent = self.stop_sending()
        total, since = -1, time.monotonic()
        while (found := self.account(sent)).lost and time.monotonic() - since < quiet:
            if (now := self.outputs.total()) != total:
                total, since = now, time.monotonic()
            time.sleep(0.5)
        if not found.lost:
            time.sleep(3)  # what comes once too often comes soon
        return self.account(sent)

    def states(self) -> dict[str, str]:
        """The state of each job, as the coordinator shows it."""
        jobs = self.bed.client.jobs()
        return {each["job_name"]: each["state"] for each in jobs if each["composition"] == self.mixed.name}

    def close(self) -> None:
        """End the load, and delete the composition.  Raises :class:`RuntimeError` if that fails."""
        self.stop_sending()
        self.outputs.close()
        operation = insist(lambda: self.bed.client.delete_composition(self.mixed.name, wait=PATIENCE))
        if operation["state"] != "succeeded":
            raise RuntimeError(f"the deletion {operation['state']}: {_errors(operation)}")


def _errors(operation: dict[str, Any]) -> str:
    actions = operation["actions"]
    found = [f"{each['job']}: {each['error'] or each.get('note')}" for each in actions if each["error"]]
    return "; ".join(found) or str(operation)[:500]


def compile_expand(directory: Path) -> Path:
    """Compile the expanding Flink program into a jar in ``directory``."""
    classes = directory.parent / "expand-classes"
    flink = next((flink_home() / "lib").glob("flink-dist-*.jar"))
    path = f"{flink}:{CONNECTOR}"
    subprocess.run(
        [
            tool("javac"),
            "-nowarn",
            "--release",
            "17",
            "-cp",
            path,
            "-d",
            str(classes),
            str(_HERE / "Expand.java"),
        ],
        check=True,
    )
    jar = directory / "expand.jar"
    subprocess.run([tool("jar"), "--create", "--file", str(jar), "-C", str(classes), "."], check=True)
    return jar
