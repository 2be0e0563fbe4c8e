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

_START = 60.0  # s


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
    ) -> None:
        """Start it, with ``further`` options; nothing is waited for."""
        options = {"port": 0, "data-dir": store, "sites": sites, "root": root, **further}
        serve = ["serve", *(part for name, value in options.items() for part in (f"--{name}", str(value)))]
        with log.open("ab") as diagnostics:
            self._process = subprocess.Popen(
                [sys.executable, *_program(counted, store), *serve],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=diagnostics,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
                text=True,
            )
        self._said = ""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def client(self) -> Client | None:
        """A client of it once it answers; ``None`` when it died before."""
        self._reader.join(_START)
        if not self._said and self._reader.is_alive():
            raise RuntimeError("speck serve did not start in time")
        return Client(self._said.split()[-1]) if self._said.strip() else None

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


def _program(counted: Counted | None, store: Path) -> Sequence[str]:
    if counted is None:
        return ["-m", "speck.cli"]
    where = ["--kill-at", str(counted.kill_at), "--seed", str(counted.seed)]
    files = ["--report", str(counted.report), "--files", str(store)]
    return ["-m", "testbed.faults.counted", *where, *files, "--"]
