"""The ways to deploy that are compared; every call answers the seconds that it took."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from benchmarks.deploy.chain import NAME, Chain
from benchmarks.load.processes import running
from speck.client import Client

ROOT = Path(__file__).resolve().parent.parent.parent
_PATIENCE = 600.0  # s


class Way(Protocol):
    """One way to deploy a chain."""

    def deploy(self, chain: Chain) -> None:
        """Start all jobs; returns when every engine has accepted its jobs."""

    def modify(self, chain: Chain) -> None:
        """Carry the deployed chain, of the same length, over to this form of it, with its state."""

    def delete(self, chain: Chain) -> None:
        """Stop all jobs, and leave nothing behind that is the way's own."""


def seconds(work: Callable[[], None]) -> float:
    """The duration of an action, s."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


class Speck:
    """A real ``speck serve`` with a store of its own, over its REST interface."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def deploy(self, chain: Chain) -> None:
        """See :class:`Way`."""
        self._check(self._client.apply(chain.text(), NAME, wait=_PATIENCE))

    modify = deploy

    def delete(self, chain: Chain) -> None:
        """See :class:`Way`."""
        self._check(self._client.delete_composition(NAME, wait=_PATIENCE))

    @staticmethod
    def _check(operation: dict[str, Any]) -> None:
        if operation["state"] != "succeeded":
            faults = [each["error"] for each in operation["actions"] if each["error"]]
            raise RuntimeError(f"operation {operation['state']}: {operation['error']} {faults[:3]}")


@contextlib.contextmanager
def speck_server(inventory: str, directory: Path) -> Iterator[Speck]:
    """SpecK as a user runs it."""
    directory.mkdir(parents=True, exist_ok=True)
    sites = directory / "sites.yaml"
    sites.write_text(inventory, encoding="utf-8")
    options = {"port": 0, "data-dir": directory / "store", "sites": sites, "root": ROOT}
    command = [sys.executable, "-m", "speck.cli", "serve"]
    command += [part for name, value in options.items() for part in (f"--{name}", str(value))]
    with running("speck", command, directory) as process:
        said = _first_line(process.process)
        yield Speck(Client(said.split()[-1]))


def _first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    said: list[str] = []
    reader = threading.Thread(target=lambda: said.append(process.stdout.readline()), daemon=True)  # type: ignore[union-attr]
    reader.start()
    reader.join(60)
    if not said or not said[0].strip():
        raise RuntimeError("speck serve did not start (see speck.log)")
    return said[0]
