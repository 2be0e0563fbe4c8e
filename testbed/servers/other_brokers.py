"""Brokers other than Mosquitto, as ``make interop`` builds them: HiveMQ CE (embedded) and mochi-mqtt."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from binders.common.java import java
from testbed import ROOT
from testbed.servers.base import RealServer, accepts, free_port

BUILT = ROOT / "build" / "interop"
MOCHI = BUILT / "mochi"
HIVEMQ = BUILT / "hivemq"


class OtherBroker(RealServer):
    """One broker process on a free loopback port."""

    poll = 0.1

    def __init__(self, directory: Path) -> None:
        """Prepare a broker that keeps its files in ``directory``."""
        super().__init__(directory)
        self.port = free_port()

    @property
    def address(self) -> str:
        """The broker's address as in a composition."""
        return f"tcp://127.0.0.1:{self.port}"

    def ready(self) -> bool:
        """True if the broker takes connections."""
        return accepts(self.port)


class MochiServer(OtherBroker):
    """mochi-mqtt, with its defaults; in memory."""

    def commands(self) -> Sequence[Sequence[str]]:
        """See :class:`RealServer`."""
        return [[str(MOCHI), str(self.port)]]


class HiveMQServer(OtherBroker):
    """HiveMQ CE, with its defaults."""

    def commands(self) -> Sequence[Sequence[str]]:
        """See :class:`RealServer`."""
        classes = os.pathsep.join((str(HIVEMQ / "lib" / "*"), str(HIVEMQ / "classes")))
        options = ["-Xmx400m", "-XX:TieredStopAtLevel=1", "-cp", classes]
        return [[java("HiveMQ"), *options, "Broker", str(self.port), str(self.directory / "home")]]
