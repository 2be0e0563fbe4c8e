"""A real ``speck serve`` as a process of its own, to be killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, TracebackType

from speck.client import Client
from testbed.servers.forked import Forked

_START = 60.0  # s

# A server that starts from nothing takes more than a second of processor time for them.
_IMPORTS = ("speck.server.process", "binders.flink.engine", "binders.mqtt")


@dataclass(frozen=True)
class Counted:
    """Run it with its points counted: see :mod:`testbed.faults.counted`."""

    kill_at: int
    seed: int
    report: Path


class Served:
    """One server process on a store, from its start until it is dead."""

    def __init__(
        self,
        store: Path,
        sites: Path,
        root: Path,
        log: Path,
        counted: Counted | None = None,
        further: Mapping[str, object] = MappingProxyType({}),
        program: str = "speck.cli",
    ) -> None:
        """Start it, with ``further`` options; nothing is waited for.

        ``program`` is the module of a server whose points are not counted.
        """
        options = {"port": 0, "data-dir": store, "sites": sites, "root": root, **further}
        serve = ["serve", *(part for name, value in options.items() for part in (f"--{name}", str(value)))]
        with log.open("ab") as diagnostics, Path(os.devnull).open("rb") as nothing:
            self._process = Forked(
                program if counted is None else "testbed.faults.counted",
                [*(_counting(counted, store) if counted else ()), *serve],
                stdin=nothing.fileno(),
                stdout=subprocess.PIPE,
                stderr=diagnostics.fileno(),
                env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
                imports=_IMPORTS,
            )
        self._said = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def client(self) -> Client | None:
        """A client of it once it answers; ``None`` when it died before."""
        self._reader.join(_START)
        if not self._said and self._reader.is_alive():
            raise RuntimeError("speck serve did not start in time")
        return Client(self.url) if self._said.strip() else None

    @property
    def url(self) -> str:
        """The address of a server that answers."""
        return self._said.split()[-1]

    def await_death(self, seconds: float) -> bool:
        """Wait until the process has ended; answers whether it has."""
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def killed(self) -> bool:
        """True if it was ended by SIGKILL."""
        return self._process.poll() == -signal.SIGKILL

    def kill(self) -> None:
        """SIGKILL, and wait for the end."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        self._said = self._process.stdout.readline()

    def __enter__(self) -> Served:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


def _counting(counted: Counted, store: Path) -> Sequence[str]:
    where = ["--kill-at", str(counted.kill_at), "--seed", str(counted.seed)]
    return [*where, "--report", str(counted.report), "--files", str(store), "--"]
