"""A store is lost while its jobs run: another one adopts them, and no message is lost or doubled.

::

    in -> forward -> mid -> count -> out

Every message is another text.  The stamps of ``forward`` contain the position of a message in its session, so
that ``count`` counts a text twice if the position is numbered anew after a restart.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from speck.binder import installed
from speck.binder.pool import BinderPool
from speck.client import Client, RequestRefused
from speck.schema.inventory import load_inventory
from testbed import ROOT
from testbed.benches.job_text import FLINK_CODE, SPARK_CODE, job
from testbed.faults.flow import Listener, Sender, client
from testbed.faults.served import Served
from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import MosquittoServer
from testbed.servers.spark import SparkServer
from testbed.servers.standalone import StandaloneServer
from testbed.waiting import PATIENCE, await_that
from tests.support.requirements import NEEDS_RIG
from tests.support.trials import trial

pytestmark = [pytest.mark.engine, NEEDS_RIG]


@dataclass(frozen=True)
class Kind:
    """A kind of engine: its name, its jobs' code, and the rate of the messages (messages/s)."""

    engine: str
    server: Callable[[Path], FlinkServer | SparkServer | StandaloneServer]
    code: str
    entries: tuple[str, str]
    rate: float


FLINK = Kind(
    "flink",
    partial(FlinkServer, heap="256m", slots=4, small=True),
    FLINK_CODE,
    ("io.speck.flink.jobs.Forward", "io.speck.flink.jobs.CountByKey"),
    200.0,
)
CONNECT = Kind("spark", SparkServer, SPARK_CODE, ("upper", "count"), 40.0)
STANDALONE = Kind("spark", StandaloneServer, SPARK_CODE, ("upper", "count"), 40.0)


class Results(Listener):
    """The counts of texts, which Spark's job separates by a blank."""

    def last_counts(self) -> Counter[str]:
        highest: Counter[str] = Counter()
        for _, text in list(self.received):
            word, _, number = text.replace(" ", ",").rpartition(",")
            highest[word] = max(highest[word], int(number))
        return highest


class Deployment:
    """One engine and one broker, with servers of SpecK that come and go; a context manager."""

    def __init__(self, kind: Kind, directory: Path, broker: MosquittoServer) -> None:
        self.kind, self.directory, self.broker = kind, directory, broker.address
        self._stack = ExitStack()
        self._server: Served | None = None

    def __enter__(self) -> Deployment:
        directory = self.directory / "engine"
        self.engine = self.kind.server(directory)
        self._stack.enter_context(self.engine)
        self.results = Results(self._stack.enter_context(client(self.broker)), "out")
        self.sender = Sender(self.broker, "in", self.kind.rate, "TEXT-{}".format)
        self._stack.callback(self.sender.stop)
        self._stack.callback(self.kill)
        site = {"spe_address": self.engine.address, "broker_address": self.broker, **self._known()}
        (self.directory / "sites.yaml").write_text(json.dumps({"sites": {"A": site}}))
        return self

    def _known(self) -> dict[str, object]:
        """The engine's fields in an inventory."""
        match self.engine:
            case FlinkServer(cluster=cluster):
                places = {"checkpoint_dir": cluster.checkpoints, "savepoint_dir": cluster.savepoints}
                return {name: place.as_uri() for name, place in places.items()}
            case StandaloneServer(engine=known):
                return known
        return {"checkpoint_dir": str(self.directory / "checkpoints")}

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def serve(self) -> Client:
        """Start a server on the store, which is new if there is none."""
        directory = self.directory
        self._server = Served(directory / "store", directory / "sites.yaml", ROOT, directory / "serve.log")
        found = self._server.client()
        assert found is not None, (directory / "serve.log").read_text()
        return found

    def kill(self) -> None:
        """Kill the server, if one runs, by SIGKILL."""
        if self._server is not None:
            self._server.kill()
            self._server = None

    def lose_store(self) -> None:
        """Kill the server, and delete the directory of its store."""
        self.kill()
        shutil.rmtree(self.directory / "store")

    def composition(self, on_error: str = "fail") -> bytes:
        """Both jobs, the first with this ``on_error``."""
        broker, address = self.broker, self.engine.address
        codes = [(self.kind.code, entry) for entry in self.kind.entries]
        first = job("forward", address, (broker, "in"), (broker, "mid"), codes[0])
        first = first.replace("}", f", on_error: {on_error}}}")
        return f"jobs:\n{first}{job('count', address, (broker, 'mid'), (broker, 'out'), codes[1])}".encode()

    def running(self) -> dict[str, str]:
        """The ids of the jobs that the engine runs, by name."""
        inventory = load_inventory((self.directory / "sites.yaml").read_text())
        pool = BinderPool(installed(), inventory)
        binder = pool.engine_at(self.kind.engine, self.engine.address)
        try:
            return {each.job_name: each.engine_id for each in binder.running()}
        finally:
            pool.close()

    def flows(self) -> None:
        """Wait until what is sent from now on has come out."""
        number = len(self.sender.sent) + self.kind.rate / 2
        await_that(lambda: len(self.sender.sent), lambda sent: sent > number)
        text = self.sender.sent[-1]
        await_that(lambda: self.results.last_counts()[text], bool)

    def account(self) -> tuple[int, int, int]:
        """The number of messages that were sent, of lost ones, and of those counted more than once."""
        sent = self.sender.stop()
        await_that(
            lambda: len(self.results.last_counts()), lambda found: found >= len(sent), patience=PATIENCE / 2
        )
        counts = self.results.last_counts()
        return len(sent), sum(not counts[each] for each in sent), sum(counts[each] > 1 for each in sent)


@pytest.fixture(name="deployment")
def deployment_fixture(
    request: pytest.FixtureRequest, tmp_path: Path, mosquitto: MosquittoServer
) -> Iterator[Deployment]:
    with Deployment(getattr(request, "param", FLINK), tmp_path, mosquitto) as deployment:
        yield deployment


def lose_and_adopt(deployment: Deployment) -> Client:
    """Deploy, lose the store while messages flow, and adopt with another one; answers its client."""
    first = deployment.serve()
    composed = deployment.composition()
    operation = first.apply(composed, "line", wait=PATIENCE)
    assert operation["state"] == "succeeded", operation
    deployment.sender.start()
    deployment.flows()
    before = deployment.running()
    deployment.lose_store()
    second = deployment.serve()
    # On a busy machine a new server may take longer for the first answers than the plan waits for them.
    await_that(lambda: second.plan(composed, "line")["foreign"], lambda found: len(found) == 2)
    with pytest.raises(RequestRefused, match="speck adopt") as refused:
        second.apply(composed, "line", wait=PATIENCE)
    assert (refused.value.status, second.compositions()) == (409, [])
    with pytest.raises(RequestRefused, match="in another form than the file's"):
        second.adopt(deployment.composition("skip"), "line", wait=PATIENCE)
    assert deployment.running() == before
    operation = second.adopt(composed, "line", wait=PATIENCE)
    assert operation["state"] == "succeeded", operation
    counts = second.plan(composed, "line")["counts"]
    assert {kind: number for kind, number in counts.items() if number} == {"keep": 2}
    assert deployment.running() == before
    return second


def update(deployment: Deployment, server: Client) -> None:
    """Update the first job; it goes on with its session and its state."""
    before = deployment.running()
    operation = server.apply(deployment.composition("skip"), "line", wait=PATIENCE)
    assert operation["state"] == "succeeded", operation
    after = await_that(deployment.running, lambda found: found.keys() == before.keys())
    assert {name for name in before if after[name] != before[name]} == {"forward"}
    deployment.flows()


AS_ON_FLINK = trial("the same on Flink")


@pytest.mark.parametrize(
    "deployment",
    [
        pytest.param(FLINK, id="flink"),
        pytest.param(CONNECT, id="spark-connect", marks=AS_ON_FLINK),
        pytest.param(STANDALONE, id="spark-standalone", marks=AS_ON_FLINK),
    ],
    indirect=True,
)
def test_jobs_of_a_lost_store_are_adopted_and_updated_without_loss(deployment: Deployment) -> None:
    server = lose_and_adopt(deployment)
    update(deployment, server)
    sent, lost, doubled = deployment.account()
    assert (sent > deployment.kind.rate, lost, doubled) == (True, 0, 0)


@trial("test_jobs_of_a_lost_store_are_adopted_and_updated_without_loss")
def test_adopted_jobs_are_healed_without_loss(deployment: Deployment) -> None:
    server = lose_and_adopt(deployment)
    adopted = deployment.running()
    deployment.engine.kill()
    deployment.engine.start()
    healed = await_that(deployment.running, lambda found: found.keys() == adopted.keys())
    assert set(healed.values()) & set(adopted.values()) == set()
    deployment.flows()
    update(deployment, server)
    sent, lost, doubled = deployment.account()
    assert (sent > deployment.kind.rate, lost, doubled) == (True, 0, 0)
