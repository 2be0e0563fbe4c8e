"""The server process: one store, one coordinator, and its REST interface on a production WSGI server."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from speck.api import create_app
from speck.binder import installed
from speck.carry import STATE_LIMIT
from speck.coordinator import Coordinator
from speck.drain import BOUND
from speck.errors import Fault, InvalidInput, SpeckError
from speck.loop import PERIOD
from speck.model import Inventory
from speck.schema import load_inventory
from speck.secrets import inventory_concerns
from speck.store import Bounds, Store
from speck.wsgi import WebServer

_log = logging.getLogger(__name__)


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
    state_limit: int = STATE_LIMIT,
    drain: float = BOUND,
    period: float | None = None,
    bounds: Bounds | None = None,
) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP.  ``ready`` is called with the address once it answers.

    ``advertise`` is the URL at which engines fetch files from here; by default the address listened on.
    ``drain`` is how long (s) a job that is to read elsewhere may take to work off what waits for it,
    ``period`` the time (s) between two rounds of the loop (0: none).
    ``bounds`` says how much history the store keeps.
    ``state_limit`` is the size up to which a job's state is carried between sites, bytes.

    Port 0 takes a free one.  Raises :class:`~speck.errors.SpeckError` when it cannot begin.
    """
    _refuse_open_door(host, token)
    inventory = read_inventory(sites) if sites is not None else Inventory()
    for concern in inventory_concerns(inventory):
        _log.warning("%s: %s", sites, concern)
    with (
        _Signals() as signals,
        Store(data_dir, bounds or Bounds()) as store,
        _listen(host, port) as listener,
    ):
        port = listener.getsockname()[1]
        coordinator = Coordinator(
            store,
            installed(),
            inventory,
            list(roots),
            advertise=advertise or _reached_at(host, port),
            drain=drain,
            period=PERIOD if period is None else period,
            state_limit=state_limit,
        )
        server = WebServer(create_app(coordinator, token), listener)
        try:
            coordinator.start()
            signals.on_first = lambda: _end(coordinator, server)
            ready(f"http://{_url_host(host)}:{port}")
            server.run()
        finally:
            coordinator.close()


def _end(coordinator: Coordinator, server: WebServer) -> None:
    """Whoever follows an operation is served until it ends."""
    try:
        coordinator.settle()
    finally:
        server.end()


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


class _Signals:
    """SIGINT, SIGTERM and SIGHUP as the word to end, from here on to the end of the process.

    When the block raises, they mean again what they meant before.

    The first one, even if it came before, calls ``on_first``; those that follow are told to wait.  A handler
    runs between any two steps of the main thread, whatever locks that holds, so it only writes to a pipe.
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()
        self._ready = threading.Event()
        self._on_first: Callable[[], None] = _nothing
        self._former: dict[int, Any] = {}

    @property
    def on_first(self) -> Callable[[], None]:
        """What the first signal has done, in a thread."""
        return self._on_first

    @on_first.setter
    def on_first(self, action: Callable[[], None]) -> None:
        self._on_first = action
        self._ready.set()

    def __enter__(self) -> _Signals:
        threading.Thread(target=self._watch, name="signals", daemon=True).start()
        for number in _ENDING:
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:  # not under nohup
                self._former[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for number, former in self._former.items():
            # When all went well the process ends now, and one more word must not make a failure of it.
            signal.signal(number, signal.SIG_IGN if kind is None else former)
        os.close(self._writer)

    def _note(self, number: int, frame: FrameType | None) -> None:
        os.write(self._writer, bytes([number]))

    def _watch(self) -> None:
        first = True
        while word := os.read(self._reader, 1):
            name = signal.Signals(word[0]).name
            _say(f"{name}: finishing what is in hand" if first else f"{name}: still at it ({_HOW_TO_KILL})")
            if first:
                threading.Thread(target=self._act, name="ending", daemon=True).start()
            first = False
        os.close(self._reader)

    def _act(self) -> None:
        self._ready.wait()
        self._on_first()


_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_HOW_TO_KILL = "SIGKILL ends it at once; it goes on where it was when it is started again"


def _nothing() -> None:
    """Nothing is to be done yet."""


def _say(text: str) -> None:
    with contextlib.suppress(OSError):  # the terminal may be gone
        print(text, file=sys.stderr, flush=True)
