"""The way to a cluster: TLS and a password, proxies, and other services at its address."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from binders.flink.engine import FlinkEngine, connect_engine
from binders.mqtt import MqttBroker
from binders.spark import connect_engine as connect_spark
from speck.core.inventory import Inventory, Login, Secret
from speck.core.job import Job
from speck.core.runtime import JobState
from speck.errors import OutcomeUnknown, Rejected, Unreachable
from speck.testing import attempt_of, await_state
from testbed.benches.examples import one_site
from testbed.benches.flink import BROKER, FlinkBench
from testbed.servers.https_proxy import HttpsProxy, https_proxy
from testbed.servers.nginx import nginx_before_flink
from testbed.servers.web_proxy import web_proxy
from tests.support.docs_blocks import only_block

pytestmark = pytest.mark.engine


def padded(job: Job, path: Path) -> Job:
    """The job, with a jar of 3 MB."""
    shutil.copyfile(job.job_path, path)
    with zipfile.ZipFile(path, "a") as jar:
        jar.writestr("padding", os.urandom(3 << 20))
    return replace(job, job_path=str(path))


@pytest.mark.parametrize(
    "before", [https_proxy, partial(nginx_before_flink, only_block("flink.md", "nginx"))]
)
def test_tls_and_a_password(
    flink_bench: FlinkBench,
    job_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    before: Callable[[Path, str, str, str], AbstractContextManager[HttpsProxy]],
) -> None:
    monkeypatch.setenv("FLINK_PASSWORD", "open-sesame")
    secret = Secret("${FLINK_PASSWORD}")
    with before(tmp_path, flink_bench.server.address, "speck", "open-sesame") as proxy:

        def engine(login: Login) -> FlinkEngine:
            one = one_site("A", proxy.address, BROKER, engine_login=login)
            return connect_engine(proxy.address, Inventory({"A": one}))

        trusted = str(proxy.certificate)
        good = engine(Login(username="speck", password=secret, ca_file=trusted))
        job = padded(flink_bench.job(job_name), tmp_path / "large.jar")
        good.check(job, None)
        handle = good.submit(job, attempt_of(job))
        await_state(good, handle, JobState.RUNNING)
        assert good.stop(handle, keep_state=True) is not None
        assert "open-sesame" not in repr((good, handle))
        good.close()

        monkeypatch.setenv("FLINK_PASSWORD", "wrong-sesame")
        for login, error, words in (
            (
                Login(username="speck", password=secret, ca_file=trusted),
                Rejected,
                "rejects the login.*401",
            ),
            (Login(ca_file=trusted), Rejected, "engine_login"),
            (Login(username="speck", password=secret), Unreachable, "(?i)certificate"),
        ):
            bad = engine(login)
            with pytest.raises(error, match=words) as caught:
                bad.check(job, None)
            assert "sesame" not in str(caught.value)
            assert bad.status(handle).state is JobState.UNKNOWN
            bad.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_no_proxy_of_the_environment_is_used(
    flink_bench: FlinkBench, job_name: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with web_proxy() as proxy:
        proxy.install(monkeypatch)
        engine = flink_bench.at(flink_bench.server.address.replace("127.0.0.1", host))
        job = flink_bench.job(job_name)
        engine.check(job, None)
        handle = engine.submit(job, attempt_of(job))
        await_state(engine, handle, JobState.RUNNING)
        engine.stop(handle, keep_state=False)
        assert proxy.seen == []


def test_another_service_at_the_address(flink_bench: FlinkBench, job_name: str) -> None:
    """Another service at one of the cluster's ports is reported in one line, with advice."""
    rest, rpc, *_ = flink_bench.server.ports
    engine = connect_engine(f"http://127.0.0.1:{rpc}", Inventory())
    with pytest.raises(OutcomeUnknown, match="is it a JobManager's REST address"):
        engine.check(flink_bench.job(job_name), None)
    engine.close()
    connect = connect_spark(f"sc://127.0.0.1:{rest}", Inventory())
    with pytest.raises(Unreachable, match="expected a Spark Connect server's port"):
        connect.capacity()
    connect.close()
    with pytest.raises(OutcomeUnknown, match="is it a broker, and does it speak MQTT 5 without TLS"):
        MqttBroker(f"tcp://127.0.0.1:{rest}", Inventory(), timeout=1).check()
