"""Advice on splitting an aggregation by keys, judged from what it does with a sample of its messages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from speck.core.split import MOST_COMBINERS, PARTITIONERS

MESSAGE_US = 40.0  # us of processor to take in a message, half of it the broker's (benchmarks/micro)
CHEAP_US = 1.0  # us a row: less than to route and frame it
MOST_BUSY = 0.7  # of a core, by `add` alone
OVER_MEAN = 1.2  # rows of a worker over the mean, above which one key makes it hot
ROWS_TO_COMBINE = 10.0  # of a key in a batch and task, from which partial states are worth it
MUCH_STATE = 2**30  # bytes of the states of a window
COSTLY_KEY = 5.0  # rows: what the work for a key counts as, from which it is to be levelled
MOST_KEY_ROWS = PARTITIONERS["balanced"].options["key_cost"].high
WORKERS = 4  # where neither the rate nor the job has a number


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSample:
    """The work of an aggregation on some messages.

    ``keys`` has the rows of each key; ``groups`` is the number of pairs of key and slide; ``dropped`` are bad
    rows.  Processor time in microseconds: ``add_us`` a row, ``merge_us`` for two states, decoded and encoded.
    ``state_bytes`` is the mean length of an encoded state; ``key_rows`` the rows that the work of a call of
    ``add`` counts as, beside its rows.
    """

    messages: int
    keys: Mapping[str, int]
    groups: int
    dropped: int
    add_us: float
    merge_us: float
    state_bytes: float
    key_rows: float = 0.0

    @property
    def rows(self) -> int:
        """The rows that count."""
        return sum(self.keys.values())

    @property
    def busiest(self) -> tuple[str, float]:
        """The key with the most rows (the first by name of several), and its share of all."""
        key = min(self.keys, key=lambda each: (-self.keys[each], each))
        return key, self.keys[key] / self.rows

    @property
    def message_us(self) -> float:
        """Processor time of ``add`` for the rows of a message, in microseconds."""
        return self.add_us * self.rows / self.messages


class Form(StrEnum):
    """The form in which an aggregation runs."""

    UNSPLIT = "unsplit"
    ONE_JOB = "one job"
    SITES = "sites"


@dataclass(frozen=True, slots=True)
class SplitAdvice:
    """The advice: ``combiners`` and ``partitioner`` of the block, ``None`` without one; sentences why.

    ``load`` is the processor time of ``add`` at the rate, in cores (``None``: no rate was given).
    """

    hot: bool
    form: Form
    combiners: int | None
    partitioner: str | None
    load: float | None
    reasons: tuple[str, ...]


def advise_split(
    sample: SplitSample, rate: float | None = None, workers: int | None = None, slides: int = 1
) -> SplitAdvice:
    """The advice for a sample that has rows.

    ``rate`` is in messages/s; ``workers`` the number of combiners to judge by where there is no rate;
    ``slides`` those of a window.
    """
    load = None if rate is None else rate * sample.message_us / 1e6
    number = _workers(load) if load is not None else workers or WORKERS
    hot = sample.busiest[1] * number > OVER_MEAN
    reasons = [_shares(sample, number, hot), *_against(sample, rate, load, hot)]
    if len(reasons) > 1:
        return SplitAdvice(hot, Form.UNSPLIT, None, None, load, tuple(reasons))
    pays, why = _sites_pay(sample, slides)
    rows = sample.rows / sample.messages * rate if rate is not None else sample.rows
    dense = rows / max(len(sample.keys), 1) / number >= ROWS_TO_COMBINE
    partitioner = "balanced" if pays or not dense else "shuffle"
    if load is not None and rate is not None:
        reasons.append(f"{_at(load, rate)}: {number} workers share it")
    reasons.append(why)
    if partitioner == "balanced" and sample.key_rows >= COSTLY_KEY:
        reasons.append(_levelled(min(sample.key_rows, MOST_KEY_ROWS)))
    return SplitAdvice(hot, Form.SITES if pays else Form.ONE_JOB, number, partitioner, load, tuple(reasons))


def _workers(load: float) -> int:
    return min(max(2, math.ceil(load / MOST_BUSY)), MOST_COMBINERS)


def _at(load: float, rate: float) -> str:
    cores = f"{load:.2g}" if load < 10 else f"{load:,.0f}"
    return f"add takes {cores} cores at {rate:,g} messages/s"


def _shares(sample: SplitSample, workers: int, hot: bool) -> str:
    key, share = sample.busiest
    has = f"key {key!r} has {share:.1%} of the rows of {len(sample.keys):,} keys"
    if hot:
        return f"{has}: by hash, its worker has at least {share * workers:.1f} times the mean of {workers}"
    return f"{has}: no key is hot among {workers} workers"


def _levelled(rows: float) -> str:
    cost = f"options: {{key_cost: {rows:.0f}}}"
    return f"a call of add costs as much as {rows:,.0f} rows, whatever rows it has: {cost} levels that too"


def _against(sample: SplitSample, rate: float | None, load: float | None, hot: bool) -> list[str]:
    """The reasons not to split."""
    found = []
    if not hot:
        found.append("groupBy by key already spreads such rows evenly")
    if load is not None and rate is not None and load <= MOST_BUSY:
        found.append(f"{_at(load, rate)}: one task is enough")
    if sample.add_us < CHEAP_US and (load is None or load <= MOST_BUSY):
        found.append(
            f"add costs {sample.add_us:.2g} us a row: count, sum, min, max, avg and approx_percentile "
            "are aggregated before the shuffle by Spark itself (groupBy with window)"
        )
    return found


def _sites_pay(sample: SplitSample, slides: int) -> tuple[bool, str]:
    """True if a split over sites is worth its messages, and why."""
    state = sample.state_bytes * len(sample.keys) * slides
    if state > MUCH_STATE:
        return True, f"the states of a window have {state / 2**30:.1f} GiB: sites share the memory"
    cost = f"add costs {sample.message_us:.3g} us a message"
    if sample.message_us > MESSAGE_US:
        return True, f"{cost}, above the {MESSAGE_US:g} us to take one in: sites are worth their messages"
    return False, f"{cost}, below the {MESSAGE_US:g} us to take one in at another site: split within one job"
