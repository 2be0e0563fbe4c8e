"""A site behind a firewall: a network namespace that opens connections, and accepts none from outside."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from testbed.servers.flink import FlinkServer
from testbed.servers.mosquitto import MosquittoServer

_DEVICE = "wan"
_ALL = "0.0.0.0"  # noqa: S104 - within the namespace
_NET = "10.213.{}"  # addresses within; the site has .2, this machine .1
# Servers here listen below the ports of outgoing connections.  An answer from such a port finds no route, so
# that no connection from outside is established, as behind a firewall that keeps states.
_SERVERS = "1-32767"
_CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 1)"


def unavailable() -> str:
    """The reason why there can be no such site here; empty if there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "network namespaces need ip (iproute2)"
    try:
        with FirewalledSite():
            return ""
    except subprocess.CalledProcessError as error:
        return f"no network namespace: {error.stderr.strip()}"


class FirewalledSite:
    """The namespace; a context manager.  What listens in it is reached from within alone."""

    def __init__(self) -> None:
        self._name = f"speck-{uuid.uuid4().hex[:6]}"
        net = _NET.format(os.getpid() % 250)
        self.address, self.address_here = f"{net}.2", f"{net}.1"
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            _run("ip", "netns", "add", self._name)
            stack.callback(_run, "ip", "netns", "delete", self._name)
            outside = f"{self._name}h"[:15]
            _run(
                *("ip", "link", "add", outside, "type", "veth"),
                *("peer", "name", _DEVICE, "netns", self._name),
            )
            _run("ip", "address", "add", f"{self.address_here}/30", "dev", outside)
            _run("ip", "link", "set", outside, "up")
            for command in (
                ("ip", "link", "set", "lo", "up"),
                ("ip", "address", "add", f"{self.address}/30", "dev", _DEVICE),
                ("ip", "link", "set", _DEVICE, "up"),
                (
                    *("ip", "rule", "add", "priority", "1", "ipproto", "tcp", "sport", _SERVERS),
                    *("to", f"{self.address_here}/32", "prohibit"),
                ),
            ):
                _run(*self.command(command))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def command(self, arguments: Sequence[str]) -> list[str]:
        """The command that runs another one at the site."""
        return ["ip", "netns", "exec", self._name, *arguments]

    def accepts(self, port: int, host: str = "127.0.0.1") -> bool:
        """True if a server at the site accepts a connection from within it."""
        return _runs(self.command([sys.executable, "-c", _CONNECT, host, str(port)]))

    def is_open(self, port: int) -> bool:
        """True if a server at the site accepts a connection from this machine."""
        return _runs([sys.executable, "-c", _CONNECT, self.address, str(port)])


class FirewalledBroker(MosquittoServer):
    """A Mosquitto that listens at all addresses of the site."""

    def __init__(self, site: FirewalledSite, directory: Path) -> None:
        super().__init__(directory)
        self.settings = f"listener {self.port} {_ALL}"
        self._site = site

    def commands(self) -> list[list[str]]:
        return [self._site.command(each) for each in super().commands()]

    def ready(self) -> bool:
        """True if the broker accepts a connection at the site."""
        return self._site.accepts(self.port)


class FirewalledFlink(FlinkServer):
    """A Flink cluster at the site."""

    def __init__(self, site: FirewalledSite, directory: Path) -> None:
        super().__init__(directory, slots=4, conf={"rest.bind-address": _ALL})
        self._site = site

    def commands(self) -> list[list[str]]:
        return [self._site.command(each) for each in super().commands()]

    def ready(self) -> bool:
        """True if the REST server accepts a connection at the site."""
        return self._site.accepts(self.ports[0])


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)


def _runs(command: Sequence[str]) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
