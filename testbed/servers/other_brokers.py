"""Brokers other than Mosquitto, as ``make interop`` builds them: HiveMQ CE (embedded) and mochi-mqtt."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

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
        """The broker's address as a composition has it."""
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


@pytest.fixture(name="mochi", scope="session")
def mochi_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtherBroker]:
    """A mochi-mqtt for all tests of the session (use sessions and topics of your own)."""
    if not MOCHI.exists():
        pytest.skip("mochi-mqtt is not built (make interop, which needs Go)")
    with MochiServer(tmp_path_factory.mktemp("mochi")) as broker:
        yield broker


@pytest.fixture(name="hivemq", scope="session")
def hivemq_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OtherBroker]:
    """A HiveMQ for all tests of the session (use sessions and topics of your own)."""
    if not (HIVEMQ / "classes").exists():
        pytest.skip("HiveMQ CE is not built (make interop, which needs Maven and 100 MB of packages)")
    with HiveMQServer(tmp_path_factory.mktemp("hivemq")) as broker:
        yield broker
