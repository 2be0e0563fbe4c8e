"""Engines, brokers and hooks are reached directly, whatever proxies the environment names."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from binders.flink.engine import FlinkEngine
from binders.flink.local.server import FlinkCluster
from binders.spark.local.standalone_cluster import StandaloneCluster
from binders.spark.standalone import lease
from binders.spark.standalone.driver_bootstrap import fetch
from binders.spark.standalone.engine import StandaloneEngine
from speck.controller.workers.hooks import HookCall, WorkerRequest
from speck.core.inventory import Inventory, Scale
from speck.testing.waiting import eventually
from testbed.benches.examples import one_site
from testbed.doubles.engine_answers import AnswerServer, flink_answers, serving
from testbed.servers.http import Handler, http_server
from testbed.servers.web_proxy import WebProxy, web_proxy
from tests.binders.spark.test_grpc_bounds import PLAN, SESSION, connected
from tests.binders.test_odd_answers import standalone_answers

EXCEPTIONS = ["", "localhost,127.0.0.1", "example.org"]


@pytest.fixture(name="proxy", params=EXCEPTIONS, ids=["no exceptions", "loopback", "another host"])
def proxy_fixture(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[WebProxy]:
    with web_proxy() as proxy:
        proxy.install(monkeypatch, request.param)
        yield proxy
        assert proxy.seen == []


@pytest.fixture(name="host", params=["127.0.0.1", "localhost"])
def host_fixture(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_flink(proxy: WebProxy, host: str) -> None:
    with serving(AnswerServer(flink_answers())) as port:
        engine = FlinkEngine(f"http://{host}:{port}/", Inventory())
        assert engine.capacity().slots == 4
        engine.close()


def test_a_local_flink(proxy: WebProxy) -> None:
    with serving(AnswerServer(flink_answers())) as port:
        assert FlinkCluster().ready([port])


def test_spark_standalone(proxy: WebProxy, host: str) -> None:
    server = AnswerServer({})
    with serving(server) as port:
        server.answers = standalone_answers(port)
        address = f"spark://{host}:{port}"
        inventory = Inventory({"A": one_site("A", address, "tcp://b:1", rest_port=port, ui_port=port)})
        engine = StandaloneEngine(address, inventory)
        assert engine.capacity().cores == 4
        engine.close()


def test_a_local_spark_standalone(proxy: WebProxy) -> None:
    server = AnswerServer({"/v1/submissions/readyz": {"success": True}, "/json/": {"aliveworkers": 1}})
    with serving(server) as port:
        assert StandaloneCluster().ready([0, port, port])


def test_spark_connect(proxy: WebProxy, host: str) -> None:
    with connected(1, 0.0, end=True, host=host) as client:
        assert len(client._execute(SESSION, PLAN, "arrow_batch", 20.0)) == 1


def test_a_driver_fetches_its_files_and_asks_the_master(
    proxy: WebProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = AnswerServer(
        {"/a.py": "print()", "/v1/submissions/status/d": {"success": True, "driverState": "RUNNING"}}
    )
    with serving(server) as port:
        url = f"http://127.0.0.1:{port}"
        sha256 = hashlib.sha256(b"print()").hexdigest()
        fetched = fetch({"name": "a.py", "sha256": sha256, "url": f"{url}/a.py"}, tmp_path)
        assert fetched.read_text() == "print()"
        asking = object.__new__(lease.AttemptLease)
        asking._rest, asking._token = url, "sesame"
        assert asking._state("d") == "RUNNING"


def test_the_token_of_a_driver_follows_no_redirect() -> None:
    seen: list[str | None] = []

    class Elsewhere(Handler):
        def do_GET(self) -> None:  # noqa: N802 - the name of the base class
            seen.append(self.headers.get("Authorization"))
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

    with http_server(Elsewhere) as port:
        asking = object.__new__(lease.AttemptLease)
        asking._rest, asking._token = f"http://127.0.0.1:{port}", "sesame"
        with pytest.raises(lease.OwnerUnknown, match="302"):
            asking._state("d")
    assert seen == ["Bearer sesame"]


def test_a_hook(proxy: WebProxy) -> None:
    asked: list[bytes] = []

    class Hook(Handler):
        def do_PUT(self) -> None:  # noqa: N802 - the name of the base class
            asked.append(self.body())
            self.answer(200, b"")

    with http_server(Hook) as port:
        scale = Scale(least=0, most=1, cores=1, url=f"http://127.0.0.1:{port}/")
        call = HookCall(scale, WorkerRequest("A", "http://e/", 1))
        call.start()
        done: Callable[[], bool] = call.is_done
        eventually(done, bool)
        assert call.fault == ""
    assert len(asked) == 1
