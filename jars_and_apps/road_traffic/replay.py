"""The replay of a file of readings: its lines in time order, each with the sensor stream that sends it.

A line is malformed when it does not match the grammar of :mod:`jobs`, by which the clean jobs filter.
"""

from __future__ import annotations

import csv
import gzip
import random
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from jars_and_apps.road_traffic.jobs import READING

WELL_FORMED = re.compile(READING.encode("ascii"))
HEADER = b"status,avgMeasuredTime,avgSpeed,extID,medianMeasuredTime,TIMESTAMP,vehicleCount,_id,REPORT_ID"
SITES = ("A", "B", "C", "D")
STREAMS_PER_SITE = 2

_TIME, _VEHICLES, _FIELDS = 5, 6, 9
_NUMBERS = (1, 2, 3, 4, 6, 7, 8)
_GZIP = b"\x1f\x8b"
# Far above any reading, far below a broker's limit; a malformed line stays malformed when it is cut.
_LONGEST_LINE = 65_536


class Stream(NamedTuple):
    """The sensors of a site that share a topic."""

    site: str
    number: int

    @classmethod
    def of(cls, text: str) -> Stream:
        """``A/1`` as a stream.  Raises :class:`ValueError`."""
        site, _, number = text.partition("/")
        if site not in SITES or number not in {str(each) for each in range(1, STREAMS_PER_SITE + 1)}:
            raise ValueError(f"{text!r} is not a stream (expected SITE/NUMBER, such as A/1 or D/2)")
        return cls(site, int(number))

    def __str__(self) -> str:
        return f"{self.site}/{self.number}"


class Line(NamedTuple):
    """One line to publish; ``time`` is as in the file, that of the line before for a malformed one."""

    text: bytes
    time: bytes
    stream: Stream
    well_formed: bool

    @property
    def vehicles(self) -> int:
        """The number of vehicles in a well-formed line."""
        return int(self.text.split(b",")[_VEHICLES])


def raw_lines(path: Path) -> Iterator[bytes]:
    """The lines of a plain or gzip file, without line ends and without its header."""
    with path.open("rb") as plain:
        compressed = plain.read(2) == _GZIP
    with gzip.open(path, "rb") if compressed else path.open("rb") as file:
        for number, raw in enumerate(file):
            text = raw.removesuffix(b"\n").removesuffix(b"\r")[:_LONGEST_LINE]
            if number or text.removeprefix(b"\xef\xbb\xbf") != HEADER:
                yield text


def first_readings(lines: Iterable[bytes], limit: int | None) -> Iterator[bytes]:
    """The lines up to the ``limit``-th well-formed one, malformed ones among them; ``None``: all."""
    remaining = limit
    for text in lines:
        if remaining == 0:
            return
        yield text
        if remaining is not None and WELL_FORMED.match(text):
            remaining -= 1


def sites_of_segments(path: Path) -> dict[bytes, str]:
    """The site of each ``REPORT_ID``, from the columns of that name of a sensors file.

    Raises :class:`ValueError` for a site that is not one of :data:`SITES`, or when a column is missing.
    """
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file)
        if not {"REPORT_ID", "site"} <= set(rows.fieldnames or ()):
            raise ValueError(f"{path} has no columns REPORT_ID and site")
        sites = {row["REPORT_ID"].encode(): row["site"] for row in rows}
    if strange := set(sites.values()) - set(SITES):
        raise ValueError(f"{path} names the site {min(strange)!r} (expected one of {', '.join(SITES)})")
    return sites


def stream_of(segment: bytes, sites: Mapping[bytes, str]) -> Stream:
    """The stream of a sensor: at its site if that is known, else by a checksum of its segment."""
    spread = zlib.crc32(segment)
    site = sites.get(segment) or SITES[spread // STREAMS_PER_SITE % len(SITES)]
    return Stream(site, 1 + spread % STREAMS_PER_SITE)


def in_time_order(lines: Iterable[bytes], sites: Mapping[bytes, str]) -> list[Line]:
    """The lines sorted by time; lines of the same time stay in their order."""
    replay, time = [], b""
    streams: dict[bytes, Stream] = {}
    for text in lines:
        fields = text.split(b",")
        well_formed = WELL_FORMED.match(text) is not None
        time = fields[_TIME].replace(b" ", b"T") if well_formed else time
        stream = streams.get(fields[-1]) or streams.setdefault(fields[-1], stream_of(fields[-1], sites))
        replay.append(Line(text, time, stream, well_formed))
    return sorted(replay, key=lambda line: line.time)


def part(lines: Sequence[Line], number: int, of: int) -> Sequence[Line]:
    """The ``number``-th (from 1) of ``of`` nearly equal parts in time; together they have each line once."""
    return lines[len(lines) * (number - 1) // of : len(lines) * number // of]


def with_malformed(lines: Iterable[Line], share: float, seed: int) -> Iterator[Line]:
    """The lines, and malformed ones among them: ``share`` (0 up to 1, exclusive) of the result, seeded."""
    chance = random.Random(seed)  # noqa: S311 - a replay is to be repeatable
    for line in lines:
        yield line
        while chance.random() < share:
            yield line._replace(text=malformed(line.text, chance), well_formed=False)


# --- malformed lines ----------------------------------------------------------------------------


def malformed(text: bytes, chance: random.Random) -> bytes:
    """A malformed line made from another, of a random kind."""
    while True:
        fields = text.split(b",")
        fields += [b"0"] * (_FIELDS - len(fields))
        spoilt = chance.choice(list(MALFORMATIONS.values()))(fields, chance)
        if not WELL_FORMED.match(spoilt):
            return spoilt


def _field_missing(fields: list[bytes], chance: random.Random) -> bytes:
    fields.pop(chance.randrange(len(fields)))
    return b",".join(fields)


def _field_added(fields: list[bytes], chance: random.Random) -> bytes:
    return b",".join([*fields, b"%d" % chance.randrange(100)])


def _not_a_number(fields: list[bytes], chance: random.Random) -> bytes:
    fields[chance.choice(_NUMBERS)] = chance.choice((b"", b"n/a", b"NaN", b"12x", b"1e3", "٣".encode()))
    return b",".join(fields)


def _negative(fields: list[bytes], chance: random.Random) -> bytes:
    fields[chance.choice(_NUMBERS)] = b"-%d" % chance.randrange(1, 100)
    return b",".join(fields)


def _no_time(fields: list[bytes], chance: random.Random) -> bytes:
    fields[_TIME] = chance.choice(
        (
            b"",
            b"yesterday",
            b"2014-02-30T12:00:00",
            b"2014-13-01T00:00:00",
            b"2014-08-18T24:00:00",
            b"2014-08-18",
        )
    )
    return b",".join(fields)


def _bad_status(fields: list[bytes], chance: random.Random) -> bytes:
    fields[0] = chance.choice((b"", b"ERROR", b"TIMEOUT", b"ok", b"OK "))
    return b",".join(fields)


def _cut(fields: list[bytes], chance: random.Random) -> bytes:
    text = b",".join(fields)
    return text[: chance.randrange(len(text))]


def _noise(fields: list[bytes], chance: random.Random) -> bytes:
    return chance.randbytes(chance.randrange(1, 60))


MALFORMATIONS: Mapping[str, Callable[[list[bytes], random.Random], bytes]] = {
    "field missing": _field_missing,
    "field added": _field_added,
    "not a number": _not_a_number,
    "negative": _negative,
    "no time": _no_time,
    "bad status": _bad_status,
    "cut": _cut,
    "noise": _noise,
}
