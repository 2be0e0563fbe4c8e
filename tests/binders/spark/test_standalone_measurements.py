"""Measurements and builds at a standalone cluster, by a server that answers as its master and worker do."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyspark
import pytest

from binders.spark.local.commands import CONNECTOR
from binders.spark.standalone import measurements, one_time_drivers, rehearsals
from binders.spark.standalone.driver_bootstrap import VARIABLE
from binders.spark.standalone.engine import StandaloneEngine
from binders.spark.standalone.master import Master
from speck.core.inventory import Inventory
from speck.core.job import Job
from speck.core.profile import CoreProbe, LinkProbe
from speck.errors import NoCapacity, OutcomeUnknown, Rejected
from speck.store.served_files import ServedFiles
from testbed.benches.examples import job as make_job
from testbed.benches.examples import one_site
from testbed.doubles.engine_answers import AnswerServer, serving

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
    monkeypatch.setattr(one_time_drivers, "_POLL", 0.0)
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
        ("RUNNING", OutcomeUnknown, "the probe of a core gave no result in 0 s"),
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


# -- builds


@pytest.fixture(name="job")
def job_fixture(bench: Bench, tmp_path: Path) -> Job:
    code = tmp_path / "air.py"
    code.write_text("def clean(messages):\n    return messages\n")
    made = make_job("a", engine="spark", spe_address=bench.engine.address)
    return replace(made, job_path=str(code), entry_class="clean")


def test_a_job_is_built_by_a_driver_without_executors(
    bench: Bench, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests, create = list[Any](), Master.create

    def noting(master: Master, body: Mapping[str, Any]) -> str:
        requests.append(body)
        return create(master, body)

    monkeypatch.setattr(Master, "create", noting)
    bench.cluster.cores_free = 1
    bench.cluster.status = {"kind": "finished"}
    bench.engine.build_job(job)
    assert (bench.cluster.submitted, bench.cluster.killed) == (1, 0)
    (request,) = requests
    assert request["appArgs"][:2] == ["--master", "local[1]"]
    submission = json.loads(base64.b64decode(request["environmentVariables"][VARIABLE]))
    assert submission["query"]["rehearsal"] is True
    assert not [name for name in request["sparkProperties"] if name.startswith("spark.speck")]
    assert request["sparkProperties"]["spark.driver.supervise"] == "false"
    assert bench.engine.running() == []


@pytest.mark.parametrize(
    ("states", "status", "error", "why"),
    [
        (
            ["RUNNING", "FINISHED"],
            {"kind": "refused", "message": "ValueError: no (air.py, line 2, column 5)"},
            Rejected,
            r"^job 'a' \(clean of air.py\) cannot be built on spark://\S+: ValueError: no \(air.py, line 2",
        ),
        (["RUNNING", "FAILED"], {"kind": "building"}, Rejected, r"its driver has ended \(failed\)"),
        (
            ["RUNNING", "FINISHED"],
            {"kind": "failed", "message": "Java has ended"},
            Rejected,
            "Java has ended",
        ),
        (["SUBMITTED"], {}, NoCapacity, "no worker accepted its driver in 0 s"),
        (["RUNNING"], {"kind": "building"}, OutcomeUnknown, "the build of job 'a' gave no result in 0 s"),
    ],
)
def test_a_build_that_fails_has_the_reason_and_leaves_no_driver(
    bench: Bench,
    job: Job,
    monkeypatch: pytest.MonkeyPatch,
    states: list[str],
    status: dict[str, Any],
    error: type[Exception],
    why: str,
) -> None:
    if len(states) == 1:
        monkeypatch.setattr(rehearsals, "DEADLINE", 0.0)
    bench.cluster.states, bench.cluster.status = states, status
    with pytest.raises(error, match=why):
        bench.engine.build_job(job)
    assert bench.cluster.states[-1] in ("KILLED", "FINISHED", "FAILED")


def test_a_build_takes_no_room_that_is_free_no_more_or_reserved(bench: Bench, job: Job) -> None:
    other = replace(job, job_name="b")
    bench.cluster.cores_free = 2
    bench.engine.check(other, None)  # reserves a core for its driver, and one for its executor
    with pytest.raises(NoCapacity, match=r"has no room for the build of job 'a'.*about to start, .*: 1$"):
        bench.engine.build_job(job)
    bench.cluster.cores_free = 0
    with pytest.raises(NoCapacity, match="free on its workers: 0 cores and 4096 MiB"):
        bench.engine.build_job(other)
    assert bench.cluster.submitted == 0


def test_code_that_lacks_its_function_needs_no_driver(bench: Bench, job: Job) -> None:
    with pytest.raises(Rejected, match=r"cannot be built on .*missing"):
        bench.engine.build_job(replace(job, entry_class="missing"))
    assert bench.cluster.submitted == 0
