"""The coordinator killed at every point, at every kind of change: does it end in what was asked for?

A round applies a change to a server that kills itself at one point, or is killed at some moment; starts a
plain server on what is left; and looks, by means of its own, whether engines and brokers come to hold what is
wanted and nothing else.  What was accepted must come true without help; what was not must have changed
nothing.
"""

from __future__ import annotations

import random
import re
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path

import paho.mqtt.client as paho
import yaml
from paho.mqtt.enums import CallbackAPIVersion

from benchmarks.promises.compositions import IN, NAME, OUT, Programs, Version, versions
from benchmarks.promises.served import Counted, Served
from benchmarks.promises.witness import BrokerState, Engine, MosquittoWitness
from speck.client import Client
from speck.errors import ServerError, SpeckError

ROOT = Path(__file__).resolve().parent.parent.parent

PATIENCE = 60.0  # s, until what is wanted must be there
_POLL = 0.03

# Each kind of change, and the one that leads back.
PAIRS = (("first", None), ("updated", "first"), ("moved", "first"), ("rewired", "first"))


@dataclass(frozen=True)
class Place:
    """A site: its engine and broker, and what an inventory says of it beside their addresses."""

    engine: Engine
    broker: MosquittoWitness
    known: Mapping[str, str]


@dataclass(frozen=True)
class Outcome:
    """One round.  ``point`` is where the server died; ``wrong`` says what was not as it should be."""

    change: str
    number: int
    point: str
    killed: bool
    accepted: bool
    wrong: str
    seconds: float


def all_points(names: Sequence[str]) -> list[int]:
    """The numbers of all points, from 1."""
    return list(range(1, len(names) + 1))


_EFFECT = re.compile(r"within |before (store|file|mqtt|POST|PUT|PATCH|DELETE) ")


def effects(names: Sequence[str]) -> list[int]:
    """The numbers of the points that differ in what they leave behind.

    Between two effects (a write, a request that changes something) nothing happens that a crash could leave
    half done: of the points there, the last one stands for all.
    """
    return [number for number, name in enumerate(names, 1) if _EFFECT.match(name) or number == len(names)]


class Probe:
    """Sends messages into the composition and keeps what comes out."""

    def __init__(self, places: Mapping[str, Place]) -> None:
        self.received: list[str] = []
        self._changed = threading.Condition()
        self._in, self._out = (self._connected(places[name].broker.address) for name in ("A", "B"))
        self._out.on_message = self._keep
        self._out.subscribe(OUT, 1)

    def send(self, text: str) -> None:
        """Publish one message, and wait until the broker has it."""
        self._in.publish(IN, text, 1).wait_for_publish(30)

    def await_output(self, wanted: Sequence[str], seconds: float) -> bool:
        """Wait until so much has come out; answers whether it is what is wanted."""
        with self._changed:
            self._changed.wait_for(lambda: len(self.received) >= len(wanted), seconds)
            return self.received == list(wanted)

    def close(self) -> None:
        """Let go of the brokers."""
        for client in (self._in, self._out):
            client.disconnect()
            client.loop_stop()

    def _connected(self, address: str) -> paho.Client:
        client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        client.connect("127.0.0.1", int(address.rpartition(":")[2]))
        client.loop_start()
        return client

    def _keep(self, _client: paho.Client, _data: object, message: paho.MQTTMessage) -> None:
        with self._changed:
            self.received.append(message.payload.decode())
            self._changed.notify_all()


@dataclass
class Trial:
    """Two sites, one store, and one composition that is changed again and again.

    ``note`` is told of each round.
    """

    places: Mapping[str, Place]
    programs: Programs
    directory: Path
    seed: int
    note: Callable[[Outcome], None] = lambda outcome: None
    outcomes: list[Outcome] = field(default_factory=list)
    points: dict[str, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.versions = versions(self.programs)
        self.state: str | None = None
        self._random = random.Random(self.seed)
        self._stores = 0
        self._revision: int | None = None
        self.store = self.directory / "store"
        self._expected: list[str] = []
        self._count = 0
        self.directory.mkdir(parents=True, exist_ok=True)
        self._sites = self.directory / "sites.yaml"
        sites = {
            name: {"spe_address": each.engine.address, "broker_address": each.broker.address, **each.known}
            for name, each in self.places.items()
        }
        self._sites.write_text(yaml.safe_dump({"sites": sites}), encoding="utf-8")
        self.probe = Probe(self.places)
        self._new_store()

    def close(self) -> None:
        """Let go of the brokers."""
        self.probe.close()

    # --- what is done in one go

    def every_point(
        self,
        pairs: Iterable[tuple[str, str | None]],
        choose: Callable[[Sequence[str]], Sequence[int]] = all_points,
    ) -> None:
        """Kill at each point of each change that is chosen of their names in order."""
        for there, back in pairs:
            self._come_to(back)
            chosen = {target: choose(self._points_of(target)) for target in (there, back)}
            for numbers in zip_longest(chosen[there], chosen[back], fillvalue=0):
                for target, number in zip((there, back), numbers, strict=True):
                    self.round(target, number)

    def at_random(self, rounds: int) -> None:
        """Kill at random moments of random changes, the one that recovers now and then as well."""
        for _ in range(rounds):
            choice = self._random.choice([name for name in (*self.versions, None) if name != self.state])
            moments = [self._random.uniform(0, 2.5)]
            while self._random.random() < 0.4:
                moments.append(self._random.uniform(0, 2.0))
            self._timed_round(choice, moments)

    def _points_of(self, target: str | None) -> list[str]:
        self.round(target, 0)
        names = (self.directory / "report").read_text(encoding="utf-8").splitlines()
        self.points[self.outcomes[-1].change] = names
        return names

    def _come_to(self, state: str | None) -> None:
        while self.state != state:
            self.round("first" if self.state is None else state, 0)

    # --- one round

    def round(self, target: str | None, number: int) -> Outcome:
        """Change to ``target`` (``None``: delete) while the server dies at this point (0: does not)."""
        report = self.directory / "report"
        report.unlink(missing_ok=True)
        counted = Counted(number, self._random.randrange(1 << 30), report)

        def die() -> tuple[bool, bool]:
            with self._server(counted) as server:
                accepted = self._ask(server.client(), target)
                self._await_death_or_end(server)
                return server.killed, accepted

        def point() -> str:
            return report.read_text(encoding="utf-8").splitlines()[-1] if number else ""

        return self._judged(target, number, die, point)

    def _timed_round(self, target: str | None, moments: Sequence[float]) -> Outcome:
        """Change to ``target`` and kill after the first so many seconds; then each that recovers."""

        def die() -> tuple[bool, bool]:
            accepted = False
            for number, seconds in enumerate(moments):
                with self._server() as server:
                    timer = threading.Timer(seconds, server.kill)
                    timer.start()
                    if number == 0:
                        accepted = self._ask(server.client(), target)
                    timer.join()
            return True, accepted

        return self._judged(target, 0, die, lambda: "after " + ", ".join(f"{each:.2f} s" for each in moments))

    def _judged(
        self,
        target: str | None,
        number: int,
        die: Callable[[], tuple[bool, bool]],
        point: Callable[[], str],
    ) -> Outcome:
        started = time.monotonic()
        change = f"{self.state or 'nothing'} -> {target or 'nothing'}"
        killed = accepted = False
        wrong = ""
        try:
            before = self._revision
            killed, accepted = die()
            self._recovered(target, before, accepted)
        except (_Wrong, RuntimeError, SpeckError) as error:
            wrong = f"{error}"
        taken = time.monotonic() - started
        outcome = Outcome(change, number, point(), killed, accepted, wrong, taken)
        self.outcomes.append(outcome)
        self.note(outcome)
        if wrong:
            self._start_over(target)
        return outcome

    def _recovered(self, target: str | None, before: int | None, accepted: bool) -> None:
        """A plain server on what is left: what was accepted comes true, what was not changed nothing."""
        with self._server() as server:
            client = _there(server.client())
            taken = self._await_idle(client, before) != before if target else self._is_gone(client)
            if accepted and not taken:
                raise _Wrong("what was accepted is forgotten")
            if not taken:
                self._must_be(self.state, client)
                self._do(client, target)
            self._became(target)
            self._must_be(target, client)
            self._revision = self._await_idle(client, None) if target else None

    def _server(self, counted: Counted | None = None) -> Served:
        return Served(self.store, self._sites, ROOT, self.directory / "serve.log", counted)

    def _ask(self, client: Client | None, target: str | None) -> bool:
        """Have the change accepted; answers whether the server said so before it died."""
        try:
            if client is None:
                return False
            self._request(client, target, wait=0)
        except ServerError:
            return False
        return True

    def _request(self, client: Client, target: str | None, wait: float) -> dict[str, object]:
        if target is None:
            return client.delete_composition(NAME, wait=wait)
        return client.apply(self.versions[target].text(self.programs.engine), NAME, wait=wait)

    def _do(self, client: Client, target: str | None) -> None:
        operation = self._request(client, target, wait=PATIENCE)
        if operation["state"] != "succeeded":
            raise _Wrong(f"applied again, it {operation['state']}: {operation}")

    def _await_death_or_end(self, server: Served) -> None:
        client = server.client()
        deadline = time.monotonic() + PATIENCE
        while client is not None and not server.dead and time.monotonic() < deadline:
            try:
                if not any(each["operation"] for each in client.compositions()):
                    break
            except ServerError:
                continue
            time.sleep(_POLL)

    def _await_idle(self, client: Client, default: int | None) -> int | None:
        """Wait until no operation is at work; answers the revision."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            found = [each for each in client.compositions() if each["name"] == NAME]
            if not found:
                return default
            if found[0]["operation"] is None:
                return int(found[0]["revision"])
            time.sleep(_POLL)
        raise _Wrong(f"still at work after {PATIENCE:g} s")

    def _is_gone(self, client: Client) -> bool:
        self._await_idle(client, None)
        return not client.compositions()

    # --- what must be

    def _became(self, target: str | None) -> None:
        if target is None:
            self._count = 0
        self.state = target

    def _must_be(self, state: str | None, client: Client) -> None:
        version = self.versions[state] if state else None
        self._settled(version, client)
        if version is not None:
            self._passes(version)

    def _settled(self, version: Version | None, client: Client) -> None:
        """Wait until engines, brokers and the store hold what the version wants, and nothing else."""
        deadline = time.monotonic() + PATIENCE
        while True:
            faults = list(self._faults(version))
            if not faults:
                return
            if time.monotonic() > deadline:
                log = [each["message"] for each in client.events(8)]
                raise _Wrong("; ".join(faults) + f"; the log's end: {log}")
            time.sleep(_POLL)

    def _faults(self, version: Version | None) -> Iterator[str]:
        jobs = version.jobs if version else ()
        for site, place in self.places.items():
            running = place.engine.running()
            wanted = Counter(job.name for job in jobs if job.site == site)
            found = Counter(each.name for each in running)
            if found != wanted:
                yield f"engine {site} runs {dict(found)}, wanted {dict(wanted)}"
            elif not all(each.up for each in running):
                yield f"engine {site} has jobs on their way"
            elif files := place.engine.unused_files():
                yield f"engine {site} has files that nothing uses: {files}"
            wanted_sessions = {job.name: job.reads[1] for job in jobs if job.reads[0] == site}
            yield from _broker_faults(site, place.broker.look(), wanted_sessions)
        kept = sorted(each.name for each in (self.store / "artifacts").glob("*"))
        if version is None and kept:
            yield f"the store keeps code that no composition has: {kept}"
        scratch = [each.name for each in self.store.rglob("*scratch*")]
        if scratch:
            yield f"the store keeps scratch files: {scratch}"

    def _passes(self, version: Version) -> None:
        """A message goes through once, is counted on from before, and is marked by this version."""
        self._count += 1
        self._expected.append(f"c,{self._count},{version.mark}")
        self.probe.send("c")
        if not self.probe.await_output(self._expected, PATIENCE):
            raise _Wrong(f"came out: {self.probe.received[-3:]}, wanted {self._expected[-3:]}")

    # --- after what went wrong

    def _start_over(self, target: str | None) -> None:
        """Clear engines, brokers and store by force, and deploy ``target`` anew."""
        for place in self.places.values():
            place.engine.clear()
        for place in self.places.values():
            _await_cleared(place)
        self._new_store()
        self._revision = None
        self.state, self._count = None, 0
        self._expected = list(self.probe.received)
        if target is not None:
            with self._server() as server:
                client = _there(server.client())
                self._do(client, target)
                self._became(target)
                self._must_be(target, client)
                self._revision = self._await_idle(client, None)

    def _new_store(self) -> None:
        if self._stores:
            shutil.move(self.store, self.directory / f"wrong-{self._stores}")
        self._stores += 1


class _Wrong(Exception):
    """Something is not as it should be."""


def _there(client: Client | None) -> Client:
    if client is None:
        raise _Wrong("the server does not start on what is left")
    return client


def _broker_faults(site: str, state: BrokerState, wanted: Mapping[str, str]) -> Iterator[str]:
    ours = {name: topics for name, topics in state.sessions.items() if name.startswith("speck-")}
    sessions = {
        job: [name for name in ours if name == f"speck-{job}" or name.startswith(f"speck-{job}.")]
        for job in wanted
    }
    for job, topic in wanted.items():
        if [ours[name] for name in sessions[job]] != [(topic,)]:
            found = {name: ours[name] for name in sessions[job]}
            yield f"broker {site} has for {job} the sessions {found}, wanted one of {topic}"
    known = {name for names in sessions.values() for name in names}
    if strays := sorted(ours.keys() - known):
        yield f"broker {site} has stray sessions {strays}"
    notes = {topic for topic in state.retained if topic.startswith("speck/")}
    if strays := sorted(topic for topic in notes if topic.rpartition("/")[2] not in known):
        yield f"broker {site} has stray notes {strays}"


def _await_cleared(place: Place) -> None:
    deadline = time.monotonic() + PATIENCE
    while place.engine.running() and time.monotonic() < deadline:
        time.sleep(_POLL)
    state = place.broker.look()
    port = int(place.broker.address.rpartition(":")[2])
    for name in state.sessions:
        client = paho.Client(CallbackAPIVersion.VERSION2, name, protocol=paho.MQTTv5)
        client.connect("127.0.0.1", port, clean_start=True)
        client.loop_start()
        for topic in state.retained:
            client.publish(topic, b"", 1, retain=True).wait_for_publish(30)
        client.disconnect()
        client.loop_stop()


def figures(outcomes: Iterable[Outcome]) -> dict[str, dict[str, int]]:
    """By change: ``rounds``, ``kills``, ``wrong_after_restart``."""
    found: dict[str, Counter[str]] = {}
    for each in outcomes:
        counted = found.setdefault(each.change, Counter(rounds=0, kills=0, wrong_after_restart=0))
        counted["rounds"] += 1
        counted["kills"] += each.killed
        counted["wrong_after_restart"] += bool(each.wrong)
    return {change: dict(counted) for change, counted in found.items()}
