"""Links between sites: measured by the acknowledgements of jobs or by a probe, else declared or assumed.

A link leads from the engines of a site to the broker of another.  Pure: no clock, no calls.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from speck.core.inventory import Inventory, Site
from speck.observe.pace import FRESH
from speck.observe.profile.screening import Series
from speck.placement.profile import Known, LinkProfile, Value
from speck.placement.sites import BANDWIDTH, LATENCY
from speck.store.profiles import MeasuredLink

WIRE_OVERHEAD = 95.0  # bytes of a message beside payload and topic: stamps, MQTT and TCP/IP headers
PASSIVE = 300.0  # s, for which a passive measurement holds
ACTIVE = 3600.0  # s, likewise of a probe
LONGEST = 7 * 86_400.0  # s, for which an old measurement is better than an assumption
FULL = 0.5  # share of time with a full window, above which the link is the limit
# A link whose queue grows: the times to acknowledgements rise long before a window of 1,000 messages is full.
RISE, QUEUE = 3.0, 0.05  # times the usual time, and s above it
# Share of the believed bandwidth, below which the engine is slow, and not the link: one that has fallen to a
# quarter passes no more than that.
NEAR = 0.2
_RISEN = 2  # samples in a row
_USUAL = 2  # samples before, at least, of which the usual time is the least median
_RETAINED = 30  # observations of a job: 5 minutes of one every 10 s
_MEAN = 30.0  # s; a writer whose window is full sends in bursts, from one checkpoint to the next

SitePair = tuple[str, str]  # the names of both sites


@dataclass(frozen=True, slots=True)
class Crossing:
    """A job's traffic over a link: bytes/s, the least and the median time to an acknowledgement (s).

    A reader acknowledges, and sees neither these times nor a window (``None``, 0).
    """

    at: float
    bytes_rate: float
    least: float | None
    window_full: float
    median: float | None = None


@dataclass
class Crossings:
    """The last crossings of each job over each link."""

    _of_links: dict[SitePair, dict[str, deque[Crossing]]] = field(default_factory=dict)

    def add(self, link: SitePair, job: str, crossing: Crossing) -> None:
        """Add a job's crossing of a link."""
        jobs = self._of_links.setdefault(link, {})
        jobs.setdefault(job, deque(maxlen=_RETAINED)).append(crossing)

    def forget_others(self, jobs: Iterable[str]) -> None:
        """Forget the crossings of all but these jobs."""
        retained = set(jobs)
        for link, crossings in list(self._of_links.items()):
            found = {job: each for job, each in crossings.items() if job in retained}
            if found:
                self._of_links[link] = found
            else:
                del self._of_links[link]

    def links(self) -> list[SitePair]:
        """The links with crossings."""
        return list(self._of_links)

    def measured(
        self, now: float, believed: Mapping[SitePair, float] = MappingProxyType({}), fresh: float = FRESH
    ) -> dict[SitePair, LinkProfile]:
        """The links with a crossing within the last five minutes; ``believed`` are their bandwidths, bytes/s.

        A job counts towards the load for ``fresh`` seconds.
        """
        risen = self._risen(now - fresh)
        found = {
            link: _passive(
                link,
                [list(each) for each in jobs.values()],
                now,
                fresh,
                NEAR * believed.get(link, math.inf) if link in risen else math.inf,
            )
            for link, jobs in self._of_links.items()
        }
        return {link: each for link, each in found.items() if each is not None}

    def _risen(self, oldest: float) -> set[SitePair]:
        """The links whose acknowledgements take longer, those of a broker excepted that is slow for all."""
        writers: dict[SitePair, list[bool]] = {}
        for link, jobs in self._of_links.items():
            for each in jobs.values():
                if each[-1].at >= oldest and each[-1].median is not None:
                    writers.setdefault(link, []).append(_has_risen(each))
        risen = {link for link, found in writers.items() if any(found)}
        others = {link: {each for each in writers if each[1] == link[1]} - {link} for link in risen}
        return {link for link in risen if not others[link] or not others[link] <= risen}


def crossing_of(series: Series, broker: str) -> Crossing | None:
    """The crossing to a broker in the last two samples of a job; ``None`` if there was none."""
    if len(series.samples) < 2:
        return None
    before, newest = series.samples[-2:]
    acks = next((each for each in newest.sample.acks if each.broker == broker), None)
    growth = _written(series)
    if acks is None or growth is None:
        return None
    seconds = newest.sample.observed - before.sample.observed
    if seconds <= 0:
        return None
    return Crossing(newest.at, growth / seconds, acks.least, acks.window_full, acks.median)


def reading_of(series: Series) -> Crossing | None:
    """The crossing from a broker in the last two samples of a job; ``None`` if there was none."""
    if len(series.samples) < 2:
        return None
    before, newest = series.samples[-2:]
    bytes_in = _growth(before.sample.bytes_in, newest.sample.bytes_in)
    messages = _growth(before.sample.messages_in, newest.sample.messages_in)
    if bytes_in is None or messages is None:
        return None
    seconds = newest.sample.observed - before.sample.observed
    if seconds <= 0:
        return None
    return Crossing(newest.at, (bytes_in + WIRE_OVERHEAD * messages) / seconds, None, 0.0)


def _growth(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


def _written(series: Series) -> float | None:
    """The bytes on the wire between the last two samples."""
    before, after = series.samples[-2].sample, series.samples[-1].sample
    bytes_out = _growth(before.bytes_out, after.bytes_out)
    messages = _growth(before.messages_out, after.messages_out)
    return None if bytes_out is None or messages is None else bytes_out + WIRE_OVERHEAD * messages


def _passive(
    link: SitePair, jobs: Sequence[Sequence[Crossing]], now: float, fresh: float, queue_from: float
) -> LinkProfile | None:
    """A link as the crossings of its jobs show it.

    The window of unacknowledged messages of a writer is full most of the time where the link is the limit:
    then the load of all jobs, readers included, is its bandwidth.  So it is where the times to
    acknowledgements have risen and the load is at least ``queue_from`` (bytes/s).  Otherwise the bandwidth is
    at least that.
    """
    holds = max(PASSIVE, fresh)
    recent = [[each for each in crossings if abs(now - each.at) <= holds] for crossings in jobs]
    known = [crossings for crossings in recent if crossings]
    if not known:
        return None
    until, count = max(each[-1].at for each in known), sum(map(len, known))
    present = [each for each in known if abs(now - each[-1].at) <= fresh]
    load = Value(sum(map(_mean_rate, present), 0.0), Known.MEASURED, until, count)
    is_full = any(each[-1].window_full > FULL for each in present)
    times = [each.least for crossings in known for each in crossings if each.least is not None]
    return LinkProfile(
        source=link[0],
        target=link[1],
        round_trip=Value(min(times), Known.MEASURED, until, count) if times else None,
        bandwidth=load if load.value > 0 else None,
        at_least=not (is_full or load.value >= queue_from),
        load=load,
    )


def _has_risen(crossings: Iterable[Crossing]) -> bool:
    """True if the last acknowledgements of a job took longer than those before, in some samples in a row."""
    medians = [each.median for each in crossings if each.median is not None]
    before, last = medians[:-_RISEN], medians[-_RISEN:]
    if len(before) < _USUAL:
        return False
    usual = min(before)
    return min(last) >= max(RISE * usual, usual + QUEUE)


def _mean_rate(crossings: Sequence[Crossing]) -> float:
    """The mean rate of a job over its last half minute."""
    newest = crossings[-1].at
    rates = [each.bytes_rate for each in crossings if abs(newest - each.at) < _MEAN]
    return sum(rates) / len(rates)


# --- precedence


def with_former(present: LinkProfile, former: LinkProfile | None, now: float) -> LinkProfile:
    """The present measurement of a link, with the bandwidth at which it was full before.

    A link that jobs have left shows a lower bound alone: for five minutes the former bandwidth holds,
    unless more passes.  A step that has relieved a link is judged in that time.
    """
    full = None if former is None or former.at_least else _within(former, PASSIVE, now)
    if full is None or not present.at_least or _bandwidth(present) >= _bandwidth(full):
        return present
    return replace(present, bandwidth=full.bandwidth, at_least=False)


def link_profile(
    link: SitePair, measured: MeasuredLink, declared: LinkProfile, now: float, fresh: float = FRESH
) -> LinkProfile:
    """The best known values of a link.

    The order: a probe of the last hour, acknowledgements of the last five minutes, declared values, older
    measurements of the last week, assumptions.  A passive lower bound does not replace a larger value.
    """
    active, passive = measured.active, measured.passive
    present = _within(passive, max(PASSIVE, fresh), now)
    candidates = [_within(active, ACTIVE, now), present, declared]
    candidates += [_within(active, LONGEST, now), _within(passive, LONGEST, now), _assumed(link)]
    known = [each for each in candidates if each is not None]
    best = next(each for each in known if each.bandwidth is not None and not each.at_least)
    if present is not None and present.at_least and _bandwidth(present) > _bandwidth(best):
        best = present
    return LinkProfile(
        source=link[0],
        target=link[1],
        round_trip=next(each.round_trip for each in known if each.round_trip is not None),
        bandwidth=best.bandwidth,
        at_least=best.at_least,
        load=present.load if present is not None else None,
    )


def _bandwidth(link: LinkProfile) -> float:
    return link.bandwidth.value if link.bandwidth is not None else 0.0


def _within(link: LinkProfile | None, seconds: float, now: float) -> LinkProfile | None:
    """The values of a link that were measured within the last ``seconds``, or as little ahead of ``now``.

    A value from the future was measured before the clock was set back: it would stay fresh until then.
    """
    if link is None:
        return None
    values = (link.round_trip, link.bandwidth, link.load)
    round_trip, bandwidth, load = (
        None if value is None or abs(now - value.until) > seconds else value for value in values
    )
    return replace(link, round_trip=round_trip, bandwidth=bandwidth, load=load)


def _assumed(link: SitePair) -> LinkProfile:
    return LinkProfile(
        source=link[0],
        target=link[1],
        round_trip=Value(4 * LATENCY, Known.ASSUMED),
        bandwidth=Value(BANDWIDTH, Known.ASSUMED),
    )


def declared_link(inventory: Inventory, link: SitePair) -> LinkProfile:
    """The declared values of a link: of its path (``links``), else of the uplinks of both sites.

    Both ends share the path, so that its bandwidth is the lower one, up at the one and down at the other,
    and its delay the sum.  The end without a declared value counts as assumed.
    """
    path = inventory.link(*link)
    rate = path.bandwidth if path and path.bandwidth is not None else _lower_end(inventory, link)
    one_way = path.latency / 1000 if path and path.latency is not None else _both_delays(inventory, link)
    return LinkProfile(
        source=link[0],
        target=link[1],
        round_trip=None if one_way is None else Value(2 * one_way, Known.DECLARED),
        bandwidth=None if rate is None else Value(rate / 8, Known.DECLARED),
    )


def _lower_end(inventory: Inventory, link: SitePair) -> float | None:
    """The lower declared bandwidth of both ends, bit/s."""
    source, target = (inventory.sites.get(name) for name in link)
    rates = [source.uplink.bandwidth] if source else []
    rates += [target.uplink.downlink or target.uplink.bandwidth] if target else []
    return min((rate for rate in rates if rate is not None), default=None)


def _both_delays(inventory: Inventory, link: SitePair) -> float | None:
    """The sum of the declared delays of both ends, s."""
    ends = [inventory.sites.get(name) for name in link]
    delays = [each.uplink.latency if each is not None else None for each in ends]
    if all(each is None for each in delays):
        return None
    return sum(LATENCY if each is None else each / 1000 for each in delays)


def links_of(inventory: Inventory) -> list[SitePair]:
    """All links: from each site with engines to each other place with a broker."""
    sites: Sequence[Site] = [each for each in inventory.places() if each.engines]
    return [
        (source.name, target.name)
        for source in sites
        for target in inventory.places()
        if source.broker_address != target.broker_address
    ]


def link_profiles(
    inventory: Inventory, measured: Mapping[SitePair, MeasuredLink], now: float, fresh: float = FRESH
) -> dict[SitePair, LinkProfile]:
    """All links of the inventory with their best known values, by the names of both ends.

    There is one for each two sites; :func:`measured_profiles` has those that something is measured of.
    """
    return {
        link: link_profile(
            link, measured.get(link, MeasuredLink()), declared_link(inventory, link), now, fresh
        )
        for link in links_of(inventory)
    }


def measured_profiles(
    inventory: Inventory, measured: Mapping[SitePair, MeasuredLink], now: float, fresh: float = FRESH
) -> dict[SitePair, LinkProfile]:
    """The links between places of the inventory that were ever measured, with their best known values."""
    places = {each.name for each in inventory.places()}
    return {
        link: link_profile(link, each, declared_link(inventory, link), now, fresh)
        for link, each in measured.items()
        if places.issuperset(link)
    }
