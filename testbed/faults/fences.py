"""Geofencing under faults: jobs with state moved, servers and coordinator killed, an uplink cut.

Two edges, A and B, and the cloud D run ``pipelines/fences.yaml`` for all rounds.  In each, positions of four
hours later are sent, with fences that change on the way.  Meanwhile ``locate-a`` moves to B with its fences,
the server of B is killed and started again, ``track`` moves to A with its visits while the coordinator is
killed, the uplink between A and D is cut, and both jobs move back.  Each event at D is compared with the
reference: ``lost`` did not come, ``doubled`` came again (beside the repetitions that a reader drops by their
stamps), ``extra`` are not expected, ``wrong`` have another field.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from testbed import ROOT
from testbed.faults.flow import Listener, client
from testbed.faults.round_log import RoundLog
from testbed.faults.servers import insist
from testbed.faults.splits import PATIENCE, Bed, check
from testbed.results import add_output_options, published
from testbed.servers.uplink import Uplink

NAME = "geofencing"
HOURS = 4  # between the times of two rounds: all visits of one have ended when the next begins
_TIME = re.compile(r"2026-03-02T\d\d:\d\d:\d\d\.\d{3}Z")
_COUNTS = ("awaited", "missing", "twice", "extra", "wrong", "late", "late_fences")

Data = dict[str, Any]


class FencesBed(Bed):
    """Two edges and the cloud; the uplink of A may be cut."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, "ABD")
        self._up = Uplink(lambda: self.servers["A"].pids)
        self._down = Uplink(lambda: self.servers["D"].pids)
        self.ways = {"D": self._up.way(self.brokers["D"].port), "A": self._down.way(self.brokers["A"].port)}

    def cut(self, seconds: float) -> None:
        """Part the engines of A and D from the brokers of each other for some seconds."""
        self._up.sever(self.ways["D"])
        self._down.sever(self.ways["A"])
        time.sleep(seconds)
        self._up.restore()
        self._down.restore()


def composition(places: Mapping[str, str]) -> bytes:
    """``pipelines/fences.yaml`` without the site C; two of its jobs run at the engines in ``places``."""
    text = (ROOT / "pipelines" / "fences.yaml").read_text(encoding="utf-8")
    found = yaml.safe_load(text.replace("[A, B, C]", "[A, B]").replace('"A,B,C"', '"A,B"'))
    for job in list(found["jobs"]):
        if job["job_name"] == "track":
            job |= {"spe_address": places["track"], "source_broker": "D", "sink_broker": "D"}
        if job["job_name"].startswith("locate-"):
            own = {"site": "A", "spe_address": places["locate-a"], "source_broker": "A", "sink_broker": "A"}
            found["jobs"].append(job | own | {"job_name": "locate-a", "arguments": {"site": "A"}})
            del found["jobs"][-1]["for_each"]
            job["for_each"] = {"site": ["B"]}
    return yaml.safe_dump(found).encode()


def later(text: str, hours: int) -> str:
    """A text of the generator with its times some hours later."""

    def moved(found: re.Match[str]) -> str:
        time_ = datetime.fromisoformat(found[0]) + timedelta(hours=hours)
        return time_.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    return _TIME.sub(moved, text)


@dataclass
class FenceOutcome:
    """All that came at D, without repetitions, compared with all that was sent."""

    points: list[Any] = field(default_factory=list)
    records: dict[str, Data] = field(default_factory=dict)
    events: list[Data] = field(default_factory=list)
    changed: float = 0.0
    _stamps: set[tuple[tuple[str, str], ...]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, connection: object, data: object, message: Any) -> None:
        """Take a message of ``admitted`` or ``events``."""
        stamp = (message.topic, *sorted(getattr(message.properties, "UserProperty", ())))
        with self._lock:
            if len(stamp) > 1 and stamp in self._stamps:
                return
            self._stamps.add(stamp)
            self.changed = time.monotonic()
            for line in message.payload.decode().split("\n"):
                if message.topic == "events":
                    self.events.append(json.loads(line))
                else:
                    self.records[line] = json.loads(line)

    def compared(self) -> dict[str, int]:
        """The comparison with the reference."""
        from jars_and_apps.geofencing.reference import Reference, differences

        with self._lock:
            records, events = list(self.records.values()), list(self.events)
        found = [each for each in events if each["event"] in ("enter", "exit", "dwell")]
        counts = differences(found, Reference(self.points, records, events).events())
        kinds = Counter(each["event"] for each in events)
        return counts | {"late": kinds["late"], "late_fences": kinds["late fence"]}


class FenceLog(RoundLog):
    """The counts of the rounds that were made."""

    def totals(self) -> dict[str, int]:
        """The sums of all rounds."""
        sums = {name: sum(each[name] for each in self.rounds) for name in _COUNTS}
        return sums | {"rounds": len(self.rounds)}


class FenceTrial:
    """The rounds that the log lacks, one after the other."""

    def __init__(self, bed: FencesBed, options: argparse.Namespace, log: FenceLog) -> None:
        self._bed, self._options, self._log = bed, options, log
        self._places = {"locate-a": "A", "track": "D"}
        self.outcome = FenceOutcome()
        self._edges: list[Listener] = []  # of the fences that come there

    def run(self) -> None:
        """Run them, until one has other events than the reference."""
        with ExitStack() as stack:
            connections = {
                name: stack.enter_context(client(each.address)) for name, each in self._bed.brokers.items()
            }
            self._edges = [Listener(connections[name], "geo/fences") for name in "AB"]
            connection = connections["D"]
            ready = threading.Event()
            connection.on_message = self.outcome.take
            connection.on_subscribe = lambda *_: ready.set()
            connection.subscribe([("admitted", 1), ("events", 1)])
            if not ready.wait(60):
                raise TimeoutError("no subscription to events in 60 s")
            self._applied()
            before = dict.fromkeys(_COUNTS, 0)
            for number in range(len(self._log.rounds), self._options.rounds):
                found = self._round(number)  # of all rounds of this run
                counts = {name: found[name] - before[name] for name in _COUNTS}
                self._log.add(counts)
                shown = ", ".join(f"{count:,} {name}" for name, count in counts.items())
                print(f"round {number + 1}: {shown}", file=sys.stderr, flush=True)
                if found["missing"] or found["extra"]:
                    break
                before = found

    def apply(self, wait: float = PATIENCE) -> Data:
        """Apply the composition as it is to be now."""
        return insist(lambda: self._bed.client.apply(composition(self._places), NAME, wait=wait))

    def _applied(self) -> None:
        """Apply it until it is so: an engine that starts on a busy machine may not answer at first."""
        deadline = time.monotonic() + PATIENCE
        while (operation := self.apply())["state"] == "waiting" and time.monotonic() < deadline:
            time.sleep(1)
        check(operation)

    def _round(self, number: int) -> dict[str, int]:
        from jars_and_apps.geofencing.reference import points_of

        folder = self._bed.directory / f"round-{number}"
        fences, stream = _made(folder, number, self._options)
        known = len(self.outcome.records)
        self._send(fences, 0.0)
        # A fence that comes before the positions of its time is not late.
        self._await(
            "all fences at the edges",
            lambda: all(len(each.texts()) >= known + len(fences) for each in self._edges),
        )
        self.outcome.points += points_of(stream)
        sender = threading.Thread(target=self._send, args=(stream, self._options.rate), name="movers")
        sender.start()
        for step in self._steps():
            print(f"round {number + 1}: {step.__name__}", file=sys.stderr, flush=True)
            step()
            time.sleep(self._options.pause)
        sender.join()
        return self._final()

    def _steps(self) -> Iterator[Callable[[], None]]:
        yield from (self.move_locate, self.kill_server, self.move_track_and_kill_coordinator)
        yield from (self.cut_uplink, self.move_back)

    def move_locate(self) -> None:
        """Move ``locate-a`` to B with its fences."""
        self._places["locate-a"] = "B"
        self._applied()

    def kill_server(self) -> None:
        """Kill the server of B, with five jobs, and start it again; the coordinator heals the jobs."""
        self._bed.servers["B"].kill()
        self._bed.servers["B"].start()
        self._bed.await_running(NAME)

    def move_track_and_kill_coordinator(self) -> None:
        """Move ``track`` to A with its visits, and kill the coordinator while it is about it."""
        self._places["track"] = "A"
        self.apply(wait=0)
        time.sleep(1.0)
        self._bed.kill_coordinator()
        self._bed.start_coordinator()
        self._bed.await_running(NAME)
        self._applied()  # it may have been killed before it accepted the change

    def cut_uplink(self) -> None:
        """Cut the uplink between A and D."""
        self._bed.cut(self._options.cut)
        self._bed.await_running(NAME)

    def move_back(self) -> None:
        """Move both jobs back."""
        self._places = {"locate-a": "A", "track": "D"}
        self._applied()

    def _send(self, messages: Sequence[Data], rate: float) -> None:
        """Publish messages, each to the broker of its site, at some lines a second (0: no bound)."""
        begun, lines = time.monotonic(), 0
        with ExitStack() as stack:
            sites = {
                name: stack.enter_context(client(each.address)) for name, each in self._bed.brokers.items()
            }
            sent = []
            for message in messages:
                if rate:
                    time.sleep(max(0.0, begun + lines / rate - time.monotonic()))
                lines += message["text"].count("\n") + 1
                sent.append(sites[message["site"]].publish(message["topic"], message["text"], 1))
            for each in sent:
                each.wait_for_publish(PATIENCE)

    def _await(self, what: str, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{what}: not so after {PATIENCE:g} s")
            time.sleep(0.2)

    def _final(self) -> dict[str, int]:
        """The comparison when nothing is missing, or nothing has come for long."""
        found, compared = self.outcome.compared(), time.monotonic()
        while time.monotonic() - max(self.outcome.changed, compared) < 5 or found["missing"]:
            if self.outcome.changed > compared:
                found, compared = self.outcome.compared(), time.monotonic()
            if time.monotonic() - self.outcome.changed > PATIENCE:
                break
            time.sleep(1)
        return found


def _made(folder: Path, number: int, options: argparse.Namespace) -> tuple[list[Data], list[Data]]:
    """The fences and the stream of a round; what C would get goes to B."""
    from jars_and_apps.geofencing import feeder, generate

    generate.write(folder, options.movers, options.fences, options.minutes, seed=number + 1)
    fences, stream = (
        [
            {**each, "site": each["site"].replace("C", "B"), "text": later(each["text"], number * HOURS)}
            for each in feeder.messages_of(folder / name)
        ]
        for name in ("fences.jsonl", "stream.jsonl")
    )
    return fences, stream


def main(arguments: Sequence[str]) -> int:
    """Run the rounds; the result is 1 when an event was lost, doubled, unexpected or wrong."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.promises fences", description=__doc__)
    add = parser.add_argument
    add("--rounds", type=int, default=20)
    add("--movers", type=int, default=60)
    add("--fences", type=int, default=60)
    add("--minutes", type=float, default=10.0, help="of event time, a round (default 10)")
    add("--rate", type=float, default=60.0, help="positions/s (default 60)")
    add("--cut", type=float, default=60.0, help="s, for which the uplink is cut (default 60)")
    add("--pause", type=float, default=2.0, help="s, after each step (default 2)")
    add("--log", type=Path, metavar="FILE", help="keep the rounds here, and resume from it")
    add_output_options(parser)
    options = parser.parse_args(arguments)
    log = FenceLog(options.log)
    if len(log.rounds) < options.rounds:
        with TemporaryDirectory(prefix="speck-fences-") as folder, FencesBed(Path(folder)) as bed:
            FenceTrial(bed, options, log).run()
    names = {"missing": "lost", "twice": "doubled"}
    result = {names.get(name, name): count for name, count in log.totals().items()}
    if not published(options, "promises-fences", result):
        print(yaml.safe_dump(result, sort_keys=False))
    return 1 if any(result[name] for name in ("lost", "doubled", "extra", "wrong")) else 0
