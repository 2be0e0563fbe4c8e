"""The REST interface used roughly: wrong methods and types, odd names, slow and half-closed clients."""

from __future__ import annotations

import errno
import json
import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests
from flask import Response
from waitress.adjustments import Adjustments

from speck.core.inventory import Inventory
from speck.server.api import MAX_BODY
from speck.server.middleware.concurrency_limit import ConcurrencyLimit
from speck.server.request_parser import LONGEST_LINE, StrictParser
from speck.server.wsgi import MAX_HEADER, THREADS, _Accepting
from speck.testing.waiting import eventually
from testbed.benches.examples import one_site
from testbed.servers.rest import SOLO, RestServer, rest_server, yaml_of
from tests.server.requesting import JSON, YAML, connect, problem_of, raw, read_all
from tests.support.properties import SHARE

ONE = yaml_of("a t0 t1")


@pytest.fixture(name="server", scope="module")
def server_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestServer]:
    """One server for the tests here that change nothing in it."""
    with rest_server(tmp_path_factory.mktemp("http")) as server:
        yield server


def ask(server: RestServer, method: str, path: str, **kwargs: Any) -> requests.Response:
    return requests.request(method, server.url + path, timeout=120, **kwargs)


# --- methods, types, queries


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/jobs", {"GET", "HEAD", "OPTIONS", "POST"}),
        ("POST", "/jobs/a", {"DELETE", "GET", "HEAD", "OPTIONS"}),
        ("TRACE", "/healthz", {"GET", "HEAD", "OPTIONS"}),
        ("SPECK", "/events", {"GET", "HEAD", "OPTIONS"}),
    ],
)
def test_a_wrong_method_is_told_the_right_ones(
    server: RestServer, method: str, path: str, allowed: set[str]
) -> None:
    answer = ask(server, method, path)
    problem_of(answer, 405)
    assert set(answer.headers["Allow"].split(", ")) == allowed


def test_head_and_options_are_answered(server: RestServer) -> None:
    assert (ask(server, "HEAD", "/jobs").status_code, ask(server, "HEAD", "/jobs").text) == (200, "")
    assert ask(server, "HEAD", "/jobs/none").status_code == 404
    assert "POST" in ask(server, "OPTIONS", "/jobs").headers["Allow"]


def test_any_accept_is_answered_as_documented(server: RestServer) -> None:
    answer = ask(server, "GET", "/jobs", headers={"Accept": "image/png"})
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/json")


@pytest.mark.parametrize("path", ["/jobs", "/compositions"])
@pytest.mark.parametrize(
    ("headers", "body", "status", "said"),
    [
        ({"Content-Type": "image/png"}, b"x", 415, "'image/png' is not supported"),
        (JSON | {"Content-Encoding": "gzip"}, b"\x1f\x8b", 415, "'gzip' is not supported"),
        (JSON, b'{"jobs": [', 400, "not valid JSON"),
        (YAML, b"jobs: [", 400, "not valid YAML"),
        (JSON, b"\xff\xfe{\x00}\x00", 400, "not UTF-8"),
        (YAML, b"", 400, "is empty"),
        (JSON, b"[" * 100_000, 400, "nested too deeply"),
        (JSON, b"NaN", 422, "(expected a mapping"),
        (JSON, b"1" * 5000, 400, "not valid JSON"),
    ],
)
def test_bodies_that_are_no_document(
    server: RestServer, path: str, headers: dict[str, str], body: bytes, status: int, said: str
) -> None:
    assert said in problem_of(ask(server, "POST", path, data=body, headers=headers), status)["detail"]


@pytest.mark.parametrize("arguments", ['{"x": NaN}', '{"x": -Infinity}', '{"x": 1e999}', r'{"x": "\ud800"}'])
def test_values_that_no_answer_could_repeat_are_refused(server: RestServer, arguments: str) -> None:
    body = json.dumps(SOLO)[:-1] + f', "arguments": {arguments}}}'
    problem = problem_of(ask(server, "POST", "/jobs", data=body, headers=JSON), 422)
    assert [each["field"] for each in problem["faults"]] == ["arguments"]


def test_unknown_query_parameters_are_refused_before_anything_is_done(server: RestServer) -> None:
    answer = ask(server, "POST", "/compositions?dryrun=true", data=ONE, headers=YAML)
    assert "did you mean 'dry_run'?" in problem_of(answer, 422)["detail"]
    assert "this path takes none" in problem_of(ask(server, "GET", "/jobs?limit=3"), 422)["detail"]
    answer = ask(server, "GET", "/events?limit=3&limit=4")
    assert "'limit' is given twice" in problem_of(answer, 422)["detail"]
    assert ask(server, "GET", "/compositions").json() == []


@pytest.mark.parametrize("value", ["nan", "inf", "-1", "1e9", "soon", "", "%00", "9" * 5000])
@pytest.mark.parametrize("parameter", ["wait", "base_revision"])
def test_odd_numbers_in_a_query(server: RestServer, parameter: str, value: str) -> None:
    answer = ask(server, "POST", f"/compositions?dry_run=true&{parameter}={value}", data=ONE, headers=YAML)
    assert problem_of(answer, 422)["faults"][0]["field"] == parameter


def test_a_path_that_no_file_can_have(server: RestServer) -> None:
    for path, said in (("x" * 300 + ".py", "File name too long"), ("a\0b.py", "control character")):
        answer = ask(server, "POST", "/jobs", json=SOLO | {"job_path": path})
        assert said in problem_of(answer, 422)["detail"]


# --- names

ODD = [
    "a%2Fb",
    "..%2F..%2Fetc%2Fpasswd",
    "%2e%2e",
    "%00",
    "a%0d%0aX-Injected:%201",
    "%FF",
    "%ED%A0%80",
    "%F0%9F%92%A9",
    "a%20b",
    "-a",
    ".",
    "a" * 5000,
    "a%1B%5B2J",
    "%25s%25n",
    "a;b",
    "a%3Fb=c%23d",
]


@pytest.mark.parametrize("name", ODD)
def test_odd_names_in_a_path_are_of_nothing(server: RestServer, name: str) -> None:
    for method, path in (
        ("GET", f"/jobs/{name}"),
        ("DELETE", f"/jobs/{name}"),
        ("GET", f"/compositions/{name}"),
        ("GET", f"/compositions/{name}/revisions"),
        ("DELETE", f"/compositions/{name}"),
        ("GET", f"/operations/{name}"),
        ("GET", f"/operations/{name}/events"),
        ("GET", f"/artifacts/{name}/{name}/{name}"),
    ):
        head = "Host: 127.0.0.1\r\nConnection: close\r\n\r\n"
        answer = raw(server, f"{method} {path} HTTP/1.1\r\n{head}".encode())
        received, _, body = answer.partition(b"\r\n\r\n")
        assert b"X-Injected" not in received
        assert json.loads(body)["status"] in (404, 405), answer


@pytest.mark.parametrize("name", [*ODD, "%C3%A9", "e%CC%81"])
def test_odd_names_of_compositions_are_refused(server: RestServer, name: str) -> None:
    one = json.dumps(SOLO)
    answer = ask(server, "POST", f"/jobs?composition={name}", data=one, headers=JSON)
    assert "is not a name" in problem_of(answer, 422)["detail"]
    answer = ask(server, "POST", f"/compositions?name={name}", data=ONE, headers=YAML)
    assert "is not a name" in problem_of(answer, 422)["detail"]
    assert ask(server, "GET", "/compositions").json() == []


@pytest.mark.parametrize("parameter", ["author", "message"])
def test_control_characters_do_not_reach_anybody_s_terminal(server: RestServer, parameter: str) -> None:
    answer = ask(server, "POST", f"/compositions?{parameter}=a%1B%5B2J", data=ONE, headers=YAML)
    assert "control character" in problem_of(answer, 422)["detail"]


# --- sizes


def test_a_body_that_is_too_large_is_told_the_limit(server: RestServer) -> None:
    large = b"# " + b"x" * MAX_BODY
    assert (
        f"at most {MAX_BODY:,} bytes"
        in problem_of(ask(server, "POST", "/compositions", data=large, headers=YAML), 413)["detail"]
    )
    chunks = (large[start : start + 1_000_000] for start in range(0, len(large), 1_000_000))
    problem_of(ask(server, "POST", "/compositions", data=chunks, headers=YAML), 413)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ((b"GET /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * MAX_HEADER)[:MAX_HEADER], 431),
        (b"POST /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999\r\n\r\n", 413),
        (b"POST /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n", 400),
        (b"POST /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"POST /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
        (b"POST /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", 400),
        (b"GET http://[x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", 400),
        (b"GET /jobs HTTP/1.1\r\n\r\n", 400),
        (b"GET /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: localhost\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"rubbish\r\n\r\n", 400),
    ],
)
def test_what_is_no_request_is_answered_as_everything_is(
    server: RestServer, request_: bytes, status: int
) -> None:
    head, _, body = raw(server, request_).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1."), head
    assert b"application/problem+json" in head
    assert (json.loads(body)["status"], bool(json.loads(body)["detail"])) == (status, True)


HIDDEN = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.mark.parametrize(
    "framing",
    [
        b"HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 49",
        b"HTTP/1.1\r\nContent-Length: 49\r\nTransfer-Encoding: chunked",
        b"HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 0",
        b"HTTP/1.1\r\nTransfer-Encoding: chunked, chunked\r\nContent-Length: 5",
        b"HTTP/1.1\r\nTransfer-Encoding : chunked",
        b"HTTP/1.1\r\nTransfer-Encoding: \x0bchunked",
        b"HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked",
        b"HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\nContent-Length: 0",
    ],
)
def test_no_request_is_hidden_in_another(server: RestServer, framing: bytes) -> None:
    """A proxy that takes the end of the body to be elsewhere would pass the hidden one on unseen."""
    sent = b"POST /jobs " + framing + b"\r\nHost: 127.0.0.1\r\n\r\n0\r\n\r\n" + HIDDEN
    answer = raw(server, sent)
    assert len(re.findall(rb"HTTP/1\.\d \d", answer)) == 1, answer
    assert re.findall(rb"(?m)^Connection: (\w+)", answer) == [b"close"]
    assert answer.partition(b" ")[2][:3] in (b"400", b"501")


def test_a_line_between_chunks_that_does_not_end(server: RestServer) -> None:
    begun = b"POST /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    for line in (b"", b"0\r\n"):
        answer = raw(server, begun + line + b"1" * (LONGEST_LINE + 1))
        assert b" 400 " in answer.partition(b"\r\n")[0]
        assert b"between chunks is too long" in answer


def test_what_a_stranger_sends_is_not_kept() -> None:
    for who, retained in (("right", 300_000), ("wrong", 0)):
        for framing in (b"Content-Length: 300000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n493e0\r\n"):
            head = f"POST /jobs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {who}\r\n"
            arrival = StrictParser(lambda header: header == "Bearer right", Adjustments())
            for part in (head.encode() + framing, *[b"x" * 1000] * 300, b"\r\n0\r\n\r\n"):
                while part and not arrival.completed:
                    part = part[arrival.received(part) :]
            assert (arrival.completed, arrival.error) == (True, None)
            assert len(arrival.get_body_stream().read()) == int(arrival.headers["CONTENT_LENGTH"]) == retained


# --- slow, half-closed and many clients


def test_a_half_closed_connection_is_answered(server: RestServer) -> None:
    with connect(server) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        assert read_all(connection).endswith(b'{"status": "ok"}')


def test_clients_that_drip_are_cut_and_keep_nobody_waiting(tmp_path: Path) -> None:
    with rest_server(tmp_path, patience=1.0) as rest:
        begun = b"POST /jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n{"
        starts = (b"GET /jobs HTT", begun)
        dripping = [(connect(rest), start) for start in starts * 2 * THREADS]
        for connection, start in dripping:
            connection.sendall(start)
        assert requests.get(f"{rest.url}/healthz", timeout=120).ok
        for connection, _ in dripping:
            head, _, body = read_all(connection).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.0 408") or head.startswith(b"HTTP/1.1 408")
            assert "did not arrive in time" in json.loads(body)["detail"]
            connection.close()
        refused = {"route": "refused", "method": "other", "status": "4xx"}
        counted = rest.services.metrics.registry.get_sample_value
        assert counted("speck_http_requests_total", refused) == len(dripping)


def test_a_hundred_open_event_streams_starve_nobody_and_end_with_the_operation(rest: RestServer) -> None:
    hold = rest.world.hold("submit")
    operation = ask(rest, "POST", "/compositions?name=demo", data=ONE, headers=YAML).json()["id"]
    head = "Host: 127.0.0.1\r\nConnection: close\r\n\r\n"
    request_ = f"GET /operations/{operation}/events HTTP/1.1\r\n{head}".encode()
    streams = [connect(rest) for _ in range(100)]
    for stream in streams:
        stream.sendall(request_)
    first = [stream.recv(65536) for stream in streams]
    assert all(data.startswith(b"HTTP/1.1 200") for data in first)
    assert ask(rest, "GET", "/jobs").ok
    assert ask(rest, "GET", "/jobs/a").ok
    hold.release()
    for stream in streams:
        assert b'"state": "succeeded"' in read_all(stream)
        stream.close()


@pytest.mark.parametrize("path", ["/doctor", "/sites/check"])
def test_requests_for_what_takes_long_share_it_and_take_no_thread_of_others(
    tmp_path: Path, path: str
) -> None:
    """More of them than there are threads, while the engine of a site does not answer."""
    inventory = Inventory({"A": one_site("A", SOLO["spe_address"], SOLO["source_broker"])})
    with rest_server(tmp_path, inventory) as rest, ThreadPoolExecutor(2 * THREADS) as threads:
        hold = rest.world.hold("checkup")
        answers = [threads.submit(ask, rest, "GET", path) for _ in range(2 * THREADS)]
        assert hold.reached.wait(30)
        eventually(lambda: rest.concurrency_limit.now, lambda now: now == 2 * THREADS)
        for quick in ("/healthz", "/metrics", "/jobs"):
            assert requests.get(rest.url + quick, timeout=10).ok, quick
        hold.release()
        assert len({each.result().text for each in answers}) == 1
        assert rest.world.calls.count(("checkup", SOLO["spe_address"], "")) == 1
        assert ask(rest, "GET", path).ok
        assert rest.world.calls.count(("checkup", SOLO["spe_address"], "")) == 2


def test_a_route_is_counted_unless_it_is_declared_quick(rest: RestServer) -> None:
    """One that is added and forgotten takes no thread of the others."""
    hold, begun = threading.Event(), threading.Semaphore(0)

    def forgotten() -> str:
        begun.release()
        hold.wait(60)
        return "late"

    rest.app.add_url_rule("/forgotten", "forgotten", forgotten)
    with ThreadPoolExecutor(2 * THREADS) as threads:
        answers = [threads.submit(ask, rest, "GET", "/forgotten") for _ in range(2 * THREADS)]
        try:
            assert all(begun.acquire(timeout=30) for _ in answers)
            assert requests.get(rest.url + "/healthz", timeout=10).ok
        finally:
            hold.set()
        assert [each.result().text for each in answers] == ["late"] * len(answers)


def test_requests_that_read_leave_room_for_those_that_change_something() -> None:
    limit = ConcurrencyLimit(most=3, most_reading=2)
    assert [limit.enter(reads=True) for _ in range(3)] == [True, True, False]
    assert [limit.enter(reads=False) for _ in range(2)] == [True, False]
    limit.leave(reads=True)
    assert [limit.enter(reads=False), limit.enter(reads=True)] == [True, False]


@pytest.mark.parametrize(
    ("method", "headers", "status", "length"),
    [
        ("GET", {}, 200, 100_000),
        ("HEAD", {}, 200, 0),
        ("GET", {"Range": "bytes=2-70000"}, 206, 69_999),
        ("GET", {"If-None-Match": "*"}, 304, 0),
    ],
)
def test_a_file_for_an_engine_is_counted_no_longer_than_it_is_sent(
    rest: RestServer, method: str, headers: dict[str, str], status: int, length: int
) -> None:
    for _ in range(3):
        answer = requests.request(method, _offered(rest, 100_000), headers=headers, timeout=120)
        assert (answer.status_code, len(answer.content)) == (status, length)
    eventually(lambda: rest.concurrency_limit.now, lambda now: now == 0)


@pytest.mark.parametrize("field", ["", "Range: bytes=1-\r\n"])
def test_a_client_that_goes_away_amid_a_file_is_counted_no_longer(rest: RestServer, field: str) -> None:
    path = _offered(rest, 30 << 20).removeprefix(rest.url)  # more than waitress keeps for a slow client
    with connect(rest) as client:
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{field}\r\n".encode())
        assert client.recv(12).startswith(b"HTTP/1.1 20")
    eventually(lambda: rest.concurrency_limit.now, lambda now: now == 0)


def _offered(rest: RestServer, size: int) -> str:
    """The URL of a file for engines."""
    assert rest.services.files is not None
    return rest.services.files.offer("job.jar", bytes(size)).url


def test_a_request_whose_answer_fails_is_counted_no_longer(rest: RestServer) -> None:
    def fail(answer: Response) -> Response:
        raise RuntimeError("no answer")

    rest.app.after_request(fail)
    assert ask(rest, "GET", "/doctor").status_code == 500
    eventually(lambda: rest.concurrency_limit.now, lambda now: now == 0)


def test_a_connection_without_a_descriptor_stays_in_the_queue_and_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    errors = [OSError(errno.EMFILE, "Too many open files")] * 2 + [OSError(errno.ECONNABORTED, "aborted")]

    def accept() -> None:
        raise errors.pop(0)

    accepting = _Accepting(accept)
    assert [accepting(), accepting()] == [None, None]
    with pytest.raises(OSError, match="aborted"):
        accepting()
    assert [each.message for each in caplog.records] == [
        "connections cannot be accepted: Too many open files (see ulimit -n)"
    ]


def test_more_waiting_requests_than_threads_may_be_taken_for_are_told_to_come_back(tmp_path: Path) -> None:
    with rest_server(tmp_path) as rest:
        hold = rest.world.hold("submit")
        operation = ask(rest, "POST", "/compositions?name=demo", data=ONE, headers=YAML).json()["id"]
        with ask(rest, "GET", f"/operations/{operation}/events", stream=True):
            rest.concurrency_limit.most = 1
            refused = ask(rest, "POST", "/compositions?name=other", data=ONE, headers=YAML)
            problem_of(refused, 503)
            assert refused.headers["Retry-After"] == "5"
            assert ask(rest, "GET", f"/operations/{operation}").json()["state"] == "running"
            hold.release()


@pytest.mark.slow("repeats until each interleaving was likely")
def test_lists_are_read_while_compositions_come_and_go(rest: RestServer) -> None:
    """Each reading falls between two steps of the other thread sooner or later: none may fail."""
    over = threading.Event()
    answers: set[int] = set()

    def read() -> None:
        with requests.Session() as session:
            while not over.is_set():
                answers.update(
                    session.get(rest.url + path, timeout=120).status_code
                    for path in ("/jobs", "/compositions", "/metrics")
                )

    readers = [threading.Thread(target=read) for _ in range(4)]
    for reader in readers:
        reader.start()
    for number in range(round(30 * SHARE)):
        path = f"/compositions?name=n{number % 3}&wait=60"
        assert ask(rest, "POST", path, data=yaml_of(f"a{number % 3} x y"), headers=YAML).ok
        assert ask(rest, "DELETE", f"/compositions/n{number % 3}?wait=60").ok
    over.set()
    for reader in readers:
        reader.join()
    assert answers == {200}
