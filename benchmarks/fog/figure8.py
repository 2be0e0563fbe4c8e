"""Figure 8 of the paper: local-stats near the data or remote, by the interval between messages.

Two streams are born at A; the job that counts them runs at A (local) or at D (remote), 18.6 ms away.

* ``window``: no job, but a plain MQTT client at A, which writes to the broker of A or of D with at most 20
  messages unacknowledged (Mosquitto's default Receive Maximum): at most 20 a round trip arrive.
* ``speck``: SpecK's job, and a broker as SpecK recommends it.
* ``narrow``: the same over 2 Mbit/s, of which the bytes that A sends without a bound are a share.

Each row has the ratio of readings counted, remote to local, and that of the median ages.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common import Figure
from benchmarks.wan.platform import Platform, Read, feed, read
from benchmarks.wan.servers import Place, Servers
from speck.core.job import Composition
from speck.local.wan.network import EmulatedLink, Network

ROUND_TRIP = 0.0186  # s
NARROW = 2e6  # bit/s
WINDOW = 20  # messages in flight
INTERVALS = (10.0, 2.0, 1.0, 0.5)  # ms between two messages of a stream
STREAMS = 2
TOPICS = tuple(f"sensors/{number}" for number in range(1, STREAMS + 1))
_SITES = _LOCAL, _REMOTE = "A", "D"
_QUARTER = 3  # of an hour, of the day, into which all readings fall
_STEADY = 4.0  # s, from a change to a measurement
_BACKLOG, _FRESH = 12.0, 0.5  # s: the longest wait for results to be so young

_NAME = "local-stats"  # of the job, and of the topic of its results
_JOB = f"""\
jobs:
- job_name: {_NAME}
  site: any
  engine: flink
  source_broker: A
  source_topic: sensors/+
  sink_broker: A
  sink_topic: {_NAME}
  entry_class: io.speck.flink.jobs.LocalStats
  job_path: jars_and_apps/flink/speck-flink-jobs.jar
  arguments: {{site: "*", lateness: 36500 days}}
"""

Row = dict[str, Any]
Measured = dict[str, float]  # rate (readings/s), age (s), up (bytes/s)
Pair = dict[str, Measured]  # by site


def rate(interval: float) -> float:
    """Messages/s of a stream with an interval, ms."""
    return 1000 / interval


def measure(runs: int, seconds: float, intervals: Sequence[float] = INTERVALS) -> Iterator[Row]:
    """All rows, one for each curve and interval (ms)."""
    yield from window_rows(runs, seconds, intervals)
    yield from speck_rows(runs, seconds, intervals)


def expected(interval: float) -> float:
    """The ratio that a window of :data:`WINDOW` messages leaves of a rate: its size over the round trip."""
    return min(1.0, WINDOW / (ROUND_TRIP * STREAMS * rate(interval)))


def window_rows(runs: int, seconds: float, intervals: Sequence[float]) -> Iterator[Row]:
    """The paper's window, with a client instead of its job."""
    for interval in intervals:
        found = [{site: _in_window(site, interval, seconds) for site in _SITES} for _ in range(runs)]
        yield _row("window", interval, found) | {"expected": expected(interval)}


def _in_window(site: str, interval: float, seconds: float) -> Measured:
    """One measurement in which the client writes to the broker of a site."""
    link = EmulatedLink.of(None, ROUND_TRIP)
    places = {name: Place(cores=1.0, engine="") for name in _SITES}
    rates = dict.fromkeys(TOPICS, rate(interval))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="speck-fog-")))
        network = stack.enter_context(Network(dict.fromkeys(_SITES, link)))
        stack.enter_context(Servers(network, places, folder))
        reader = stack.enter_context(read(network, site, _QUARTER, 1, TOPICS))
        stack.enter_context(feed(network, _LOCAL, _QUARTER, 0.0, rates, broker=site, most=WINDOW))
        return _counted(reader, seconds)


def speck_rows(runs: int, seconds: float, intervals: Sequence[float]) -> Iterator[Row]:
    """SpecK's job over an unbounded and a narrow link."""
    unbounded, narrow = EmulatedLink.of(None, ROUND_TRIP), EmulatedLink.of(NARROW, ROUND_TRIP)
    places = {_LOCAL: Place(cores=1.0), _REMOTE: Place(cores=1.0, tier="cloud")}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="speck-fog-")))
        platform = stack.enter_context(Platform(dict.fromkeys(places, unbounded), places, folder))
        job = _MovableJob(platform, platform.composition(_JOB, "figure-8"))
        job.place(_LOCAL)
        # From here on: the first reading of a stream must be counted, since the later ones have differences.
        rates = dict.fromkeys(TOPICS, rate(intervals[0]))
        sensors = stack.enter_context(feed(platform.network, _LOCAL, _QUARTER, 0.0, rates))
        reader = stack.enter_context(read(platform.network, _LOCAL, _QUARTER, STREAMS, [_NAME]))
        for interval in intervals:
            for topic in TOPICS:
                sensors.set_rate(topic, rate(interval))
            found = [job.measure(unbounded, reader, seconds) for _ in range(runs)]
            sent = _most_sent(found)
            yield _row("speck", interval, found) | {"expected": 1.0}
            found = [job.measure(narrow, reader, seconds) for _ in range(runs)]
            bound = NARROW / 8 / max(sent, _most_sent(found))
            yield _row("narrow", interval, found) | {"expected": min(1.0, bound)}


@dataclass
class _MovableJob:
    """SpecK's job, which runs at either site."""

    platform: Platform
    composition: Composition

    def place(self, site: str) -> None:
        """Run the job at a site."""
        self.composition = self.platform.placed(self.composition, {_NAME: site}).composition
        self.platform.apply(self.composition)

    def measure(self, link: EmulatedLink, reader: Read, seconds: float) -> Pair:
        """One measurement at each site; ``link`` is that of the local site."""
        pair: Pair = {}
        for site in _SITES:
            self.platform.network.set_link(_LOCAL, link)
            self.place(site)
            before = self.platform.counters()
            pair[site] = _counted(reader, seconds)
            pair[site]["up"] = self.platform.counters().since(before)["up"][_LOCAL]
        return pair


def _most_sent(found: Sequence[Pair]) -> float:
    """The most bytes/s that the local site sent while the job ran at the remote one."""
    return max(each[_REMOTE]["up"] for each in found)


def _counted(reader: Read, seconds: float) -> Measured:
    """The readings/s that were counted, and their median age, s; after a backlog, if it is processed."""
    deadline = time.monotonic() + _BACKLOG
    time.sleep(_STEADY)
    reader.taken()
    while time.monotonic() < deadline:
        time.sleep(1)
        ages = [each["p50"] for each in reader.taken().values() if each["messages"]]
        if ages and max(ages) < _FRESH:
            break
    time.sleep(seconds)
    found = [each for each in reader.taken().values() if each["messages"]]
    counted = sum(each["readings"] / each["seconds"] for each in found)
    return {"rate": counted, "age": max((each["p50"] for each in found), default=float("nan"))}


def _row(curve: str, interval: float, found: Sequence[Pair]) -> Row:
    ratios = Figure.of(each[_REMOTE]["rate"] / max(1e-9, each[_LOCAL]["rate"]) for each in found)
    ages = Figure.of(each[_REMOTE]["age"] / each[_LOCAL]["age"] for each in found)
    row: Row = {"figure": 8, "curve": curve, "interval_ms": interval, "runs": list(found)}
    return row | dict(ratios.named("ratio")) | dict(ages.named("age_ratio"))
