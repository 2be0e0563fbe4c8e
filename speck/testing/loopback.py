"""The contract for an engine or a broker that listens on a port of this machine.

Its binder is made for any port, so that what goes wrong on the way can stand in between.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from speck.binder import BrokerBinder, EngineBinder
from speck.testing.brokers import BrokerContract
from speck.testing.engine_bench import EngineBench
from speck.testing.wire_trouble import BrokenServer, Relay, Trouble

NO_SERVER = 1  # a port at which none listens
PATIENCE, IMPATIENCE = 10.0, 0.2  # s, for an answer: of a server that works, and of one in trouble
DELAY = 0.05  # s, of each piece on a slow wire


class LoopbackBench(EngineBench):
    """A bench whose engine listens on :attr:`port`."""

    port: int

    @abstractmethod
    def connect(self, port: int, patience: float) -> EngineBinder:
        """A binder of the engine at this port, which waits at most ``patience`` seconds for an answer."""

    def binder(self) -> EngineBinder:
        """Another binder of the engine."""
        return self.connect(self.port, PATIENCE)

    def dead_binder(self) -> EngineBinder:
        """A binder of a port at which nothing listens."""
        return self.connect(NO_SERVER, PATIENCE)

    @contextmanager
    def troubled_binder(self, trouble: Trouble) -> Iterator[EngineBinder]:
        """A binder of a server in trouble."""
        with BrokenServer(trouble) as broken:
            yield self.connect(broken.port, IMPATIENCE)

    @contextmanager
    def slow_binder(self) -> Iterator[EngineBinder]:
        """A binder of the engine over a slow wire."""
        with Relay(self.port, delay=DELAY) as relay:
            yield self.connect(relay.port, PATIENCE)


class LoopbackBrokerContract(BrokerContract):
    """The contract of a broker that listens on the port of the fixture ``port``."""

    @abstractmethod
    def connect(self, port: int, patience: float) -> BrokerBinder:
        """A binder of the broker at this port, which waits at most ``patience`` seconds for an answer."""

    @pytest.fixture
    def broker(self, port: int) -> BrokerBinder:
        return self.connect(port, PATIENCE)

    @pytest.fixture
    def absent(self) -> BrokerBinder:
        return self.connect(NO_SERVER, PATIENCE)

    @pytest.fixture
    def slow(self, port: int) -> Iterator[BrokerBinder]:
        with Relay(port, delay=DELAY) as relay:
            yield self.connect(relay.port, PATIENCE)

    @contextmanager
    def troubled(self, trouble: Trouble) -> Iterator[BrokerBinder]:
        """A binder of a server in trouble."""
        with BrokenServer(trouble) as broken:
            yield self.connect(broken.port, IMPATIENCE)
