"""The processes of the demo: the server, and the programs of the road-traffic composition.

Each has a session of its own, so that a Ctrl-C reaches the demo alone, which stops them in order.
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
from typing import Any, Self

import speck
from speck.errors import LocalError

# The programs and the compositions are installed beside the package, in a checkout as from a wheel.
ROOT = Path(speck.__file__).resolve().parent.parent
ROAD_TRAFFIC = "jars_and_apps.road_traffic"
PIPELINES = ROOT / "pipelines"

_GRACE = 20.0  # s until a program that is asked to end is killed
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
                env=_environment(),
                start_new_session=True,
            )

    def check(self) -> None:
        """Raise :class:`LocalError`, with the end of the log, if the program has failed."""
        if self.process.poll() not in (None, 0):
            raise self.failure(f"ended with exit code {self.process.returncode}")

    def first_line(self) -> str:
        """The first line of its output, once there is one.  Raises :class:`LocalError`."""
        assert self.process.stdout is not None  # noqa: S101 - a pipe was asked for
        output: list[bytes] = []
        reader = threading.Thread(target=lambda: output.append(self.process.stdout.readline()), daemon=True)  # type: ignore[union-attr]
        reader.start()
        reader.join(_START)
        if not (line := b"".join(output).decode().strip()):
            raise self.failure(f"did not answer within {_START:g} s" if not output else "did not start")
        return line

    def failure(self, event: str) -> LocalError:
        """An error of the program, with the end of its log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL:]
        return LocalError("\n".join([f"{self.name} {event}; its log {self.log} ends with:", *lines]))

    def stop(self) -> None:
        """End the program: SIGTERM, then SIGKILL."""
        self._signal(signal.SIGTERM)
        try:
            self.process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def kill(self) -> None:
        """End the program by SIGKILL, as a loss of power does."""
        self._signal(signal.SIGKILL)
        self.process.wait()

    def _signal(self, number: signal.Signals) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)


def _environment() -> dict[str, str]:
    """The environment without the tokens of another server."""
    return {key: value for key, value in os.environ.items() if key not in ("SPECK_TOKEN", "SPECK_TOKEN_FILE")}


class Server(Program):
    """A SpecK server on a free loopback port, with a store of its own."""

    def __init__(self, sites: Path, directory: Path, *more: object) -> None:
        options = ["--port", 0, "--data-dir", directory / "store", "--sites", sites, "--root", ROOT, *more]
        super().__init__("server", ["-m", "speck.cli", "serve", *options], directory)

    def url(self) -> str:
        """The address, once the server answers.  Raises :class:`LocalError`."""
        return self.first_line().split()[-1]


class Feeder(Program):
    """Replays a part of the input; :attr:`report` has its counts when it has ended."""

    _program: Sequence[object] = ("-m", f"{ROAD_TRAFFIC}.feeder")

    def __init__(self, name: str, file: Path, options: Sequence[object], directory: Path) -> None:
        super().__init__(name, [*self._program, file, *options], directory)
        self.report: dict[str, Any] | None = None

    def ended(self) -> bool:
        """True if everything is sent.  Raises :class:`LocalError` if the program failed."""
        if self.report is None and self.process.poll() is not None:
            self.check()
            assert self.process.stdout is not None  # noqa: S101 - a pipe was asked for
            self.report = json.loads(self.process.stdout.read())
        return self.report is not None

    def finish(self) -> None:
        """Stop sending, and report what was sent."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGUSR1)

    @property
    def lines(self) -> int:
        """The number of lines sent, malformed ones included; 0 until the program has ended."""
        return self.report["sent"]["readings"] + self.report["malformed"] if self.report else 0


class Watcher(Program):
    """Follows the results of the composition; ``ready`` is the program's first object, once it subscribes."""

    def __init__(self, arguments: Sequence[object], directory: Path) -> None:
        super().__init__("watch", arguments, directory)
        self.totals: dict[str, Any] = {}
        self.ready: Mapping[str, Any] = {}
        self.changed = time.monotonic()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @classmethod
    def of_statistics(cls, brokers: Mapping[str, str], overall: str, directory: Path) -> Self:
        """One that follows the statistics at the sites' brokers."""
        local = [f"--local={site}={address}" for site, address in brokers.items()]
        return cls(["-m", f"{ROAD_TRAFFIC}.watch", *local, f"--overall={overall}"], directory)

    def await_ready(self) -> None:
        """Wait until all subscriptions exist.  Raises :class:`LocalError`."""
        if not self._ready.wait(_START):
            raise self.failure(f"did not subscribe within {_START:g} s")

    def stop(self) -> None:
        """End the program and its reader."""
        super().stop()
        self._thread.join(_GRACE)

    def _read(self) -> None:
        assert self.process.stdout is not None  # noqa: S101 - a pipe was asked for
        for line in self.process.stdout:
            data = json.loads(line)
            if "ready" in data:
                self.ready = data
                self._ready.set()
            else:
                self.totals, self.changed = data, time.monotonic()


def speck_command() -> str:
    """The shell command of the command line that belongs to this Python."""
    beside = Path(sys.executable).with_name("speck")
    if not beside.exists():
        return f"{shlex.quote(sys.executable)} -m speck.cli"
    if shutil.which("speck") == str(beside):
        return "speck"
    here = Path.cwd()
    return shlex.quote(str(beside.relative_to(here) if beside.is_relative_to(here) else beside))


def check_input(file: Path, sensors: Path | None, directory: Path) -> None:
    """Raise :class:`LocalError`, with the reason, if the file cannot be replayed."""
    options: list[object] = ["--sensors", sensors] if sensors is not None else []
    program = Program("feeder", ["-m", f"{ROAD_TRAFFIC}.feeder", file, "--check", *options], directory)
    program.process.wait()
    program.stop()
    if program.process.returncode:
        raise LocalError(program.log.read_text(encoding="utf-8", errors="replace").strip())


def generate(directory: Path, seed: int, sensors: int = 200) -> Path:
    """Generate a day of traffic; returns its file.  Raises :class:`LocalError`."""
    path = directory / "day.csv.gz"
    program = Program(
        "generate",
        ["-m", f"{ROAD_TRAFFIC}.generate", "--seed", seed, "--sensors", sensors, "--out", path],
        directory,
    )
    program.process.wait()
    program.stop()
    program.check()
    return path
