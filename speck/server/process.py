"""The server process: one store, one coordinator, and its REST interface on a production WSGI server."""

from __future__ import annotations

import errno
import logging
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from speck.binder import Registry, installed
from speck.coordinator import Coordinator, Services, build
from speck.coordinator.agents import Agents, Enrolment
from speck.core.inventory import Inventory, is_loopback
from speck.core.settings import CLIENT_RATE, ServerSettings, Settings
from speck.errors import Fault, InvalidInput, SpeckError
from speck.schema.inventory import NO_VARIABLES, read_inventory
from speck.schema.logins import inventory_warnings
from speck.schema.support import support_faults
from speck.server.agents import (
    AgentSites,
    agents_address,
    agents_hub,
    check_agents,
    check_joined,
    enrolment_of,
    listed_tokens,
    remote_binders,
)
from speck.server.api import Protection, create_app
from speck.server.collector import collected_seldom
from speck.server.middleware.origin import host_of
from speck.server.pair.keeping import kept, leased
from speck.server.pair.standby import Pair, Waiting
from speck.server.signals import Signals, print_error
from speck.server.tls import Certificate
from speck.server.tokens import TokenFile, Tokens, token_of
from speck.server.wsgi import WebServer
from speck.standby.node import refuse_pair
from speck.standby.primary import Primary
from speck.store import Store
from speck.store.leveldb.database import Database

if TYPE_CHECKING:
    from speck.link.hub import Hub

_log = logging.getLogger(__name__)

_CLOSING = 10.0  # s, for the calls of loops, and for disconnecting, once no operation runs


def serve(
    settings: ServerSettings,
    *,
    ready: Callable[[str, Inventory], None],
    variables: Mapping[str, str] = NO_VARIABLES,
) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP.

    ``ready`` is called with the address and the inventory once the server answers; ``variables`` are the
    values of the inventory's variables.  Without any token every request is accepted, on loopback only.
    Port 0 takes a free one.  Raises :class:`~speck.errors.SpeckError` when the server cannot start.  Ends
    the process itself if calls to engines and brokers are still under way at the end of the time for a
    shutdown.
    """
    tokens, certificate = _tokens(settings), _certificate(settings)
    _refuse_open_door(settings.host, tokens, certificate)
    registry = installed()
    inventory = _inventory(settings.sites, variables, registry)
    with collected_seldom(), Signals() as signals, ExitStack() as opened:
        secured = certificate is not None
        check_agents(settings, AgentSites(inventory), secured=secured)
        # All that can fail comes before a take-over: after it, the former primary would be refused.
        listed, door = listed_tokens(settings), None
        context = None if certificate is None else certificate.renewing_context()
        if settings.agents is not None:
            door = opened.enter_context(reserve(*agents_address(settings.agents), "--agents"))
        part = _opened(settings, inventory, certificate, signals, opened)
        if part is None:
            return
        enrolment = enrolment_of(listed, part.store, registry, inventory, certificate)
        hub = agents_hub(settings, enrolment, secured=secured, epoch=part.epoch)
        if hub is not None:
            opened.callback(hub.close)
        advertise = _advertised(settings, part.listener, certificate)
        services = _services(
            replace(settings.coordinator, advertise=advertise), part, registry, enrolment, hub
        )
        coordinator = services.coordinator
        app = create_app(services, _protection(settings, tokens, advertise))
        server = WebServer(app, part.listener, certificate=certificate)
        if part.primary is not None:
            part.primary.announce()
            opened.enter_context(kept(part.primary, part.store, coordinator.named_code))
        if hub is not None and door is not None:
            hub.start(door, context)
        try:
            coordinator.start()
            signals.on_first = partial(_end, coordinator, server, settings.ending)
            if part.is_ended():  # by a signal that came after the take-over
                signals.on_first()
            ready(f"{_scheme(certificate)}://{_url_host(settings.host)}:{_port(part.listener)}", inventory)
            server.run()
        finally:
            closed = ends_within(_CLOSING, coordinator.close)
    if not closed:
        _exit_at_once()


@dataclass(frozen=True)
class _Opened:
    """The store and the listener of this server, and its parts in a pair, if it is in one."""

    store: Store
    listener: socket.socket
    primary: Primary | None = None
    waiting: Waiting | None = None

    @property
    def epoch(self) -> int:
        """The epoch of a server that has a standby, or had one; 0 for any other."""
        return self.store.epoch if self.primary is None else self.primary.identity.epoch

    def is_ended(self) -> bool:
        """True if a signal has ended the wait of a standby."""
        return self.waiting is not None and self.waiting.is_ended


def _opened(
    settings: ServerSettings,
    inventory: Inventory,
    certificate: Certificate | None,
    signals: Signals,
    opened: ExitStack,
) -> _Opened | None:
    """Open the store: that of a pair once this server is the primary.  ``None`` if it was ended before."""
    history = settings.coordinator.history
    if settings.pair.peer is None:
        refuse_pair(settings.data_dir)
        store = opened.enter_context(Store(settings.data_dir, history))
        return _Opened(store, opened.enter_context(listen(settings.host, settings.port)))
    listener = opened.enter_context(listen(settings.host, settings.port))
    check = partial(check_joined, settings, inventory, secured=certificate is not None)
    waiting = _waiting(settings, listener, certificate, check)
    signals.on_first = waiting.end
    primary = waiting.wait()
    if primary is None:
        return None
    opened.enter_context(leased(primary))  # to open a large store may take longer than a lease
    store = opened.enter_context(Store(settings.data_dir, history, primary, waiting.is_checked))
    return _Opened(store, listener, primary, waiting)


def _services(
    settings: Settings, part: _Opened, registry: Registry, enrolment: Enrolment, hub: Hub | None
) -> Services:
    """The parts of the coordinator, none started yet, joined to the connections of agents (``hub``)."""
    agents = Agents(enrolment, hub)
    services = build(
        part.store,
        registry,
        enrolment.inventory,
        settings,
        remote=None if hub is None else remote_binders(hub, enrolment.inventory),
        agents=agents,
        primary=part.primary,
    )
    if hub is not None:
        hub.on_second.append(agents.note_second)
        hub.on_contact.append(services.coordinator.contacts.note)
    return services


def _inventory(sites: Path | None, variables: Mapping[str, str], registry: Registry) -> Inventory:
    """The inventory of a file, whose concerns are logged; an empty one without a file.

    Raises :class:`~speck.errors.InvalidInput` for one with faults, or with an address of no installed binder.
    """
    inventory = read_inventory(sites, variables) if sites is not None else Inventory()
    if faults := list(support_faults(inventory, registry)):
        raise InvalidInput([replace(each, message=f"{each.message} ({sites})") for each in faults], "sites")
    for concern in inventory_warnings(inventory):
        _log.warning("%s: %s", sites, concern)
    return inventory


def _waiting(
    settings: ServerSettings,
    listener: socket.socket,
    certificate: Certificate | None,
    check: Callable[[Database], object],
) -> Waiting:
    """This server as a standby."""
    url = _advertised(settings, listener, certificate)
    return Waiting(Pair(settings.pair, settings.data_dir, url), listener, certificate, check)


def _advertised(settings: ServerSettings, listener: socket.socket, certificate: Certificate | None) -> str:
    """The URL of this server for engines and a standby."""
    reached = _reached_at(settings.host, _port(listener), _scheme(certificate))
    return settings.coordinator.advertise or reached


def _scheme(certificate: Certificate | None) -> str:
    return "http" if certificate is None else "https"


def _port(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


def _tokens(settings: ServerSettings) -> Tokens | None:
    """The tokens of ``--tokens``, or the one of ``--token-file`` or the environment, if any."""
    if settings.tokens is not None:
        return TokenFile(settings.tokens)
    token = token_of(os.environ, settings.token_file)
    return Tokens.single(token) if token else None


def _certificate(settings: ServerSettings) -> Certificate | None:
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    return Certificate(settings.tls_cert, settings.tls_key)


def _protection(settings: ServerSettings, tokens: Tokens | None, advertise: str) -> Protection:
    names = _names(settings.host, [advertise, *settings.allowed_hosts])
    return Protection(tokens, names, _client_rate(settings))


def _client_rate(settings: ServerSettings) -> float:
    if settings.rate is not None:
        return settings.rate
    return 0.0 if is_loopback(settings.host) else CLIENT_RATE


def _end(coordinator: Coordinator, server: WebServer, seconds: float) -> None:
    """End the server after the running operations, so that those who follow one see its end.

    Those that take longer than ``seconds`` resume at the next start.
    """
    try:
        if not ends_within(seconds, coordinator.finish_operations):
            running = len(coordinator.operations.running())
            print_error(
                f"operations still running after {seconds:g} s: {running} (resumed at the next start)"
            )
    finally:
        server.end()


def ends_within(seconds: float, work: Callable[[], None]) -> bool:
    """True if ``work`` ends in time.  Otherwise it continues in a daemon thread.  Raises its error."""
    future: Future[None] = Future()

    def run() -> None:
        try:
            work()
            future.set_result(None)
        except BaseException as error:  # whatever ended the work is raised to the caller
            future.set_exception(error)

    threading.Thread(target=run, name="shutdown", daemon=True).start()
    done, _ = wait([future], seconds)
    if done:
        future.result()
    return bool(done)


def _exit_at_once() -> None:
    """End the process, whose threads still wait for engines: Python would wait for them, too."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


_NO_PORT = {
    errno.EADDRINUSE: "another program listens there (choose a port with {port})",
    errno.EACCES: "this user has no permission (choose port 1024 or above with {port})",
    errno.EADDRNOTAVAIL: "this machine has no such address (choose one with {host})",
}


def listen(host: str, port: int, option: str = "") -> socket.socket:
    """A socket that listens; its address is that of ``option``, or else of ``--host`` and ``--port``."""
    with _refused(host, port, option):
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=1024)


def reserve(host: str, port: int, option: str) -> socket.socket:
    """A socket as :func:`listen` makes it, which refuses connections until it listens."""
    with _refused(host, port, option), ExitStack() as failing:
        made = failing.enter_context(socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET))
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if made.family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind((host, port))
        failing.pop_all()
    return made


@contextmanager
def _refused(host: str, port: int, option: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = _NO_PORT.get(error.errno or 0, error.strerror or str(error))
        why = why.format(host=option or "--host", port=option or "--port")
        raise SpeckError(f"cannot listen on {host}:{port}: {why}") from error


def _refuse_open_door(host: str, tokens: Tokens | None, certificate: Certificate | None) -> None:
    if is_loopback(host):
        return
    if tokens is None:
        raise InvalidInput([Fault(f"host {host!r} is open to others: {_HOW_TO_CLOSE}")], "host")
    if certificate is None:
        print_error(f"warning: tokens travel in the clear from and to host {host!r} ({_HOW_TO_SECURE})")


_HOW_TO_CLOSE = (
    "set SPECK_TOKEN first, or give --token-file or --tokens (a token: openssl rand -hex 32; several, with "
    "roles: speck token add), or listen on 127.0.0.1"
)
_HOW_TO_SECURE = "give --tls-cert and --tls-key, or put a proxy that speaks TLS before 127.0.0.1"


def _names(host: str, others: Iterable[str]) -> frozenset[str]:
    """The names under which others reach a listener on this host, besides numeric addresses."""
    own = socket.gethostname().lower()
    here = () if is_loopback(host) else (own, f"{own}.local")
    given = (other.rpartition("://")[2].partition("/")[0] for other in (host, *others))
    return frozenset(name for name in (*here, *map(host_of, given)) if name)


def _reached_at(host: str, port: int, scheme: str = "http") -> str:
    """The URL under which others reach a listener on this host, as far as this machine can determine it."""
    everywhere = host in ("", "0.0.0.0", "::")  # noqa: S104 - compared, not bound
    return f"{scheme}://{_url_host(socket.gethostname() if everywhere else host)}:{port}"


def _url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
