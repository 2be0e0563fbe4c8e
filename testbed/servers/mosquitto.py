"""A real Mosquitto of its own for a test, on a free loopback port.

::

    def test_something(mosquitto: MosquittoServer) -> None: ...      # the fixture: one broker a test

    with MosquittoServer(directory, "max_queued_messages 10") as broker:    # with settings of one's own
        connect(broker.port)                                              # or broker.address, tcp://127.0.0.1:PORT
        broker.kill()                                                     # SIGKILL; what is persisted stays
        broker.start()                                                    # again, on the same port

Settings given replace those of the same name in :data:`SETTINGS`.
"""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

from testbed import ROOT
from testbed.servers.base import RealServer, free_port

_OF_THE_PLACE = ("listener", "persistence_location")
_SHIPPED = ROOT / "pipelines" / "mosquitto.conf"


def _shipped() -> dict[str, str]:
    """The options of the configuration that SpecK ships, except for the broker's address."""
    lines = [line.split(None, 1) for line in _SHIPPED.read_text(encoding="utf-8").splitlines()]
    options = {line[0]: line[1].strip() for line in lines if len(line) > 1 and not line[0].startswith("#")}
    return {name: value for name, value in options.items() if name not in _OF_THE_PLACE}


# As shipped, saved more often; a test overrides what it needs.
SETTINGS = {**_shipped(), "autosave_interval": "1", "log_type": "error"}

_SEARCHED = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"])
PROGRAM = shutil.which("mosquitto", path=_SEARCHED)

# A CONNECT packet of MQTT 3.1.1: clean session, keep alive 10 s, client id "ready".
_CONNECT = b"\x10\x11\x00\x04MQTT\x04\x02\x00\x0a\x00\x05ready"
_CONNACK = b"\x20"


class MosquittoServer(RealServer):
    """One Mosquitto process."""

    log_name = "mosquitto.log"
    start_timeout = 30.0
    poll = 0.01

    def __init__(self, directory: Path, settings: str = "", port: int | None = None) -> None:
        """Prepare a broker that keeps its files in ``directory``; ``settings``: lines of mosquitto.conf."""
        super().__init__(directory)
        self.settings = settings
        self.port = port if port is not None else free_port()

    @property
    def address(self) -> str:
        """The broker's address as in a composition."""
        return f"tcp://127.0.0.1:{self.port}"

    def commands(self) -> list[list[str]]:
        assert PROGRAM is not None
        configuration = self.directory / "mosquitto.conf"
        configuration.write_text(self._configuration(), encoding="utf-8")
        return [[PROGRAM, "-c", str(configuration)]]

    def ready(self) -> bool:
        """True if the broker answers a CONNECT, be it by a refusal."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(_CONNECT)
                return connection.recv(1) == _CONNACK
        except OSError:
            return False

    def _configuration(self) -> str:
        own = [line.strip() for line in self.settings.splitlines() if line.strip()]
        given = {line.split()[0] for line in own}
        lines = [f"{name} {value}" for name, value in SETTINGS.items() if name not in given]
        if "persistence_location" not in given:
            lines.append(f"persistence_location {self.directory}/")
        if os.geteuid() == 0 and "user" not in given:
            lines.append("user root")  # it would give up the right to its own directory otherwise
        if "listener" not in given:
            lines.append(f"listener {self.port} 127.0.0.1")
        # The options of a listener stand below its line, so the settings of the test come last.
        return "\n".join([*lines, *own, ""])
