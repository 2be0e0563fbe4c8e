"""``speck serve`` told to end, once or more, with an operation at work and people watching it."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
import requests

from speck.store import Store
from speck.testing.waiting import eventually
from testbed.servers.rest import yaml_of
from testbed.servers.served_process import Served, served

SLOW = yaml_of("slow t0 t1", "quick t1 t2")
ENDING = [[signal.SIGTERM] * 3, [signal.SIGINT] * 2, [signal.SIGHUP, signal.SIGTERM], [signal.SIGINT]]


def apply(server: Served, name: str) -> requests.Response:
    headers = {"Content-Type": "application/yaml"}
    url = f"{server.url}/compositions?name={name}"
    return requests.post(url, data=SLOW, headers=headers, timeout=120)


@pytest.mark.slow("four servers, each a process")
@pytest.mark.parametrize("signals", ENDING, ids=lambda given: "-".join(each.name for each in given))
def test_an_operation_at_work_is_finished_and_shown_to_its_end(
    tmp_path: Path, signals: list[signal.Signals]
) -> None:
    with served(tmp_path) as server:
        process = server.process
        assert process.stderr is not None
        operation = apply(server, "one").json()["id"]
        url = f"{server.url}/operations/{operation}"
        with requests.get(f"{url}/events", stream=True, timeout=120) as stream:
            lines = stream.iter_lines()
            assert next(lines).startswith(b"data: ")
            for number in signals:
                process.send_signal(number)
                assert process.stderr.readline().startswith(f"{number.name}: ")
            deadline = time.monotonic() + 120
            while (refused := apply(server, "one")).status_code != 503 or "shutting" not in refused.text:
                assert time.monotonic() < deadline, refused.text
            assert refused.headers["Retry-After"] == "1"
            assert requests.get(url, timeout=120).json()["state"] == "running"
            server.go()
            shown = [json.loads(line[6:])["state"] for line in lines if line.startswith(b"data: ")]
        assert shown[-1] == "succeeded"
        assert process.wait(120) == 0
        assert process.stderr.read() == ""
    with Store(tmp_path / "store") as store:
        data = store.operation(operation)
        assert data is not None
        assert data["state"] == "succeeded"


@pytest.mark.slow("two servers, each a process; calls under way get 2 s")
def test_an_operation_that_does_not_end_is_interrupted_and_resumed(tmp_path: Path) -> None:
    with served(tmp_path, "--shutdown", 0.5, CLOSING="2") as server:
        process = server.process
        operation = apply(server, "one").json()["id"]
        process.terminate()
        begun = time.monotonic()
        assert process.wait(60) == 0
        assert time.monotonic() - begun < 12
        assert process.stderr is not None
        assert "operations still running after 0.5 s: 1 (resumed at the next start)" in process.stderr.read()
    with Store(tmp_path / "store") as store:
        data = store.operation(operation)
        assert data is not None
        assert data["state"] == "running"
    (tmp_path / "go").touch()
    with served(tmp_path) as server:
        url = f"{server.url}/operations/{operation}"
        eventually(lambda: requests.get(url, timeout=120).json()["state"], lambda state: state == "succeeded")


def test_an_idle_server_ends_with_connections_open(tmp_path: Path) -> None:
    with served(tmp_path) as server, requests.Session() as session:
        assert session.get(f"{server.url}/healthz", timeout=120).ok
        server.process.terminate()
        assert server.process.wait(120) == 0
        assert not (tmp_path / "store" / "OWNER").exists()
