"""Links between sites: the order of their sources, and what acknowledgements tell."""

from __future__ import annotations

from dataclasses import replace

import pytest

from speck.core.inventory import Broker, Inventory, Link, Uplink
from speck.core.profile import AckSample
from speck.observe.links import (
    WIRE_OVERHEAD,
    Crossing,
    Crossings,
    crossing_of,
    declared_link,
    link_profile,
    link_profiles,
    reading_of,
    with_former,
)
from speck.observe.profile.screening import Received, Series
from speck.placement.profile import Known, LinkProfile, Value
from speck.store.profiles import MeasuredLink
from testbed.benches.examples import one_site
from testbed.doubles.samples import flink_stream, series_of

NOW = 1_000_000.0
LINK = ("A", "D")
MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
UPLINKS = {"A": Uplink(bandwidth=2e6, latency=80), "D": Uplink(bandwidth=100e6, latency=5), "S": Uplink()}
INVENTORY = Inventory(
    {
        name: replace(one_site(name, f"http://{name}:8081", f"tcp://{name}:1883"), uplink=uplink)
        for name, uplink in UPLINKS.items()
    },
    {"hub": Broker(broker_address="tcp://hub:1883")},
)


def measured(age: float, round_trip: float, bandwidth: float, *, at_least: bool = False) -> LinkProfile:
    def value(number: float) -> Value:
        return Value(number, Known.MEASURED, NOW - age, 5)

    return LinkProfile(
        source="A",
        target="D",
        round_trip=value(round_trip),
        bandwidth=value(bandwidth),
        at_least=at_least,
        load=value(bandwidth),
    )


DECLARED = LinkProfile(
    source="A",
    target="D",
    round_trip=Value(0.1, Known.DECLARED),
    bandwidth=Value(1e6, Known.DECLARED),
)
UNDECLARED = LinkProfile(source="A", target="D")


@pytest.mark.parametrize(
    ("active", "passive", "declared", "expected"),
    [
        ((59 * MINUTE, 0.2, 2e6), (MINUTE, 0.3, 3e6), DECLARED, (0.2, 2e6, "measured")),
        ((61 * MINUTE, 0.2, 2e6), (4 * MINUTE, 0.3, 3e6), DECLARED, (0.3, 3e6, "measured")),
        ((61 * MINUTE, 0.2, 2e6), (6 * MINUTE, 0.3, 3e6), DECLARED, (0.1, 1e6, "declared")),
        (None, None, DECLARED, (0.1, 1e6, "declared")),
        ((6 * DAY, 0.2, 2e6), (6 * DAY, 0.3, 3e6), UNDECLARED, (0.2, 2e6, "measured")),
        (None, (6 * DAY, 0.3, 3e6), UNDECLARED, (0.3, 3e6, "measured")),
        ((8 * DAY, 0.2, 2e6), (8 * DAY, 0.3, 3e6), UNDECLARED, (0.04, 12.5e6, "assumed")),
        # The clock was set back since.
        ((-2 * HOUR, 0.2, 2e6), (MINUTE, 0.3, 3e6), DECLARED, (0.3, 3e6, "measured")),
        (None, (-6 * MINUTE, 0.3, 3e6), DECLARED, (0.1, 1e6, "declared")),
        (None, (-2 * MINUTE, 0.3, 3e6), DECLARED, (0.3, 3e6, "measured")),
        ((-6 * DAY, 0.2, 2e6), None, UNDECLARED, (0.2, 2e6, "measured")),
        ((-8 * DAY, 0.2, 2e6), (-8 * DAY, 0.3, 3e6), UNDECLARED, (0.04, 12.5e6, "assumed")),
        (None, None, UNDECLARED, (0.04, 12.5e6, "assumed")),
    ],
)
def test_the_best_known_values(
    active: tuple[float, float, float] | None,
    passive: tuple[float, float, float] | None,
    declared: LinkProfile,
    expected: tuple[float, float, str],
) -> None:
    both = MeasuredLink(
        passive=measured(*passive) if passive else None, active=measured(*active) if active else None
    )
    found = link_profile(LINK, both, declared, NOW)
    assert found.round_trip is not None
    assert found.bandwidth is not None
    assert (found.round_trip.value, found.bandwidth.value, found.bandwidth.known) == expected


@pytest.mark.parametrize(
    ("bound", "expected"), [(5e5, (1e6, False, "declared")), (2e6, (2e6, True, "measured"))]
)
def test_a_lower_bound_counts_where_it_is_above_the_declared_value(
    bound: float, expected: tuple[float, bool, str]
) -> None:
    passive = measured(MINUTE, 0.3, bound, at_least=True)
    found = link_profile(LINK, MeasuredLink(passive=passive), DECLARED, NOW)
    assert found.bandwidth is not None
    assert (found.bandwidth.value, found.at_least, found.bandwidth.known) == expected


def test_the_slower_end_and_the_sum_of_the_delays_are_declared() -> None:
    link = declared_link(INVENTORY, ("A", "D"))
    assert link.bandwidth == Value(2e6 / 8, Known.DECLARED)
    assert link.round_trip is not None
    assert link.round_trip.value == pytest.approx(2 * 0.085)
    assert declared_link(INVENTORY, ("D", "A")) == replace(link, source="D", target="A")
    one_end = declared_link(INVENTORY, ("D", "hub"))  # a broker has no uplink
    assert one_end.bandwidth == Value(100e6 / 8, Known.DECLARED)
    assert declared_link(INVENTORY, ("S", "hub")) == LinkProfile(source="S", target="hub")


def test_a_declared_path_and_a_downlink_come_before_the_uplinks() -> None:
    paths = (Link(source="A", target="D", bandwidth=8e6, latency=30),)
    declared = declared_link(replace(INVENTORY, links=paths), ("D", "A"))  # also of the other direction
    assert (declared.bandwidth, declared.round_trip) == (
        Value(1e6, Known.DECLARED),
        Value(0.06, Known.DECLARED),
    )
    down = {
        **INVENTORY.sites,
        "A": replace(INVENTORY.sites["A"], uplink=Uplink(bandwidth=2e6, downlink=16e6)),
    }
    assert declared_link(Inventory(down), ("D", "A")).bandwidth == Value(2e6, Known.DECLARED)
    assert declared_link(Inventory(down), ("A", "D")).bandwidth == Value(2e6 / 8, Known.DECLARED)


def test_links_lead_from_engines_to_the_brokers_of_others() -> None:
    found = link_profiles(INVENTORY, {}, NOW)
    assert set(found) == {(one, other) for one in "ADS" for other in (*"ADS", "hub") if one != other}


def crossings(*each: tuple[str, Crossing]) -> Crossings:
    found = Crossings()
    for job, crossing in each:
        found.add(LINK, job, crossing)
    return found


def test_jobs_share_a_link() -> None:
    found = crossings(
        ("a", Crossing(NOW - 250, 9e5, 0.15, 0.9)),
        ("a", Crossing(NOW - 10, 1e5, 0.2, 0.1)),
        ("b", Crossing(NOW - 5, 2e5, None, 0.0)),
        ("gone", Crossing(NOW - 400, 7e5, 0.01, 0.9)),
    ).measured(NOW)[LINK]
    assert found.round_trip is not None
    assert found.bandwidth is not None
    assert found.round_trip.value == 0.15  # the least within five minutes
    assert found.bandwidth.value == 3e5
    assert found.at_least
    assert found.load == found.bandwidth


def test_a_full_window_tells_the_bandwidth() -> None:
    found = crossings(("a", Crossing(NOW, 1e5, 0.2, 0.8)), ("b", Crossing(NOW, 2e5, 0.3, 0.1))).measured(NOW)
    assert found[LINK].bandwidth == Value(3e5, Known.MEASURED, NOW, 2)
    assert not found[LINK].at_least


def rising(*medians: float | None, rate: float = 1e5, age: float = 0.0) -> Crossings:
    """A job's crossings every 10 s, with these times to acknowledgements; its window is never full."""
    times = [NOW - age - 10 * number for number in range(len(medians))][::-1]
    return crossings(
        *(("a", Crossing(at, rate, 0.02, 0.0, each)) for at, each in zip(times, medians, strict=True))
    )


@pytest.mark.parametrize(
    ("medians", "rate", "age", "full"),
    [
        ((0.03, 0.04, 0.3, 0.4), 1e5, 0, True),
        ((0.03, 0.04, 0.3, 0.4), 0.4e5, 0, True),  # a link that has fallen to a fifth
        ((0.03, 0.04, 0.3, 0.4), 0.3e5, 0, False),  # the broker is slow, and not the link
        ((0.03, 0.04, 0.4), 1e5, 0, False),  # once
        ((0.03, 0.3, 0.04, 0.4), 1e5, 0, False),  # not in a row
        ((0.03, 0.3, 0.4), 1e5, 0, False),  # one sample before is no usual time
        ((0.3, 0.3, 0.3, 0.3), 1e5, 0, False),
        ((0.001, 0.002, 0.04, 0.05), 1e5, 0, False),  # 40 times longer, but no queue
        ((0.03, 0.04, 0.3, 0.4, None), 1e5, 0, False),  # nothing was acknowledged since
        ((0.03, 0.04, 0.3, 0.4), 1e5, 61, False),  # old
    ],
)
def test_a_link_is_full_where_acknowledgements_take_longer_at_a_rate_near_its_bandwidth(
    medians: tuple[float | None, ...], rate: float, age: float, full: bool
) -> None:
    found = rising(*medians, rate=rate, age=age).measured(NOW, {LINK: 2e5})[LINK]
    assert found.at_least == (not full)
    assert rising(*medians, rate=rate, age=age).measured(NOW)[LINK].at_least  # nothing is known of it


def test_a_broker_that_is_slow_for_all_is_no_full_link() -> None:
    found, medians = rising(0.03, 0.04, 0.3, 0.4), (0.01, 0.01, 0.2, 0.3)
    for number, median in enumerate(medians):
        found.add(("B", "D"), "b", Crossing(NOW - 30 + 10 * number, 1e5, 0.01, 0.0, median))
    believed = {LINK: 2e5, ("B", "D"): 2e5}
    assert [each.at_least for each in found.measured(NOW, believed).values()] == [True, True]
    found.add(("C", "D"), "c", Crossing(NOW, 1e5, 0.01, 0.0, 0.01))  # it is slow for two of three
    assert [each.at_least for each in found.measured(NOW, believed).values()] == [False, False, True]


def test_crossings_of_before_the_clock_was_set_back_are_no_load() -> None:
    found = crossings(("gone", Crossing(NOW + 90, 7e5, 0.2, 0.9)), ("a", Crossing(NOW, 1e5, 0.2, 0.1)))
    link = found.measured(NOW)[LINK]
    assert link.load is not None
    assert (link.load.value, link.at_least) == (1e5, True)
    assert crossings(("gone", Crossing(NOW + 400, 7e5, 0.2, 0.9))).measured(NOW) == {}


def test_samples_of_one_moment_have_no_rate() -> None:
    sample = flink_stream([100], 1e-3)[-1]
    both = Series((Received(NOW, sample), Received(NOW + 10, sample)))
    assert reading_of(both) is None
    acks = (AckSample(broker="tcp://d:1883"),)
    both = Series(tuple(replace(each, sample=replace(each.sample, acks=acks)) for each in both.samples))
    assert crossing_of(both, "tcp://d:1883") is None


def test_old_crossings_and_those_of_jobs_that_are_gone_tell_nothing() -> None:
    found = crossings(("a", Crossing(NOW - 301, 1e5, 0.2, 0.8)))
    assert found.measured(NOW) == {}
    found.add(LINK, "b", Crossing(NOW, 1e5, 0.2, 0.8))
    found.forget_others(["a"])
    assert found.measured(NOW) == {}


def test_a_crossing_has_the_bytes_on_the_wire() -> None:
    samples = flink_stream([100, 200], 1e-3)
    acks = (AckSample(broker="tcp://d:1883", least=0.02, median=0.03, window_full=0.4),)
    series = series_of(replace(each, acks=acks) for each in samples)
    found = crossing_of(series, "tcp://d:1883")
    assert found is not None
    assert found.bytes_rate == pytest.approx(100 * (60 + WIRE_OVERHEAD))  # half of 200 messages/s in
    assert (found.least, found.window_full) == (0.02, 0.4)
    assert crossing_of(series, "tcp://a:1883") is None
    assert crossing_of(series_of(samples[:1]), "tcp://d:1883") is None


@pytest.mark.parametrize(
    ("former", "at_least", "age", "now_at_least", "bandwidth"),
    [
        (500.0, False, 60, True, 500.0),  # full before, and left since
        (500.0, False, 400, True, 100.0),  # too long ago
        (500.0, False, -400, True, 100.0),  # by a clock that was set back since
        (500.0, True, 60, True, 100.0),  # it was never full
        (50.0, False, 60, True, 100.0),  # more passes
        (500.0, False, 60, False, 100.0),  # it is full now
    ],
)
def test_the_bandwidth_of_a_link_that_jobs_have_left(
    former: float, at_least: bool, age: float, now_at_least: bool, bandwidth: float
) -> None:
    before = measured(age, 0.1, former, at_least=at_least)
    present = measured(0, 0.1, 100.0, at_least=now_at_least)
    found = with_former(present, before, NOW)
    assert found.bandwidth is not None
    assert found.bandwidth.value == bandwidth
    assert with_former(present, None, NOW) == present
