"""A real Mosquitto with a listener that demands a password, which can be changed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from speck.core.inventory import Broker, Login, Secret
from testbed.servers.base import free_port
from testbed.servers.mosquitto import MosquittoServer

USER = "speck"
VARIABLE = "PASSWORD_OF_THE_BROKER"

_PROGRAM = shutil.which("mosquitto_passwd", path="/usr/bin:/usr/local/bin:/usr/sbin")


class PasswordBroker(MosquittoServer):
    """``address`` needs no login; ``guarded`` needs that of :data:`USER`, taken from :data:`VARIABLE`."""

    def __init__(self, directory: Path) -> None:
        self.guarded_port = free_port()
        self._passwords = directory / "passwords"
        port = free_port()
        settings = [
            "per_listener_settings true",
            *(f"listener {port} 127.0.0.1", "allow_anonymous true"),
            *(f"listener {self.guarded_port} 127.0.0.1", "allow_anonymous false"),
            f"password_file {self._passwords}",
        ]
        super().__init__(directory, "\n".join(settings), port=port)
        self.set_password(os.environ[VARIABLE])

    @property
    def guarded(self) -> str:
        """The address that needs the password."""
        return f"tcp://127.0.0.1:{self.guarded_port}"

    @property
    def broker(self) -> Broker:
        """The guarded listener in an inventory."""
        login = Login(username=USER, password=Secret(f"${{{VARIABLE}}}"))
        return Broker(broker_address=self.guarded, broker_login=login)

    def set_password(self, password: str) -> None:
        """The password from the next start on."""
        assert _PROGRAM is not None
        self.directory.mkdir(parents=True, exist_ok=True)
        subprocess.run([_PROGRAM, "-b", "-c", str(self._passwords), USER, password], check=True)

    def restart_with(self, password: str) -> None:
        """Restart with another password: a connection that lasts would not be asked for it."""
        self.stop()
        self.set_password(password)
        self.start()
