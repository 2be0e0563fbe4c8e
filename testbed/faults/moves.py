"""Jobs that are updated, moved to another site, rewired and moved back under a steady load.

Two jobs in a row: ``relay`` passes messages on, ``counted`` counts how often each word has come.  Each word
is sent a fixed number of times, spread over many seconds, so that its count goes on across the changes: what
is lost at any point, state included, is missing in the end, and what is doubled is too much.

The time for which nothing comes out is compared with the floor: the same counting job, alone, stopped with
its state and started from it by bare calls of its engine's binder, under the same load.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from speck import local
from speck.apply.operation import Operation
from speck.binder import EngineBinder, Registry, installed
from speck.coordinator import Coordinator, build
from speck.core.inventory import Inventory
from speck.core.job import Composition, Job, client_id
from speck.core.runtime import Attempt, Handle, State
from speck.core.settings import Settings
from speck.schema.compositions import load_composition
from speck.schema.inventory import load_inventory
from speck.store import Store
from testbed import ROOT
from testbed.benches import user
from testbed.benches.job_text import FLINK_CODE
from testbed.faults.flow import Listener, Sender, await_true, client
from testbed.results import add_output_options, published

SPARK_JOBS = "testbed/faults/counting.py"

WORDS, TIMES = 500, 20  # words under way at a time, and how often each is sent

PATIENCE = 300.0  # s, for an operation, and for the last message to be counted

STEPS = ("update", "move", "rewire", "move back")


@dataclass(frozen=True)
class Program:
    """The code of a job on an engine; ``updated`` are fields of another form that does the same."""

    engine: str
    path: str
    entry: str
    updated: Mapping[str, Any] = field(default_factory=dict)


FLINK_RELAY = Program("flink", FLINK_CODE, "io.speck.flink.jobs.Forward")
FLINK_COUNT = Program("flink", FLINK_CODE, "io.speck.flink.jobs.CountByKey", {"arguments": {"field": 1}})
SPARK_RELAY = Program("spark", SPARK_JOBS, "forward")
SPARK_COUNT = Program("spark", SPARK_JOBS, "count", {"trigger": "200 milliseconds"})


@dataclass(frozen=True)
class Pair:
    """The code of ``relay`` at either site; true if a move changes the kind of engine."""

    relay: tuple[Program, Program]
    counted: Program
    stateless: bool = False


PAIRS = {
    "spark-spark": Pair((SPARK_RELAY, SPARK_RELAY), SPARK_COUNT),
    "flink-flink": Pair((FLINK_RELAY, FLINK_RELAY), FLINK_COUNT),
    "spark-flink": Pair((SPARK_RELAY, FLINK_RELAY), FLINK_COUNT, stateless=True),
}


@dataclass(frozen=True)
class Sites:
    """Two sites: the addresses of their engines by kind, and the broker of each."""

    inventory: Inventory
    engines: tuple[Mapping[str, str], Mapping[str, str]]
    brokers: tuple[str, str]


@dataclass(frozen=True)
class PairForm:
    """The desired form of the two jobs: site, form, and the topic between them."""

    site: int = 0
    updated: bool = False
    topic: int = 0

    def after(self, step: str) -> PairForm:
        """The form that a step leads to."""
        match step:
            case "update":
                return replace(self, updated=not self.updated)
            case "rewire":
                return replace(self, topic=self.topic + 1)
        return replace(self, site=1 - self.site)


@dataclass(frozen=True)
class Result:
    """``gaps`` (s) are the longest times without an output around each step, by step."""

    pair: str
    rounds: int
    messages: int
    lost: int
    doubled: int
    gaps: Mapping[str, Sequence[float]]
    floor: Sequence[float] = ()

    def to_dict(self) -> dict[str, Any]:
        """As plain data, with the ratio of the median gap of a move to the floor's."""
        moves = [*self.gaps["move"], *self.gaps["move back"]]
        ratio = median(moves) / median(self.floor) if self.floor else None
        figures = {f"gap_s_{step.replace(' ', '_')}": median(found) for step, found in self.gaps.items()}
        floor = {"floor_gap_s": median(self.floor)} if self.floor else {}
        data = {key: value for key, value in asdict(self).items() if key not in ("gaps", "floor")}
        return data | figures | floor | {"move_gap_ratio": ratio}


def word(number: int) -> str:
    """The word of a message by its number: each word comes :data:`TIMES` times, :data:`WORDS` apart."""
    return f"w{number % WORDS + WORDS * (number // (WORDS * TIMES))}"


class MoveTrial:
    """One pair on two sites, through a coordinator of its own."""

    def __init__(self, name: str, pair: Pair, sites: Sites, coordinator: Coordinator) -> None:
        self.name, self.pair, self.sites, self.coordinator = name, pair, sites, coordinator
        # Names that no trial before has used: what another left on an engine or a broker is not met again.
        self.mark = uuid.uuid4().hex[:6]

    def composition(self, form: PairForm) -> bytes:
        """The composition file of a form."""
        relay = self.pair.relay[form.site]
        between = f"trial/{self.mark}/between-{form.topic}"
        near, far = self.sites.brokers
        relayed = self._job("relay", relay, form.site, (near, f"trial/{self.mark}/in"), (far, between))
        site = 1 if self.pair.stateless else form.site
        end = (far, f"trial/{self.mark}/out")
        counted = self._job("counted", self.pair.counted, site, (far, between), end)
        if self.pair.stateless:
            relayed["upgrade"] = "stateless"
        if form.updated:
            counted |= self.pair.counted.updated
        data = {"name": f"trial-{self.mark}", "jobs": [relayed, counted]}
        return yaml.safe_dump(data).encode()

    def _job(
        self, name: str, program: Program, site: int, source: tuple[str, str], sink: tuple[str, str]
    ) -> dict[str, Any]:
        return {
            "job_name": f"{name}-{self.mark}",
            "spe_address": self.sites.engines[site][program.engine],
            "source_broker": source[0],
            "source_topic": source[1],
            "sink_broker": sink[0],
            "sink_topic": sink[1],
            "entry_class": program.entry,
            "job_path": program.path,
        }

    def desired(self, form: PairForm) -> Composition:
        """A form, checked and complete."""
        loaded = load_composition(
            self.composition(form),
            inventory=self.sites.inventory,
            registry=installed(),
            root=ROOT,
            default_name="trial",
        )
        return loaded.composition

    def apply(self, form: PairForm) -> Operation:
        """Have a form carried out.  Raises :class:`RuntimeError` when it was not."""
        operation, _ = user.apply(self.coordinator, self.desired(form))
        if not operation.wait(PATIENCE) or operation.state != "succeeded":
            raise RuntimeError(f"{self.name}: {operation.to_dict()}")
        if any(each.note for each in operation.actions.values()):
            raise RuntimeError(f"{self.name}: something was given up: {operation.to_dict()}")
        return operation

    def delete(self) -> None:
        """Stop and forget both jobs."""
        user.delete_composition(self.coordinator, f"trial-{self.mark}").wait(PATIENCE)

    def sender(self, rate: float) -> Sender:
        """Sends words to the first of the two jobs."""
        return Sender(self.sites.brokers[0], f"trial/{self.mark}/in", rate, word)

    def run(self, rounds: int, rate: float, floor_rounds: int = 0) -> Result:
        """Carry out all steps in each of the rounds under ``rate`` messages/s, and count the messages."""
        form = PairForm()
        self.apply(form)
        gaps: dict[str, list[float]] = {step: [] for step in STEPS}
        sender = self.sender(rate)
        try:
            with client(self.sites.brokers[1]) as connection:
                output = Listener(connection, f"trial/{self.mark}/out")
                sender.start()
                await_true("first outputs", lambda: len(output.received) > 0, PATIENCE)
                for step in STEPS * rounds:
                    form = form.after(step)
                    gaps[step].append(self._gap(form, output))
                sent = Counter(sender.stop())
                await_true("all counted", lambda: output.last_counts().total() >= sent.total(), PATIENCE)
                counts = output.last_counts()
        except TimeoutError:
            counts = output.last_counts()
        finally:
            sent = Counter(sender.stop())
            self.delete()
        floor = self._floor(floor_rounds, rate) if floor_rounds else ()
        return Result(
            self.name, rounds, sent.total(), (sent - counts).total(), (counts - sent).total(), gaps, floor
        )

    def _gap(self, form: PairForm, output: Listener) -> float:
        begun = time.monotonic()
        self.apply(form)
        self._await_outputs(output)
        return output.longest_gap(begun)

    @staticmethod
    def _await_outputs(output: Listener) -> None:
        """Return when something comes a second from now, or later."""
        then = time.monotonic() + 1
        await_true("outputs", lambda: bool(output.received) and output.received[-1][0] > then, PATIENCE)

    # --- the floor

    def _floor(self, rounds: int, rate: float) -> list[float]:
        """The gaps (s) of the counting job alone, stopped and started by bare calls."""
        job = self.desired(PairForm()).jobs[f"counted-{self.mark}"]
        job = replace(
            job,
            job_name=f"floor-{self.mark}",
            source_topic=f"trial/{self.mark}/in",
            source_broker=self.sites.brokers[0],
        )
        engine = self.coordinator.pool.engine(job)
        broker = self.coordinator.pool.broker(job.source_broker)
        session = client_id(job.job_name)
        broker.ensure_session(session, job.source_topic)
        sender = self.sender(rate)
        try:
            with client(job.sink_broker) as connection:
                output = Listener(connection, job.sink_topic)
                sender.start()
                return list(self._bare_rounds(engine, job, session, output, rounds))
        finally:
            sender.stop()
            broker.delete_session(session)

    def _bare_rounds(
        self, engine: EngineBinder, job: Job, session: str, output: Listener, rounds: int
    ) -> Iterator[float]:
        state: State | None = None
        handle: Handle | None = None
        for number in range(rounds + 1):
            begun = time.monotonic()
            if handle is not None:
                state = engine.stop(handle, keep_state=True)
            attempt = Attempt(
                id=uuid.uuid4().hex, job_name=job.job_name, number=number + 1, session=session, state=state
            )
            handle = engine.submit(job, attempt)
            self._await_outputs(output)
            if number:
                yield output.longest_gap(begun)
        if handle is not None:
            engine.stop(handle, keep_state=False)


@contextmanager
def coordinator_on(sites: Sites, directory: Path, registry: Registry | None = None) -> Iterator[Coordinator]:
    """A coordinator with a store of its own."""
    with Store(directory / "store") as store:
        made = build(
            store, registry or installed(), sites.inventory, Settings(roots=(ROOT,), period=0)
        ).coordinator
        made.start()
        try:
            yield made
        finally:
            made.close()


def sites_of(up: local.LocalSites) -> Sites:
    """Two local sites, each with engines of both kinds."""
    first, second = up.sites
    inventory = load_inventory(up.inventory.read_bytes())
    engines = [{each.kind.split("-")[0]: each.address for each in site.engines} for site in (first, second)]
    return Sites(inventory, (engines[0], engines[1]), (first.broker.address, second.broker.address))


def main(arguments: Sequence[str]) -> int:
    """``python -m benchmarks.promises moves``."""
    parser = argparse.ArgumentParser(prog="benchmarks.promises moves", description=__doc__)
    add_output_options(parser)
    parser.add_argument("--rounds", type=int, default=20, help="rounds of all steps a pair")
    parser.add_argument("--rate", type=float, default=500.0, help="messages/s")
    parser.add_argument("--floor-rounds", type=int, default=5, help="rounds of bare calls a pair")
    parser.add_argument("--pair", choices=sorted(PAIRS), action="append", help="only this pair")
    options = parser.parse_args(arguments)
    results = []
    with tempfile.TemporaryDirectory(prefix="speck-moves-") as folder:
        directory = Path(folder)
        engines = {name: ["spark-connect", "flink"] for name in "AB"}
        with local.up(directory / "sites", 2, engines=engines) as up:
            sites = sites_of(up)
            for name in options.pair or PAIRS:
                with coordinator_on(sites, directory / name) as coordinator:
                    trial = MoveTrial(name, PAIRS[name], sites, coordinator)
                    results.append(trial.run(options.rounds, options.rate, options.floor_rounds).to_dict())
                print(json.dumps(results[-1]), file=sys.stderr)
    published(options, "promises-moves", {"moves": results})
    return 1 if any(each["lost"] or each["doubled"] for each in results) else 0
