"""The demo of key splitting: a hot town over four sites, by ``hash``, and after an edit by ``balanced``."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from rich.table import Table

from speck.cli.demo.programs import PIPELINES, ROAD_TRAFFIC, Feeder, Watcher
from speck.cli.demo.stages import CLOUD, Demo
from speck.cli.demo.view import View
from speck.cli.variables import read_composition
from speck.errors import LocalError, SpeckError

COMPOSITION = "hot-towns"
BEFORE, AFTER = "hash", "balanced"
RATE = 500.0  # lines/s of the generated day
SITES = "ABCD"  # of the combiners, by number
PARTS = 3  # of the readings: before the edit, during it, after it
_STUCK = 60.0  # s without another report or window
_QUIET = 3.0  # s: what comes twice comes soon
_BAR = 40  # characters of a combiner with all rows

Data = Mapping[str, Any]


def imbalance(rows: Sequence[int]) -> float:
    """The rows of the busiest combiner over the mean, less 1; 0 without rows."""
    return max(rows) * len(rows) / sum(rows) - 1 if sum(rows) else 0.0


@dataclass
class Phase:
    """The time of one partitioner: the rows that it gave to each combiner, and the windows that came out."""

    partitioner: str
    rows: Sequence[int]
    windows: int
    wrong: int
    twice: int
    imbalance: float

    @classmethod
    def of(cls, partitioner: str, rows: Sequence[int], last: Data, first: Data) -> Self:
        """The phase between two accounts of the watching program."""
        counted = {name: last[name] - first.get(name, 0) for name in ("windows", "wrong", "twice")}
        return cls(partitioner, rows, imbalance=round(imbalance(rows), 4), **counted)

    @property
    def sentence(self) -> str:
        """The phase in words."""
        rows = ", ".join(f"{count:,}" for count in self.rows)
        return (
            f"by {self.partitioner}: {self.windows:,} windows, {self.wrong:,} wrong, {self.twice:,} twice; "
            f"rows of the combiners {rows}: imbalance {self.imbalance:.2f}"
        )


@dataclass
class HotCounts:
    """The findings of the demo; ``awaited`` are the windows of all towns, by the plain reference.

    Windows are those of the second phase from the beginning of the edit on; rows, from its end on.
    """

    sent: Mapping[str, int]
    awaited: int
    windows: int
    wrong: int
    twice: int
    dropped: Mapping[str, int]
    phases: Sequence[Phase]
    jobs: int
    actions: Mapping[str, int]
    engine_calls: Mapping[str, int]
    seconds: Mapping[str, float]
    missing: int = field(init=False)

    def __post_init__(self) -> None:
        self.missing = self.awaited - self.windows

    def differences(self) -> list[str]:
        """The differences from the reference, a sentence each."""
        counts = {
            "did not come out": self.missing,
            "are wrong": self.wrong,
            "came out twice": self.twice,
        }
        found = [f"{count:,} of {self.awaited:,} windows {fate}" for fate, count in counts.items() if count]
        found += [f"{count:,} rows were dropped as {why}" for why, count in self.dropped.items() if count]
        return found if self.awaited else ["the input has no vehicle, and so no window"]


class HotView(View):
    """Shows the rows of each combiner."""

    def _table(self, totals: Data, note: str) -> Table:
        return loads_table(totals, note)

    def _summary(self, totals: Data) -> str:
        return loads_line(totals)


def loads_line(totals: Data) -> str:
    """The rows of the combiners in the last seconds, their imbalance, and the windows, in one line."""
    recent = totals["recent"]
    rows = " | ".join(f"{count:,}" for count in recent) or "none"
    return f"rows {rows}: imbalance {imbalance(recent):.2f}; {_windows(totals)}"


def loads_table(totals: Data, note: str) -> Table:
    """The rows of each combiner, with a bar for those of the last seconds."""
    title = f"{note}; {_windows(totals)}" if totals else note
    table = Table(title=title, title_justify="left")
    for column in ("combiner", "site", "rows", "last 10 s", ""):
        table.add_column(column, justify="left" if column in {"site", ""} else "right")
    recent = totals.get("recent") or [0] * len(totals.get("loads", ()))
    for number, (rows, latest) in enumerate(zip(totals.get("loads", ()), recent, strict=True)):
        bar = "\N{FULL BLOCK}" * round(_BAR * latest / max(1, sum(recent)))
        table.add_row(str(number), SITES[number : number + 1], f"{rows:,}", f"{latest:,}", bar)
    if recent:
        table.add_row("", "", "", "", f"imbalance {imbalance(recent):.2f}", style="bold")
    return table


def _windows(totals: Data) -> str:
    return f"{totals['windows']:,} of {totals['awaited']:,} windows, {totals['wrong']:,} wrong"


class HotDemo(Demo):
    """A hot town over four sites: two partitioners, one after the other, and every window compared."""

    view = HotView
    _composition = COMPOSITION

    def _input(self) -> Path:
        if find_spec("fastdigest") is None:
            raise LocalError("--hot needs the package fastdigest (pip install 'speck[digest]')")
        return super()._input()

    def _start_watcher(self) -> Watcher:
        limit = self._options.limit
        options = [] if limit is None else ["--limit", limit]
        program = ["-m", f"{ROAD_TRAFFIC}.watch_towns", self._file.absolute()]
        return Watcher([*program, f"--broker={self._brokers[CLOUD]}", *options], self._directory)

    def _text(self, partitioner: str) -> bytes:
        values = {"PARTITIONER": partitioner, "TOWNS": self._watcher.ready["towns"]}
        return read_composition(PIPELINES / "hot_towns_demo.yaml", values)

    def _deploy(self) -> None:
        self._deploy_text(self._text(BEFORE), "6 jobs")

    def _default_rate(self) -> float:
        return RATE if self._options.data is None else 0.0

    def _feed_and_edit(self) -> None:
        self._view.phase(f"Data flows; {BEFORE} gives each town to one combiner")
        self._fed = time.monotonic()
        with self._view:
            first = self._feed_part(1)
            self._progress_to(f"by {BEFORE}", lambda: first.ended() and self._has_begun())
            self._feed_part(2)
            former = self._watcher.totals
            self._edit(self._text(AFTER))
            # The first batch after a change is still routed as before.
            routed = self._batches() + 2
            self._progress_to(f"by {AFTER}", self._all_sent)
            self._feed_part(3)
            self._progress_to(f"by {AFTER}", lambda: self._batches() >= routed or self._is_quiet())
            changed = self._watcher.totals
            self._progress_to(f"by {AFTER}", self._all_sent)
        self._phases = (former, changed)

    def _feed_part(self, number: int) -> Feeder:
        """Replay a third of the readings, all to one broker and topic, in the order of their times."""
        return self._feed(f"feeder-{number}", 1.0, "--part", f"{number}/{PARTS}", *self._target())

    def _target(self) -> Sequence[str]:
        to_one = [f"--broker={site}={self._brokers[CLOUD]}" for site in SITES]
        topics = [f"--topic={site}/{stream}=readings" for site in SITES for stream in (1, 2)]
        return ["--well-formed", "--malformed=0", *to_one, *topics]

    def _progress_to(self, note: str, reached: Callable[[], bool]) -> None:
        """Wait for a condition; an error if nothing comes any more."""
        began = time.monotonic()

        def reached_or_stuck() -> bool:
            if time.monotonic() - max(began, self._watcher.changed) > _STUCK and not reached():
                raise SpeckError(f"no rows or windows have arrived for {_STUCK:g} s ({note})")
            return reached()

        self._until(note, reached_or_stuck)

    def _has_begun(self) -> bool:
        """True if windows have come, or the readings so far close none."""
        return self._batches() > 0 and (self._watcher.totals["windows"] > 0 or self._is_quiet())

    def _batches(self) -> int:
        return int(self._watcher.totals.get("batches", 0))

    def _is_quiet(self) -> bool:
        return self._all_sent() and time.monotonic() - self._watcher.changed > _QUIET

    def _await_counts(self) -> None:
        """Send the reading that closes all windows, and wait until these are there, or none come."""
        file = self._directory / "closing.csv"
        file.write_text(self._watcher.ready["closing"] + "\n", encoding="utf-8")
        closing = Feeder("feeder-closing", file, self._target(), self._directory)
        self._cleanup.callback(closing.stop)
        sent = time.monotonic()
        with self._view:
            self._until(
                "all is sent; the last windows close", lambda: closing.ended() and self._is_final(sent)
            )
        self._counts.seconds["feed"] = round(self._watcher.changed - self._fed, 2)
        self._counts.jobs = sum(job["wanted"] == "running" for job in self._client.jobs())

    def _is_final(self, since: float) -> bool:
        totals = self._watcher.totals
        quiet = time.monotonic() - max(since, self._watcher.changed)
        return quiet > (_QUIET if totals["windows"] >= totals["awaited"] else _STUCK)

    def _conclude(self) -> int:
        self._counts.seconds["total"] = round(time.monotonic() - self._begun, 2)
        found, faults = self._found(), self._watcher.totals["faults"]
        differences = found.differences()
        self._view.phase("The windows")
        for phase in found.phases:
            self._view.line(phase.sentence)
        for difference in [*differences, *faults]:
            self._view.line(difference, "red")
        if differences:
            self._explain()
        else:
            equal = (
                f"each of the {found.awaited:,} windows of {len(self._towns)} towns came once, and is right"
            )
            self._view.line(equal, "bold green")
        return self._finish(asdict(found), agreed=not differences)

    @property
    def _towns(self) -> Sequence[str]:
        return str(self._watcher.ready["towns"]).split("; ")

    def _found(self) -> HotCounts:
        reports = [feeder.report for feeder in self._feeders if feeder.report is not None]
        last, (former, changed), counts = self._watcher.totals, self._phases, self._counts
        return HotCounts(
            sent={name: sum(each["sent"][name] for each in reports) for name in ("readings", "vehicles")},
            phases=[
                Phase.of(BEFORE, former["loads"], former, {}),
                Phase.of(AFTER, _difference(last["loads"], changed["loads"]), last, former),
            ],
            **{name: last[name] for name in ("awaited", "windows", "wrong", "twice", "dropped")},
            **{name: getattr(counts, name) for name in ("jobs", "actions", "engine_calls", "seconds")},
        )


def _difference(later: Sequence[int], earlier: Sequence[int]) -> list[int]:
    return [one - other for one, other in zip(later, earlier, strict=True)]
