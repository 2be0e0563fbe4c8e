"""Events and results at the sites of the rig: ``python -m benchmarks.nexmark.traffic feed|read ...``.

``feed ADDRESS PORT FILE START SPEED`` publishes the events of a file (``Generate``, from time 0) at QoS 1,
the event of time T at START + T / SPEED, until standard input ends.  Its own time, and that at which an
auction expires, become START + T, all in milliseconds since 1970: at a SPEED of 1 an event is sent at its
time.

``read ADDRESS PORT QUERY TOPIC START`` reads results.  For each line of standard input it prints a JSON
object with what came since the line before: ``messages``, ``seconds``, the ages ``mean``, ``p50`` and
``p95``, s, from the time of which a result is until its receipt, ``until``, the latest such time, and
``reached``, when the first result of that time came, both s since 1970.  Under ``rows`` is a checksum of all
results so far by the 10 s since START of their times, which does not depend on their order.
"""

from __future__ import annotations

import select
import sys
import time
import zlib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from benchmarks.wan.traffic import Reader, connect, packet, read, text

_SLICE = 0.005  # s, between two sends of what is due
_AHEAD = 4000  # messages that may wait for their acknowledgement
_PUBLISH_QOS_1 = 0x32
_EXPIRES = 7  # a field of an auction
_WINDOW_OF_Q7 = 10_000  # ms
# The fields of a result that are times; of q8 and q11 also the bounds of its window.
_TIME, _TIMES = (1,), {"q8": (1, 4), "q11": (1, 4, 5)}
_IDS = 65_000
SPAN = 10_000  # ms, of the results under one checksum
_SUMS = 2**53  # whole numbers below it have a JSON number each


# --- events


def shifted(line: str, start: int) -> str:
    """An event that begins at time 0, as it is for a beginning at ``start``, ms."""
    kind, moment, rest = line.split(",", 2)
    if kind == "A":
        fields = rest.split(",")
        fields[_EXPIRES - 2] = str(int(fields[_EXPIRES - 2]) + start)
        rest = ",".join(fields)
    return f"{kind},{int(moment) + start},{rest}"


def events(file: Path) -> Iterator[tuple[int, str, str]]:
    """Time, topic and line of each event; marks of the end are left out."""
    with file.open(encoding="ascii") as lines:
        for each in lines:
            topic, line = each.rstrip("\n").split(" ", 1)
            if line[0] != "W":
                yield int(line.split(",", 2)[1]), topic, line


def feed(address: str, port: int, file: Path, start: int, speed: float) -> None:
    """Publish until standard input, or the file, ends."""
    connection = connect(address, port, f"feed-{file.stem}")
    connection.settimeout(60)
    pieces: list[bytes] = []
    number = unacknowledged = 0
    for moment, topic, line in events(file):
        due = (start + moment / speed) / 1000
        while time.time() < due or unacknowledged > _AHEAD:
            if pieces:
                connection.sendall(b"".join(pieces))
                pieces = []
            ready, _, _ = select.select([sys.stdin, connection], [], [], _SLICE)
            if sys.stdin in ready and not sys.stdin.readline():
                return
            if connection in ready:
                unacknowledged -= len(connection.recv(1 << 16)) // 4  # of 4 bytes each
        number = number % _IDS + 1
        body = text(topic) + number.to_bytes(2, "big") + shifted(line, start).encode("ascii")
        pieces.append(packet(_PUBLISH_QOS_1, body))
        unacknowledged += 1


# --- results


def time_of(query: str, line: str) -> int:
    """The time of which a result is, ms: from then on it could be known."""
    moment = int(line.split(",", 2)[1])
    return moment // _WINDOW_OF_Q7 * _WINDOW_OF_Q7 + _WINDOW_OF_Q7 if query == "q7" else moment


class Results(Reader):
    """Takes the results of a query apart."""

    def __init__(self, query: str, start: int) -> None:
        self._query, self._begin = query, start
        self._ages: list[float] = []
        self._until = self._reached = 0.0
        self._since = time.monotonic()
        self._rows: dict[int, int] = defaultdict(int)

    def take(self, topic: str, payload: str) -> None:
        """A result."""
        if payload[0] == "W":
            return
        of, now = time_of(self._query, payload) / 1000, time.time()
        self._ages.append(now - of)
        if of > self._until:
            self._until, self._reached = of, now
        fields = payload.split(",")
        for each in _TIMES.get(self._query, _TIME):
            fields[each] = str(int(fields[each]) - self._begin)
        at = int(fields[1])
        sum_of_row = zlib.crc32(",".join(fields).encode()) + 1
        self._rows[at // SPAN] = (self._rows[at // SPAN] + sum_of_row) % _SUMS

    def taken(self) -> dict[str, dict[str, float]]:
        """The figures under the query's name, and the checksums."""
        now, ages = time.monotonic(), sorted(self._ages)
        found = {"messages": float(len(ages)), "seconds": now - self._since}
        found |= {"until": self._until, "reached": self._reached}
        if ages:
            found["mean"] = sum(ages) / len(ages)
            found["p50"] = ages[len(ages) // 2]
            found["p95"] = ages[min(len(ages) - 1, int(0.95 * len(ages)))]
        self._ages, self._since = [], now
        rows = {str(span): float(total) for span, total in sorted(self._rows.items())}
        return {self._query: found, "rows": rows}


def main() -> None:
    """Run one end."""
    what, address, port, *rest = sys.argv[1:]
    if what == "feed":
        file, start, speed = rest
        feed(address, int(port), Path(file), int(start), float(speed))
    else:
        query, topic, start = rest
        read(address, int(port), Results(query, int(start)), [topic], 0)


if __name__ == "__main__":
    main()
