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
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Self

from binders.spark.connect.launcher import SHARED
from binders.spark.local.commands import CONNECTORS, connect_server_command, connect_server_environment
from testbed.servers.base import RealServer, accepts, free_port

# The first halves the processor time of a start, at the cost of long runs, which tests do not have.
# A reader that its broker refuses ends after 60 s without the second.
_JVM_OPTIONS = ("-XX:TieredStopAtLevel=1", "-Dspeck.source.refusedSeconds=2")


class SparkServer(RealServer):
    """One Connect server process."""

    def __init__(self, directory: Path, *, heap: str = "600m", conf: Mapping[str, str] | None = None) -> None:
        """Prepare a server that keeps its files in ``directory``; the connector is on its class path."""
        super().__init__(directory)
        self.heap = heap
        self.conf = dict(conf or {})
        self.environment: dict[str, str] = {}
        self.with_connector = True
        self.port = free_port()

    @property
    def address(self) -> str:
        """The server's address as in a composition."""
        return f"sc://127.0.0.1:{self.port}"

    def start(self) -> Self:
        """See :meth:`RealServer.start`; from then on this process keeps the fork server of its engines."""
        _keep_fork_server()
        return super().start()

    def commands(self) -> list[list[str]]:
        jars = [self._own_copy(each) for each in CONNECTORS if each.exists()] if self.with_connector else []
        return [
            connect_server_command(
                self.port, jars, self.heap, self.conf, directory=self.directory, jvm_options=_JVM_OPTIONS
            )
        ]

    def variables(self) -> dict[str, str]:
        return connect_server_environment() | self.environment

    def ready(self) -> bool:
        """True if the port is open."""
        return accepts(self.port)

    def _own_copy(self, jar: Path) -> Path:
        # A build that replaces a jar under a running Java process breaks the classes it has not loaded yet.
        copy = self.directory / jar.name
        if not copy.exists():
            shutil.copyfile(jar, copy)
        return copy


@cache
def _keep_fork_server() -> None:
    """Use the fork server in which the code of jobs runs until this process ends, and start it now.

    Engines end it with the last of them, so that most tests would import PySpark again: seconds of
    processor time.
    """
    SHARED.acquire().warm_up()
