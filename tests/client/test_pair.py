"""A client with the addresses of both servers of a pair, over real sockets."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import requests

from speck.client import Client, NoServer, RequestRefused
from speck.client.pair import LostAnswer, Pair, fault_of, urls_of
from speck.errors import ServerError
from speck.server.pair.app import create_pair_app
from speck.server.process import listen
from speck.server.wsgi import WebServer
from speck.testing.wire_trouble import BrokenServer, Mischief, MischiefRelay, Relay, Trouble
from testbed.servers.base import REFUSING_PORT
from testbed.servers.rest import RestServer, rest_server, yaml_of
from testbed.servers.terminal import piped

NOBODY = f"http://127.0.0.1:{REFUSING_PORT}"
TEXT = yaml_of("a t0 t1").encode()
A, B = "http://a:1", "http://b:1"


@contextmanager
def standby(primary: str = "", port: int = 0) -> Iterator[str]:
    """The URL of the application of a standby; its ``primary`` is there."""
    with closing(listen("127.0.0.1", port)) as listener:
        state = {"detail": f"this server is a standby; the primary is at {primary}", "role": "standby"}
        app = create_pair_app(lambda *_: {}, "the token of the pair", lambda: state | {"primary": primary})
        server = WebServer(app, listener)
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.end()
            thread.join(30)


def patient(*urls: str, seconds: float = 60.0) -> Client:
    client = Client(",".join(urls))
    client.read_timeout = seconds
    return client


# --- the addresses


@pytest.mark.parametrize(
    ("text", "urls"),
    [(A, (A,)), (f"{A}/", (A,)), (f"{A},{B}", (A, B)), (f" {A}/ , {B}", (A, B)), (f"{A},", (A, ""))],
)
def test_the_addresses_in_a_text(text: str, urls: tuple[str, ...]) -> None:
    assert urls_of(text) == urls


@pytest.mark.parametrize(
    ("urls", "fault"),
    [
        ((A, B), ""),
        ((A, ""), r"'' of 'http://a:1,' is not the address of a server \(expected http://HOST:PORT\)"),
        ((A, "b:8180"), "'b:8180' of"),
        ((A, "http://b:x"), "'http://b:x' of"),
        ((A, "http://"), "'http:' of"),
        ((A, A), r"names a server twice \(expected both servers of a pair\)"),
    ],
)
def test_addresses_that_are_none_are_named(urls: tuple[str, ...], fault: str) -> None:
    found = fault_of(urls)
    assert bool(found) == bool(fault)
    if fault:
        with pytest.raises(ServerError, match=fault):
            Client(",".join(urls)).jobs()


# --- the primary is found


def test_the_primary_is_found_whichever_comes_first(rest: RestServer) -> None:
    with standby(rest.url) as other:
        for urls in ((other, rest.url), (rest.url, other), (NOBODY, rest.url), (rest.url, NOBODY)):
            client = patient(*urls)
            assert client.jobs() == []
            assert client.url == rest.url


def test_the_command_line_takes_both(rest: RestServer) -> None:
    with standby(rest.url) as other:
        found = piped(f"{other},{rest.url}", "jobs", "--json")
    assert (found.returncode, found.stdout.strip()) == (0, "[]"), found.stderr


def test_the_server_that_answered_is_asked_again(rest: RestServer) -> None:
    """Without a look at the other one for each request."""
    with BrokenServer(Trouble.SILENT) as silent:
        client = patient(f"http://127.0.0.1:{silent.port}", rest.url, seconds=2)
        client.jobs()
    client.read_timeout = 60
    assert client.jobs() == []  # the other one refuses now
    assert client.url == rest.url


def test_a_server_that_is_silent_is_left_for_the_other(rest: RestServer) -> None:
    with BrokenServer(Trouble.SILENT) as silent:
        client = patient(f"http://127.0.0.1:{silent.port}", rest.url, seconds=2)
        client.apply(TEXT, "one", wait=60)
        assert [each["job_name"] for each in client.jobs()] == ["a"]


def test_both_addresses_are_named_when_neither_answers() -> None:
    other = "http://localhost:1"
    found = piped(f"{NOBODY},{other}", "jobs")
    assert found.returncode == 1
    assert f"no SpecK server at {NOBODY} or {other} (start one" in " ".join(found.stderr.split())


def test_both_are_named_when_no_take_over_comes() -> None:
    with (
        standby("http://c:1") as other,
        pytest.raises(NoServer, match="no server of the pair is the primary") as error,
    ):
        patient(NOBODY, other, seconds=2).jobs()
    assert f"{NOBODY} does not answer" in str(error.value)
    assert f"{other} answers: this server is a standby; the primary is at http://c:1" in str(error.value)


def test_a_take_over_is_awaited(tmp_path: Path) -> None:
    """The standby becomes the primary while a client waits."""
    with standby() as url:
        port = int(url.rpartition(":")[2])
        client, found = patient(NOBODY, url), list[object]()
        waiting = threading.Thread(target=lambda: found.append(client.apply(TEXT, "one", wait=60)))
        refused = requests.get(f"{url}/jobs", timeout=60)
        assert (refused.status_code, refused.json()["role"]) == (503, "standby")
        waiting.start()
        waiting.join(0.3)
        assert not found
    with rest_server(tmp_path, port=port) as rest:
        waiting.join(60)
        assert [each["state"] for each in found] == ["succeeded"]  # type: ignore[index]
        assert client.url == rest.url


def test_a_single_standby_answers_for_itself() -> None:
    with standby("http://c:1") as url, pytest.raises(RequestRefused, match="the primary is at http://c:1"):
        Client(url).jobs()


def test_the_page_of_a_standby_leads_to_the_primary(rest: RestServer) -> None:
    with standby(rest.url) as other:
        found = requests.get(f"{other}/", timeout=60)
        assert (found.url, found.status_code) == (f"{rest.url}/", 200)
        assert requests.get(f"{other}/jobs", timeout=60).status_code == 503
        assert requests.post(f"{other}/", timeout=60).status_code == 503
    with standby() as other:
        assert requests.get(f"{other}/", timeout=60).status_code == 503


# --- lost answers


def test_a_lost_answer_is_asked_for_again_and_the_operation_begins_once(rest: RestServer) -> None:
    with Relay(rest.port, lose_answer_to=b"POST /compositions") as relay:
        client = patient(f"http://127.0.0.1:{relay.port}", rest.url)
        done = client.apply(TEXT, "one", wait=60)
        assert relay.lost.is_set()
    assert (done["state"], done["revision"]) == ("succeeded", 1)
    assert [each["id"] for each in rest.client.operations()] == [done["id"]]


def test_a_shown_plan_whose_answer_was_lost_is_accepted_once(rest: RestServer) -> None:
    plan = rest.client.plan(TEXT, "one")
    with Relay(rest.port, lose_answer_to=b"POST /compositions") as relay:
        client = patient(f"http://127.0.0.1:{relay.port}", rest.url)
        done = client.apply(TEXT, "one", plan=plan, wait=60)
    assert [each["id"] for each in rest.client.operations()] == [done["id"]]


def test_what_is_not_repeated_may_have_been_done(rest: RestServer) -> None:
    rest.client.apply(TEXT, "one", wait=60)
    with (
        Relay(rest.port, lose_answer_to=b"DELETE /left-behind") as relay,
        pytest.raises(LostAnswer, match=r"may have been carried out \(check before you repeat it\)"),
    ):
        patient(f"http://127.0.0.1:{relay.port}", rest.url).forget_left_behind(["sc://e9:1"])


def test_a_slow_primary_is_not_taken_for_a_dead_one(rest: RestServer) -> None:
    """Its error is that of a single server; the standby is not asked instead."""

    def choose(piece: bytes) -> Mischief | None:
        if b"/healthz" not in piece:
            time.sleep(5)  # a slow primary: longer than the client waits for an answer
        return None

    with (
        MischiefRelay(rest.port, choose) as relay,
        standby(rest.url) as other,
        pytest.raises(ServerError, match="does not respond"),
    ):
        patient(f"http://127.0.0.1:{relay.port}", other, seconds=2).jobs()


@pytest.mark.slow("seven changes, each with lost requests and answers")
def test_many_lost_answers_of_two_ways_to_a_server(rest: RestServer) -> None:
    """Each change is made once, whichever requests and answers are lost on the way."""
    seen = [0]

    def choose(piece: bytes) -> Mischief | None:
        if b"/healthz" in piece:
            return None
        seen[0] += 1
        return (None, Mischief.LOSE_ANSWER, Mischief.CUT_ANSWER, None, Mischief.LOSE_REQUEST)[seen[0] % 5]

    with MischiefRelay(rest.port, choose) as one, MischiefRelay(rest.port, choose) as two:
        client = patient(*(f"http://127.0.0.1:{each.port}" for each in (one, two)))
        for number in range(1, 7):
            text = yaml_of("a t0 t1", f"b t1 t{number + 1}").encode()
            done = client.apply(text, "one", wait=60)
            assert (done["revision"], done["state"]) == (number, "succeeded")
        client.rollback("one", wait=60)
        assert one.done[Mischief.LOSE_ANSWER] + two.done[Mischief.LOSE_ANSWER]
    assert len(rest.client.operations()) == 7
    assert rest.client.composition("one")["revision"] == 7


def test_a_request_that_never_reached_a_server_is_sent_to_the_other() -> None:
    """Also one that is not repeated."""
    seen = list[str]()

    def request(url: str) -> requests.Response:
        seen.append(url)
        if url == A:
            raise requests.ConnectTimeout()
        return _answered(200)

    pair = Pair((A, B), lambda url: _answered(200), clock=lambda: 0.0, sleep=lambda seconds: None)
    assert pair.send(request, once=True, patience=1).status_code == 200
    assert (seen, pair.url) == ([A, B], B)


def _answered(status: int) -> requests.Response:
    answer = requests.Response()
    answer.status_code = status
    return answer


def test_a_listener_that_closes_connections_is_awaited_too() -> None:
    """As that of a standby that becomes the primary just now."""
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    closed = threading.Event()

    def close_one() -> None:
        listener.accept()[0].close()
        closed.set()
        listener.close()

    threading.Thread(target=close_one, daemon=True).start()
    with pytest.raises(NoServer, match="no server of the pair is the primary"):
        patient(url, NOBODY, seconds=1).jobs()
    assert closed.is_set()
