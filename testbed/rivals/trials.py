"""The trials that a pipeline is put under: brokers, the hops between them, and the harm of a round."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from testbed.faults.rig import CuttableRelay
from testbed.rivals.brokers import Broker, Brokers, MosquittoBrokers
from testbed.rivals.hops import SINK, SOURCE, End, Hop, ends, side_by_side, through
from testbed.servers.base import RealServer

_MOSQUITTO = MosquittoBrokers()


class Trial:
    """Brokers and the hops between them; the block of a ``with`` statement runs the brokers.

    Messages are sent to the broker ``first`` and counted at ``last``, which come to no harm.
    """

    patience = 10.0  # s, the part of ``quiet`` for any kind of broker
    first: Broker
    last: Broker
    hops: Sequence[Hop]

    def __init__(self, brokers: Brokers) -> None:
        """Prepare it; a subclass adds its servers to ``servers``."""
        self.brokers = brokers
        self.servers: list[Broker | CuttableRelay] = []
        self._stack = ExitStack()

    @property
    def quiet(self) -> float:
        """The time (s) without an arrival, until what is missing counts as lost."""
        return self.patience + self.brokers.lateness

    def harm(self, pipeline: RealServer, moment: random.Random) -> None:
        """Do the harm of one round, and return once the pipeline is up again."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for server in self.servers:
                stack.enter_context(server)
            for end in ends(self.hops):
                self.brokers.make_topic(end.broker, end.topic)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()


class Killed(Trial):
    """SIGKILL to all processes of the pipeline, which starts again ``PAUSE`` s later; one broker."""

    PAUSE = 1.0

    def __init__(self, directory: Path, jobs: int = 1, brokers: Brokers = _MOSQUITTO) -> None:
        """Prepare it, with ``jobs`` hops side by side."""
        super().__init__(brokers)
        self.first = self.last = brokers.server(directory / "broker")
        self.servers.append(self.first)
        self.hops = side_by_side(self.first.address, jobs)

    def harm(self, pipeline: RealServer, moment: random.Random) -> None:
        """See :class:`Trial`."""
        time.sleep(moment.uniform(0, self.PAUSE))
        pipeline.kill()
        time.sleep(self.PAUSE)
        pipeline.start()


class PowerCut(Trial):
    """SIGKILL to the pipeline and the broker of its site at once; power is back after ``DARK`` s.

    Messages pass from a broker elsewhere through that of the site, and back.
    """

    DARK = (1.0, 5.0)
    patience = 30.0

    def __init__(self, directory: Path, brokers: Brokers = _MOSQUITTO) -> None:
        """Prepare it."""
        super().__init__(brokers)
        self.first = self.last = brokers.server(directory / "elsewhere")
        self.site = brokers.server(directory / "site")
        self.servers += [self.first, self.site]
        self.hops = through(self.first.address, self.site.address)

    def harm(self, pipeline: RealServer, moment: random.Random) -> None:
        """See :class:`Trial`."""
        time.sleep(moment.uniform(0, 5))  # of an interval in which the broker saves
        self.site.kill()
        pipeline.kill()
        time.sleep(moment.uniform(*self.DARK))
        self.site.start()
        pipeline.start()


class UplinkAway(Trial):
    """Nothing passes between the pipeline and the broker that it writes to, for some seconds.

    The broker that it reads is at its site.  Connections stay open meanwhile and are lost at the end, as
    those of a link that comes back with another address.
    """

    patience = 150.0  # paho waits for up to two minutes between two attempts to connect

    def __init__(self, directory: Path, seconds: float, brokers: Brokers = _MOSQUITTO) -> None:
        """Prepare it; ``seconds`` is the time of a round without the uplink."""
        super().__init__(brokers)
        self.seconds = seconds
        self.first = brokers.server(directory / "site")
        self.last = brokers.server(directory / "cloud")
        self.link = brokers.link(self.last)
        self.servers += [self.first, self.last, self.link]
        self.hops = [Hop(End(self.first.address, SOURCE), End(self.link.address, SINK))]

    def harm(self, pipeline: RealServer, moment: random.Random) -> None:
        """See :class:`Trial`."""
        self.link.cut(self.seconds)
