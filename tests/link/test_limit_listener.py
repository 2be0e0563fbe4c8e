"""Connections that are greeted at once are bounded, and none of them holds up the others for long."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from speck.link.hub import Hub
from speck.link.limit_listener import LimitListener
from testbed.benches.examples import one_site
from tests.link.test_hub import HELLO, await_that, dial, greet, listening

MOST = 3
FOREVER = 1000.0


class Crowd:
    """A server of asyncio behind a listener with a limit, and its clients."""

    def __init__(self, seconds: float = FOREVER) -> None:
        self.accepted: list[asyncio.StreamWriter] = []
        plain = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port = plain.getsockname()[1]
        self.listener = LimitListener(plain, MOST, seconds, asyncio.get_running_loop())
        self._clients: list[socket.socket] = []

    async def __aenter__(self) -> Crowd:
        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.accepted.append(writer)
            await reader.read()  # to the end of the connection
            writer.close()

        self.server = await asyncio.start_server(accept, sock=self.listener)
        return self

    async def __aexit__(self, *_: object) -> None:
        for each in self._clients:
            each.close()
        self.server.close()
        await self.server.wait_closed()

    def connect(self, count: int) -> list[socket.socket]:
        found = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(count)]
        self._clients += found
        return found

    async def accept(self, count: int) -> None:
        """Wait until so many are accepted in all, and see that there come no more."""
        async with asyncio.timeout(30):
            while len(self.accepted) < count:
                await asyncio.sleep(0.001)
        for _ in range(20):
            await asyncio.sleep(0.001)
        assert len(self.accepted) == count


def in_a_loop(trial: Callable[[], Awaitable[None]]) -> None:
    async def run() -> None:
        await trial()

    asyncio.run(run())


def test_the_next_is_accepted_when_one_is_greeted() -> None:
    async def trial() -> None:
        async with Crowd() as crowd:
            crowd.connect(10)
            await crowd.accept(MOST)
            for count in range(MOST, 10):
                address = crowd.accepted[count - MOST].get_extra_info("peername")
                crowd.listener.greeted(address)
                crowd.listener.greeted(address)  # once more, which frees no second place
                await crowd.accept(count + 1)

    in_a_loop(trial)


def test_the_next_is_accepted_when_one_ends() -> None:
    async def trial() -> None:
        async with Crowd() as crowd:
            clients = crowd.connect(5)
            await crowd.accept(MOST)
            for each in clients[:2]:
                each.close()
            await crowd.accept(5)

    in_a_loop(trial)


def test_silent_ones_hold_up_the_others_for_a_time_only() -> None:
    async def trial() -> None:
        async with Crowd(seconds=0.05) as crowd:
            crowd.connect(10)
            async with asyncio.timeout(30):
                while len(crowd.accepted) < 10:
                    await asyncio.sleep(0.001)

    in_a_loop(trial)


def test_a_listener_that_waits_costs_no_processor_time() -> None:
    async def trial() -> None:
        async with Crowd() as crowd:
            crowd.connect(10)
            await crowd.accept(MOST)
            loop, turns = asyncio.get_running_loop(), 0
            select = loop._selector.select  # type: ignore[attr-defined]

            def counted(timeout: float | None = None) -> object:
                nonlocal turns
                turns += 1
                return select(timeout)

            loop._selector.select = counted  # type: ignore[attr-defined]
            await asyncio.sleep(0.2)
            assert turns < 10

    in_a_loop(trial)


def test_it_is_closed_with_its_server() -> None:
    async def trial() -> None:
        crowd = Crowd()
        async with crowd:
            crowd.connect(MOST + 1)
            await crowd.accept(MOST)
        assert crowd.listener.fileno() == -1
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", crowd.port))

    in_a_loop(trial)


# --- agents

SITES = {
    f"s{number}": one_site(f"s{number}", f"sc://e{number}:1", f"tcp://b{number}:1") for number in range(40)
}


@pytest.fixture(name="hub")
def hub_fixture(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr("speck.link.hub._GREETED", MOST)
    monkeypatch.setattr("speck.link.hub._COUNTED", FOREVER)
    hub = Hub(lambda token: token.decode() if token.decode() in SITES else None, SITES)
    yield hub
    hub.close()


def hello_of(site: str) -> dict[str, object]:
    found = SITES[site]
    return {"site": site, "engines": [found.engines[0].spe_address], "broker": found.broker_address}


def test_agents_get_in_one_after_the_other(hub: Hub) -> None:
    """Those who are greeted no longer count; those who are refused do not either."""
    url = listening(hub)

    all_in = threading.Barrier(len(SITES) + 1)

    def join(site: str) -> None:
        with dial(url, site, open_timeout=60) as agent:
            assert "welcome" in greet(agent, HELLO, **hello_of(site))
            all_in.wait(60)
            all_in.wait(60)

    with ThreadPoolExecutor(len(SITES)) as pool:
        joining = [pool.submit(join, each) for each in SITES]
        all_in.wait(60)
        assert all(hub.presence(site) for site in SITES)
        for _ in range(2 * MOST):
            with dial(url, "s0", open_timeout=60) as refused:
                assert "refused" in greet(refused, HELLO, site="s1")
        all_in.wait(60)
        for each in joining:
            each.result()


def test_an_agent_waits_for_those_before_it(hub: Hub) -> None:
    url = listening(hub)
    host, _, port = url.removeprefix("ws://").rpartition(":")
    silent = [socket.create_connection((host, int(port))) for _ in range(MOST)]
    await_that(lambda: hub._listener is not None and len(hub._listener._under_way) == MOST)
    found = list[object]()

    def join() -> None:
        with dial(url, "s0", open_timeout=60) as agent:
            found.append(greet(agent, HELLO, **hello_of("s0")))

    waiting = threading.Thread(target=join)
    waiting.start()
    waiting.join(0.2)
    assert not found
    silent[0].close()
    waiting.join(30)
    assert found
    for each in silent:
        each.close()
