"""Loss and repetitions of any pipeline that passes messages from one MQTT topic on to another.

A pipeline is a :class:`~testbed.servers.base.RealServer`: it starts, answers when it is ready, is killed and
starts again.  Each message that it passes on must contain the text that it was sent.  The consumer of its
results keeps a session at the broker, so what is missing there was lost by the pipeline::

    with MosquittoServer(directory / "broker") as broker, MyPipeline(directory, broker) as pipeline:
        tried(broker, pipeline, Kills(5), messages=5000)["lost"]
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import paho.mqtt.client as paho

from testbed.faults.flow import Sender, client
from testbed.faults.rig import PATIENCE, Account, await_that
from testbed.servers.base import RealServer
from testbed.servers.mosquitto import MosquittoServer

SOURCE, SINK = "rivals/in", "rivals/out"  # of the first job
RATE = 200.0  # messages/s
_STAMP = ("speck-job", "speck-seq")


@dataclass(frozen=True)
class Kills:
    """SIGKILL to all processes of a pipeline, which starts again ``pause`` s later, ``times`` times."""

    times: int
    pause: float = 1.0

    def __call__(self, pipeline: RealServer) -> None:
        """Kill it, and return once it is up for the last time."""
        for _ in range(self.times):
            pipeline.kill()
            time.sleep(self.pause)
            pipeline.start()
            time.sleep(self.pause)


@dataclass
class Arrivals:
    """The texts that come out of a pipeline, with their number; ``stamped`` counts each stamp once.

    Consumers may drop repetitions of SpecK's by their stamps (docs/faults.md, The edges).
    """

    raw: Counter[str] = field(default_factory=Counter)
    stamped: Counter[str] = field(default_factory=Counter)
    _stamps: set[tuple[str, ...]] = field(default_factory=set)

    def receive(self, _client: paho.Client, _data: object, message: paho.MQTTMessage) -> None:
        """Count a message of a subscription."""
        self.take(message.payload.decode(), list(getattr(message.properties, "UserProperty", ())))

    def take(self, text: str, properties: list[tuple[str, str]]) -> None:
        """Count a message; ``properties`` are its user properties."""
        self.raw[text] += 1
        stamp = tuple(value for name, value in sorted(properties) if name in _STAMP)
        if not stamp or stamp not in self._stamps:
            self.stamped[text] += 1
        if stamp:
            self._stamps.add(stamp)

    def account(self, sent: list[str]) -> dict[str, int]:
        """The counts of what was sent: ``lost``, ``doubled`` and ``doubled_by_stamp``."""
        raw, stamped = (_account(counts, sent) for counts in (self.raw, self.stamped))
        return {
            "messages": raw.messages,
            "lost": raw.lost,
            "doubled": raw.doubled,
            "doubled_by_stamp": stamped.doubled,
        }


def _account(counts: Counter[str], sent: list[str]) -> Account:
    found = Counter({text: counts[text] for text in sent})
    return Account(len(sent), sum(not each for each in found.values()), (found - Counter(sent)).total())


def tried(
    broker: MosquittoServer,
    pipeline: RealServer,
    harm: Callable[[RealServer], None],
    *,
    messages: int,
    rate: float = RATE,
    quiet: float = 10.0,
) -> dict[str, int]:
    """Send at least ``messages``, and for as long as the harm lasts; count those that arrive.

    The count ends when all have arrived, or none has for ``quiet`` s.
    """
    arrivals, run = Arrivals(), uuid.uuid4().hex[:8]
    with client(broker.address) as consumer:
        subscribed = threading.Event()
        consumer.on_message = arrivals.receive
        consumer.on_subscribe = lambda *_: subscribed.set()
        consumer.subscribe(SINK, 1)
        if not subscribed.wait(PATIENCE):
            raise RuntimeError(f"no subscription to {SINK!r} in {PATIENCE:g} s")
        sender = Sender(broker.address, SOURCE, rate, lambda number: f"{run}/{number}").start()
        try:
            await_that(lambda: len(arrivals.raw), lambda count: count >= messages // 10)
            harm(pipeline)
            await_that(lambda: len(sender.sent), lambda count: count >= messages)
        finally:
            sent = sender.stop()
        _await_quiet(lambda: (len(arrivals.raw), arrivals.raw.total()), len(sent), quiet)
    return arrivals.account(sent)


def _await_quiet(ask: Callable[[], tuple[int, int]], enough: int, quiet: float) -> None:
    last, since = ask(), time.monotonic()
    while time.monotonic() - since < (quiet if last[0] < enough else 2.0):
        time.sleep(0.1)
        if (now := ask()) != last:
            last, since = now, time.monotonic()
