"""The coordinator's end: the connections that agents have opened, and calls over them."""

from __future__ import annotations

import asyncio
import contextlib
import http
import itertools
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import TimeoutError as LateAnswer
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from speck.core.inventory import Site
from speck.errors import OutcomeUnknown, Unreachable
from speck.link.codec import Malformed, decode
from speck.link.errors import error_of
from speck.link.frames import LARGEST_FRAME, Assembly, BadFrame, frames
from speck.link.hello import Hello, refusal

BEAT = 15.0  # s between two pings: a NAT forgets a quiet connection after 30 s or more
AT_ONCE = 32  # calls under way at one site
_GREETING = 10.0  # s, for the first message of an agent
_REVOKING = 1.0  # s between two checks of the tokens of those who are connected
_ENDING = 10.0  # s, by which a call may be late
_PATH = "/agent"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Presence:
    """An agent that is connected ``since`` (Unix time, s)."""

    since: float
    hello: Hello


@dataclass
class _Connection:
    """One agent's connection; used in the hub's loop alone."""

    socket: ServerConnection
    token: bytes
    presence: Presence
    code: set[str]
    waiting: dict[int, asyncio.Future[dict[str, Any]]] = field(default_factory=dict)
    room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))


class Hub:
    """The connections by site.  Safe to use from several threads.

    ``authenticate`` returns the site of a token, ``None`` for an unknown one.  ``sites`` are those that are
    reached through agents.
    """

    def __init__(self, authenticate: Callable[[bytes], str | None], sites: Mapping[str, Site]) -> None:
        self.sites = sites
        self.on_contact: list[Callable[[str], object]] = []
        self._authenticate = authenticate
        self._connections: dict[str, _Connection] = {}
        self._numbers = itertools.count(1)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(name="agents", daemon=True)
        self._server: Server | None = None
        self._revoking: asyncio.Task[None] | None = None

    # --- the life of the listener

    def start(self, listener: socket.socket, context: ssl.SSLContext | None = None) -> None:
        """Accept agents at a socket that listens; with a ``context``, by TLS alone."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="agents", daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(listener, context), self._loop).result()

    async def _start(self, listener: socket.socket, context: ssl.SSLContext | None) -> None:
        self._server = await serve(
            self._serve,
            sock=listener,
            ssl=context,
            process_request=self._admit,
            compression=None,  # a window of compression takes 64 KiB a connection
            max_size=LARGEST_FRAME,
            ping_interval=BEAT,
            ping_timeout=BEAT,
            server_header=None,
        )
        self._revoking = asyncio.create_task(self._revoke())

    def close(self) -> None:
        """Close the connections and the listener."""
        if self._loop is None or not self._thread.is_alive():
            return
        with contextlib.suppress(LateAnswer):
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        if not self._thread.is_alive():
            self._loop.close()

    async def _close(self) -> None:
        if self._revoking is not None:
            self._revoking.cancel()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    # --- agents

    def presence(self, site: str) -> Presence | None:
        """The agent of a site that is connected now."""
        found = self._connections.get(site)
        return None if found is None else found.presence

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        if request.path != _PATH:
            return connection.respond(http.HTTPStatus.NOT_FOUND, f"agents connect to {_PATH}\n")
        if self._authenticate(_token(request)) is None:
            _log.warning("an agent at %s has no valid token", _peer(connection))
            return connection.respond(http.HTTPStatus.UNAUTHORIZED, "the token is not that of a site\n")
        return None

    async def _serve(self, websocket: ServerConnection) -> None:
        token, assembly = _token(websocket.request), Assembly()
        try:
            agent = await self._greet(websocket, token, assembly)
            if agent is None:
                return
            await self._read(agent, assembly)
        except (BadFrame, Malformed, TimeoutError) as error:
            _log.warning(
                "the connection of an agent at %s is closed: %s", _peer(websocket), error or "silent"
            )
        except ConnectionClosed:
            pass

    async def _greet(
        self, websocket: ServerConnection, token: bytes, assembly: Assembly
    ) -> _Connection | None:
        async with asyncio.timeout(_GREETING):
            data = None
            while data is None:
                data = assembly.add(await websocket.recv())
        protocol = {"protocol": data.get("protocol"), "site": data.get("site")}
        try:
            hello: Hello = decode(Hello, data, "hello")
        except Malformed as error:
            fault = (
                str(error)
                if protocol["protocol"] == 1
                else f"the agent speaks protocol {protocol['protocol']}"
            )
            hello, why = None, f"{fault} (expected protocol 1: update the older of the two)"  # type: ignore[assignment]
        else:
            why = refusal(hello, self._authenticate(token) or "", self.sites)
        if why:
            _log.warning("the agent of site %r at %s is refused: %s", protocol["site"], _peer(websocket), why)
            await _send(websocket, {"refused": why}, 0)
            await websocket.close(1008)
            return None
        await _send(websocket, {"welcome": {"protocol": hello.protocol}}, 0)
        return _Connection(websocket, token, Presence(time.time(), hello), set(hello.code))

    async def _read(self, agent: _Connection, assembly: Assembly) -> None:
        site = agent.presence.hello.site
        former = self._connections.get(site)
        self._connections[site] = agent
        _log.info("the agent of site %r is connected", site)
        if former is not None:  # the network lost it, and it came back before that was noticed
            await former.socket.close(1001)
        for listener in self.on_contact:
            listener(site)
        try:
            async for frame in agent.socket:
                answer = assembly.add(frame)
                waiting = agent.waiting.get(answer.get("c", 0)) if answer is not None else None
                if answer is not None and waiting is not None and not waiting.done():
                    waiting.set_result(answer)
        finally:
            if self._connections.get(site) is agent:
                del self._connections[site]
                _log.info("the agent of site %r is away", site)
            for each in agent.waiting.values():
                if not each.done():
                    each.set_exception(ConnectionError())

    async def _revoke(self) -> None:
        while True:
            await asyncio.sleep(_REVOKING)
            for site, agent in list(self._connections.items()):
                if self._authenticate(agent.token) != site:
                    _log.warning("the token of the agent of site %r is revoked", site)
                    await agent.socket.close(1008)

    # --- calls

    def has_code(self, site: str, sha256: str) -> bool:
        """True if the agent of a site has the content with this hash."""
        found = self._connections.get(site)
        return found is not None and sha256 in found.code

    def note_code(self, site: str, hashes: Any) -> None:
        """Note the hashes of the contents that the agent of a site has now."""
        if (found := self._connections.get(site)) is not None and isinstance(hashes, list):
            found.code = {each for each in hashes if isinstance(each, str)}

    def call(self, site: str, call: dict[str, Any], seconds: float, address: str) -> Any:
        """The answer to a call, as JSON data.

        Raises :class:`~speck.errors.Unreachable` if the call did not reach the agent's connection,
        :class:`~speck.errors.OutcomeUnknown` if it may have, and the error that the agent answers.
        """
        if self._loop is None or not self._thread.is_alive():
            raise Unreachable(f"{address}: no agent can connect now (site {site!r})", address=address)
        future = asyncio.run_coroutine_threadsafe(self._call(site, call, seconds, address), self._loop)
        try:
            answer = future.result(seconds + _ENDING)
        except LateAnswer:  # the loop has ended meanwhile
            text = f"{address}: the agent of site {site!r} has not answered"
            raise OutcomeUnknown(text, address=address) from None
        if "x" in answer:
            raise error_of(answer["x"] if isinstance(answer["x"], Mapping) else {})
        return answer.get("r")

    async def _call(self, site: str, call: dict[str, Any], seconds: float, address: str) -> dict[str, Any]:
        deadline = asyncio.get_running_loop().time() + seconds
        agent = self._connections.get(site)
        if agent is None:
            raise Unreachable(f"{address}: the agent of site {site!r} is not connected", address=address)
        try:
            async with asyncio.timeout_at(deadline):
                await agent.room.acquire()
        except TimeoutError:
            text = f"{address}: {AT_ONCE} calls at site {site!r} have not ended within {seconds:g} s"
            raise Unreachable(text, address=address) from None
        try:
            return await self._exchange(agent, site, call, deadline, address)
        finally:
            agent.room.release()

    async def _exchange(
        self, agent: _Connection, site: str, call: dict[str, Any], deadline: float, address: str
    ) -> dict[str, Any]:
        if self._connections.get(site) is not agent:
            raise Unreachable(
                f"{address}: the agent of site {site!r} has lost its connection", address=address
            )
        number = next(self._numbers)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        agent.waiting[number] = answer
        limit = max(0.0, deadline - asyncio.get_running_loop().time())
        try:
            async with asyncio.timeout_at(deadline):
                await _send(agent.socket, {**call, "c": number, "t": limit}, number)
                return await answer
        except TimeoutError:
            text = f"{address}: the agent of site {site!r} has not answered within {limit:.0f} s"
            raise OutcomeUnknown(text, address=address) from None
        except (ConnectionClosed, ConnectionError):
            text = f"{address}: the connection of the agent of site {site!r} broke before it answered"
            raise OutcomeUnknown(text, address=address) from None
        finally:
            del agent.waiting[number]


async def _send(websocket: ServerConnection, message: dict[str, Any], number: int) -> None:
    for frame in frames(message, number):
        await websocket.send(frame)


def _token(request: Request | None) -> bytes:
    given = "" if request is None else request.headers.get("Authorization", "")
    return given.removeprefix("Bearer ").encode()


def _peer(connection: ServerConnection) -> str:
    return str((connection.remote_address or ("?",))[0])
