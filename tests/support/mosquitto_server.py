"""A real Mosquitto of its own for a test, on a free loopback port.

::

    def test_something(mosquitto: MosquittoServer) -> None: ...      # the fixture: one broker a test

    with MosquittoServer(directory, "max_queued_messages 10") as broker:    # with settings of one's own
        connect(broker.port)                                              # or broker.address, tcp://127.0.0.1:PORT
        broker.kill()                                                     # SIGKILL; what is persisted stays
        broker.start()                                                    # again, on the same port

Settings given replace those of the same name in :data:`SETTINGS`.  A test that needs the fixture imports
it (``from tests.support.mosquitto_server import mosquitto_fixture  # noqa: F401``).
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

import pytest

# No limit that would drop a message; whatever a test wants otherwise it says.
SETTINGS = {
    "allow_anonymous": "true",
    "persistence": "true",
    "autosave_interval": "1",
    "max_inflight_messages": "0",
    "max_queued_messages": "0",
    "set_tcp_nodelay": "true",
    "log_type": "error",
}

_SEARCHED = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"])
PROGRAM = shutil.which("mosquitto", path=_SEARCHED)

# A CONNECT packet of MQTT 3.1.1: clean session, keep alive 10 s, client id "ready".
_CONNECT = b"\x10\x11\x00\x04MQTT\x04\x02\x00\x0a\x00\x05ready"

_START_TIMEOUT = 30.0


def free_port() -> int:
    """A loopback TCP port that nobody listened on a moment ago.

    It lies below the range from which the system takes the ports of outgoing connections: a server that
    is killed and started again finds its port free.
    """
    for _ in range(1000):
        port = random.randrange(15000, 32000)
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no free port on 127.0.0.1 between 15000 and 32000")


class MosquittoServer:
    """One Mosquitto process; ``port`` stays the same over :meth:`stop`, :meth:`kill` and :meth:`start`."""

    def __init__(self, directory: Path, settings: str = "", port: int | None = None) -> None:
        """Prepare a broker that keeps its files in ``directory``; ``settings``: lines of mosquitto.conf."""
        self.directory = directory
        self.settings = settings
        self.port = port if port is not None else free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """The broker's address as a composition has it."""
        return f"tcp://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process id; only of a broker that runs."""
        assert self._process is not None, "the broker does not run"
        return self._process.pid

    @property
    def log(self) -> str:
        """What the broker wrote to its log."""
        path = self.directory / "mosquitto.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def start(self) -> MosquittoServer:
        """Start it and wait until it answers a CONNECT."""
        assert self._process is None, "the broker runs already"
        assert PROGRAM is not None
        self.directory.mkdir(parents=True, exist_ok=True)
        configuration = self.directory / "mosquitto.conf"
        configuration.write_text(self._configuration(), encoding="utf-8")
        with (self.directory / "mosquitto.log").open("ab") as log:
            self._process = subprocess.Popen(
                [PROGRAM, "-c", str(configuration)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            self._await_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """End it in good order (it saves what it persists); of one that does not run: nothing."""
        self._end(kill=False)

    def kill(self) -> None:
        """End it by SIGKILL; of one that does not run: nothing."""
        self._end(kill=True)

    def _end(self, *, kill: bool) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if kill:
            process.kill()
        else:
            process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

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
        # Options of a listener belong behind its line, so what the test says comes last.
        return "\n".join([*lines, *own, ""])

    def _await_ready(self) -> None:
        deadline = time.monotonic() + _START_TIMEOUT
        while time.monotonic() < deadline:
            assert self._process is not None
            if self._process.poll() is not None:
                raise RuntimeError(f"mosquitto ended with {self._process.returncode}:\n{self.log}")
            if self._answers():
                return
            time.sleep(0.01)
        raise RuntimeError(f"mosquitto did not answer on port {self.port} in {_START_TIMEOUT} s:\n{self.log}")

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(_CONNECT)
                return connection.recv(1) == b"\x20"  # any CONNACK, a refusal included
        except OSError:
            return False

    def __enter__(self) -> MosquittoServer:
        return self if self._process is not None else self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


@pytest.fixture(name="mosquitto")
def mosquitto_fixture(tmp_path: Path) -> Iterator[MosquittoServer]:
    """A broker for one test, without limits and with persistence."""
    if PROGRAM is None:
        pytest.skip("mosquitto is not installed (apt-get install mosquitto)")
    with MosquittoServer(tmp_path / "mosquitto") as broker:
        yield broker


@pytest.fixture(name="site_brokers", scope="session")
def site_brokers_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, MosquittoServer]]:
    """Four brokers, for the sites A, B, C and D, for the whole test session (use topics of your own)."""
    if PROGRAM is None:
        pytest.skip("mosquitto is not installed (apt-get install mosquitto)")
    brokers = {
        name: MosquittoServer(tmp_path_factory.mktemp(f"mosquitto-{name}")) for name in ("A", "B", "C", "D")
    }
    try:
        for broker in brokers.values():
            broker.start()
        yield brokers
    finally:
        for broker in brokers.values():
            broker.stop()
