"""A store is lost while its jobs run on Flink: another one adopts them, and no message is lost or doubled.

::

    in -> forward -> mid -> count -> out

Every message is another text.  The stamps of ``forward`` contain the position of a message in its session, so
that ``count`` counts a text twice if the position is numbered anew after a restart.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import requests

from benchmarks.promises.flow import Listener, Sender, client
from benchmarks.promises.rig import FLINK_CODE, PATIENCE, ROOT, await_that, job
from benchmarks.promises.served import Served
from speck.client import Client, RequestRefused
from tests.support.flink_server import FlinkServer
from tests.support.mosquitto_server import MosquittoServer
from tests.support.requirements import NEEDS_RIG
from tests.support.trials import trial

pytestmark = [pytest.mark.engine, NEEDS_RIG]

RATE = 200.0  # messages/s


class Deployment:
    """One Flink cluster and one broker, with servers of SpecK that come and go; a context manager."""

    def __init__(self, directory: Path, broker: MosquittoServer) -> None:
        self.directory, self.broker = directory, broker.address
        self._stack = ExitStack()
        self._server: Served | None = None

    def __enter__(self) -> Deployment:
        flink = FlinkServer(self.directory / "flink", heap="256m", slots=4)
        self.flink = self._stack.enter_context(flink)
        self.results = Listener(self._stack.enter_context(client(self.broker)), "out")
        self.sender = Sender(self.broker, "in", RATE, "text-{}".format)
        self._stack.callback(self.sender.stop)
        self._stack.callback(self.kill)
        cluster = self.flink.cluster
        (self.directory / "sites.yaml").write_text(
            f"sites:\n  A:\n    spe_address: '{self.flink.address}'\n    broker_address: '{self.broker}'\n"
            f"    checkpoint_dir: {cluster.checkpoints.as_uri()}\n"
            f"    savepoint_dir: {cluster.savepoints.as_uri()}\n"
        )
        return self

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
        broker, flink = self.broker, self.flink.address
        codes = [(FLINK_CODE, f"io.speck.flink.jobs.{name}") for name in ("Forward", "CountByKey")]
        first = job("forward", flink, (broker, "in"), (broker, "mid"), codes[0])
        first = first.replace("}", f", on_error: {on_error}}}")
        return f"jobs:\n{first}{job('count', flink, (broker, 'mid'), (broker, 'out'), codes[1])}".encode()

    def running(self) -> dict[str, str]:
        """The ids of the jobs that the cluster runs, by name."""
        overview = f"{self.flink.address.rstrip('/')}/jobs/overview"
        jobs = requests.get(overview, timeout=30).json()["jobs"]
        return {each["name"]: each["jid"] for each in jobs if each["state"] == "RUNNING"}

    def flows(self) -> None:
        """Wait until what is sent from now on has come out."""
        number = len(self.sender.sent) + RATE / 2
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
def deployment_fixture(tmp_path: Path, mosquitto: MosquittoServer) -> Iterator[Deployment]:
    with Deployment(tmp_path, mosquitto) as deployment:
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


def test_jobs_of_a_lost_store_are_adopted_and_updated_without_loss(deployment: Deployment) -> None:
    server = lose_and_adopt(deployment)
    update(deployment, server)
    sent, lost, doubled = deployment.account()
    assert (sent > RATE, lost, doubled) == (True, 0, 0)


@trial("test_jobs_of_a_lost_store_are_adopted_and_updated_without_loss")
def test_adopted_jobs_are_healed_without_loss(deployment: Deployment) -> None:
    server = lose_and_adopt(deployment)
    adopted = deployment.running()
    deployment.flink.kill()
    deployment.flink.start()
    healed = await_that(deployment.running, lambda found: found.keys() == adopted.keys())
    assert set(healed.values()) & set(adopted.values()) == set()
    deployment.flows()
    update(deployment, server)
    sent, lost, doubled = deployment.account()
    assert (sent > RATE, lost, doubled) == (True, 0, 0)
