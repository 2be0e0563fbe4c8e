"""The server process: one store, one coordinator, and its REST interface on a production WSGI server."""

from __future__ import annotations

import contextlib
import ipaddress
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType

from waitress.server import create_server

from speck.api import MAX_BODY, create_app
from speck.binder import installed
from speck.coordinator import Coordinator
from speck.drain import BOUND
from speck.errors import Fault, InvalidInput, SpeckError
from speck.model import Inventory
from speck.schema import load_inventory
from speck.store import Bounds, Store

_THREADS = 16


def serve(
    *,
    data_dir: Path,
    sites: Path | None,
    roots: Sequence[Path],
    host: str,
    port: int,
    token: str | None,
    ready: Callable[[str], None],
    advertise: str | None = None,
    drain: float = BOUND,
    bounds: Bounds | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM.  ``ready`` is called with the address once it answers.

    ``advertise`` is the URL at which engines fetch files from here; by default the address listened on.
    ``drain`` is how long (s) a job that is to read elsewhere may take to work off what waits for it.
    ``bounds`` says how much history the store keeps.

    Port 0 takes a free one.  Raises :class:`~speck.errors.SpeckError` when it cannot begin.
    """
    _refuse_open_door(host, token)
    inventory = read_inventory(sites) if sites is not None else Inventory()
    with Store(data_dir, bounds or Bounds()) as store, _listen(host, port) as listener:
        port = listener.getsockname()[1]
        coordinator = Coordinator(
            store,
            installed(),
            inventory,
            list(roots),
            advertise=advertise or _reached_at(host, port),
            drain=drain,
        )
        app = create_app(coordinator, token)
        server = create_server(
            app, sockets=[listener], threads=_THREADS, max_request_body_size=MAX_BODY, ident="speck"
        )
        try:
            coordinator.start()
            with _ended_by_signal():
                ready(f"http://{_url_host(host)}:{port}")
                server.run()
        finally:
            server.close()
            coordinator.close()


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise SpeckError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error


def read_inventory(path: Path) -> Inventory:
    """The site inventory of a file.  Raises :class:`~speck.errors.InvalidInput`, which names the file."""
    try:
        return load_inventory(path.read_bytes())
    except OSError as error:
        message = f"site inventory {str(path)!r} cannot be read: {error.strerror}"
        raise InvalidInput([Fault(message)], "sites") from error
    except InvalidInput as error:
        faults = [replace(each, message=f"{each.message} ({path})") for each in error.faults]
        raise InvalidInput(faults, "sites") from error


def _refuse_open_door(host: str, token: str | None) -> None:
    if not token and not is_loopback(host):
        message = f"host {host!r} is open to others: set SPECK_TOKEN first (or listen on 127.0.0.1)"
        raise InvalidInput([Fault(message)], "host")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a listener on this host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _reached_at(host: str, port: int) -> str:
    """The URL under which others reach a listener on this host, as far as can be told from here."""
    everywhere = host in ("", "0.0.0.0", "::")  # noqa: S104 - compared, not bound
    return f"http://{_url_host(socket.gethostname() if everywhere else host)}:{port}"


def _url_host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


@contextlib.contextmanager
def _ended_by_signal() -> Iterator[None]:
    """Have SIGINT and SIGTERM end the WSGI server's loop, which takes SystemExit as the word to do so."""

    def stop(number: int, frame: FrameType | None) -> None:
        print(f"{signal.Signals(number).name}: finishing what is in hand", file=sys.stderr)
        raise SystemExit(0)

    former = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
