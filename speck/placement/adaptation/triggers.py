"""The conditions that call for a decision at once, each when it has lasted for a while."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from speck.core.adaptation import Trigger
from speck.placement.cost import Figures
from speck.placement.problem import Problem
from speck.placement.profile import LinkProfile

CORES, MEMORY, LINK = 0.85, 0.9, 0.9  # shares of a capacity
NARROWER, SLOWER = 0.5, 3.0  # times the bandwidth and the round trip at the last decision
RATES = 0.2  # share of a rate
LEAST_RATE = 1.0  # messages/s, below which a difference is noise
LASTING = 30.0  # s
LAG_SPAN, LAG = 60.0, 10.0  # s of growth, s of input that waits

Condition = tuple[Trigger, str]  # with its subject
Path = tuple[str, str]
Waiting = Sequence[tuple[float, int]]  # the messages that wait for a job, by time, the newest last


@dataclass(frozen=True, slots=True)
class Watch:
    """The conditions that hold, each with the time since when, and those that were reported."""

    since: Mapping[Condition, float] = field(default_factory=dict)
    reported: frozenset[Condition] = frozenset()

    def with_next(
        self, holding: Collection[Condition], now: float, interval: float = 0.0
    ) -> tuple[Watch, list[Condition]]:
        """The conditions that hold now, and those to report: once, when they have held for a while.

        That is three samples at least, one of which is taken every ``interval`` s.
        """
        since = {each: self.since.get(each, now) for each in holding}
        lasting = max(LASTING, 2 * interval)
        due = [each for each in since if now - since[each] >= lasting and each not in self.reported]
        return Watch(since, frozenset(self.reported & since.keys()) | frozenset(due)), due


def loads(problem: Problem, figures: Figures) -> Iterator[Condition]:
    """The sites and links that are nearly full."""
    for site, found in zip(problem.sites, figures.sites, strict=True):
        if found.cores > CORES:
            yield Trigger.CORES, site.name
        if found.memory is not None and found.memory > MEMORY:
            yield Trigger.MEMORY, site.name
        if max(found.up, found.down) > LINK:
            yield Trigger.LINK, site.name


def links(before: Mapping[Path, LinkProfile], now: Mapping[Path, LinkProfile]) -> Iterator[Condition]:
    """The links that have become narrower or slower since the last decision."""
    for path in before.keys() & now.keys():
        old, new = before[path], now[path]
        narrower = (
            old.bandwidth is not None
            and new.bandwidth is not None
            and not new.at_least
            and new.bandwidth.value < NARROWER * old.bandwidth.value
        )
        slower = (
            old.round_trip is not None
            and new.round_trip is not None
            and new.round_trip.value > SLOWER * old.round_trip.value
        )
        if narrower or slower:
            yield Trigger.LINK, "-".join(path)


def rates(before: Mapping[str, float], now: Mapping[str, float]) -> Iterator[Condition]:
    """The jobs whose rates have moved since the last decision."""
    for name in before.keys() & now.keys():
        if abs(now[name] - before[name]) > max(LEAST_RATE, RATES * before[name]):
            yield Trigger.RATES, name


def lagging(waiting: Mapping[str, Waiting], into: Mapping[str, float], span: float = LAG_SPAN) -> list[str]:
    """The jobs for which ever more messages have waited for ``span`` s, and more than arrive in a while."""
    found = []
    for name, samples in waiting.items():
        if not is_known_for(samples, span):
            continue
        counts = [count for _, count in recent(samples, samples[-1][0], span)]
        grows = counts == sorted(counts) and counts[-1] > counts[0]
        if grows and counts[-1] > LAG * into.get(name, 0.0):
            found.append(name)
    return found


def draining(waiting: Mapping[str, Waiting], into: Mapping[str, float]) -> list[str]:
    """The jobs for which ever fewer messages wait, and still more than arrive in a while.

    The count of a full buffer goes up and down a little.
    """
    found = []
    for name, samples in waiting.items():
        counts = [count for _, count in samples]
        falls = counts == sorted(counts, reverse=True) and counts[-1] < counts[0]
        if falls and counts[-1] > LAG * into.get(name, 0.0):
            found.append(name)
    return found


def is_known_for(samples: Waiting, span: float) -> bool:
    """True if the samples cover ``span`` s."""
    return samples[-1][0] - samples[0][0] >= span


def recent(samples: Waiting, now: float, span: float = LAG_SPAN) -> list[tuple[float, int]]:
    """The samples of the ``span`` over which a growth counts, and the one before it."""
    older = [each for each in samples if each[0] <= now - span]
    return [*older[-1:], *(each for each in samples if each[0] > now - span)]
