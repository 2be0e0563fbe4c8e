"""The reports of the parts of a split, gathered into windows of wall-clock time.

Each step of a part is reported by one message: a byte 0xFF and a JSON object, to
``speck/split/NAME/report/PART``.  Its ``faults`` are counted since the part's state began, so that a report
which is lost on the way hides none.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from speck.core.split import Part, Role, part_name
from speck.core.split.metrics import Work, WorkWindow, imbalance

MARK = b"\xff"
MOST_SOURCES = 4096  # shards of parts whose last report is stored
MOST_COUNT = 2**53  # the largest integer that a JSON number carries exactly
MOST_WORDS = 200  # characters of a text in a report
MOST_WINDOWS, MOST_CELLS = 360, 100_000  # past windows of a split, and of combiners in them

# Faults in reports that are losses, and their reasons (speck.observe.losses).
LOSSES = {
    "late": "late",
    "bad": "bad row",
    "lost_frames": "lost frame",
    "bad_frames": "damaged frame",
    "outdated_frames": "outdated frame",
    "late_partials": "late partial",
}

Source = tuple[str, int]
"""A part by the last level of its topic, and its shard."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Rows or frames that a part of a split has dropped or missed."""

    job: str
    reason: str
    number: int


@dataclass(slots=True)
class _Slide:
    """The work of each part in a slide, and the rows that the partitioner gave to each combiner."""

    work: defaultdict[str, Work] = field(default_factory=lambda: defaultdict(Work))
    loads: list[int] = field(default_factory=list)


@dataclass
class SplitMeter:
    """The windows of one split.  ``part`` is its partitioner's or whole part; times are Unix times, s."""

    part: Part
    began: float
    totals: defaultdict[str, Work] = field(default_factory=lambda: defaultdict(Work), init=False)
    faults: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int), init=False)
    windows: deque[WorkWindow] = field(default_factory=deque, init=False)
    reported: float | None = field(default=None, init=False)
    _slides: deque[_Slide] = field(default_factory=deque, init=False)
    _slide: _Slide = field(default_factory=_Slide, init=False)
    _last: dict[Source, Mapping[str, Any]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Begin the first slide."""
        self._end = self.began + self._seconds

    @property
    def _seconds(self) -> float:
        return self.part.metrics_slide_us / 1e6

    @property
    def _most_slides(self) -> int:
        return max(1, self.part.metrics_window_us // self.part.metrics_slide_us)

    def change(self, part: Part) -> None:
        """Continue with a changed split; with other windows or another number of combiners, start over."""
        before, self.part = self.part, part
        times = "metrics_window_us", "metrics_slide_us", "workers"
        if any(getattr(before, each) != getattr(part, each) for each in times):
            self._slides.clear()
            self.windows.clear()
            self._slide, self.began = _Slide(), self._end - before.metrics_slide_us / 1e6
            self._end = self.began + self._seconds

    # --- reports

    def add_report(self, topic: str, payload: bytes, now: float) -> list[Loss]:
        """Count the report of a step; returns the losses in it that were not reported before.

        Messages that are no reports of a part of this split are ignored.
        """
        name, found = topic.rpartition("/")[2], _parsed(payload)
        if found is None or (job := self._job(name)) is None:
            return []
        source = (name, found["shard"])
        if source not in self._last and len(self._last) >= MOST_SOURCES:
            return []
        before = self._last.get(source, {"faults": {}})
        self._last[source], self.reported = found, now
        work = Work(found["rows"], found["busy"], found["wall"])
        self._slide.work[name] += work
        self.totals[name] += work
        if len(found["loads"]) == self.part.workers:
            loads = self._slide.loads or [0] * self.part.workers
            self._slide.loads = [sum(pair) for pair in zip(loads, found["loads"], strict=True)]
        return list(self._losses(job, before["faults"], found["faults"]))

    def _job(self, name: str) -> str | None:
        """The job of a part by the last level of its report's topic; ``None`` if there is no such part."""
        if self.part.role is Role.WHOLE:
            return self.part.of if name in ("0", Role.WHOLE) else None
        if name in (Role.PARTITIONER, Role.REDUCER):
            return part_name(self.part.of, Role(name))
        number = int(name) if name.isascii() and name.isdigit() and len(name) < 5 else self.part.workers
        known = number < self.part.workers and name == str(number)
        return part_name(self.part.of, Role.COMBINER, number) if known else None

    def _losses(self, job: str, before: Mapping[str, int], after: Mapping[str, int]) -> Iterator[Loss]:
        for name, reason in LOSSES.items():
            former, count = before.get(name, 0), after.get(name, 0)
            grown = count - former if count >= former else count  # the state was reset
            if grown:
                self.faults[name] += grown
                yield Loss(job, reason, grown)

    # --- windows

    def advance(self, now: float) -> WorkWindow | None:
        """End the slides that are over; the window of the last of them, ``None`` if none ended."""
        if now < self._end - self._seconds:  # the clock was set back: this slide begins now
            self._end = now + self._seconds
        if now < self._end:
            return None
        over = int((now - self._end) // self._seconds) + 1
        for _ in range(min(over, self._most_slides + 1)):
            self._slides.append(self._slide)
            self._slide = _Slide()
        while len(self._slides) > self._most_slides:
            self._slides.popleft()
        end = self._end + (over - 1) * self._seconds
        self._end = end + self._seconds
        window = WorkWindow(end, self._covered(), tuple(self._workers()), self.weights())
        self.windows.append(window)
        while len(self.windows) > max(2, min(MOST_WINDOWS, MOST_CELLS // max(1, self.part.workers))):
            self.windows.popleft()
        return window

    def _covered(self) -> float:
        return max(1, len(self._slides)) * self._seconds

    def _workers(self) -> Iterator[Work | None]:
        names = map(str, range(self.part.workers)) if self.part.role is Role.PARTITIONER else ()
        for name in names:
            yield self._work(name)

    def _work(self, name: str) -> Work | None:
        found = [each.work[name] for each in self._slides if name in each.work]
        return sum(found, Work()) if found else None

    def weights(self) -> tuple[float, ...]:
        """The shares of the combiners in force as last reported; empty without a report."""
        found = tuple(self._router().get("weights", ()))
        return found if len(found) == self.part.workers else ()

    def _router(self) -> Mapping[str, Any]:
        return self._last.get((Role.PARTITIONER.value, 0), {})

    def _imbalance(self) -> float | None:
        """The mean over the window's slides with rows."""
        weights = self.weights() or self.part.weights
        each = (imbalance(slide.loads, weights) for slide in self._slides if slide.loads)
        found = [value for value in each if value is not None]
        return sum(found) / len(found) if found else None

    # --- display

    def data(self, now: float) -> dict[str, Any]:
        """The last window as plain data."""
        router = self._router()
        reading = self._work(Role.PARTITIONER.value) or self._work("0") or self._work(Role.WHOLE.value)
        observed = router.get("observed_end")
        return {
            "reported": self.reported,
            "rows_per_second": None if reading is None else reading.rows / self._covered(),
            "imbalance": self._imbalance(),
            "hot": router.get("hot"),
            "true_hot": router.get("true_hot"),
            "shared_keys": router.get("shared_keys"),
            "late_rows": self.faults["late"],
            "bad_rows": self.faults["bad"],
            "lost_frames": self.faults["lost_frames"],
            "weights": list(self.weights()),
            "policy": router.get("policy"),
            "table_age_seconds": None if observed is None else max(0.0, now - observed),
        }

    def part_data(self, name: str) -> dict[str, Any]:
        """The work of a part in the last window; ``name`` is the last level of its reports' topic."""
        work, seconds = self._work(name), self._covered()
        return {
            "rows_per_second": None if work is None else work.rows / seconds,
            "busy_share": None if work is None else work.busy / seconds,
        }


def _parsed(payload: bytes) -> dict[str, Any] | None:
    """The fields of a report, checked; ``None`` for a message that is none."""
    if not payload.startswith(MARK):
        return None
    try:
        found = json.loads(payload[len(MARK) :])
        faults = {name: _count(found["faults"].get(name, 0)) for name in LOSSES}
        return {
            "shard": _count(found.get("shard", 0)),
            "rows": _count(found.get("rows", 0)),
            "busy": _number(found["busy"]),
            "wall": _number(found["wall"]),
            "faults": faults,
            "loads": [_count(each) for each in found.get("loads", ())],
            "weights": [_number(each) for each in found.get("weights", ())],
            **{name: _count(found[name]) for name in ("hot", "true_hot", "shared_keys") if name in found},
            **({} if found.get("observed_end") is None else {"observed_end": _number(found["observed_end"])}),
            **({} if found.get("policy") is None else {"policy": _words(found["policy"])}),
        }
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _count(value: Any) -> int:
    if not isinstance(value, int) or not 0 <= value <= MOST_COUNT:
        raise ValueError(f"{value!r} is no count")
    return value


def _words(value: Any) -> str:
    if not isinstance(value, str) or len(value) > MOST_WORDS or not value.isprintable():
        raise ValueError("the text is too long, or has control characters")
    return value


def _number(value: Any) -> float:
    if not isinstance(value, int | float) or not 0 <= value <= MOST_COUNT:
        raise ValueError(f"{value!r} is no number")
    return float(value)
