"""A change that meets a server which shuts down: it is made once the server has restarted."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

from speck.client import Client, RequestRefused
from speck.client.restart import through_restart
from speck.testing.waiting import eventually
from testbed.servers.rest import RestServer, rest_server, yaml_of
from testbed.servers.terminal import piped

TEXT = yaml_of("a t0 t1").encode()


@pytest.fixture(name="closing")
def closing_fixture(tmp_path: Path) -> Iterator[RestServer]:
    with rest_server(tmp_path) as rest:
        rest.coordinator.operations.refuse_new()
        yield rest


def test_a_server_that_shuts_down_says_when_to_come_again(closing: RestServer) -> None:
    url, headers = f"{closing.url}/compositions?name=one", {"Content-Type": "application/yaml"}
    answer = requests.post(url, data=TEXT, headers=headers, timeout=60)
    problem = answer.json()
    assert (answer.status_code, problem["status"], problem["shutting_down"]) == (503, 503, True)
    assert answer.headers["Retry-After"] == "1"
    assert "the server is shutting down" in problem["detail"]
    assert closing.client.jobs() == []  # it still answers what changes nothing


def test_a_change_is_made_when_the_server_has_restarted(tmp_path: Path) -> None:
    refused = list[int]()
    with ThreadPoolExecutor(1) as pool:
        with rest_server(tmp_path) as first:
            client = Client(first.url)
            first.coordinator.operations.refuse_new()
            first.app.after_request(lambda answer: refused.append(answer.status_code) or answer)
            applied = pool.submit(client.apply, TEXT, "one", wait=60)
            eventually(lambda: refused.count(503), lambda count: count > 1, 60)
        with rest_server(tmp_path, port=first.port, world=first.world) as second:
            assert applied.result(60)["state"] == "succeeded"
            assert len(second.client.operations()) == 1


def test_the_refusal_is_shown_after_a_while(closing: RestServer) -> None:
    client = closing.client
    client.read_timeout = 1.0
    with pytest.raises(RequestRefused, match="the server is shutting down") as caught:
        client.apply(TEXT, "one")
    assert caught.value.status == 503


def test_a_pair_awaits_the_other_server(closing: RestServer, tmp_path: Path) -> None:
    with rest_server(tmp_path / "other") as other:
        client = Client(f"{closing.url},{other.url}")
        assert client.apply(TEXT, "one", wait=60)["state"] == "succeeded"
        assert client.url == other.url


def test_the_command_line_waits_for_the_server(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_bytes(TEXT)
    refused = list[int]()
    with ThreadPoolExecutor(1) as pool:
        with rest_server(tmp_path) as first:
            first.coordinator.operations.refuse_new()
            first.app.after_request(lambda answer: refused.append(answer.status_code) or answer)
            applied = pool.submit(piped, first.url, "apply", str(tmp_path / "one.yaml"), "--yes")
            eventually(lambda: refused.count(503), bool, 60)
        with rest_server(tmp_path, port=first.port, world=first.world) as second:
            done = applied.result(60)
            assert done.returncode == 0, done.stderr
            assert [each["job_name"] for each in second.client.jobs()] == ["a"]


# --- the rule


def response(status: int, body: bytes) -> requests.Response:
    found = requests.Response()
    found.status_code, found._content = status, body
    return found


CLOSING = response(503, b'{"shutting_down": true}')
DONE = response(202, b"{}")
REFUSED = requests.ConnectTimeout()
LOST = requests.ConnectionError("aborted")


@pytest.mark.parametrize(
    ("answers", "once", "expected"),
    [
        ([DONE], False, DONE),
        ([CLOSING, CLOSING, DONE], False, DONE),
        ([CLOSING, REFUSED, REFUSED, DONE], False, DONE),
        ([CLOSING, LOST, DONE], False, DONE),
        ([CLOSING, REFUSED, DONE], True, DONE),
        ([CLOSING, LOST], True, LOST),
        ([LOST], False, LOST),
        ([CLOSING, requests.ReadTimeout("slow")], False, requests.ReadTimeout),
        ([CLOSING] * 5 + [DONE], False, CLOSING),
        ([response(503, b'{"detail": "overloaded"}')], False, None),
        ([response(503, b"a proxy")], False, None),
        ([response(409, b'{"shutting_down": true}')], False, None),
    ],
)
def test_what_is_asked_again(answers: list[object], once: bool, expected: object) -> None:
    now, left = [0.0], iter(answers)

    def request() -> requests.Response:
        found = next(left)
        if isinstance(found, Exception):
            raise found
        assert isinstance(found, requests.Response)
        return found

    def sleep(seconds: float) -> None:
        now[0] += seconds

    def ask() -> requests.Response:
        return through_restart(request, once=once, patience=2.0, clock=lambda: now[0], sleep=sleep)

    if isinstance(expected, requests.Response) or expected is None:
        assert ask() is (expected or answers[0])
    else:
        with pytest.raises(type(expected) if isinstance(expected, Exception) else expected):  # type: ignore[call-overload]
            ask()
