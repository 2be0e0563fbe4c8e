"""The server process: one store, one coordinator, and its REST interface on a production WSGI server."""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from speck.apply.drain import BOUND
from speck.apply.state_transfer import STATE_LIMIT
from speck.binder import installed
from speck.controller.reconciler import PERIOD
from speck.coordinator import Coordinator
from speck.core.inventory import Inventory, is_loopback
from speck.core.quotas import Quotas
from speck.errors import Fault, InvalidInput, SpeckError
from speck.schema import NO_VARIABLES, load_inventory
from speck.schema.logins import inventory_warnings
from speck.server.api import Protection, create_app
from speck.server.middleware.origin import host_of
from speck.server.middleware.rate_limit import RATE
from speck.server.signals import Signals, _say
from speck.server.tls import Certificate
from speck.server.tokens import Tokens
from speck.server.wsgi import WebServer
from speck.store import Bounds, Store

_log = logging.getLogger(__name__)


def serve(
    *,
    data_dir: Path,
    sites: Path | None,
    roots: Sequence[Path],
    host: str,
    port: int,
    ready: Callable[[str], None],
    tokens: Tokens | None = None,
    certificate: Certificate | None = None,
    allowed_hosts: Iterable[str] = (),
    rate: float | None = None,
    limits: Quotas | None = None,
    advertise: str | None = None,
    state_limit: int = STATE_LIMIT,
    drain: float = BOUND,
    period: float | None = None,
    bounds: Bounds | None = None,
    variables: Mapping[str, str] = NO_VARIABLES,
) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP.  ``ready`` is called with the address once it answers.

    ``advertise`` is the URL at which engines fetch files from here; by default the address listened on.
    ``drain`` is how long (s) a job that is to read elsewhere may take to work off what waits for it,
    ``period`` the time (s) between two rounds of the loop (0: none).
    ``variables`` are the values of the inventory's; ``bounds`` says how much history the store keeps.
    ``state_limit`` is the size up to which a job's state is carried between sites, bytes.
    ``tokens`` are those that let in (none: everybody, on loopback), ``certificate`` makes it speak TLS,
    ``allowed_hosts`` are names under which it is reached besides its own, ``rate`` is how many requests/s one
    client may make (by default as many as it likes on loopback; 0: so anywhere), ``limits`` say how much is
    taken on.

    Port 0 takes a free one.  Raises :class:`~speck.errors.SpeckError` when it cannot begin.
    """
    _refuse_open_door(host, tokens, certificate)
    scheme = "http" if certificate is None else "https"
    inventory = read_inventory(sites, variables) if sites is not None else Inventory()
    for concern in inventory_warnings(inventory):
        _log.warning("%s: %s", sites, concern)
    with (
        Signals() as signals,
        Store(data_dir, bounds or Bounds()) as store,
        _listen(host, port) as listener,
    ):
        port = listener.getsockname()[1]
        coordinator = Coordinator(
            store,
            installed(),
            inventory,
            list(roots),
            advertise=advertise or _reached_at(host, port, scheme),
            drain=drain,
            period=PERIOD if period is None else period,
            state_limit=state_limit,
            limits=limits or Quotas(),
        )
        protection = Protection(
            tokens,
            _names(host, [coordinator.advertise, *allowed_hosts]),
            rate if rate is not None else 0.0 if is_loopback(host) else RATE,
        )
        server = WebServer(create_app(coordinator, protection), listener, certificate=certificate)
        try:
            coordinator.start()
            signals.on_first = lambda: _end(coordinator, server)
            ready(f"{scheme}://{_url_host(host)}:{port}")
            server.run()
        finally:
            coordinator.close()


def _end(coordinator: Coordinator, server: WebServer) -> None:
    """Whoever follows an operation is served until it ends."""
    try:
        coordinator.settle()
    finally:
        server.end()


_NO_PORT = {
    errno.EADDRINUSE: "another program listens there (choose a port with --port)",
    errno.EACCES: "this user may not (choose a port from 1024 on with --port)",
    errno.EADDRNOTAVAIL: "this machine has no such address (choose one with --host)",
}


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        why = _NO_PORT.get(error.errno or 0, error.strerror or str(error))
        raise SpeckError(f"cannot listen on {host}:{port}: {why}") from error


def read_inventory(path: Path, variables: Mapping[str, str] = NO_VARIABLES) -> Inventory:
    """The site inventory of a file.  Raises :class:`~speck.errors.InvalidInput`, which names the file."""
    try:
        return load_inventory(path.read_bytes(), variables)
    except OSError as error:
        message = f"site inventory {str(path)!r} cannot be read: {error.strerror}"
        raise InvalidInput([Fault(message)], "sites") from error
    except InvalidInput as error:
        faults = [replace(each, message=f"{each.message} ({path})") for each in error.faults]
        raise InvalidInput(faults, "sites") from error


def _refuse_open_door(host: str, tokens: Tokens | None, certificate: Certificate | None) -> None:
    if is_loopback(host):
        return
    if tokens is None:
        raise InvalidInput([Fault(f"host {host!r} is open to others: {_HOW_TO_CLOSE}")], "host")
    if certificate is None:
        _say(f"warning: tokens travel in the clear from and to host {host!r} ({_HOW_TO_SECURE})")


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
    """The URL under which others reach a listener on this host, as far as can be told from here."""
    everywhere = host in ("", "0.0.0.0", "::")  # noqa: S104 - compared, not bound
    return f"{scheme}://{_url_host(socket.gethostname() if everywhere else host)}:{port}"


def _url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
