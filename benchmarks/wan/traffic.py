"""Sensors and readers at the sites of the rig: ``python -m benchmarks.wan.traffic feed|read ...``.

``feed ADDRESS PORT WINDOW MALFORMED MOST TOPIC=RATE...`` publishes readings of road traffic (a CityPulse
line), of which a share is malformed, at QoS 1, with so many messages unacknowledged at most, until standard
input ends; a line ``TOPIC=RATE`` there changes a rate, messages/s.  A reading has the time at which it was
made, ns of the system's monotonic clock, as its ``_id``; its ``vehicleCount`` is the time since the reading
before (since the epoch of the clock, for the first), so that the sum of a stream's vehicles is the time of
its latest reading.  All readings fall into one window of 15 minutes, the WINDOW-th of a day.

``read ADDRESS PORT WINDOW STREAMS QOS TOPIC...`` reads results: readings, statistics of a single stream, and
statistics of STREAMS streams, whose site is ``*``.  At QoS 1 each message is acknowledged at once.  For each
line of standard input it prints a JSON object with what came since the line before, by topic: ``messages``,
``readings`` (that the results count), ``seconds``, the ages ``mean``, ``p50`` and ``p95``, s, and ``gap``,
the longest time between two results, s.
"""

from __future__ import annotations

import json
import os
import random
import select
import socket
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

_SLICE = 0.005  # s, between two sends of what is due
_CONNECT, _PUBLISH, _PUBLISH_QOS_1, _PUBACK, _SUBSCRIBE = 0x10, 0x30, 0x32, 0x40, 0x82
_QOS = 0x06  # the bits of a packet's first byte
_KEEP_ALIVE = 0  # none
_IDENTIFIERS = 65_000  # of messages, which are used again in turn


def packet(kind: int, body: bytes) -> bytes:
    """An MQTT packet (MQTT 3.1.1, section 2.2)."""
    length, found = len(body), bytearray([kind])
    while True:
        length, digit = divmod(length, 128)
        found.append(digit | (128 if length else 0))
        if not length:
            return bytes(found) + body


def text(value: str) -> bytes:
    """A text with its length."""
    encoded = value.encode()
    return len(encoded).to_bytes(2, "big") + encoded


def connect(address: str, port: int, name: str) -> socket.socket:
    """A connection to a broker, with a clean session."""
    connection = socket.create_connection((address, port), 10)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    flags = bytes([4, 2, 0, _KEEP_ALIVE])
    connection.sendall(packet(_CONNECT, text("MQTT") + flags + text(name)))
    answer = connection.recv(4)
    if len(answer) < 4 or answer[3]:
        raise OSError(f"the broker {address}:{port} answers {answer!r} to a CONNECT")
    return connection


class Lines:
    """The lines of a file for which ``select`` waits, such as standard input.

    Python's own reader reads ahead: the second of two lines that come together would wait for a third.
    """

    def __init__(self, file: int) -> None:
        self.file = file
        self._rest = b""

    def taken(self) -> list[str] | None:
        """The whole lines that have come since the last call; ``None`` at the end of the file."""
        received = os.read(self.file, 1 << 16)
        *lines, self._rest = (self._rest + received).split(b"\n")
        return [line.decode() for line in lines] if received else None


# --- sensors


@dataclass
class Stream:
    """A stream of readings: what is due by ``rate``, messages/s, and what was sent."""

    topic: str
    rate: float
    window: int
    sent: int = 0
    owed: float = 0.0
    former: int = 0

    def due(self, seconds: float) -> int:
        """The number of readings that are due after a further time, s."""
        self.owed += self.rate * seconds
        whole = int(self.owed)
        self.owed -= whole
        return whole

    def reading(self, now: int, malformed: bool) -> str:
        """The next reading, which has a wrong status if it is to be dropped."""
        self.sent += 1
        time_of_day = f"{self.window // 4:02}:{self.window % 4 * 15:02}:00"
        status, passed = ("ERR", 0) if malformed else ("OK", now - self.former)
        self.former += passed
        segment = 150_000 + self.sent % 97
        return f"{status},74,{30 + self.sent % 60},601,75,2026-03-02T{time_of_day},{passed},{now},{segment}"


class Feeder:
    """Publishes what is due, at most ``most`` messages ahead of the broker's acknowledgements."""

    def __init__(
        self, connection: socket.socket, streams: Sequence[Stream], malformed: float, most: int
    ) -> None:
        self._connection, self._streams = connection, streams
        self._malformed, self._most = malformed, most
        self._chance = random.Random(1)
        self._waiting: deque[bytes] = deque()
        self._number = self._unacknowledged = self._cut = 0
        self._before = time.monotonic()

    def acknowledged(self, received: bytes) -> None:
        """Take acknowledgements: nothing else comes here, and each has four bytes."""
        whole, self._cut = divmod(self._cut + len(received), 4)
        self._unacknowledged -= whole

    def send(self) -> None:
        """Send what has become due, and what may be sent of that."""
        now = time.monotonic()
        if now - self._before >= _SLICE:
            for stream in self._streams:
                for _ in range(stream.due(now - self._before)):
                    self._waiting.append(self._packet(stream))
            self._before = now
        count = min(len(self._waiting), self._most - self._unacknowledged)
        self._unacknowledged += max(0, count)
        self._connection.sendall(b"".join(self._waiting.popleft() for _ in range(count)))

    def _packet(self, stream: Stream) -> bytes:
        self._number = self._number % _IDENTIFIERS + 1
        payload = stream.reading(time.monotonic_ns(), self._chance.random() < self._malformed)
        body = text(stream.topic) + self._number.to_bytes(2, "big") + payload.encode()
        return packet(_PUBLISH_QOS_1, body)


def feed(connection: socket.socket, feeder: Feeder, streams: Mapping[str, Stream]) -> None:
    """Publish until standard input ends."""
    lines = Lines(sys.stdin.fileno())
    inputs: list[int | socket.socket] = [lines.file, connection]
    while True:
        ready, _, _ = select.select(inputs, [], [], _SLICE)
        if connection in ready:
            received = connection.recv(1 << 16)
            if not received:
                raise OSError("the broker has closed the connection")
            feeder.acknowledged(received)
        if lines.file in ready:
            if (found := lines.taken()) is None:
                return
            for line in found:
                topic, _, rate = line.partition("=")
                streams[topic].rate = float(rate)
        feeder.send()


# --- readers


@dataclass
class Results:
    """The results of one topic since the last question."""

    ages: list[float] = field(default_factory=list)
    gap: float = 0.0
    last: float = 0.0
    readings: int = 0
    counted: dict[str, int] = field(default_factory=dict)

    def add(self, now: float, age: float) -> None:
        """Take a result of an age, s.  Raises :class:`ValueError` for a negative one."""
        if age < 0:
            reason = "its statistics cover more streams than its site name implies"
            raise ValueError(f"a result has a negative age ({age:.3f} s): {reason}")
        self.ages.append(age)
        if self.last:
            self.gap = max(self.gap, now - self.last)
        self.last = now

    def count(self, site: str, readings: int) -> None:
        """Take the number of readings that a site's statistics count."""
        self.readings += max(0, readings - self.counted.get(site, readings))
        self.counted[site] = readings

    def taken(self, seconds: float) -> dict[str, float]:
        """The figures since the last call."""
        ages = sorted(self.ages)
        found = {"messages": len(ages), "readings": self.readings, "seconds": seconds, "gap": self.gap}
        if ages:
            found |= {
                "mean": sum(ages) / len(ages),
                "p50": ages[len(ages) // 2],
                "p95": ages[min(len(ages) - 1, int(0.95 * len(ages)))],
            }
        self.ages, self.gap, self.readings = [], 0.0, 0
        return found


class Reader:
    """Takes results apart."""

    def __init__(self, window: int, streams: int) -> None:
        self._start = f"T{window // 4:02}:{window % 4 * 15:02}:00"
        self._streams = streams
        self.results: dict[str, Results] = {}
        self._begun = time.monotonic()

    def take(self, topic: str, payload: str) -> None:
        """A result."""
        now = time.monotonic()
        results = self.results.setdefault(topic, Results())
        if payload.startswith("{"):
            found = json.loads(payload)
            if found["start"].endswith(self._start):
                streams = self._streams if found["site"] == "*" else 1
                results.add(now, now - found["vehicles"] / streams / 1e9)
                results.count(found["site"], found["readings"])
        else:
            results.add(now, now - int(payload.split(",", 8)[7]) / 1e9)
            results.readings += 1

    def taken(self) -> dict[str, dict[str, float]]:
        """The figures by topic."""
        now = time.monotonic()
        seconds, self._begun = now - self._begun, now
        return {topic: each.taken(seconds) for topic, each in self.results.items()}


def read(address: str, port: int, reader: Reader, topics: Sequence[str], quality: int) -> None:
    """Read until standard input ends."""
    connection = connect(address, port, f"read-{random.getrandbits(32):08x}")
    for number, topic in enumerate(topics, start=1):
        connection.sendall(packet(_SUBSCRIBE, number.to_bytes(2, "big") + text(topic) + bytes([quality])))
    buffer, lines = b"", Lines(sys.stdin.fileno())
    inputs: list[int | socket.socket] = [lines.file, connection]
    while True:
        ready, _, _ = select.select(inputs, [], [])
        if connection in ready:
            received = connection.recv(1 << 18)
            if not received:
                raise OSError("the broker has closed the connection")
            buffer, acknowledgements = _packets(buffer + received, reader)
            connection.sendall(acknowledgements)
        if lines.file in ready:
            if (found := lines.taken()) is None:
                return
            for _ in found:
                print(json.dumps(reader.taken()), flush=True)


def _packets(buffer: bytes, reader: Reader) -> tuple[bytes, bytes]:
    """Take all whole packets; returns the rest, and the acknowledgements."""
    at, acknowledgements = 0, []
    while (found := _body(buffer, at)) is not None:
        body, end = found
        if buffer[at] & 0xF0 == _PUBLISH:
            start = body + 2 + int.from_bytes(buffer[body : body + 2], "big")
            topic = buffer[body + 2 : start].decode()
            if buffer[at] & _QOS:
                acknowledgements.append(packet(_PUBACK, buffer[start : start + 2]))
                start += 2
            reader.take(topic, buffer[start:end].decode())
        at = end
    return buffer[at:], b"".join(acknowledgements)


def _body(buffer: bytes, at: int) -> tuple[int, int] | None:
    """The start and end of a packet's body; ``None`` if it is not whole."""
    length, shift, body = 0, 0, at + 1
    while body < len(buffer):
        digit = buffer[body]
        length |= (digit & 127) << shift
        shift, body = shift + 7, body + 1
        if digit < 128:
            return (body, body + length) if body + length <= len(buffer) else None
    return None


def main() -> None:
    """Run one end."""
    what, address, port, window, *rest = sys.argv[1:]
    if what == "feed":
        malformed, most, *pairs = rest
        rates = {topic: float(rate) for topic, _, rate in (each.partition("=") for each in pairs)}
        streams = {topic: Stream(topic, rate, int(window)) for topic, rate in rates.items()}
        connection = connect(address, int(port), f"feed-{random.getrandbits(32):08x}")
        feed(connection, Feeder(connection, [*streams.values()], float(malformed), int(most)), streams)
    else:
        count, quality, *topics = rest
        read(address, int(port), Reader(int(window), int(count)), topics, int(quality))


if __name__ == "__main__":
    main()
