"""The coordinator's end: the connections that agents have opened, and calls over them."""

from __future__ import annotations

import asyncio
import contextlib
import http
import itertools
import logging
import math
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import TimeoutError as LateAnswer
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from speck.core.inventory import Site
from speck.errors import BinderError, SpeckError, Unreachable
from speck.link.beat import SILENCE
from speck.link.codec import Malformed, decode, encode
from speck.link.connection import Connection, Presence
from speck.link.errors import error_of, with_versions
from speck.link.exchange import ENDING, Exchange
from speck.link.frames import LARGEST_FRAME, PROTOCOL, Assembly, BadFrame
from speck.link.gate import AGENT, Gate, GatedConnection, peer_of, token_of
from speck.link.hello import (
    CONFIRMS,
    EpochRefusal,
    Hello,
    Joined,
    JoinRequest,
    epoch_refusal,
    is_accepted,
    refusal,
    versions,
)
from speck.link.journal import JournalEntry, checked
from speck.link.look import Look
from speck.link.methods import JOURNAL
from speck.link.repeats import Forgotten
from speck.link.sending import send

MOST_JOINING = 16  # connections of sites that join; none of them has a token
_GREETING = 30.0  # s, for the first message of an agent: after a restart, thousands of them come at once
_JOINING = 10.0  # s, for the request of a site that joins
_BACKLOG = 4096  # connections that are not accepted yet
_REVOKING = 1.0  # s between two checks of the tokens of those who are connected
_LISTENING = 1.0  # s between two looks for silent connections
_CLOSING = 5.0  # s, for an agent to answer the end of its connection, or thousands at a shutdown
_ENDED = 2.0  # s, for the tasks of connections that were cut
_REPLACING = 60.0  # s, in which one agent is not replaced by another again and again
_ANSWERING = 5.0  # s, for a connected agent to show that it is there
_JOIN = "/join"

_log = logging.getLogger(__name__)


class Hub:
    """The connections by site.  Safe to use from several threads.

    ``authenticate`` returns the site of a token, ``None`` for an unknown one.  ``sites`` are those that are
    reached through agents.  ``join`` lets a site join, and raises a :class:`~speck.errors.SpeckError` with
    the reason why not; ``None``: none may.  ``mark`` returns a value that is another one once a token may
    have become invalid.  ``epoch`` is that of a coordinator which has or had a standby.  The listeners of
    ``on_second`` get a site, the machine of its agent, and that of another one that was refused.
    """

    def __init__(
        self,
        authenticate: Callable[[bytes], str | None],
        sites: Mapping[str, Site],
        join: Callable[[JoinRequest], Joined] | None = None,
        mark: Callable[[], object] = object,
        epoch: int = 0,
    ) -> None:
        self._epoch, self._welcome = epoch, {"lasting": True, **({"epoch": epoch} if epoch else {})}
        self.sites = sites
        self.join = join
        self.on_contact: list[Callable[[str], object]] = []
        self.on_second: list[Callable[[str, str, str], object]] = []
        self._authenticate, self._mark = authenticate, mark
        self._connections: dict[str, Connection] = {}
        self.epoch_refusals: dict[str, EpochRefusal] = {}  # by site, unless it was accepted since
        self._replaced: dict[str, float] = {}  # when one took the place of another, monotonic, s
        self._numbers = itertools.count(1)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(name="agents", daemon=True)
        self._server: Server | None = None
        self._gate = Gate(_GREETING)
        self._revoking: asyncio.Task[None] | None = None
        self._rechecked = asyncio.Event()
        self._joining = 0
        self._closing: set[asyncio.Task[None]] = set()
        self._sockets: set[ServerConnection] = set()

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
            open_timeout=_GREETING,
            ping_interval=None,  # the agents ping
            server_header=None,
            create_connection=self._gate.connection,  # type: ignore[arg-type] # a function makes one, too
            backlog=_BACKLOG,
        )
        self._revoking = asyncio.create_task(self._watch())

    def close(self) -> None:
        """Close the connections and the listener."""
        if self._loop is None or not self._thread.is_alive():
            return
        with contextlib.suppress(LateAnswer):
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(_CLOSING + ENDING)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        if not self._thread.is_alive():
            self._loop.close()

    async def _close(self) -> None:
        if self._revoking is not None:
            self._revoking.cancel()
        if self._server is not None:
            self._server.close()
            self._gate.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSING):
                    await self._server.wait_closed()
        self._gate.close()
        for each in self._sockets:  # of agents that do not answer
            each.transport.abort()
        # A loop that stops leaves tasks pending: they end with their connections, whose end takes a moment.
        if rest := asyncio.all_tasks() - {asyncio.current_task()}:
            _, late = await asyncio.wait(rest, timeout=_ENDED)
            for task in late:
                task.cancel()
            await asyncio.sleep(0)

    # --- agents

    @property
    def refused(self) -> int:
        """The times that agents were asked to come again, as too many connected at once."""
        return self._gate.control.refused

    def presence(self, site: str) -> Presence | None:
        """The agent of a site that is connected now."""
        found = self._connections.get(site)
        return None if found is None else found.presence

    def _is_current(self, agent: Connection) -> bool:
        return self._connections.get(agent.presence.hello.site) is agent

    def _admit(self, connection: ServerConnection, request: Request) -> Response | None:
        if request.path == _JOIN and self.join is not None:
            if self._joining < MOST_JOINING:
                return None  # its first message has a code
            return connection.respond(http.HTTPStatus.SERVICE_UNAVAILABLE, "too many sites join at once\n")
        if request.path != AGENT:
            return connection.respond(http.HTTPStatus.NOT_FOUND, f"agents connect to {AGENT}\n")
        if self._authenticate(token_of(request)) is None:
            _log.warning("an agent at %s has no valid token", peer_of(connection))
            return connection.respond(http.HTTPStatus.UNAUTHORIZED, "the token is not that of a site\n")
        return None

    async def _serve(self, websocket: ServerConnection) -> None:
        self._sockets.add(websocket)
        try:
            await self._converse(websocket)
        finally:
            self._sockets.discard(websocket)

    async def _converse(self, websocket: ServerConnection) -> None:
        token, assembly = token_of(websocket.request), Assembly()
        try:
            if websocket.request is not None and websocket.request.path == _JOIN:
                self._joining += 1
                try:
                    await self._let_join(websocket, assembly)
                finally:
                    self._joining -= 1
                return
            agent = await self._greet(websocket, token, assembly)
            if agent is None:
                return
            await self._read(agent, assembly)
        except (BadFrame, Malformed, TimeoutError) as error:
            _log.warning(
                "the connection of an agent at %s is closed: %s", peer_of(websocket), str(error) or "silent"
            )
        except ConnectionClosed:
            pass

    async def _let_join(self, websocket: ServerConnection, assembly: Assembly) -> None:
        async with asyncio.timeout(_JOINING):
            frame = await websocket.recv()
        if not isinstance(frame, str):  # one who has no token may not fill the memory by pieces
            raise BadFrame("a request to join comes in pieces")
        join, loop = self.join, asyncio.get_running_loop()
        assert join is not None  # noqa: S101 - see _admit
        try:
            request: JoinRequest = decode(JoinRequest, assembly.add(frame), "request")
            found = await loop.run_in_executor(None, join, request)
        except (SpeckError, Malformed) as error:
            _log.warning("a site at %s may not join: %s", peer_of(websocket), error)
            await send(websocket, {"refused": str(error)}, 0)
            return
        _log.info("site %r joined from %s", found.site.name, peer_of(websocket))
        await send(websocket, {"joined": encode(found)}, 0)

    async def _greet(
        self, websocket: ServerConnection, token: bytes, assembly: Assembly
    ) -> Connection | None:
        data = await _next(websocket, assembly)
        protocol = {"protocol": data.get("protocol"), "site": data.get("site")}
        try:
            hello: Hello = decode(Hello, data, "hello")
        except Malformed as error:
            same = protocol["protocol"] == PROTOCOL
            fault = str(error) if same else f"the agent speaks protocol {protocol['protocol']}"
            both = versions(str(data.get("version")))
            why = f"{fault} (expected protocol {PROTOCOL}; {both}: update the older of the two)"
        else:
            why = refusal(hello, self._authenticate(token) or "", self.sites)
            why = why or await self._second_agent(hello)
        if why:
            site, peer = protocol["site"], peer_of(websocket)
            _log.warning("the agent of site %r at %s is refused: %s", site, peer, why)
            await send(websocket, {"refused": why}, 0)
            await websocket.close(1008)
            return None
        assert isinstance(websocket, GatedConnection)  # noqa: S101 - see _start
        await send(websocket, {"welcome": {"protocol": hello.protocol, **self._welcome}}, 0)
        confirms = websocket.request is not None and CONFIRMS in websocket.request.headers
        if confirms and not await self._accepted(websocket, hello.site, assembly):
            return None
        return Connection(websocket, token, Presence(time.time(), hello), set(hello.code))

    async def _accepted(self, websocket: ServerConnection, site: str, assembly: Assembly) -> bool:
        """Await the decision of an agent that has learned the epoch of this server by the welcome."""
        message = await _next(websocket, assembly)
        self.epoch_refusals.pop(site, None)
        if refused := epoch_refusal(message, self._epoch):
            self.epoch_refusals[site] = refused
        return is_accepted(message)

    async def _second_agent(self, hello: Hello) -> str:
        """The reason to refuse an agent while another one is connected; empty without one.

        That may be another one if it is on another machine, or if one has taken the place of the other just
        before: those of copied virtual machines would do so again and again.
        """
        former = self._connections.get(hello.site)
        first = "" if former is None else former.presence.hello.machine
        is_other = first and hello.machine and first != hello.machine
        replaced = self._replaced.get(hello.site, -math.inf)
        if former is None or not (is_other or time.monotonic() - replaced < _REPLACING):
            return ""
        try:
            async with asyncio.timeout(_ANSWERING):
                await (await former.socket.ping())
        except (TimeoutError, ConnectionClosed):
            return ""
        self._replaced[hello.site] = time.monotonic()
        for listener in self.on_second:
            listener(hello.site, first, hello.machine)
        here = f"the agent of site {hello.site!r} on machine {first} is connected"
        return f"{here} (expected one agent for each site)"

    async def _read(self, agent: Connection, assembly: Assembly) -> None:
        site = agent.presence.hello.site
        former = self._connections.get(site)
        if self._authenticate(agent.token) != site:  # it was revoked during the greeting
            await agent.socket.close(1008)
            return
        self._connections[site] = agent
        try:
            agent.socket.note_greeted()
            _log.info("the agent of site %r is connected", site)
            if former is not None:  # the network lost it, and it came back before that was noticed
                self._replaced[site] = time.monotonic()
                self._end(site, former, 1001)
            for listener in self.on_contact:
                listener(site)
            async for frame in agent.socket:
                if (message := assembly.add(frame)) is None:
                    continue
                if refused := epoch_refusal(message, self._epoch):
                    self.epoch_refusals[site] = refused
                    return
                self.epoch_refusals.pop(site, None)
                agent.take(message)
        finally:
            self._part(site, agent)

    def _end(self, site: str, agent: Connection, code: int) -> None:
        """End a connection without waiting for its agent, which may be gone, or hostile."""
        self._part(site, agent)
        closing = asyncio.create_task(_closed_or_cut(agent.socket, code))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    def _part(self, site: str, agent: Connection) -> None:
        """Forget a connection, whose calls are not answered any more."""
        if self._is_current(agent):
            del self._connections[site]
            _log.info("the agent of site %r is away", site)
        for each in agent.waiting.values():
            if not each.answer.done():
                each.answer.set_exception(ConnectionError())
                each.answer.exception()  # asyncio logs one that is not taken, as by a call that is being sent

    def recheck(self) -> None:
        """End the connections whose tokens are no longer valid, without waiting for it."""
        if self._loop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._rechecked.set)

    async def _watch(self) -> None:
        """End the connections whose tokens are no longer valid, and those that are silent."""
        seen: object = None
        loop, listened = asyncio.get_running_loop(), 0.0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_REVOKING):
                    await self._rechecked.wait()
            asked = self._rechecked.is_set()  # also if the time was over just then
            self._rechecked.clear()
            if loop.time() - listened >= _LISTENING:
                listened = loop.time()
                self._cut_silent()
            if (mark := self._mark()) != seen or asked:
                seen = mark
                self._part_revoked()

    def _cut_silent(self) -> None:
        """Cut the connections of which nothing has come.

        Looks are counted, not seconds: what came while this loop was held up is read before it looks again.
        """
        for site, agent in list(self._connections.items()):
            agent.socket.quiet += 1
            if agent.socket.quiet > SILENCE:
                _log.warning("the agent of site %r is silent", site)
                self._part(site, agent)
                agent.socket.abort()

    def _part_revoked(self) -> None:
        """End the connections whose tokens are no longer valid."""
        for site, agent in list(self._connections.items()):
            if self._authenticate(agent.token) != site:
                _log.warning("the token of the agent of site %r is revoked", site)
                self._end(site, agent, 1008)

    # --- calls

    def has_code(self, site: str, sha256: str) -> bool:
        """True if the agent of a site has the content with this hash."""
        found = self._connections.get(site)
        return found is not None and sha256 in found.code

    def note_code(self, site: str, hashes: Any) -> None:
        """Note the hashes of the contents that the agent of a site has now."""
        if (found := self._connections.get(site)) is not None and isinstance(hashes, list):
            found.code = {each for each in hashes if isinstance(each, str)}

    def look(self, site: str, engine: str) -> tuple[Look, float] | None:
        """The last look of a site's agent at an engine and its age, s; ``None`` without a valid one."""
        found = self._connections.get(site)
        return None if found is None else found.looks.get(engine, found.socket.quiet * _LISTENING)

    def journal(self, site: str) -> str:
        """The mark of the journal of a site's agent; empty without one."""
        found = self._connections.get(site)
        return "" if found is None else found.looks.journal

    def read_journal(self, site: str, after: int, seconds: float) -> list[JournalEntry]:
        """The entries of the journal of a site's agent after this one; raises as :meth:`call`."""
        found = self.call(site, {"m": JOURNAL, "a": {"after": after}}, seconds, f"site {site}")
        try:
            return checked(decode(list[JournalEntry], found, "journal", strict=False), after)
        except Malformed as error:
            raise BinderError(f"the agent of site {site!r} sent another journal: {error}") from error

    def lasting(self, site: str, call: dict[str, Any]) -> tuple[Any, float] | None:
        """The answer to a call if it lasts, and how much later it was right, s; ``None``: make the call."""
        found = self._connections.get(site)
        if found is None or (lasting := found.sent_calls.lasting(call)) is None:
            return None
        return lasting[0], max(0.0, lasting[1] - found.socket.quiet * _LISTENING)

    def call(self, site: str, call: dict[str, Any], seconds: float, address: str) -> Any:
        """The answer to a call, as JSON data.

        Raises :class:`~speck.errors.Unreachable` if the call did not reach the agent's connection,
        :class:`~speck.errors.OutcomeUnknown` if it may have, and the error that the agent answers.
        """
        if self._loop is None or not self._thread.is_alive():
            raise Unreachable(f"{address}: no agent can connect now (site {site!r})", address=address)
        agent, deadline = self._connections.get(site), time.monotonic() + seconds
        if agent is None:
            raise Unreachable(f"{address}: the agent of site {site!r} is not connected", address=address)
        exchange = Exchange(self._loop, agent, deadline, address, self._numbers, self._is_current)
        try:
            try:
                answer = exchange.answer(agent.sent_calls.prepared(call))
            except Forgotten:
                answer = exchange.answer(agent.sent_calls.prepared(call, whole=True))
        except Malformed as error:
            text = f"{address}: the agent of site {site!r} sent another answer: {error}"
            raise BinderError(text, address=address) from error
        if "x" in answer:
            problem = error_of(answer["x"] if isinstance(answer["x"], Mapping) else {})
            raise with_versions(problem, versions(agent.presence.hello.version))
        return answer.get("r")


async def _next(websocket: ServerConnection, assembly: Assembly) -> dict[str, Any]:
    """The next message of an agent that is being greeted.  Raises :class:`TimeoutError` for a silent one."""
    async with asyncio.timeout(_GREETING):
        message = None
        while message is None:
            message = assembly.add(await websocket.recv())
    return message


async def _closed_or_cut(connection: GatedConnection, code: int) -> None:
    """Close a connection, and cut it unless its agent answers in time."""
    with contextlib.suppress(TimeoutError):
        # The limit of websockets begins only once all that waits to be sent has been.
        async with asyncio.timeout(_CLOSING):
            await connection.close(code)
    connection.abort()
