"""The measurements at a standalone cluster, by a server that answers as its master and worker do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyspark
import pytest

from binders.spark.local.commands import CONNECTOR
from binders.spark.standalone import measurements
from binders.spark.standalone.engine import StandaloneEngine
from speck.binder import Probes
from speck.core.inventory import Inventory
from speck.core.profile import CoreProbe, LinkProbe
from speck.errors import NoCapacity, OutcomeUnknown, Rejected
from speck.store.artifacts import ServedFiles
from tests.support.engine_answers import AnswerServer, serving
from tests.support.examples import one_site

pytestmark = pytest.mark.skipif(not CONNECTOR.exists(), reason="the connector is not built (make jars)")

BROKER, DRIVER = "tcp://127.0.0.1:1883", "driver-20260101000000-0001"
CORE = {"statelessPerSecond": 2e6, "keyedPerSecond": 1e6}
LINK = {"rttMillis": 20.0, "bytesPerSecond": 1e6, "probeBytes": 4096.0}


@dataclass
class Cluster(AnswerServer):
    """One worker; a submitted driver takes the ``states``, one an answer, and writes the ``status``."""

    answers: dict[str, Any] = field(default_factory=dict)
    port: int = 0
    cores_free: int = 4
    states: list[str] = field(default_factory=lambda: ["SUBMITTED", "RUNNING", "RUNNING", "FINISHED"])
    status: dict[str, Any] = field(default_factory=dict)
    submitted: int = 0
    killed: int = 0

    def answer(self, path: str) -> tuple[int, bytes]:
        found: Any = {"success": True, "submissionId": DRIVER, "serverSparkVersion": pyspark.__version__}
        if path.endswith("/create"):
            self.submitted += 1
        elif "/kill/" in path:
            self.killed += 1
            self.states = ["KILLED"]
        elif path == "/json/":
            found = self.cluster()
        elif path.startswith("/log/"):
            return 200, self.log(path).encode()
        return 200, json.dumps(found).encode()

    def cluster(self) -> dict[str, Any]:
        state = self.states.pop(0) if len(self.states) > 1 and self.submitted else self.states[0]
        active = state in ("SUBMITTED", "RUNNING")
        driver = {"id": DRIVER, "state": state, "mainclass": "org.apache.spark.deploy.SparkSubmit"}
        driver["worker"] = "" if state == "SUBMITTED" else "w"
        worker = {"id": "w", "state": "ALIVE", "webuiaddress": f"http://127.0.0.1:{self.port}"}
        worker |= {"cores": 4, "coresfree": self.cores_free, "memory": 4096, "memoryfree": 4096}
        drivers = [driver] if self.submitted else []
        return {
            "url": f"spark://127.0.0.1:{self.port}",
            "workers": [worker],
            "activedrivers": drivers if active else [],
            "completeddrivers": [] if active else drivers,
            "activeapps": [],
        }

    def log(self, path: str) -> str:
        common = {"message": "", "at": 0.0, "starts": 1, "crashes": 0, "ran": False}
        text = json.dumps(common | self.status) if "logType=out" in path and self.status else ""
        return f"==== Bytes 0-{len(text)} of {len(text)} of a ====\n{text}"


@dataclass
class Bench:
    cluster: Cluster
    engine: StandaloneEngine


@pytest.fixture(name="bench")
def bench_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(measurements, "_POLL", 0.0)
    cluster = Cluster()
    with serving(cluster) as cluster.port:
        address = f"spark://127.0.0.1:{cluster.port}"
        known: dict[str, Any] = {"rest_port": cluster.port, "ui_port": cluster.port, "slots": 4}
        site = one_site("A", address, BROKER, **known, checkpoint_dir=str(tmp_path))
        engine = StandaloneEngine(address, Inventory({"A": site}))
        engine.take_artifacts(ServedFiles(tmp_path, "http://127.0.0.1:1"))
        yield Bench(cluster, engine)
        engine.close()


def test_figures_are_those_of_the_driver_which_ends_by_itself(bench: Bench) -> None:
    assert isinstance(bench.engine, Probes)
    bench.cluster.status = {"kind": "finished", "figures": LINK}
    assert bench.engine.probe_link(BROKER) == LinkProbe(rtt=0.02, bandwidth=1e6, bytes_sent=4096)
    bench.cluster.states, bench.cluster.status = (
        ["RUNNING", "FINISHED"],
        {"kind": "finished", "figures": CORE},
    )
    assert bench.engine.probe_core() == CoreProbe(stateless=2e6, keyed=1e6)
    assert (bench.cluster.submitted, bench.cluster.killed) == (2, 0)
    assert bench.engine.running() == []


@pytest.mark.parametrize(
    ("states", "status", "why"),
    [
        (["RUNNING"], {"kind": "failed", "message": "cannot write to broker"}, "cannot write to broker"),
        (["RUNNING"], {"kind": "refused", "message": "cannot fetch a"}, "cannot fetch a"),
        (["RUNNING"], {"kind": "finished", "figures": {"rttMillis": 1.0}}, "reports no 'statelessPerSecond'"),
        (["RUNNING", "ERROR"], {}, r"its driver has ended \(error\)"),
    ],
)
def test_a_probe_without_figures_has_the_reason_and_leaves_no_driver(
    bench: Bench, states: list[str], status: dict[str, Any], why: str
) -> None:
    bench.cluster.states = [*states, *states]
    bench.cluster.status = status
    if "figures" in status:
        bench.cluster.states = [*states, "FINISHED"]
    with pytest.raises(Rejected, match=why):
        bench.engine.probe_core()
    assert bench.cluster.states[-1] in ("KILLED", "FINISHED", "ERROR")
    assert bench.cluster.killed == (bench.cluster.states[-1] == "KILLED")


@pytest.mark.parametrize(
    ("state", "error", "why"),
    [
        ("SUBMITTED", NoCapacity, "no worker accepted its driver in 0 s"),
        ("RUNNING", OutcomeUnknown, "the probe of a core gave no figures in 0 s"),
    ],
)
def test_a_driver_that_is_late_is_killed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, state: str, error: type[Exception], why: str
) -> None:
    monkeypatch.setattr(measurements, "DEADLINE", 0.0)
    bench.cluster.states = [state]
    with pytest.raises(error, match=why):
        bench.engine.probe_core()
    assert bench.cluster.killed == 1


def test_a_cluster_without_room_gets_no_driver(bench: Bench) -> None:
    bench.cluster.cores_free = 1
    with pytest.raises(NoCapacity, match="has no room for job 'probe'"):
        bench.engine.probe_core()
    assert bench.cluster.submitted == 0
