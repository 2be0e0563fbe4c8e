"""Estimates the profile of a job from its samples.

The processor time of a message on Flink is the busy time of all vertices over the messages taken in, and
that on Spark the slope of the batches' work over their rows, both in units of a reference core.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import mean

from speck.core.profile import BatchSample, JobSample, VertexSample
from speck.observe.pace import FRESH
from speck.observe.profile.fits import Point, least_squares, theil_sen, through_origin
from speck.observe.profile.screening import Received, Series
from speck.placement.profile import BATCH_OVERHEAD, FIXED, JobProfile, Known, Value, assumed_cost

LEAST_SAMPLES = 3  # two points always lie on a line
LEAST_SPAN = 30.0  # s
SPREAD = 1.5  # times; rates that differ by less do not separate cost from fixed share
LEAST_BUSY = 0.02  # s; Flink counts busy time in ms
LEAST_BATCHES = 8  # of a regression with two unknowns, and outliers
BATCH_SPREAD = 2.0  # times, of the rows
WIDEST = 3.0  # times the slope: the end of its interval of confidence
MOST_BATCHES = 40  # in a fit, whose time grows with the square
PRESSED = 0.5  # share of time, above which a source counts as back pressured
SWITCH = 1.15  # times, by which the busy time's true rate must exceed that of the pressure to be replaced


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexLoad:
    """The load of one vertex: shares of time (0 to 1) of a subtask, and rates of all, in messages/s.

    The true rates are those of a vertex that never waits (V. Kalavri et al., "Three steps is all you need",
    OSDI 2018, section 3.1): messages in or out per second of busy time, times the number of subtasks.
    """

    name: str
    subtasks: int
    busy: float
    idle: float
    back_pressured: float
    rate_in: float
    rate_out: float
    true_rate_in: float | None
    true_rate_out: float | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """The profile of a job and the load of its vertices, the source first (Flink)."""

    profile: JobProfile
    vertices: tuple[VertexLoad, ...] = ()


@dataclass(frozen=True, slots=True)
class _Span:
    """Two samples of a job and the ``count`` of samples from the one to the other."""

    first: JobSample
    last: JobSample
    until: float  # Unix time, s
    count: int

    @property
    def seconds(self) -> float:
        return self.last.observed - self.first.observed

    def growth(self, name: str) -> float | None:
        """The growth of a count; ``None`` if a sample lacks it."""
        before, after = getattr(self.first, name), getattr(self.last, name)
        return None if before is None or after is None else after - before

    def measured(self, value: float) -> Value | None:
        """A measured value; ``None`` if it is not finite or negative."""
        valid = math.isfinite(value) and value >= 0
        return Value(value, Known.MEASURED, self.until, self.count) if valid else None


def estimate(
    series: Series,
    now: float,
    speed: float = 1.0,
    former: JobProfile | None = None,
    fresh: float = FRESH,
) -> Estimate:
    """The measured part of a job's profile; empty while there are too few fresh samples.

    ``speed`` is that of the cores of its site, ``former`` an earlier profile, whose fixed share is used until
    the rates differ enough to measure it.  Rates are those of the last ``fresh`` seconds.
    """
    latest = _recent(series, now, fresh)
    span, recent = _span(series.samples), _span(latest)
    if span is None or recent is None:
        return Estimate(JobProfile())
    rates = JobProfile(
        rate_in=_rate(latest, "messages_in"),
        rate_out=_rate(latest, "messages_out"),
        bytes_in=_ratio(series.samples, "bytes_in", "messages_in"),
        bytes_out=_ratio(series.samples, "bytes_out", "messages_out"),
        selectivity=_ratio(series.samples, "messages_out", "messages_in"),
        state=None if span.last.state_bytes is None else span.measured(span.last.state_bytes),
    )
    worked, working = _span(_with_vertices(series.samples)), _span(_with_vertices(latest))
    if worked is None or working is None:
        return Estimate(_with_spark_cost(rates, series, span, speed))
    vertices = tuple(_vertex_loads(working))
    known = _with_true_rates(rates, vertices, working)
    known = replace(known, event_loop=_event_loop(working, latest, speed))
    return Estimate(_with_flink_cost(known, series, worked, speed, former or JobProfile()), vertices)


def _with_vertices(samples: Sequence[Received]) -> Sequence[Received]:
    return [each for each in samples if each.sample.vertices and each.sample.messages_in is not None]


def rate_history(series: Series) -> list[float]:
    """The rates into a job between its samples, messages/s, the newest last."""
    known = [each for each in series.samples if each.sample.messages_in is not None]
    spans = (_Span(one.sample, other.sample, other.at, 2) for one, other in pairwise(known))
    return [(span.growth("messages_in") or 0) / span.seconds for span in spans if span.seconds > 0]


def _recent(series: Series, now: float, fresh: float) -> Sequence[Received]:
    """The samples of the last seconds; none if the newest is older, or of before the clock was set back."""
    if not series.samples or abs(now - series.samples[-1].at) > fresh:
        return ()
    newest = series.samples[-1].sample.observed
    return [each for each in series.samples if each.sample.observed >= newest - fresh]


def _span(samples: Sequence[Received]) -> _Span | None:
    """The span of enough samples over enough time."""
    if len(samples) < LEAST_SAMPLES:
        return None
    span = _Span(samples[0].sample, samples[-1].sample, samples[-1].at, len(samples))
    return span if span.seconds >= LEAST_SPAN else None


def _rate(samples: Sequence[Received], name: str) -> Value | None:
    """The growth of a count per second."""
    span = _span([each for each in samples if getattr(each.sample, name) is not None])
    growth = None if span is None else span.growth(name)
    return None if span is None or growth is None else span.measured(growth / span.seconds)


def _ratio(samples: Sequence[Received], numerator: str, denominator: str) -> Value | None:
    """The growth of a count per growth of another; ``None`` without growth."""
    known = [each for each in samples if None not in _pair(each.sample, numerator, denominator)]
    span = _span(known)
    above, below = (None, None) if span is None else (span.growth(numerator), span.growth(denominator))
    return span.measured(above / below) if span is not None and above is not None and below else None


def _pair(sample: JobSample, first: str, second: str) -> tuple[float | None, float | None]:
    return getattr(sample, first), getattr(sample, second)


# --- Flink


def _event_loop(span: _Span, samples: Sequence[Received], speed: float) -> Value | None:
    """The newest constant of the event loop, which is that of a minute."""
    measured = [each.sample.event_loop for each in samples if each.sample.event_loop is not None]
    return span.measured(speed * measured[-1]) if measured else None


def _vertex_loads(span: _Span) -> Iterator[VertexLoad]:
    """The load of each vertex over the span."""
    pairs = list(zip(span.first.vertices, span.last.vertices, strict=True))
    for number, (before, after) in enumerate(pairs):
        # A task counts no messages that it takes from a source or gives to a sink within itself.
        into = (after.records_in - before.records_in) or (span.growth("messages_in") if number == 0 else 0)
        out_of = (after.records_out - before.records_out) or (
            span.growth("messages_out") if number == len(pairs) - 1 else 0
        )
        yield _vertex_load(before, after, (into or 0) / span.seconds, (out_of or 0) / span.seconds, span)


def _vertex_load(
    before: VertexSample, after: VertexSample, rate_in: float, rate_out: float, span: _Span
) -> VertexLoad:
    time = span.seconds * after.subtasks
    busy, idle, pressed = (
        min(max(getattr(after, name) - getattr(before, name), 0.0) / time, 1.0)
        for name in ("busy", "idle", "back_pressured")
    )
    return VertexLoad(
        name=after.name,
        subtasks=after.subtasks,
        busy=busy,
        idle=idle,
        back_pressured=pressed,
        rate_in=rate_in,
        rate_out=rate_out,
        true_rate_in=_per_busy(rate_in, busy, span),
        true_rate_out=_per_busy(rate_out, busy, span),
    )


def _per_busy(rate: float, busy: float, span: _Span) -> float | None:
    """The rate (messages/s) of a task that is never idle; ``None`` if its busy time is too short to tell."""
    return rate / busy if rate > 0 and busy * span.seconds >= LEAST_BUSY else None


def _with_true_rates(profile: JobProfile, vertices: Sequence[VertexLoad], span: _Span) -> JobProfile:
    """The profile with the rates at which its busiest vertex would never wait."""
    busiest = max(vertices, key=lambda each: each.busy)
    named = replace(profile, busiest=busiest.name)
    if profile.rate_in is None or _per_busy(profile.rate_in.value, busiest.busy, span) is None:
        return named
    share = _working_share(busiest.busy, vertices[0])
    true_out = None if profile.rate_out is None else span.measured(profile.rate_out.value / share)
    return replace(named, true_rate_in=span.measured(profile.rate_in.value / share), true_rate_out=true_out)


def _working_share(busy: float, source: VertexLoad) -> float:
    """The share of time in which the job works at full speed.

    A source under back pressure never waits for messages, so that it works whenever it is not pressed.  Busy
    time that differs from this share by more than 15% is not reliable then (as in the autoscaler of
    apache/flink-kubernetes-operator, ``observed-true-processing-rate.switch-threshold``).
    """
    working = 1 - source.back_pressured
    is_pressed = source.back_pressured > PRESSED and working > 0
    return working if is_pressed and working > SWITCH * busy else busy


def _with_flink_cost(
    profile: JobProfile, series: Series, span: _Span, speed: float, former: JobProfile
) -> JobProfile:
    """The profile with cost and fixed share from busy time, in cores, over the rate."""
    points = list(_work_points(series.samples))
    fitted = _fitted(points)
    if fitted is not None:
        fixed, cost = fitted
        # Work is beyond that of an idle job, which is part of the fixed share too.
        return replace(profile, cost=span.measured(speed * cost), fixed=span.measured(FIXED + speed * fixed))
    measured = former.fixed if former.fixed and former.fixed.known is Known.MEASURED else None
    cores, messages = sum(used for _, used in points), sum(rate for rate, _ in points)
    if messages <= 0 or cores * LEAST_SPAN < LEAST_BUSY:
        return replace(profile, fixed=measured)
    # The assumed share is of work that no task counts as busy time, so that it is not subtracted.
    idle = 0.0 if measured is None else len(points) * max(0.0, measured.value - FIXED) / speed
    work = cores - idle if cores > idle else cores
    return replace(
        profile, cost=span.measured(speed * work / messages), fixed=measured or Value(FIXED, Known.ASSUMED)
    )


def _work_points(samples: Sequence[Received]) -> Iterator[Point]:
    """Rate (messages/s) and busy cores of each part of the series of at least :data:`LEAST_SPAN` seconds."""
    usable = [each.sample for each in _with_vertices(samples)]
    start = 0
    for end in range(1, len(usable)):
        first, last = usable[start], usable[end]
        seconds = last.observed - first.observed
        if seconds >= LEAST_SPAN:
            rate = ((last.messages_in or 0) - (first.messages_in or 0)) / seconds
            yield rate, _work_seconds(first, last) / seconds
            start = end


def _work_seconds(first: JobSample, last: JobSample) -> float:
    """The work of all vertices: their busy time, bounded by the time that there was.

    On a machine with more work than cores a task is busy while it waits for a core; the engine reports the
    share of busy time that is processor time, where it can.
    """
    seconds = last.observed - first.observed
    pairs = zip(first.vertices, last.vertices, strict=True)
    busy = sum(min(max(after.busy - before.busy, 0.0), seconds * after.subtasks) for before, after in pairs)
    return busy * (1.0 if last.processor_share is None else last.processor_share)


def _fitted(points: Sequence[Point]) -> Point | None:
    """Fixed share (cores) and cost (core-s a message); ``None`` where the rates do not separate them."""
    rates = [rate for rate, _ in points]
    if len(points) < 2 or max(rates) <= 0 or max(rates) < SPREAD * min(rates):
        return None
    line = least_squares(points)
    if line is None or line[1] <= 0:
        return None
    if line[0] >= 0:
        return line
    slope = through_origin(points)
    return None if slope is None else (0.0, slope)


# --- Spark


def _with_spark_cost(profile: JobProfile, series: Series, span: _Span, speed: float) -> JobProfile:
    """The profile with cost, batch overhead and fixed share from the work of batches over their rows."""
    batches = _batches(series.samples)
    period = _period(series.samples)
    line = _work_line(batches)
    if line is None:
        return (
            replace(profile, fixed=_share_of(batches, period, profile, span, speed)) if batches else profile
        )
    overhead, per_row = line
    cores = _cores_of(span.last)
    true_in = span.measured(1 / per_row)
    true_out = None
    if true_in and profile.selectivity:
        true_out = span.measured(true_in.value * profile.selectivity.value)
    fixed = speed * overhead * _processor_share(span.last)
    return replace(
        profile,
        cost=span.measured(speed * per_row * cores),
        batch_overhead=span.measured(speed * overhead),
        fixed=span.measured(fixed / period) if period else Value(FIXED, Known.ASSUMED),
        true_rate_in=true_in,
        true_rate_out=true_out,
    )


def _share_of(
    batches: Sequence[BatchSample], period: float | None, profile: JobProfile, span: _Span, speed: float
) -> Value | None:
    """The fixed share of a job whose rows do not explain its work: all but the assumed cost of its messages.

    Without the processor time of its engine, which is the work whatever else the machine does, it is assumed.
    """
    if period is None:
        return Value(FIXED, Known.ASSUMED)
    if span.last.processor_share is None or profile.rate_in is None:
        return Value(speed * BATCH_OVERHEAD / period, Known.ASSUMED)
    work = mean(each.work for each in batches) * span.last.processor_share / period
    return span.measured(max(0.0, speed * work - assumed_cost("spark") * profile.rate_in.value))


def _processor_share(sample: JobSample) -> float:
    """Processor time per work of a batch: less where it waits for a core, more where it uses several."""
    return 1.0 if sample.processor_share is None else sample.processor_share


def _cores_of(sample: JobSample) -> float:
    """The cores that a batch uses while it works, as far as known; else all that it runs on."""
    return sample.cores_used if sample.processor_share is None else sample.processor_share


def _batches(samples: Sequence[Received]) -> list[BatchSample]:
    """All reported batches, each once, by their numbers."""
    found = {batch.number: batch for each in samples for batch in each.sample.batches}
    return [found[number] for number in sorted(found)]


def _period(samples: Sequence[Received]) -> float | None:
    """The mean time from batch to batch, s."""
    numbered = [
        (each.sample.observed, max(batch.number for batch in each.sample.batches))
        for each in samples
        if each.sample.batches
    ]
    if len(numbered) < 2:
        return None
    (since, first), (until, last) = numbered[0], numbered[-1]
    return (until - since) / (last - first) if last > first and until - since >= LEAST_SPAN else None


def _work_line(batches: Sequence[BatchSample]) -> Point | None:
    """Work of a batch without rows (s), and work a row (s); ``None`` where the rows do not separate them."""
    if len(batches) < LEAST_BATCHES:
        return None
    rows = [each.rows for each in batches]
    if max(rows) < BATCH_SPREAD * max(min(rows), 1):
        return None
    step = -(-len(batches) // MOST_BATCHES)
    line = theil_sen([(each.rows, each.work) for each in batches[::step]])
    # Where other work on the machine decides how long a batch takes, the rows explain little of it.
    if line is None or line.low <= 0 or line.high > WIDEST * line.slope:
        return None
    return max(line.intercept, 0.0), line.slope
