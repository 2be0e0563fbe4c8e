"""The road-traffic demo: 17 jobs on four sites, edited while data flows, and counted to the last vehicle.

Everything real, nothing asked: engines and brokers as :mod:`speck.local` starts them, the server as a process
of its own and spoken to over REST, the input replayed by the road-traffic programs.  What goes in is compared
with what comes out; the exit code says whether they agree.
"""

from __future__ import annotations

import json
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console

from speck import local
from speck.cli.demo.programs import PIPELINES, Feeder, Server, Watcher, check_input, generate, speck_command
from speck.cli.demo.view import View, statistics_line
from speck.client import Client
from speck.errors import SpeckError

AGREED, DIFFER, INTERRUPTED = 0, 1, 130
KINDS = ("start", "stop", "update", "move", "keep")

COMPOSITION = "road-traffic"
CLOUD = "D"
# The edit: this stream's cleaner is removed, and another one added for the topic on which it goes on.
STREAM, BEFORE, AFTER, TOPIC = "C/2", "clean-c2", "clean-c3", "sensors/3"
STREAMS = 8

# Lines a second of the generated day: slow enough to watch, fast enough for everything within three minutes.
WATCHABLE_RATE = 1500.0


@dataclass(frozen=True)
class Scenario:
    """Two compositions, the second the first one edited, and the kinds of engines of the sites."""

    first: str
    edited: str
    engines: Mapping[str, Sequence[str]] = field(default_factory=dict)


SPARK = Scenario("road_traffic.yaml", "road_traffic_edited.yaml")
MIXED = Scenario(
    "road_traffic_mixed.yaml",
    "road_traffic_mixed_edited.yaml",
    {"C": ("flink",), "D": ("spark-standalone", "flink")},
)

_POLL = 0.25  # s
_STUCK = 60.0  # s without any progress
_QUIET = 1.0  # s in which nothing more must be counted, once all is


@dataclass(frozen=True)
class DemoOptions:
    """What the demo is to do.

    ``data`` is a file of readings (``None``: a day is generated), of which the first ``limit`` count;
    ``sensors`` a CSV file that names each sensor's site.  ``rate`` is in lines/s (0: as fast as possible;
    ``None``: that for a file, a pace to watch for the generated day), ``speedup`` against the time in the
    data (0: no bound).
    ``malformed`` is the share of malformed lines mixed in, ``heap`` the Java heap of each engine; ``mixed``
    takes sites on Spark Connect, Spark standalone and Flink in place of four on Spark Connect.
    """

    data: Path | None = None
    sensors: Path | None = None
    limit: int | None = None
    rate: float | None = None
    speedup: float = 0.0
    malformed: float = 0.02
    seed: int = 1
    heap: str = local.DEFAULT_HEAP
    mixed: bool = False
    keep: bool = False
    as_json: bool = False

    @property
    def scenario(self) -> Scenario:
        """Which sites and which compositions."""
        return MIXED if self.mixed else SPARK


@dataclass
class Accounts:
    """What went in and what came out; the numbers of readings and of vehicles must agree."""

    sent: Mapping[str, int] = field(default_factory=lambda: {"readings": 0, "vehicles": 0})
    malformed: int = 0
    counted_locally: Mapping[str, int] = field(default_factory=dict)
    counted_globally: Mapping[str, int] = field(default_factory=dict)
    jobs: int = 0
    actions: Mapping[str, int] = field(default_factory=dict)
    engine_calls: Mapping[str, int] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def differences(self) -> list[str]:
        """What does not agree, a sentence each."""
        return [
            f"{where}: {counted.get(what, 0):,} {what} counted, {wanted:,} sent"
            f" ({counted.get(what, 0) - wanted:+,})"
            for where, counted in (
                ("at the sites", self.counted_locally),
                ("over all sites", self.counted_globally),
            )
            for what, wanted in self.sent.items()
            if counted.get(what, 0) != wanted
        ]


def run_demo(options: DemoOptions) -> int:
    """Run the demo; answers the exit code: 0 when the accounts agree, 1 when not, 130 when interrupted.

    Whatever was started is stopped in the end, unless ``options.keep``.  Raises :class:`SpeckError`.
    """
    console = Console(stderr=options.as_json, soft_wrap=True, highlight=False)
    directory = Path(tempfile.mkdtemp(prefix="speck-demo-"))
    cleanup = ExitStack()
    try:
        with _handled(_interrupt):
            return _Demo(options, directory, View(console), cleanup).run()
    except KeyboardInterrupt:
        console.print("interrupted; stopping what was started")
        return INTERRUPTED
    finally:
        # Another Ctrl-C does not cut this short.
        with _handled(signal.SIG_IGN):
            cleanup.close()


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def _handled(handler: Callable[[int, FrameType | None], None] | signal.Handlers) -> Iterator[None]:
    numbers = (signal.SIGINT, signal.SIGTERM)
    try:
        before = [signal.signal(number, handler) for number in numbers]
    except ValueError:  # Not in the main thread: whoever has it gets the signals.
        yield
        return
    try:
        yield
    finally:
        for number, previous in zip(numbers, before, strict=True):
            signal.signal(number, previous)


class _Demo:
    def __init__(self, options: DemoOptions, directory: Path, view: View, cleanup: ExitStack) -> None:
        self._options, self._directory, self._view, self._cleanup = options, directory, view, cleanup
        self._accounts = Accounts()
        self._feeders: list[Feeder] = []
        self._progress = (-1, 0.0)  # lines taken by the job that goes, and when that last grew
        self._begun = time.monotonic()

    def run(self) -> int:
        """All of it; answers the exit code."""
        self._cleanup.callback(shutil.rmtree, self._directory, ignore_errors=True)
        self._file = self._input()
        self._sites = self._bring_sites_up()
        self._brokers = {site.name: site.broker.address for site in self._sites.sites}
        self._server = self._start_server()
        self._client = Client(self._url)
        self._watcher = Watcher(self._brokers, self._brokers[CLOUD], self._directory)
        self._cleanup.callback(self._watcher.stop)
        self._watcher.await_ready()
        self._deploy()
        self._feed_and_edit()
        self._settle_accounts()
        return self._conclude()

    # --- the stages

    @contextmanager
    def _stage(self, name: str, title: str) -> Iterator[None]:
        self._view.phase(title)
        begun = time.monotonic()
        yield
        self._accounts.seconds[name] = round(time.monotonic() - begun, 2)

    def _input(self) -> Path:
        options = self._options
        with self._stage("input", "The input"):
            file = options.data or generate(self._directory, options.seed)
            check_input(file.absolute(), options.sensors and options.sensors.absolute(), self._directory)
            self._view.say(f"{file}, {100 * options.malformed:g}% malformed lines mixed in")
            return file

    def _bring_sites_up(self) -> local.LocalSites:
        directory = self._directory / "sites"
        with self._stage("sites", "Four sites on this machine: an engine and a broker each"):
            self._cleanup.callback(local.down, directory)
            engines = self._options.scenario.engines
            return local.up(directory, 4, engines=engines, heap=self._options.heap, progress=self._view.say)

    def _start_server(self) -> Server:
        with self._stage("server", "The SpecK server"):
            server = Server(self._sites.inventory, self._directory)
            self._cleanup.callback(server.stop)
            self._url = server.url()
            self._view.say(self._url)
            return server

    def _deploy(self) -> None:
        text = (PIPELINES / self._options.scenario.first).read_bytes()
        with self._stage("deploy", "The plan, and its 17 jobs"):
            self._view.plan(self._client.plan(text, COMPOSITION))
            said: set[str] = set()
            begun = self._client.apply(text, COMPOSITION)
            for operation in self._client.follow(begun["id"], _POLL):
                self._view.operation(operation, said)
            _refuse_failed(operation)

    def _feed_and_edit(self) -> None:
        self._view.phase("Data flows")
        self._fed = time.monotonic()
        with self._view:
            self._feed("feeder", 7 / STREAMS, "--except", STREAM)
            first = self._feed("feeder-first", 1 / STREAMS, "--only", STREAM, "--part", "1/2")
            self._until("data flows", first.ended)
            self._progress = (-1, time.monotonic())
            self._until(f"data flows; {BEFORE} takes what its sensors sent", lambda: self._taken(first.lines))
            self._edit()
            options = ("--only", STREAM, "--part", "2/2", "--topic", f"{STREAM}={TOPIC}")
            self._feed("feeder-second", 1 / STREAMS, *options)
            self._until("data flows", self._all_sent)

    def _feed(self, name: str, share: float, *options: object) -> Feeder:
        """Replay some streams in the background, at their share of the rate."""
        wanted = self._options
        rate = wanted.rate if wanted.rate is not None else WATCHABLE_RATE if wanted.data is None else 0.0
        common: list[object] = [f"--broker={site}={address}" for site, address in self._brokers.items()]
        common += ["--rate", rate * share, "--speedup", wanted.speedup]
        common += ["--malformed", wanted.malformed, "--seed", wanted.seed]
        common += ["--limit", wanted.limit] if wanted.limit is not None else []
        common += ["--sensors", wanted.sensors.absolute()] if wanted.sensors is not None else []
        feeder = Feeder(name, self._file.absolute(), [*common, *options], self._directory)
        self._cleanup.callback(feeder.stop)
        self._feeders.append(feeder)
        return feeder

    def _all_sent(self) -> bool:
        return all(feeder.ended() for feeder in self._feeders)

    def _taken(self, lines: int) -> bool:
        """Whether the cleaner that is about to be removed has worked through so many lines."""
        metrics = self._client.job(BEFORE).get("metrics") or {}
        taken = metrics.get("input_rows") or 0
        if taken > self._progress[0]:
            self._progress = (taken, time.monotonic())
        if time.monotonic() - self._progress[1] > _STUCK:
            raise SpeckError(f"job {BEFORE} has taken {taken:,} of {lines:,} lines, and takes no more")
        return bool(taken >= lines)

    def _edit(self) -> None:
        text = (PIPELINES / self._options.scenario.edited).read_bytes()
        with self._stage("edit", "The edited file: its plan, applied while data flows"):
            before = self._attempts()
            plan = self._client.plan(text, COMPOSITION)
            self._view.plan(plan, kept=False)
            operation = self._client.apply(text, COMPOSITION, base_revision=plan["base_revision"])
            operation = self._follow(operation["id"])
        self._accounts.actions = _by_kind(operation)
        self._accounts.engine_calls = operation["engine_calls"]
        self._prove_kept(operation, before)

    def _follow(self, identifier: str) -> dict[str, Any]:
        said: set[str] = set()
        latest: dict[str, Any] = {}

        def ended() -> bool:
            latest.update(self._client.operation(identifier))
            self._view.operation(latest, said)
            return bool(latest["state"] != "running")

        self._until("data flows; the edit is applied", ended)
        _refuse_failed(latest)
        return latest

    def _attempts(self) -> dict[str, Any]:
        return {job["job_name"]: job["attempt"] for job in self._client.jobs()}

    def _prove_kept(self, operation: Mapping[str, Any], before: Mapping[str, Any]) -> None:
        """Raise :class:`SpeckError` when a job that the edit does not name was touched."""
        kept = [each["job"] for each in operation["actions"] if each["kind"] == "keep"]
        after = self._attempts()
        if touched := [job for job in kept if after.get(job) != before.get(job)]:
            raise SpeckError(f"jobs that the edit does not name were started again: {', '.join(touched)}")
        calls = ", ".join(f"{count} {name}" for name, count in sorted(operation["engine_calls"].items()))
        self._view.say(f"{len(kept)} jobs untouched; calls to engines: {calls or 'none'}", "green")

    def _settle_accounts(self) -> None:
        """Wait until everything is counted, or nothing more comes; then enter what was."""
        reports = [feeder.accounts for feeder in self._feeders if feeder.accounts is not None]
        sent = {name: sum(each["sent"][name] for each in reports) for name in ("readings", "vehicles")}
        accounts = self._accounts
        accounts.sent, accounts.malformed = sent, sum(each["malformed"] for each in reports)
        target = f"all is sent: {sent['readings']:,} readings, {sent['vehicles']:,} vehicles"
        progressed = max(time.monotonic(), self._watcher.changed)
        with self._view:
            self._until(target, lambda: self._settled(progressed))
        accounts.seconds["feed"] = round(self._watcher.changed - self._fed, 2)
        accounts.jobs = sum(job["wanted"] == "running" for job in self._client.jobs())

    def _settled(self, since: float) -> bool:
        """Whether all is counted and nothing more comes, or nothing has come for too long."""
        totals = self._watcher.totals
        self._accounts.counted_locally = totals.get("local", {})
        self._accounts.counted_globally = totals.get("overall", {})
        quiet = time.monotonic() - max(since, self._watcher.changed)
        return quiet > (_STUCK if self._accounts.differences() else _QUIET)

    def _until(self, note: str, reached: Callable[[], bool]) -> None:
        """Wait for a condition, the statistics shown and the programs watched meanwhile."""
        while not reached():
            self._watcher.check()
            for feeder in self._feeders:
                feeder.check()
            self._server.check()
            self._view.statistics(self._watcher.totals, note)
            time.sleep(_POLL)

    # --- the end

    def _conclude(self) -> int:
        accounts = self._accounts
        accounts.seconds["total"] = round(time.monotonic() - self._begun, 2)
        differences = accounts.differences()
        self._view.phase("The accounts")
        self._view.say(f"sent {accounts.sent['readings']:,} readings, {accounts.sent['vehicles']:,} vehicles")
        self._view.say(f"and {accounts.malformed:,} malformed lines, which nobody counted")
        totals = self._watcher.totals
        self._view.say(f"counted {statistics_line(totals)}" if totals else "counted nothing")
        for difference in differences:
            self._view.say(difference, "red")
        if differences:
            self._explain()
        else:
            self._view.say(
                f"they agree, {accounts.seconds['feed']:g} s after the first was sent", "bold green"
            )
        if self._options.keep:
            self._keep()
        if self._options.as_json:
            print(json.dumps(asdict(accounts)))
        return DIFFER if differences else AGREED

    def _explain(self) -> None:
        """Say which jobs are not well, since that is the likely reason."""
        for job in self._client.jobs():
            if job["state"] != "running" or job["error"]:
                why = job["error"] or job["message"]
                self._view.say(f"job {job['job_name']} is {job['state']}: {why}", "red")

    def _keep(self) -> None:
        """Leave it all running, and say where it is and how to stop it."""
        self._cleanup.pop_all()
        self._watcher.stop()
        self._view.phase("It goes on")
        for server in self._sites.servers:
            self._view.say(str(server))
        command, url, pid = speck_command(), self._client.url, self._server.process.pid
        self._view.say(f"SpecK server {url}")
        self._view.say(f"to look at it:  {command} --server {url} jobs")
        down = f"{command} local down --directory {self._directory / 'sites'}"
        self._view.say(f"to end it:  kill {pid}; {down}")
        self._view.say(f"all files of it, to be removed after that:  {self._directory}")


def _by_kind(operation: Mapping[str, Any]) -> dict[str, int]:
    counted = Counter(each["kind"] for each in operation["actions"])
    return {kind: counted[kind] for kind in KINDS}


def _refuse_failed(operation: Mapping[str, Any]) -> None:
    if operation["state"] == "succeeded":
        return
    errors = [f"job {each['job']!r}: {each['error']}" for each in operation["actions"] if each["error"]]
    raise SpeckError("\n".join([f"{operation['kind']} failed: {operation['error']}".rstrip(": "), *errors]))
