"""Agents that find no place at the listener are refused at once, and come again; over real sockets."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import pytest
from websockets.datastructures import Headers
from websockets.exceptions import InvalidStatus
from websockets.http11 import Response

from speck.link.dial import LONGEST_AGAIN, Dialler, come_again
from speck.link.hub import Hub
from speck.link.pauses import Pauses
from tests.link.by_hand import HELLO, PATIENCE, RIGHT, SITE, await_that, dial, greet, listening

UPGRADE = (
    b"GET /agent HTTP/1.1\r\nHost: hub\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    b"Authorization: Bearer right\r\n\r\n"
)


@pytest.fixture(name="hub")
def hub_fixture(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr("speck.link.gate._COUNTED", 1000.0)  # no place is given away by the time
    hub = Hub({b"right": "A"}.get, {"A": SITE})
    hub._gate.control.least, hub._gate.control.work = 1, 0
    yield hub
    hub.close()


@pytest.fixture(name="url")
def url_fixture(hub: Hub) -> str:
    return listening(hub)


def places(hub: Hub) -> int:
    """The places that are taken."""
    return hub._gate.control.under_way


def stream(url: str) -> socket.socket:
    host, _, port = url.removeprefix("ws://").rpartition(":")
    found = socket.create_connection((host, int(port)))
    found.settimeout(PATIENCE)
    return found


def refused(url: str) -> InvalidStatus:
    with pytest.raises(InvalidStatus) as caught:
        dial(url)
    return caught.value


@contextmanager
def dialling(*urls: str) -> Iterator[list[str]]:
    """A real agent's end; gives the reasons why it has no contact, empty for a contact."""
    reasons: list[str] = []
    dialler = Dialler(urls, lambda: RIGHT, lambda: HELLO, lambda *_: {}, reasons.append)
    thread = threading.Thread(target=dialler.run)
    thread.start()
    try:
        yield reasons
    finally:
        dialler.close()
        thread.join(PATIENCE)


def test_who_finds_no_place_is_refused_at_once_and_gets_in_later(
    hub: Hub, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    with dial(url) as first:
        for _ in range(2):
            error = refused(url)
            assert come_again(error) == 0
            assert (error.response.body or b"").startswith(b"too many agents are connecting at once")
        assert hub.refused == 2
        assert caplog.text.count("some have to retry later") == 1
        assert "welcome" in greet(first)
        await_that(lambda: places(hub) == 0)
        with dial(url) as second:
            assert "welcome" in greet(second)


def test_an_agent_comes_again_when_it_is_asked_to(hub: Hub, url: str) -> None:
    hub._gate.control.least = 0
    with dialling(url) as reasons:
        await_that(lambda: hub.refused > 1)
        hub._gate.control.least = 1
        await_that(lambda: hub.presence("A") is not None)
        assert "refuses the connection: too many agents are connecting at once (retry in 0 s)" in reasons[0]


def test_an_agent_of_a_pair_comes_again_to_the_server_that_asked(hub: Hub, url: str) -> None:
    """The other one is a standby, and would cost a try."""
    other = Hub({b"right": "A"}.get, {"A": SITE})
    hub._gate.control.least = 0
    try:
        with dialling(url, listening(other)):
            await_that(lambda: hub.refused > 2)
            assert other.presence("A") is None
    finally:
        other.close()


def test_an_agent_does_not_come_before_the_time(hub: Hub, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hub._gate.control.least = 0
    hub._gate.control._due = time.monotonic() + 30
    pauses, after = list[float](), Pauses.after
    monkeypatch.setattr(
        Pauses, "after", lambda self, *found: (pauses.append(after(self, *found)), pauses[-1])[1]
    )
    with dialling(url):
        await_that(lambda: bool(pauses))
    assert pauses[0] > 20


@pytest.mark.parametrize("end", ["cut", "closed", "silent"])
def test_the_place_of_an_agent_that_is_not_greeted_is_given_away(
    hub: Hub, url: str, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if end == "silent":
        monkeypatch.setattr("speck.link.gate._COUNTED", 0.05)
    with dial(url) as agent:
        if end == "cut":
            agent.socket.shutdown(socket.SHUT_RDWR)
        elif end == "closed":
            agent.close()
        await_that(lambda: places(hub) == 0)
        with dial(url) as another:
            assert "welcome" in greet(another)
    await_that(lambda: places(hub) == 0)


def test_who_has_no_token_keeps_no_place(hub: Hub, url: str) -> None:
    for _ in range(3):
        with pytest.raises(InvalidStatus) as caught:
            dial(url, "wrong")
        assert caught.value.response.status_code == 401
        await_that(lambda: places(hub) == 0)


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (UPGRADE.replace(b"right", b"wrong"), b"HTTP/1.1 401"),
        (b"GET /agent HTTP/1.1\r\nnot a field\r\n\r\n", b""),
        (b"GET /agent HTTP/1.1\r\n" + b"a: b\r\n" * 200 + b"\r\n", b"HTTP/1.1 431"),
    ],
)
def test_a_client_without_a_token_keeps_no_place_by_staying(
    hub: Hub, url: str, request_: bytes, answer: bytes
) -> None:
    with closing(stream(url)) as other:
        other.sendall(request_)
        assert other.recv(12) == answer
        with dial(url) as agent:
            assert "welcome" in greet(agent)


def test_a_request_without_an_end_takes_no_place_and_is_cut(hub: Hub, url: str) -> None:
    head = b"GET /agent HTTP/1.1\r\n" + (b"a: " + b"b" * 1000 + b"\r\n") * 9
    with closing(stream(url)) as one, closing(stream(url)) as other:
        for each in (one, other):
            each.sendall(head)
        with dial(url) as agent:
            assert "welcome" in greet(agent)
        for each in (one, other):
            with suppress(ConnectionResetError):
                assert each.recv(1) == b""


def test_other_requests_need_no_place(hub: Hub, url: str) -> None:
    hub._gate.control.least = 0
    with pytest.raises(InvalidStatus) as caught:
        dial(url, path="/join")
    assert caught.value.response.status_code == 404
    with closing(stream(url)) as other:
        other.sendall(b"no request\r\n\r\n")
        assert not other.recv(100).startswith(b"HTTP/1.1 503")


def test_a_request_may_come_in_pieces(hub: Hub, url: str) -> None:
    with closing(stream(url)) as agent:
        agent.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in UPGRADE[:-4]:
            agent.sendall(bytes([byte]))
        assert places(hub) == 0
        agent.sendall(UPGRADE[-4:])
        assert agent.recv(12) == b"HTTP/1.1 101"
        assert places(hub) == 1


def test_what_is_sent_after_a_refusal_is_not_read(hub: Hub, url: str) -> None:
    hub._gate.control.least = 0
    with closing(stream(url)) as agent:
        agent.sendall(UPGRADE)
        assert agent.recv(12) == b"HTTP/1.1 503"
    with dialling(url):
        await_that(lambda: hub.refused > 1)


def test_a_silent_connection_takes_no_place_and_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speck.link.hub._GREETING", 0.2)
    hub = Hub({b"right": "A"}.get, {"A": SITE})
    with closing(stream(listening(hub))) as silent:
        await_that(lambda: len(hub._gate.silent) == 1)
        assert places(hub) == 0
        assert silent.recv(1) == b""
        assert not hub._gate.silent
    hub.close()


def test_silent_connections_hold_up_no_close(hub: Hub, url: str) -> None:
    with closing(stream(url)) as silent:
        await_that(lambda: len(hub._gate.silent) == 1)
        hub.close()
        assert not hub._gate.silent
        assert silent.recv(1) == b""


@pytest.mark.parametrize(
    ("status", "after", "expected"),
    [
        (503, "12", 12),
        (503, "0", 0),
        (503, "86400", LONGEST_AGAIN),
        (503, "9" * 5000, None),
        (503, "Fri, 27 Nov 2026 12:00:00 GMT", None),
        (503, "-1", None),
        (503, None, None),
        (429, "12", None),
    ],
)
def test_the_time_is_that_of_the_answer(status: int, after: str | None, expected: int | None) -> None:
    headers = Headers() if after is None else Headers({"Retry-After": after})
    assert come_again(InvalidStatus(Response(status, "", headers))) == expected
