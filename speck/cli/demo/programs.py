"""The programs that the demo runs beside itself: the server, and those of the road-traffic composition.

Each is a process in a session of its own, so that a Ctrl-C reaches the demo alone, which ends them in order.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import speck
from speck.errors import LocalError

# Beside the package lie what runs at the sites and the compositions, in a checkout as in an installed wheel.
ROOT = Path(speck.__file__).resolve().parent.parent
ROAD_TRAFFIC = ROOT / "jars_and_apps" / "road_traffic"
PIPELINES = ROOT / "pipelines"

_GRACE = 20.0  # s that a program has to end by itself
_START = 60.0  # s until the server answers
_TAIL = 15  # lines of a log that an error shows


class Program:
    """One child process; its standard error goes to ``NAME.log`` in the demo's directory."""

    def __init__(self, name: str, arguments: Sequence[object], directory: Path) -> None:
        self.name = name
        self.log = directory / f"{name}.log"
        command = [sys.executable, *map(str, arguments)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
                env=_environment(),  # nobody else reaches it
                start_new_session=True,
            )

    def check(self) -> None:
        """Raise :class:`LocalError`, with the end of its log, when it has ended in an error."""
        if self.process.poll() not in (None, 0):
            raise self.failure(f"ended with exit code {self.process.returncode}")

    def failure(self, what: str) -> LocalError:
        """An error of this program, with the end of its log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL:]
        return LocalError("\n".join([f"{self.name} {what}; its log {self.log} ends with:", *lines]))

    def stop(self) -> None:
        """End it: politely, then for good."""
        self._signal(signal.SIGTERM)
        try:
            self.process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def _signal(self, number: signal.Signals) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)


def _environment() -> dict[str, str]:
    """Without what is meant for another server than the demo's own."""
    return {key: value for key, value in os.environ.items() if key not in ("SPECK_TOKEN", "SPECK_TOKEN_FILE")}


class Server(Program):
    """A SpecK server on a free loopback port, with a store of its own."""

    def __init__(self, sites: Path, directory: Path) -> None:
        options = ["--port", 0, "--data-dir", directory / "store", "--sites", sites, "--root", ROOT]
        super().__init__("server", ["-m", "speck.cli", "serve", *options], directory)

    def url(self) -> str:
        """Its address, once it answers.  Raises :class:`LocalError`."""
        assert self.process.stdout is not None  # noqa: S101 - a pipe was asked for
        said: list[bytes] = []
        reader = threading.Thread(target=lambda: said.append(self.process.stdout.readline()), daemon=True)  # type: ignore[union-attr]
        reader.start()
        reader.join(_START)
        words = said[0].decode().split() if said else []
        if not words:
            raise self.failure(f"did not answer within {_START:g} s" if not said else "did not start")
        return words[-1]


class Feeder(Program):
    """Replays a part of the input; :attr:`accounts` are there when it has ended."""

    def __init__(self, name: str, file: Path, options: Sequence[object], directory: Path) -> None:
        super().__init__(name, [ROAD_TRAFFIC / "feeder.py", file, *options], directory)
        self.accounts: dict[str, Any] | None = None

    def ended(self) -> bool:
        """Whether it has sent everything.  Raises :class:`LocalError` when it failed."""
        if self.accounts is None and self.process.poll() is not None:
            self.check()
            assert self.process.stdout is not None  # noqa: S101 - a pipe was asked for
            self.accounts = json.loads(self.process.stdout.read())
        return self.accounts is not None

    @property
    def lines(self) -> int:
        """The lines that it sent, malformed ones among them; 0 until it has ended."""
        return self.accounts["sent"]["readings"] + self.accounts["malformed"] if self.accounts else 0


class Watcher(Program):
    """Follows the statistics that come out of the composition."""

    def __init__(self, brokers: Mapping[str, str], overall: str, directory: Path) -> None:
        local = [f"--local={site}={address}" for site, address in brokers.items()]
        super().__init__("watch", [ROAD_TRAFFIC / "watch.py", *local, f"--overall={overall}"], directory)
        self.totals: dict[str, Any] = {}
        self.changed = time.monotonic()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def await_ready(self) -> None:
        """Wait until nothing can be missed any more.  Raises :class:`LocalError`."""
        if not self._ready.wait(_START):
            raise self.failure(f"did not subscribe within {_START:g} s")

    def stop(self) -> None:
        """End it."""
        super().stop()
        self._thread.join(_GRACE)

    def _read(self) -> None:
        assert self.process.stdout is not None  # noqa: S101 - a pipe was asked for
        for line in self.process.stdout:
            data = json.loads(line)
            if "ready" in data:
                self._ready.set()
            else:
                self.totals, self.changed = data, time.monotonic()


def speck_command() -> str:
    """What a person types to run the command line that belongs to this Python."""
    beside = Path(sys.executable).with_name("speck")
    if not beside.exists():
        return f"{shlex.quote(sys.executable)} -m speck.cli"
    if shutil.which("speck") == str(beside):
        return "speck"
    here = Path.cwd()
    return shlex.quote(str(beside.relative_to(here) if beside.is_relative_to(here) else beside))


def check_input(file: Path, sensors: Path | None, directory: Path) -> None:
    """See whether there is something to replay.  Raises :class:`LocalError`, which says what is not right."""
    options: list[object] = ["--sensors", sensors] if sensors is not None else []
    program = Program("feeder", [ROAD_TRAFFIC / "feeder.py", file, "--check", *options], directory)
    program.process.wait()
    program.stop()
    if program.process.returncode:
        raise LocalError(program.log.read_text(encoding="utf-8", errors="replace").strip())


def generate(directory: Path, seed: int) -> Path:
    """A day of traffic.  Raises :class:`LocalError`."""
    path = directory / "day.csv.gz"
    program = Program("generate", [ROAD_TRAFFIC / "generate.py", "--seed", seed, "--out", path], directory)
    program.process.wait()
    program.stop()
    program.check()
    return path
