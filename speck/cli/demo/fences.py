"""The demo of geofencing: movers cross between three sites, fences change, and two jobs move meanwhile."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from rich.table import Table

from speck.cli.demo import programs
from speck.cli.demo.programs import PIPELINES, Program, Watcher
from speck.cli.demo.stages import CLOUD, Demo
from speck.cli.demo.view import View
from speck.errors import LocalError, SpeckError

COMPOSITION = "geofencing"
PROGRAMS = "jars_and_apps.geofencing"
RATE = 1500.0  # positions/s
_STUCK = 90.0  # s without another event
_QUIET = 3.0  # s: enough for a fence to reach the sites, and for what comes twice
_FAULTS = {
    "missing": "did not come",
    "extra": "came that are not in the reference",
    "twice": "came twice",
    "wrong": "are wrong",
}

Data = Mapping[str, Any]


@dataclass
class FenceCounts:
    """The findings of the demo; ``awaited`` are the events of the reference."""

    sent: Mapping[str, int]
    fences: int
    events: int
    awaited: int
    missing: int
    extra: int
    twice: int
    wrong: int
    late: int
    late_fences: int
    rejected: int
    jobs: int
    actions: Mapping[str, int]
    engine_calls: Mapping[str, int]
    seconds: Mapping[str, float]

    @classmethod
    def of(cls, totals: Data, **more: Any) -> Self:
        """The findings, with the last account of the comparing program."""
        names = cls.__dataclass_fields__.keys() - more.keys()
        return cls(**{name: totals.get(name, 0) for name in names}, **more)

    def differences(self) -> list[str]:
        """The differences from the reference, a sentence each."""
        counts = {fate: getattr(self, name) for name, fate in _FAULTS.items()}
        found = [f"{count:,} of {self.awaited:,} events {fate}" for fate, count in counts.items() if count]
        # A job that moves may report a line again.
        if self.rejected < self.sent["malformed"]:
            found.append(f"{self.rejected:,} of {self.sent['malformed']:,} malformed lines were rejected")
        return found if self.awaited else ["no event was compared"]


class FencesView(View):
    """Shows the numbers of events."""

    def _table(self, totals: Data, note: str) -> Table:
        return counts_table(totals, note)

    def _summary(self, totals: Data) -> str:
        return counts_line(totals)


def counts_line(totals: Data) -> str:
    """The numbers of fences and events in one line, and the comparison once there is one."""
    names = ("events", "late", "late_fences", "rejected")
    counts = ", ".join(f"{totals[name]:,} {name.replace('_', ' ')}" for name in names)
    compared = [f"{totals[name]:,} {name}" for name in ("awaited", *_FAULTS) if "awaited" in totals]
    return "; ".join([f"{totals['fences']:,} fences: {counts}", *([", ".join(compared)] if compared else [])])


def counts_table(totals: Data, note: str) -> Table:
    """The numbers of fences and events."""
    table = Table(title=note, title_justify="left")
    for name in totals:
        table.add_column(name.replace("_", " "), justify="right")
    if totals:
        table.add_row(*(f"{count:,}" for count in totals.values()))
    return table


class FencesFeeder(programs.Feeder):
    """Publishes fences and positions."""

    _program = ("-m", f"{PROGRAMS}.feeder")


class FencesDemo(Demo):
    """Geofencing over four sites, edited while movers move; each event is compared with the reference."""

    view = FencesView
    _composition = COMPOSITION

    def _input(self) -> Path:
        if find_spec("shapely") is None:
            raise LocalError("--fences needs the package shapely (pip install 'speck[fences]')")
        with self._stage("input", "The input"):
            directory = self._directory / "made"
            options = ["--seed", self._options.seed, "--out", directory]
            program = Program("generate", ["-m", f"{PROGRAMS}.generate", *options], self._directory)
            program.process.wait()
            program.stop()
            program.check()
            self._view.line("400 fences, and 30 minutes of 500 movers")
            return directory

    def _start_watcher(self) -> Watcher:
        self._page = self._start_page()
        options = [f"--broker={self._brokers[CLOUD]}", "--publish"]
        return Watcher(["-m", f"{PROGRAMS}.compare", self._file, *options], self._directory)

    def _start_page(self) -> Program:
        with self._stage("map", "The map: movers, fences and events, live; a fence may be redrawn there"):
            brokers = [f"--broker={site}={self._brokers[site]}" for site in self._brokers if site != CLOUD]
            options = [*brokers, f"--cloud={self._brokers[CLOUD]}", "--port=0"]
            page = Program("map", ["-m", f"{PROGRAMS}.page", *options], self._directory)
            self._cleanup.callback(page.stop)
            self._view.line(page.first_line())
            return page

    def _deploy(self) -> None:
        self._deploy_text((PIPELINES / "fences.yaml").read_bytes(), "14 jobs")

    def _feed_and_edit(self) -> None:
        self._view.phase("Fences are drawn, and movers move")
        self._fed = time.monotonic()
        with self._view:
            fences = self._publish("fences.jsonl", 0.0)
            self._until("fences are drawn", lambda: fences.ended() and self._has_fences(fences.report))
            rate = RATE if self._options.rate is None else self._options.rate
            self._publish("stream.jsonl", rate)
            self._until("movers move", lambda: self._watcher.totals["events"] > 0 or self._is_stuck())
            self._edit((PIPELINES / "fences_edited.yaml").read_bytes())
            self._until("movers move", self._all_sent)

    def _publish(self, name: str, rate: float) -> programs.Feeder:
        brokers = [f"--broker={site}={address}" for site, address in self._brokers.items()]
        file = self._file / name
        feeder = FencesFeeder(f"feeder-{file.stem}", file, [*brokers, "--rate", rate], self._directory)
        self._cleanup.callback(feeder.stop)
        self._feeders.append(feeder)
        return feeder

    def _has_fences(self, report: Data | None) -> bool:
        """True if all fences were admitted some time ago, so that the sites have them as well."""
        enough = report is not None and self._watcher.totals.get("fences", 0) >= report["messages"]
        return (enough and time.monotonic() - self._watcher.changed > _QUIET) or self._is_stuck()

    def _is_stuck(self) -> bool:
        """False; raises :class:`SpeckError` if nothing comes any more."""
        if time.monotonic() - max(self._fed, self._watcher.changed) > _STUCK:
            self._explain()
            raise SpeckError(f"no fences or events have arrived for {_STUCK:g} s")
        return False

    def _await_counts(self) -> None:
        sent = time.monotonic()
        with self._view:
            self._until("all is sent; the last events come", lambda: self._is_final(sent))
        self._counts.seconds["feed"] = round(self._watcher.changed - self._fed, 2)
        self._counts.jobs = sum(job["wanted"] == "running" for job in self._client.jobs())

    def _is_final(self, since: float) -> bool:
        """True if a comparison of all agrees and nothing further comes, or nothing has come for too long."""
        totals = self._watcher.totals
        agreed = "awaited" in totals and not self._found().differences()
        quiet = time.monotonic() - max(since, self._watcher.changed)
        return quiet > (_QUIET if agreed else _STUCK)

    def _also_kept(self) -> Sequence[int]:
        return (self._page.process.pid,)

    def _conclude(self) -> int:
        self._counts.seconds["total"] = round(time.monotonic() - self._begun, 2)
        found = self._found()
        differences = found.differences()
        self._view.phase("The events")
        self._view.line(counts_line(self._watcher.totals) if self._watcher.totals else "none")
        for difference in differences:
            self._view.line(difference, "red")
        if differences:
            self._explain()
        else:
            self._view.line(f"each of the {found.awaited:,} events came once, and is right", "bold green")
        return self._finish(asdict(found), agreed=not differences)

    def _found(self) -> FenceCounts:
        reports: Sequence[Data] = [each.report for each in self._feeders if each.report is not None]
        sent = {name: sum(each[name] for each in reports) for name in ("messages", "lines", "malformed")}
        counts = self._counts
        more = {name: getattr(counts, name) for name in ("jobs", "actions", "engine_calls", "seconds")}
        return FenceCounts.of(self._watcher.totals, sent=sent, **more)
