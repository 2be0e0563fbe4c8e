"""The stages of the demo: input, sites, server, plan, data, an edit meanwhile, and the counts."""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from speck import local
from speck.cli.demo.programs import PIPELINES, Feeder, Server, Watcher, check_input, generate, speck_command
from speck.cli.demo.view import View, statistics_line
from speck.client import Client
from speck.core.lifecycle import ActionKind
from speck.errors import SpeckError
from speck.local.wan import Network

AGREED, DIFFER, INTERRUPTED = 0, 1, 130
KINDS = tuple(kind.value for kind in ActionKind)

COMPOSITION = "road-traffic"
CLOUD = "D"
# The edit: this stream's cleaner is removed, and another one added for the topic to which it switches.
STREAM, BEFORE, AFTER, TOPIC = "C/2", "clean-c2", "clean-c3", "sensors/3"
STREAMS = 8

# Lines/s of the generated day: slow enough to watch, and everything ends within three minutes.
WATCHABLE_RATE = 1500.0


@dataclass(frozen=True)
class Scenario:
    """Two compositions, the second the first one edited, and the kinds of the sites' engines and brokers.

    ``agents``: each site has an agent.
    """

    first: str
    edited: str
    engines: Mapping[str, Sequence[str]] = field(default_factory=dict)
    agents: bool = False
    brokers: Mapping[str, str] = field(default_factory=dict)


SPARK = Scenario("road_traffic.yaml", "road_traffic_edited.yaml")
MEASURABLE_RATE = 1000.0  # lines/s, at which the generated day lasts longer than that
POLL = 0.25  # s
_STUCK = 60.0  # s without any progress
_QUIET = 1.0  # s without another count, once all are in


@dataclass(frozen=True)
class DemoOptions:
    """The options of the demo.

    ``data`` is a file of readings (``None``: a day is generated), of which the first ``limit`` are replayed;
    ``sensors`` a CSV file with each sensor's site.  ``rate`` is in lines/s (0: as fast as possible; ``None``:
    0 for a file, :data:`WATCHABLE_RATE` for the generated day; with ``place`` :data:`MEASURABLE_RATE`),
    ``speedup`` a factor to the recorded speed (0: no bound).
    ``malformed`` is the share of malformed lines mixed in (``None``: that of the kind).  ``kind`` is one of
    :data:`speck.cli.demo.KINDS`.  ``measure`` is the time for which ``place`` measures the jobs, s.
    """

    data: Path | None = None
    sensors: Path | None = None
    limit: int | None = None
    rate: float | None = None
    speedup: float = 0.0
    malformed: float | None = None
    seed: int = 1
    kind: str = ""
    measure: float = 60.0
    keep: bool = False
    as_json: bool = False


@dataclass
class Counts:
    """The counts of input and output; the numbers of readings and of vehicles must agree.

    ``changed_again`` are the jobs that advice would change once more after it was followed: there must be
    none.
    """

    sent: Mapping[str, int] = field(default_factory=lambda: {"readings": 0, "vehicles": 0})
    malformed: int = 0
    counted_locally: Mapping[str, int] = field(default_factory=dict)
    counted_globally: Mapping[str, int] = field(default_factory=dict)
    jobs: int = 0
    actions: Mapping[str, int] = field(default_factory=dict)
    engine_calls: Mapping[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    changed_again: Sequence[str] = ()

    def differences(self) -> list[str]:
        """The counts that do not agree, a sentence each."""
        return [
            f"{where}: {counted.get(name, 0):,} {name} counted, {sent:,} sent"
            f" ({counted.get(name, 0) - sent:+,})"
            for where, counted in (
                ("at the sites", self.counted_locally),
                ("over all sites", self.counted_globally),
            )
            for name, sent in self.sent.items()
            if counted.get(name, 0) != sent
        ]


class Demo:
    view: type[View] = View
    _scenario = SPARK
    _composition = COMPOSITION
    _sensors = 200  # of the generated day
    _malformed = 0.02  # the share of malformed lines

    def __init__(self, options: DemoOptions, directory: Path, view: View, cleanup: ExitStack) -> None:
        self._options, self._directory, self._view, self._cleanup = options, directory, view, cleanup
        self._counts = Counts()
        self._feeders: list[Feeder] = []
        self._progress = (-1, 0.0)  # lines read by the job to be removed, and the time of the last increase
        self._begun = time.monotonic()

    def run(self) -> int:
        """Run all stages; returns the exit code."""
        self._cleanup.callback(shutil.rmtree, self._directory, ignore_errors=True)
        self._file = self._input()
        self._sites = self._start_sites()
        self._brokers = {site.name: site.broker.address for site in self._sites.sites}
        self._server = self._start_server()
        self._client = Client(self._url)
        self._watcher = self._start_watcher()
        self._cleanup.callback(self._watcher.stop)
        self._watcher.await_ready()
        self._deploy()
        self._feed_and_edit()
        self._await_counts()
        return self._conclude()

    def _start_watcher(self) -> Watcher:
        return Watcher.of_statistics(self._statistics(), self._brokers[CLOUD], self._directory)

    def _statistics(self) -> Mapping[str, str]:
        """The broker of each site's statistics."""
        return self._brokers

    def _inputs(self) -> Mapping[str, str]:
        """The broker to which each site's sensors report."""
        return self._brokers

    def _network(self) -> Network | None:
        """The network of the sites; ``None``: they share this machine's loopback."""
        return None

    def _server_options(self) -> Sequence[object]:
        """Further options of the server."""
        return self._sites.agent_options

    # --- the stages

    @contextmanager
    def _stage(self, name: str, title: str) -> Iterator[None]:
        self._view.phase(title)
        begun = time.monotonic()
        yield
        self._counts.seconds[name] = round(time.monotonic() - begun, 2)

    def _input(self) -> Path:
        options = self._options
        with self._stage("input", "The input"):
            file = options.data or generate(self._directory, options.seed, self._sensors)
            check_input(file.absolute(), options.sensors and options.sensors.absolute(), self._directory)
            self._view.line(f"{file}, {100 * self._share_malformed:g}% malformed lines mixed in")
            return file

    def _start_sites(self) -> local.LocalSites:
        directory = self._directory / "sites"
        scenario = self._scenario
        parts = "an engine, a broker and an agent" if scenario.agents else "an engine and a broker"
        with self._stage("sites", f"Four sites on this machine: {parts} each"):
            self._cleanup.callback(local.down, directory)
            return local.up(
                directory,
                4,
                engines=scenario.engines,
                with_agents=scenario.agents,
                brokers=scenario.brokers,
                network=self._network(),
                progress=self._view.line,
            )

    def _start_server(self, title: str = "The SpecK server") -> Server:
        with self._stage("server", title):
            server = Server(self._sites.inventory, self._directory, *self._server_options())
            self._cleanup.callback(server.stop)
            self._url = server.url()
            self._view.line(self._url)
            return server

    def _deploy(self) -> None:
        self._deploy_text((PIPELINES / self._scenario.first).read_bytes(), "17 jobs")

    def _deploy_text(self, text: bytes, jobs: str) -> None:
        with self._stage("deploy", f"The plan, and its {jobs}"):
            self._view.plan(self._client.plan(text, self._composition))
            self._await_end(self._client.apply(text, self._composition)["id"])

    def _await_end(self, identifier: str) -> None:
        """Print the actions of an operation until it ends.  Raises :class:`SpeckError` if it failed."""
        printed: set[str] = set()
        for operation in self._client.follow(identifier, POLL):
            self._view.operation(operation, printed)
        refuse_failed(operation)

    def _feed_and_edit(self) -> None:
        self._view.phase("Data flows")
        self._fed = time.monotonic()
        with self._view:
            self._feed("feeder", 7 / STREAMS, "--except", STREAM)
            first = self._feed("feeder-first", 1 / STREAMS, "--only", STREAM, "--part", "1/2")
            self._until("data flows", first.ended)
            self._progress = (-1, time.monotonic())
            self._until(
                f"data flows; {BEFORE} reads the lines of its sensors", lambda: self._has_read(first.lines)
            )
            self._edit((PIPELINES / self._scenario.edited).read_bytes())
            options = ("--only", STREAM, "--part", "2/2", "--topic", f"{STREAM}={TOPIC}")
            self._feed("feeder-second", 1 / STREAMS, *options)
            self._until("data flows", self._all_sent)

    def _feed(self, name: str, share: float, *selection: object) -> Feeder:
        """Replay some streams in the background, at their share of the rate."""
        options = self._options
        rate = options.rate if options.rate is not None else self._default_rate()
        common: list[object] = [f"--broker={site}={address}" for site, address in self._inputs().items()]
        common += ["--rate", rate * share, "--speedup", options.speedup]
        common += ["--malformed", self._share_malformed, "--seed", options.seed]
        common += ["--limit", options.limit] if options.limit is not None else []
        common += ["--sensors", options.sensors.absolute()] if options.sensors is not None else []
        feeder = Feeder(name, self._file.absolute(), [*common, *selection], self._directory)
        self._cleanup.callback(feeder.stop)
        self._feeders.append(feeder)
        return feeder

    @property
    def _share_malformed(self) -> float:
        return self._malformed if self._options.malformed is None else self._options.malformed

    def _default_rate(self) -> float:
        return WATCHABLE_RATE if self._options.data is None else 0.0

    def _all_sent(self) -> bool:
        return all(feeder.ended() for feeder in self._feeders)

    def _has_read(self, lines: int) -> bool:
        """True if the cleaner that is about to be removed has processed this number of lines."""
        metrics = self._client.job(BEFORE).get("metrics") or {}
        read = metrics.get("input_rows") or 0
        if read > self._progress[0]:
            self._progress = (read, time.monotonic())
        if time.monotonic() - self._progress[1] > _STUCK:
            raise SpeckError(f"job {BEFORE} has read {read:,} of {lines:,} lines, and none for {_STUCK:g} s")
        return bool(read >= lines)

    def _edit(self, text: bytes) -> None:
        with self._stage("edit", "The edited file: its plan, applied while data flows"):
            before = self._attempts()
            plan = self._client.plan(text, self._composition)
            self._view.plan(plan, unchanged=False)
            operation = self._client.apply(text, self._composition, base_revision=plan["base_revision"])
            operation = self._follow(operation["id"])
        self._counts.actions = by_kind(operation)
        self._counts.engine_calls = operation["engine_calls"]
        self._check_untouched(operation, before)

    def _follow(self, identifier: str) -> dict[str, Any]:
        """Await the end of an operation while data flows.  Raises :class:`SpeckError` for one that failed."""
        printed: set[str] = set()
        latest: dict[str, Any] = {}

        def ended() -> bool:
            latest.update(self._client.operation(identifier))
            self._view.operation(latest, printed)
            return bool(latest["state"] != "running")

        self._until("data flows; the edit is applied", ended)
        refuse_failed(latest)
        return latest

    def _attempts(self) -> dict[str, Any]:
        return {job["job_name"]: job["attempt"] for job in self._client.jobs()}

    def _check_untouched(self, operation: Mapping[str, Any], before: Mapping[str, Any]) -> None:
        """Raise :class:`SpeckError` when a job that the edit does not name was touched."""
        unchanged = [each["job"] for each in operation["actions"] if each["kind"] == "keep"]
        after = self._attempts()
        if touched := [job for job in unchanged if after.get(job) != before.get(job)]:
            raise SpeckError(f"jobs that the edit does not name were restarted: {', '.join(touched)}")
        calls = ", ".join(f"{count} {name}" for name, count in sorted(operation["engine_calls"].items()))
        self._view.line(f"{len(unchanged)} jobs untouched; calls to engines: {calls or 'none'}", "green")

    def _await_counts(self) -> None:
        """Wait until everything is counted, or no count changes any more; then record the counts."""
        reports = [feeder.report for feeder in self._feeders if feeder.report is not None]
        sent = {name: sum(each["sent"][name] for each in reports) for name in ("readings", "vehicles")}
        counts = self._counts
        counts.sent, counts.malformed = sent, sum(each["malformed"] for each in reports)
        target = f"all is sent: {sent['readings']:,} readings, {sent['vehicles']:,} vehicles"
        progressed = max(time.monotonic(), self._watcher.changed)
        with self._view:
            self._until(target, lambda: self._is_final(progressed))
        counts.seconds["feed"] = round(self._watcher.changed - self._fed, 2)
        counts.jobs = self._running_jobs()

    def _running_jobs(self) -> int:
        return sum(job["wanted"] == "running" for job in self._client.jobs())

    def _is_final(self, since: float) -> bool:
        """True if all is counted and no further counts come, or none have come for too long."""
        totals = self._watcher.totals
        self._counts.counted_locally = totals.get("local", {})
        self._counts.counted_globally = totals.get("overall", {})
        quiet = time.monotonic() - max(since, self._watcher.changed)
        return quiet > (_STUCK if self._counts.differences() else _QUIET)

    def _until(self, note: str | Callable[[], str], reached: Callable[[], bool]) -> None:
        """Wait for a condition; show the statistics with a note, and check the programs meanwhile."""
        while not reached():
            self._watcher.check()
            for feeder in self._feeders:
                feeder.check()
            self._check_server()
            self._view.statistics(self._watcher.totals, note if isinstance(note, str) else note())
            time.sleep(POLL)

    def _check_server(self) -> None:
        self._server.check()

    # --- the end

    def _conclude(self) -> int:
        counts = self._counts
        counts.seconds["total"] = round(time.monotonic() - self._begun, 2)
        differences = counts.differences()
        self._view.phase("The counts")
        self._view.line(f"sent {counts.sent['readings']:,} readings, {counts.sent['vehicles']:,} vehicles")
        self._view.line(f"and {counts.malformed:,} malformed lines, which no job counts")
        totals = self._watcher.totals
        self._view.line(f"counted {statistics_line(totals)}" if totals else "counted nothing")
        for difference in differences:
            self._view.line(difference, "red")
        if counts.changed_again:
            self._view.line(f"advice would change {', '.join(counts.changed_again)} again", "red")
        if differences:
            self._explain()
        else:
            self._view.line(
                f"they agree, {counts.seconds['feed']:g} s after the first was sent", "bold green"
            )
        return self._finish(asdict(counts), agreed=not differences and not counts.changed_again)

    def _finish(self, counts: Mapping[str, Any], *, agreed: bool) -> int:
        """Leave everything running and print the counts, as the options say; returns the exit code."""
        if self._options.keep:
            self._keep()
        if self._options.as_json:
            print(json.dumps(counts))
        return AGREED if agreed else DIFFER

    def _explain(self) -> None:
        """Print the jobs with a problem, the likely reason."""
        for job in self._client.jobs():
            if job["state"] != "running" or job["error"]:
                why = job["error"] or job["message"]
                self._view.line(f"job {job['job_name']} is {job['state']}: {why}", "red")

    def _keep(self) -> None:
        """Leave everything running; print the addresses, and the commands that stop it."""
        self._cleanup.pop_all()
        self._watcher.stop()
        self._view.phase("It keeps running")
        for server in self._sites.servers:
            self._view.line(str(server))
        command, url, pid = speck_command(), self._client.url, self._server.process.pid
        self._view.line(f"SpecK server {url}")
        self._view.line(f"to look at it:  {command} --server {url} jobs")
        down = f"{command} local down --directory {self._directory / 'sites'}"
        self._view.line(f"to end it:  kill {' '.join(map(str, [pid, *self._also_kept()]))}; {down}")
        self._view.line(f"its files, to be removed after that:  {self._directory}")

    def _also_kept(self) -> Sequence[int]:
        """The ids of processes that are kept beside the server and the sites."""
        return ()


def in_the_cloud(brokers: Mapping[str, str]) -> Mapping[str, str]:
    """The topic of each site's statistics where all of them are at the cloud's broker."""
    return {site: f"{brokers[CLOUD]}/local-stats/{site.lower()}" for site in brokers}


def by_kind(operation: Mapping[str, Any]) -> dict[str, int]:
    counted = Counter(each["kind"] for each in operation["actions"])
    return {kind: counted[kind] for kind in KINDS}


def refuse_failed(operation: Mapping[str, Any]) -> None:
    if operation["state"] == "succeeded":
        return
    errors = [f"job {each['job']!r}: {each['error']}" for each in operation["actions"] if each["error"]]
    raise SpeckError("\n".join([f"{operation['kind']} failed: {operation['error']}".rstrip(": "), *errors]))
