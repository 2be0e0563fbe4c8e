"""Services of a real systemd: a manager of this process's user, in a mount namespace of its own.

It follows units as that of the system does: how they are started, restarted and stopped, their control groups
with limits of memory, and what they may write.  It does not change the user, and it hides neither home nor
temporary directories, in which Python and the files of a test may be.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from speck.testing.waiting import eventually

_MANAGER = Path("/lib/systemd/systemd")
_START = 20.0  # s, until the services are started
_STOP = 100.0  # s, until the manager has ended; a service has 90 for it
# A manager of a user starts only beside one of the system, which it recognises by this directory.
_SCRIPT = 'mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system && exec "$@"'
_ALL = "all.target"


def why_not() -> str:
    """The reason why no manager can be started here; empty if one can."""
    if not _MANAGER.exists():
        return "systemd is not installed"
    if os.geteuid() != 0:
        return "a mount namespace for systemd needs root"
    tried = subprocess.run(["unshare", "--mount", "sh", "-c", _SCRIPT, "sh", "true"], check=False)
    return "" if tried.returncode == 0 else "no mount namespace can be made"


class Manager:
    """A manager of services, whose files are below ``directory``."""

    def __init__(self, directory: Path) -> None:
        self._directory, self._runtime = directory, directory / "run"
        self._units = directory / "config" / "systemd" / "user"
        self._units.mkdir(parents=True)
        self._runtime.mkdir(mode=0o700)

    def service(self, name: str, unit: str, drop_ins: Sequence[str]) -> Service:
        """A service by its unit and its drop-ins, in their order; it starts with the manager."""
        found = Service(name, self._runtime, self._directory)
        own = (
            "[Service]\nUser=\nGroup=\nProtectHome=no\nPrivateTmp=no\n"
            f"ReadWritePaths={self._directory}\n"
            f"StandardOutput=append:{found.output}\nStandardError=inherit\n"
            f"ExecStopPost=/bin/sh -c 'echo $EXIT_CODE $EXIT_STATUS >>{found.exits}'\n"
        )
        (self._units / f"{name}.service").write_text(unit)
        folder = self._units / f"{name}.service.d"
        folder.mkdir()
        for number, text in enumerate([*drop_ins, own]):
            (folder / f"{number}.conf").write_text(text)
        with (self._units / _ALL).open("a") as target:
            target.write(f"[Unit]\nWants={name}.service\n")
        return found

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start the manager with its services, and stop them in the end."""
        manager = [str(_MANAGER), "--user", f"--unit={_ALL}"]
        process = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", _SCRIPT, "sh", *manager],
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(self._directory),
                "XDG_RUNTIME_DIR": str(self._runtime),
                "XDG_CONFIG_HOME": str(self._directory / "config"),
            },
        )
        try:
            eventually(
                lambda: _systemctl(self._runtime, "is-active", _ALL), lambda found: found == "active", _START
            )
            yield
        finally:
            process.terminate()  # which stops all services, systemd(1)
            try:
                process.wait(_STOP)
            finally:
                process.kill()
                process.wait()


class Service:
    """A service of a :class:`Manager`."""

    def __init__(self, name: str, runtime: Path, directory: Path) -> None:
        self._name, self._runtime = name, runtime
        self.output, self.exits = directory / f"{name}.log", directory / f"{name}.exits"

    @property
    def pid(self) -> int:
        """The id of the main process; 0 while there is none."""
        return self._number("MainPID")

    @property
    def starts(self) -> int:
        """The number of times that the main process was started."""
        return 1 + self._number("NRestarts")

    @property
    def codes(self) -> list[int]:
        """The exit codes of the main process so far; negative for a signal."""
        ends = [each.split() for each in self.exits.read_text().splitlines()] if self.exits.exists() else []
        return [-signal.Signals[f"SIG{status}"] if code == "killed" else int(status) for code, status in ends]

    @property
    def log(self) -> str:
        """The output of the service."""
        return self.output.read_text(errors="replace") if self.output.exists() else ""

    def kill(self) -> None:
        """End the main process, as the system does that is out of memory."""
        os.kill(self.pid, signal.SIGKILL)

    def _number(self, name: str) -> int:
        return int(_systemctl(self._runtime, "show", self._name, f"--property={name}", "--value"))


def _systemctl(runtime: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["systemctl", "--user", *arguments],
        env=os.environ | {"XDG_RUNTIME_DIR": str(runtime)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip()
