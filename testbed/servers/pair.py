"""A server, its standby and their witness as processes, each of which is started again when it has ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from testbed import ROOT
from testbed.servers.base import free_port
from testbed.servers.cable import Cables

TOKEN = "0123456789abcdef0123456789abcdef"
NAMES = ("a", "b")  # of the servers; the first one begins as the primary
_STARTING = 3.0  # s between two starts of one server


class ServedPair:
    """``module`` is the program of the servers, ``options`` are further ones of ``speck serve``.

    The processes reach each other by ``cables``.  ``tend`` starts again what has ended; call it while
    waiting.  ``trees`` are the sources of those that are of another version.  With ``agents``, the servers
    accept agents at the ports ``agent_ports``.
    """

    def __init__(
        self,
        directory: Path,
        options: Sequence[str] = (),
        module: str = "speck",
        *,
        agents: bool = False,
        trees: Mapping[str, Path] = MappingProxyType({}),
    ) -> None:
        self.directory, self._module, self._options = directory, module, list(options)
        self._trees = trees
        self.ports = {name: free_port() for name in (*NAMES, "witness")}
        self.agent_ports = {name: free_port() for name in NAMES} if agents else {}
        self.cables = Cables(self.ports)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._started: dict[str, float] = {}
        self.down: set[str] = set()  # those that are not started again
        token = directory / "token"
        token.write_text(TOKEN)
        token.chmod(0o600)

    def __enter__(self) -> Self:
        self.tend()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
        self.cables.close()

    def url(self, name: str) -> str:
        """The address of a server, or of the witness."""
        return f"http://127.0.0.1:{self.ports[name]}"

    def tend(self) -> None:
        """Start what does not run, except for what is to be down."""
        for name in ("witness", *NAMES):
            process = self._processes.get(name)
            ended = process is None or process.poll() is not None
            due = time.monotonic() - self._started.get(name, float("-inf")) > _STARTING
            if ended and due and name not in self.down:
                self._start(name)

    def send(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a server or the witness."""
        self._processes[name].send_signal(number)
        if number == signal.SIGKILL:
            self._processes[name].wait()

    def health(self, name: str) -> dict[str, Any] | None:
        """The answer of ``/healthz``, if a server is the primary; ``None`` otherwise."""
        address = f"{self.url(name)}/healthz"
        with (
            contextlib.suppress(OSError, ValueError),
            urllib.request.urlopen(address, timeout=2) as answer,  # noqa: S310 - of ours
        ):
            found: dict[str, Any] = json.load(answer)
            return found
        return None

    def primary(self) -> str | None:
        """The server that is the primary, if one says so."""
        return next((name for name in NAMES if self.health(name) is not None), None)

    def in_sync(self) -> str | None:
        """The server that is the primary, if its standby is in step, according to the witness."""
        for name in NAMES:
            found = self.health(name)
            if found is not None and found["standby"]["in_sync"] and self._vote().get("in_sync"):
                return name
        return None

    def _vote(self) -> dict[str, Any]:
        with contextlib.suppress(OSError, ValueError):
            found: dict[str, Any] = json.loads((self.directory / "witness.json").read_bytes())
            return found
        return {}

    def log(self, name: str) -> str:
        """The output of a server."""
        return (self.directory / f"{name}.log").read_text(errors="replace")

    def _start(self, name: str) -> None:
        self._started[name] = time.monotonic()
        token = ["--standby-token", "token"]
        if name == "witness":
            command = [
                "speck",
                "witness",
                "--listen",
                str(self.ports[name]),
                "--file",
                "witness.json",
                *token,
            ]
        else:
            other = "b" if name == "a" else "a"
            role = "--standby" if name == "a" else "--standby-of"
            peer, witness = self.cables.url(name, other), self.cables.url(name, "witness")
            pair = [role, peer, "--witness", witness, *token]
            serve = ["serve", "--port", str(self.ports[name]), "--data-dir", f"store-{name}"]
            agents = ["--agents", f"127.0.0.1:{self.agent_ports[name]}"] if self.agent_ports else []
            command = [self._module, *serve, *pair, *agents, *self._options]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SPECK_")}
        module = "speck.cli" if command[0] == "speck" else command[0]
        with (self.directory / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-m", module, *command[1:]],
                cwd=self.directory,
                env=environment | {"PYTHONPATH": str(self._trees.get(name, ROOT))},
                stdout=log,
                stderr=log,
            )
