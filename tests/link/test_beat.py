"""The beat of a connection: only agents ping, a silent end is noticed by the other one."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from websockets.exceptions import ConnectionClosed

from speck.link.beat import BEAT, SILENCE, Beat
from speck.link.dial import Dialler
from speck.link.hub import Hub
from tests.link.by_hand import HELLO, PATIENCE, SITE, await_that, dial, greet, listening


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("quiet", ["sent", "received", "both", "neither"])
def test_a_ping_is_due_where_one_direction_was_quiet(quiet: str) -> None:
    clock = Clock()
    beat = Beat(clock)
    clock.now += BEAT - 1
    assert beat.left() == 1
    if quiet in ("received", "neither"):
        beat.note_sent()
    if quiet in ("sent", "neither"):
        beat.note_received()
    clock.now += 2
    assert beat.left() == (BEAT - 2 if quiet == "neither" else 0)


@pytest.fixture(name="hub")
def hub_fixture(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A hub that checks for silent connections only when a test asks it to."""
    monkeypatch.setattr("speck.link.hub._LISTENING", 1e9)
    hub = Hub({b"right": "A"}.get, {"A": SITE})
    yield hub
    hub.close()


def listens(hub: Hub, times: int) -> None:
    async def listen() -> None:
        for _ in range(times):
            hub._cut_silent()

    assert hub._loop is not None
    asyncio.run_coroutine_threadsafe(listen(), hub._loop).result(PATIENCE)


def test_a_silent_agent_is_cut_and_one_that_pings_is_not(hub: Hub, caplog: pytest.LogCaptureFixture) -> None:
    with dial(listening(hub), ping_interval=None) as agent:
        greet(agent)
        await_that(lambda: hub.presence("A") is not None)
        for _ in range(3):
            listens(hub, SILENCE)
            assert agent.ping().wait(PATIENCE)
        assert hub.presence("A") is not None
        listens(hub, SILENCE + 1)
        assert hub.presence("A") is None
        with pytest.raises(ConnectionClosed):
            agent.recv(PATIENCE)
    assert "the agent of site 'A' is silent" in caplog.text


def test_the_hub_looks_for_silent_agents(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speck.link.hub._LISTENING", 0.01)
    monkeypatch.setattr("speck.link.hub._REVOKING", 0.01)
    with dial(listening(hub), ping_interval=None) as agent:
        greet(agent)
        with pytest.raises(ConnectionClosed):
            agent.recv(PATIENCE)


@contextmanager
def held_up(hub: Hub) -> Iterator[None]:
    """The hub's loop stands still."""
    go_on = threading.Event()
    assert hub._loop is not None
    hub._loop.call_soon_threadsafe(go_on.wait)
    try:
        yield
    finally:
        go_on.set()


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux has TCP_USER_TIMEOUT")
def test_an_agent_leaves_a_coordinator_that_takes_nothing_more(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ping would wait behind what is being sent, for as long as TCP tries to."""
    monkeypatch.setattr("speck.link.dial.UNACKNOWLEDGED", 0.5)
    reasons: list[str] = []
    dialler = Dialler([listening(hub)], lambda: "right", lambda: HELLO, lambda *_: {}, reasons.append)
    thread = threading.Thread(target=dialler.run)
    thread.start()
    await_that(lambda: dialler._greeted is not None)
    with held_up(hub):
        message = {"look": "x" * (32 << 20)}  # more than the buffers of both ends
        sending = threading.Thread(target=dialler.send, args=(message,))
        sending.start()
        await_that(lambda: len(reasons) > 1)
    assert reasons[0] == ""
    assert reasons[1] != ""
    dialler.close()
    for each in (sending, thread):
        each.join(PATIENCE)
        assert not each.is_alive()


def test_an_agent_leaves_a_coordinator_that_does_not_answer(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it answers, pings keep the connection."""
    monkeypatch.setattr("speck.link.beat.BEAT", 0.02)
    reasons, pulses = list[str](), list[None]()
    url = listening(hub)
    dialler = Dialler([url], lambda: "right", lambda: HELLO, lambda *_: {}, reasons.append)
    dialler.on_pulse = lambda: pulses.append(None)
    thread = threading.Thread(target=dialler.run)
    thread.start()
    await_that(lambda: len(pulses) > 10)
    assert reasons == [""]
    monkeypatch.setattr("speck.link.dial.ANSWER", 0.1)
    with held_up(hub):
        await_that(lambda: len(reasons) > 1)
    assert reasons[1] == f"{url} does not answer any more"
    dialler.close()
    thread.join(PATIENCE)
