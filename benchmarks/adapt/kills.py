"""A step of the loop over real engines while the server is killed at random moments: the account of messages.

Two sites, each with a Flink cluster and a Mosquitto of its own.  Two jobs run at B, though their data is born
at A; the loop moves them.  Every message is another text, and the second job counts texts: one that was lost
has no count, one that was doubled on the way a count above 1.  From the step on, the server (a process,
``speck serve``) is killed by SIGKILL and started again, time after time; the last one judges the step.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from speck.client import Client
from speck.errors import ServerError
from speck.store import Store
from testbed.faults.flow import Listener, Sender, await_true, client
from testbed.faults.served import Served
from testbed.faults.sites import Place, flink_places

ROOT = Path(__file__).resolve().parents[2]
NAME = "adapt"
PERIOD = 5  # s between two decisions
STEP_PATIENCE = 240.0  # s until the loop makes its step
JUDGED = 180.0  # s in which the last server judges it: a minute without a step, and three windows
ARRIVED = 90.0  # s until the last message is through
JAR = "jars_and_apps/flink/speck-flink-jobs.jar"
SITES: Mapping[str, Mapping[str, Any]] = {
    "A": {"cores": 2, "tier": "edge", "uplink": {"bandwidth": "20 Mbit/s", "latency": "20 ms"}},
    "B": {"cores": 4, "tier": "cloud", "uplink": {"bandwidth": "100 Mbit/s", "latency": "2 ms"}},
}


@dataclass(frozen=True)
class Options:
    """``messages`` are sent at ``rate`` (1/s); the server is killed ``kills`` times."""

    kills: int = 50
    messages: int = 100_000
    rate: float = 300.0
    seed: int = 1


def measure(options: Options) -> dict[str, Any]:
    """Run it; the figures by key."""
    with TemporaryDirectory() as name, ExitStack() as stack:
        places = flink_places(stack, Path(name))
        run = _Run(Path(name), places, options)
        return run.figures(stack)


class _Run:
    def __init__(self, directory: Path, places: Mapping[str, Place], options: Options) -> None:
        self.directory, self.places, self.options = directory, places, options
        self.random = random.Random(options.seed)
        self.sites, self.store = directory / "sites.yaml", directory / "store"
        sites = {
            name: {
                "spe_address": each.engine.address,
                "broker_address": each.broker.address,
                **each.known,
                **SITES[name],
            }
            for name, each in places.items()
        }
        self.sites.write_text(yaml.safe_dump({"sites": sites}), encoding="utf-8")

    def figures(self, stack: ExitStack) -> dict[str, Any]:
        listening = stack.enter_context(client(self.places["B"].broker.address))
        listener = Listener(listening, "adapt/out")
        source = self.places["A"].broker.address
        sender = Sender(source, "adapt/in", self.options.rate, lambda number: f"m{number}")
        begun = time.monotonic()
        try:
            stepped, killed = self._step_and_kill(sender)
            judged = self._judge(sender)
        finally:
            sent = sender.stop()
        with self._server() as server:
            _there(server)
            with suppress(TimeoutError):  # then some are lost
                await_true("all messages", lambda: self._lost(listener, sent) == 0, ARRIVED)
        counts = listener.last_counts()
        return {
            "kills": killed,
            "messages": len(sent),
            "lost": self._lost(listener, sent),
            "doubled": sum(counts[each] - 1 for each in sent if each in counts),
            "seconds_to_step": round(stepped, 1),
            "seconds": round(time.monotonic() - begun, 1),
            **judged,
        }

    def _step_and_kill(self, sender: Sender) -> tuple[float, int]:
        with self._server() as server:
            served = _there(server)
            _apply(served, self._composition({"site": "B"}, "off"))
            _apply(served, self._composition({"sites": ["A", "B"]}, "auto"))
            sender.start()
            begun = time.monotonic()
            await_true("a step", lambda: _has_stepped(served), STEP_PATIENCE)
            stepped = time.monotonic() - begun
            time.sleep(self.random.uniform(0.0, 3.0))
        for number in range(1, self.options.kills):
            with self._server() as server:
                if self.random.random() < 0.7:  # or while it starts
                    _there(server)
                time.sleep(self.random.uniform(0.0, 4.0))
            print(f"killed {number + 1} times, {len(sender.sent)} messages", file=sys.stderr, flush=True)
        return stepped, self.options.kills

    def _judge(self, sender: Sender) -> dict[str, Any]:
        """Let the last server judge the step, and the messages be sent."""
        with self._server() as server:
            served = _there(server)
            time.sleep(JUDGED)
            enough = self.options.messages
            await_true("enough messages", lambda: len(sender.sent) >= enough, 600.0)
            where = {each["job_name"]: each["job"]["site"] for each in served.jobs()}
        with Store(self.store) as store:
            memory = store.adaptation(NAME)
        return {
            "outcomes": [each.outcome.value for each in memory.steps],
            "bans": len(memory.bans),
            "sites": where,
        }

    def _server(self) -> Served:
        log = self.directory / "serve.log"
        return Served(self.store, self.sites, ROOT, log, further={"adapt": PERIOD})

    def _lost(self, listener: Listener, sent: list[str]) -> int:
        counts = listener.last_counts()
        return sum(each not in counts for each in sent)

    def _composition(self, where: Mapping[str, Any], mode: str) -> bytes:
        job = {"engine": "flink", "job_path": JAR, **where}
        forward = {
            "job_name": "forward",
            "entry_class": "io.speck.flink.jobs.Forward",
            "source_broker": "A",
            "source_topic": "adapt/in",
            "sink_broker": "A",
            "sink_topic": "adapt/middle",
        }
        count = {
            "job_name": "count",
            "entry_class": "io.speck.flink.jobs.CountByKey",
            "source_broker": "A",
            "source_topic": "adapt/middle",
            "sink_broker": "B",
            "sink_topic": "adapt/out",
        }
        jobs = [{**job, **forward}, {**job, **count}]
        return yaml.safe_dump({"name": NAME, "placement": {"mode": mode}, "jobs": jobs}).encode()


def _there(server: Served) -> Client:
    found = server.client()
    if found is None:
        raise RuntimeError("speck serve did not start")
    return found


def _apply(served: Client, text: bytes) -> None:
    operation = served.apply(text, NAME, wait=120.0)
    if operation["state"] != "succeeded":
        raise RuntimeError(f"the apply failed: {operation}")


def _events(served: Client) -> list[dict[str, Any]]:
    try:
        return list(served.events(200))
    except ServerError:
        return []


def _has_stepped(served: Client) -> bool:
    return any(each["kind"] == "step" for each in _events(served))
