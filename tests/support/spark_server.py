"""A real Spark Connect server of its own for tests, on a free loopback port.

::

    def test_something(spark_server: SparkServer) -> None: ...      # the fixture: one server a test session

    with SparkServer(directory) as server:      # a server of one's own, to be killed and started again
        connect(server.address)                 # sc://127.0.0.1:PORT
        server.kill()                           # SIGKILL; checkpoints stay
        server.start()                          # again, on the same port
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType

import pytest

from binders.spark.local.commands import CONNECTOR, connect_server_command, connect_server_environment
from tests.support.mosquitto_server import free_port

_START_TIMEOUT = 180.0

# Half the processor time of a start; what runs long pays for it, and no test does.
_JVM_OPTIONS = ("-XX:TieredStopAtLevel=1",)


class SparkServer:
    """One Connect server process; ``port`` stays the same over :meth:`kill` and :meth:`start`."""

    def __init__(self, directory: Path, *, heap: str = "600m", conf: Mapping[str, str] | None = None) -> None:
        """Prepare a server that keeps its files in ``directory``; the connector is on its class path."""
        self.directory = directory
        self.heap = heap
        self.conf = dict(conf or {})
        self.environment: dict[str, str] = {}
        self.with_connector = True
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """The server's address as a composition has it."""
        return f"sc://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The process id; only of a server that runs."""
        assert self._process is not None, "the server does not run"
        return self._process.pid

    @property
    def log(self) -> str:
        """What the server wrote to its log."""
        return (self.directory / "server.log").read_text(encoding="utf-8", errors="replace")

    def start(self) -> SparkServer:
        """Start it and wait until its port is open."""
        assert self._process is None, "the server runs already"
        self.directory.mkdir(parents=True, exist_ok=True)
        jars = [self._own_copy(CONNECTOR)] if self.with_connector else []
        command = connect_server_command(
            self.port, jars, self.heap, self.conf, directory=self.directory, jvm_options=_JVM_OPTIONS
        )
        with (self.directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.directory,
                env=connect_server_environment() | self.environment,
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

    def kill(self) -> None:
        """End it by SIGKILL; of one that does not run: nothing."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def stop(self) -> None:
        """End it in good order; of one that does not run: nothing."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _own_copy(self, jar: Path) -> Path:
        # A build that replaces a jar under a running Java process breaks the classes it has not loaded yet.
        copy = self.directory / jar.name
        if not copy.exists():
            shutil.copyfile(jar, copy)
        return copy

    def _await_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + _START_TIMEOUT
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                raise RuntimeError(f"the server ended with {self._process.returncode}:\n{self.log[-3000:]}")
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1):
                    return
            except OSError:
                time.sleep(0.05)
        raise RuntimeError(f"no server on port {self.port} in {_START_TIMEOUT} s:\n{self.log[-3000:]}")

    def __enter__(self) -> SparkServer:
        return self if self._process is not None else self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


@pytest.fixture(name="spark_server", scope="session")
def spark_server_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkServer]:
    """One server for the whole test session (use job names and topics of your own)."""
    if not CONNECTOR.exists():
        pytest.skip(f"{CONNECTOR.name} is not built (make, or mvn package in jars_and_apps/connectors)")
    with SparkServer(tmp_path_factory.mktemp("spark")) as server:
        yield server
