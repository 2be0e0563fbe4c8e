"""The binder without a cluster: addresses that are none, and services that answer as a cluster may."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from binders.flink.engine import connect_engine
from binders.flink.submission import launcher
from speck.core.inventory import Inventory, Login
from speck.errors import OutcomeUnknown, Rejected
from speck.testing import attempt_of
from testbed.benches.examples import job, one_site
from testbed.benches.flink import BROKER


def test_a_missing_ca_file_is_named(tmp_path: Path) -> None:
    address = "https://127.0.0.1:1"
    one = one_site("A", address, BROKER, engine_login=Login(ca_file=str(tmp_path / "none.pem")))
    with pytest.raises(Rejected, match=r"ca_file .*none\.pem"):
        connect_engine(address, Inventory({"A": one})).capacity()


@pytest.mark.parametrize(
    "address",
    ["http://", "flink://host:8081", "http://host:port", "http://host:8081/?a=b", "http://host:99999"],
)
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(Rejected, match="expected http://HOST:PORT"):
        connect_engine(address, Inventory())


def test_an_address_with_a_login_in_it_is_not_repeated() -> None:
    with pytest.raises(Rejected, match="engine_login") as caught:
        connect_engine("http://speck:open-sesame@host:8081", Inventory())
    assert "sesame" not in str(caught.value)


@contextmanager
def answering(answers: Mapping[str, tuple[int, bytes]], other: tuple[int, bytes]) -> Iterator[str]:
    """The address of a service that gives these answers (status, JSON) by the ends of paths."""

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = next((each for end, each in answers.items() if self.path.endswith(end)), other)
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_version_that_is_too_old(job_name: str) -> None:
    old = (200, b'{"flink-version":"1.17.2","slots-total":1,"slots-available":1}')
    with answering({}, old) as address:
        engine = connect_engine(address, Inventory())
        with pytest.raises(Rejected, match=r"is Flink 1\.17\.2 \(expected Flink 2, or 1\.20\)"):
            engine.check(job(job_name), None)
        engine.close()


def test_a_job_that_begins_is_asked_for_again(job_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # What Flink 2.3 answers for a moment, when the job's main method has only just returned.
    error = (
        "org.apache.flink.runtime.dispatcher.UnavailableDispatcherOperationException: Unable to get "
        "JobMasterGateway for initializing job. The requested operation is not available while the "
        "JobManager is initializing."
    )
    begins = (500, json.dumps({"errors": [error]}).encode())
    answers = {"/status": (200, b'{"status":"INITIALIZING"}'), "/checkpoints": begins}
    monkeypatch.setattr(launcher, "FIND_PATIENCE", 0.5)
    with answering(answers, (200, b"[]")) as address:
        engine = connect_engine(address, Inventory())
        with pytest.raises(OutcomeUnknown, match=r"JobManager is initializing.*\(try again\)"):
            engine.find(attempt_of(job(job_name)))
        engine.close()
