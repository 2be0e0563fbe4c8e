"""A Mosquitto on this machine with the recommended configuration of a site, for :mod:`speck.local.sites`."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import speck
from speck.errors import LocalError

CONFIGURATION = Path(speck.__file__).resolve().parent.parent / "pipelines" / "mosquitto.conf"

# Where Debian and others install servers, which is not on every user's PATH.
_SERVER_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/opt/homebrew/sbin")

_LOOPBACK = "127.0.0.1"

# MQTT 5, 3.1: a CONNECT with a clean start, keep alive 10 s, no properties, client id "ready".
_CONNECT = b"\x10\x12\x00\x04MQTT\x05\x02\x00\x0a\x00\x00\x05ready"
_CONNACK = b"\x20"


@dataclass(frozen=True, slots=True)
class Mosquitto:
    """The :class:`~speck.binder.LocalServer` of Mosquitto, at ``host``."""

    host: str = _LOOPBACK
    ports = 1

    def at(self, host: str, states: Path) -> Mosquitto:
        """See :meth:`speck.binder.devserver.Networked.at`; no job keeps anything here."""
        return Mosquitto(host)

    def address(self, ports: Sequence[int]) -> str:
        """``tcp://HOST:PORT``."""
        return f"tcp://{self.host}:{ports[0]}"

    def command(
        self, ports: Sequence[int], directory: Path, heap: str
    ) -> tuple[list[str], Mapping[str, str]]:
        """See :meth:`speck.binder.LocalServer.command`; writes ``mosquitto.conf`` into the directory."""
        program = find_mosquitto()
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / "mosquitto.conf"
        path.write_text(site_configuration(ports[0], directory.resolve(), self.host), encoding="utf-8")
        return [program, "-c", str(path)], dict(os.environ)

    def ready(self, ports: Sequence[int]) -> bool:
        """True if a CONNECT is answered."""
        try:
            with socket.create_connection((self.host, ports[0]), timeout=2) as connection:
                connection.sendall(_CONNECT)
                return connection.recv(1) == _CONNACK
        except OSError:
            return False

    def inventory(self, ports: Sequence[int], directory: Path, heap: str) -> Mapping[str, Any]:
        """Empty: a broker has no fields but its address."""
        return {}


MOSQUITTO = Mosquitto()


def find_mosquitto() -> str:
    """The path of Mosquitto.  Raises :class:`~speck.errors.LocalError`, which names the missing package."""
    folders = [os.environ.get("PATH", os.defpath), *_SERVER_FOLDERS]
    program = shutil.which("mosquitto", path=os.pathsep.join(folders))
    if program is None:
        raise LocalError(
            "Mosquitto, the MQTT broker of a local site, is not installed: install the package mosquitto "
            "(Debian, Ubuntu: sudo apt-get install mosquitto; Fedora: sudo dnf install mosquitto; "
            "macOS: brew install mosquitto)"
        )
    return program


def _name_of(user: int) -> str:
    """The name of a user by number; in a container it may have no entry."""
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return "root"


def site_configuration(port: int, directory: Path, host: str = _LOOPBACK) -> str:
    """The recommended configuration of a site, with this address, and its files in ``directory``."""
    text = CONFIGURATION.read_text(encoding="utf-8")
    for option, value in {
        "listener": f"{port} {host}",
        "persistence_location": f"{directory}/",
    }.items():
        text, replaced = re.subn(rf"^{option} .*$", lambda _: f"{option} {value}", text, flags=re.MULTILINE)  # noqa: B023
        if replaced != 1:
            raise LocalError(f"{CONFIGURATION} has {replaced} lines with {option!r} (expected one)")
    if os.geteuid() == 0:
        # Started by root, Mosquitto switches to the user "mosquitto", which may not write here.
        # Not by the environment, in which `su` and `sudo` may leave another name.
        text += f"\nuser {_name_of(os.geteuid())}\n"
    return text
