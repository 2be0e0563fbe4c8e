"""Replay a file of readings from the sensors of four sites, and count the readings sent.

    python -m jars_and_apps.road_traffic.feeder FILE --broker A=tcp://127.0.0.1:1883 --broker B=... [...]

The sensors are divided over the sites and, at each, over two streams; stream 1 goes to the topic
``sensors/1`` of its site's broker.  At the end, one JSON object on standard output::

    {"sent": {"readings": N, "vehicles": N}, "malformed": N, "seconds": S,
     "streams": {"A/1": {"readings": N, "vehicles": N, "malformed": N}, ...}}

The signal SIGUSR1 ends it early: what is sent by then is acknowledged and counted.
"""

from __future__ import annotations

import argparse
import csv
import json
import signal
import sys
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path

from jars_and_apps.road_traffic.publisher import Publisher, PublishError
from jars_and_apps.road_traffic.replay import (
    HEADER,
    WELL_FORMED,
    Line,
    Stream,
    first_readings,
    in_time_order,
    part,
    raw_lines,
    sites_of_segments,
    with_malformed,
)


@dataclass
class StreamCounts:
    """The counts of a stream: well-formed readings, their vehicles, and malformed lines."""

    readings: int = 0
    vehicles: int = 0
    malformed: int = 0

    def add(self, line: Line) -> None:
        """Count a line."""
        if line.well_formed:
            self.readings += 1
            self.vehicles += line.vehicles
        else:
            self.malformed += 1


@dataclass
class Counts:
    """The counts of each stream."""

    streams: dict[Stream, StreamCounts] = field(default_factory=dict)

    def add(self, line: Line) -> None:
        """Count a line."""
        self.streams.setdefault(line.stream, StreamCounts()).add(line)

    def report(self, seconds: float) -> dict[str, object]:
        """The counts as plain data; ``seconds`` is the duration of the replay."""
        total = self.streams.values()
        return {
            "sent": {
                "readings": sum(counts.readings for counts in total),
                "vehicles": sum(counts.vehicles for counts in total),
            },
            "malformed": sum(counts.malformed for counts in total),
            "seconds": round(seconds, 3),
            "streams": {str(stream): vars(counts) for stream, counts in sorted(self.streams.items())},
        }


@dataclass
class Pace:
    """The due time of a line, by its position (``rate``, lines/s) and its time (``speedup``); 0: no bound."""

    rate: float = 0.0
    speedup: float = 0.0
    _first: datetime | None = None

    def due(self, number: int, line: Line) -> float:
        """Seconds from the start at which the ``number``-th line (from 0) is due."""
        by_rate = number / self.rate if self.rate else 0.0
        return max(by_rate, self._by_time(line)) if self.speedup and line.time else by_rate

    def _by_time(self, line: Line) -> float:
        time = datetime.fromisoformat(line.time.decode("ascii").partition(".")[0])
        self._first = self._first or time
        return (time - self._first).total_seconds() / self.speedup


class Feeder:
    """Publishes lines, each to its site's broker on its stream's topic, at a pace."""

    def __init__(self, publishers: Mapping[str, Publisher], topics: Mapping[Stream, str], pace: Pace) -> None:
        self._publishers, self._topics, self._pace = publishers, topics, pace
        self._start = 0.0
        self._ends = False

    def end(self, *_: object) -> None:
        """Stop sending; a handler of signals."""
        self._ends = True

    def feed(self, lines: Iterable[Line]) -> Counts:
        """Publish the lines, and wait until all are acknowledged.  Raises :class:`PublishError`."""
        counts = Counts()
        self._start = time.monotonic()
        for number, line in enumerate(lines):
            self._wait(self._pace.due(number, line))
            if self._ends:
                break
            topic = self._topics.get(line.stream) or f"sensors/{line.stream.number}"
            self._publishers[line.stream.site].publish(topic, line.text)
            counts.add(line)
        for publisher in self._publishers.values():
            publisher.flush()
        return counts

    def _wait(self, due: float) -> None:
        while not self._ends and (remaining := self._start + due - time.monotonic()) > 0:
            # Pauses serve to receive acknowledgements and to keep connections alive.
            for publisher in self._publishers.values():
                publisher.exchange(0.0)
            time.sleep(min(remaining, 0.02))


def selected(lines: Sequence[Line], options: argparse.Namespace) -> Iterator[Line]:
    """The lines of the selected streams and part, with malformed ones mixed in."""
    chosen = [
        line
        for line in lines
        if (not options.only or line.stream in options.only) and line.stream not in options.without
        if line.well_formed or not options.well_formed
    ]
    return with_malformed(part(chosen, *options.part), options.malformed, options.seed)


def replay_of(options: argparse.Namespace) -> list[Line]:
    """The lines of the file up to the limit, in time order."""
    sites = sites_of_segments(options.sensors) if options.sensors else {}
    return in_time_order(first_readings(raw_lines(options.file), options.limit), sites)


def check(options: argparse.Namespace) -> None:
    """Read the files; raises :class:`ValueError` if there is no reading, and errors of reading."""
    if options.sensors:
        sites_of_segments(options.sensors)
    if not any(WELL_FORMED.match(text) for text in raw_lines(options.file)):
        raise ValueError(f"{options.file} holds no well-formed reading (expected lines of {HEADER.decode()})")


def _assignment(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not (name and found and value):
        raise argparse.ArgumentTypeError(f"{text!r} has no name or value (expected NAME=VALUE)")
    return name, value


def _stream(text: str) -> Stream:
    try:
        return Stream.of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _routed(text: str) -> tuple[Stream, str]:
    stream, topic = _assignment(text)
    return _stream(stream), topic


def _part(text: str) -> tuple[int, int]:
    number, _, of = text.partition("/")
    if not (number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
        raise argparse.ArgumentTypeError(f"{text!r} is not a part (expected K/N, such as 1/2)")
    return int(number), int(of)


def _share(text: str) -> float:
    share = float(text)
    if not 0 <= share < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a share (expected 0 up to 1, 1 itself excluded)")
    return share


def _not_negative(text: str) -> float:
    number = float(text)
    if not 0 <= number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is negative or not finite (expected 0 or more)")
    return number


def _count(text: str) -> int:
    count = int(text)
    if count < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is negative (expected 0 or more)")
    return count


def parser() -> argparse.ArgumentParser:
    """The options of the program."""
    assert __doc__ is not None  # noqa: S101 - above
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("file", type=Path, help="readings, one CSV line each (plain or gzip)")
    add(
        "--broker",
        type=_assignment,
        action="append",
        default=[],
        metavar="SITE=ADDRESS",
        help="the broker of a site (may be repeated)",
    )
    add("--sensors", type=Path, metavar="FILE", help="CSV file with columns REPORT_ID and site")
    add("--limit", type=_count, metavar="N", help="the first N well-formed readings of the file only")
    add("--rate", type=_not_negative, default=0.0, metavar="N", help="lines/s (0: as fast as possible)")
    add(
        "--speedup",
        type=_not_negative,
        default=0.0,
        metavar="X",
        help="factor to the recorded speed (0: no bound)",
    )
    add(
        "--malformed",
        type=_share,
        default=0.02,
        metavar="SHARE",
        help="share of malformed lines that are mixed in",
    )
    add("--well-formed", action="store_true", help="leave out the malformed lines of the file")
    add("--seed", type=int, default=1, help="seed of the malformed lines")
    several = partial(add, action="append", default=[])
    several("--only", type=_stream, metavar="SITE/STREAM", help="these streams only")
    several("--except", type=_stream, dest="without", metavar="SITE/STREAM", help="all but these streams")
    add(
        "--part",
        type=_part,
        default=(1, 1),
        metavar="K/N",
        help="the K-th of N equal parts of the lines in time",
    )
    add("--check", action="store_true", help="check that the file has readings; send nothing")
    several("--topic", type=_routed, metavar="SITE/STREAM=TOPIC", help="this topic instead of sensors/STREAM")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code."""
    options = parser().parse_args(arguments)
    publishers: dict[str, Publisher] = {}
    try:
        if options.check:
            check(options)
            return 0
        lines = list(selected(replay_of(options), options))
        brokers = dict(options.broker)
        for site in sorted({line.stream.site for line in lines}):
            if site not in brokers:
                raise PublishError(f"no broker for site {site!r} (expected --broker {site}=tcp://HOST:PORT)")
            # One connection to a broker that sites share: its lines stay in order.
            same = (publishers[each] for each in publishers if brokers[each] == brokers[site])
            publishers[site] = next(same, None) or Publisher(brokers[site])
        start = time.monotonic()
        feeder = Feeder(publishers, dict(options.topic), Pace(options.rate, options.speedup))
        signal.signal(signal.SIGUSR1, feeder.end)
        counts = feeder.feed(lines)
        print(json.dumps(counts.report(time.monotonic() - start)))
    except (OSError, EOFError, ValueError, csv.Error, zlib.error, PublishError) as error:
        print(f"feeder: {error}", file=sys.stderr)
        return 1
    finally:
        for publisher in set(publishers.values()):
            publisher.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
