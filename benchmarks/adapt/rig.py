"""Two sites on real engines, between which the loop moves two jobs, and the account of their messages.

Each site has a Flink cluster and a Mosquitto of its own.  Two jobs run at B, though their data is born at A.
Every message is another text, and the second job counts texts: one that was lost has no count, one that was
doubled on the way a count above 1.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import yaml

from speck.client import Client
from speck.errors import ServerError
from speck.store import Store
from testbed.faults.flow import Listener, Sender, await_true, client
from testbed.faults.served import Served
from testbed.faults.sites import flink_places
from testbed.servers.flink import compile_jobs

ROOT = Path(__file__).resolve().parents[2]
NAME = "adapt"
PERIOD = 5  # s between two decisions
STEP_PATIENCE = 240.0  # s until the loop makes its step
ARRIVED = 90.0  # s until the last message is through
JAR = ROOT / "jars_and_apps" / "flink" / "speck-flink-jobs.jar"
SITES: Mapping[str, Mapping[str, Any]] = {
    "A": {"cores": 2, "tier": "edge", "uplink": {"bandwidth": "20 Mbit/s", "latency": "20 ms"}},
    "B": {"cores": 4, "tier": "cloud", "uplink": {"bandwidth": "100 Mbit/s", "latency": "2 ms"}},
}


class Rig:
    """The two sites, up for as long as the stack is, and what is sent and received: ``rate`` messages/s.

    The first job takes ``burnt`` µs of processor time for each message.
    """

    def __init__(self, directory: Path, stack: ExitStack, rate: float, burnt: int = 0) -> None:
        self.places = flink_places(stack, directory)
        self._burnt = burnt
        shutil.copy(JAR, directory / JAR.name)
        self._burning = compile_jobs(directory) if burnt else None
        self._directory = directory
        self._sites, self._store = directory / "sites.yaml", directory / "store"
        sites = {
            name: {
                "spe_address": each.engine.address,
                "broker_address": each.broker.address,
                **each.known,
                **SITES[name],
            }
            for name, each in self.places.items()
        }
        self._sites.write_text(yaml.safe_dump({"sites": sites}), encoding="utf-8")
        listening = stack.enter_context(client(self.places["B"].broker.address))
        self._listener = Listener(listening, "adapt/out")
        self.sender = Sender(self.places["A"].broker.address, "adapt/in", rate, lambda number: f"m{number}")

    def server(self) -> Served:
        """A server over the store."""
        log = self._directory / "serve.log"
        return Served(self._store, self._sites, self._directory, log, further={"adapt": PERIOD})

    def begin(self, served: Client) -> None:
        """Deploy the jobs at B, permit both sites, and send."""
        _apply(served, self._composition({"site": "B"}, "off"))
        _apply(served, self._composition({"sites": ["A", "B"]}, "auto"))
        self.sender.start()

    def account(self, sent: Sequence[str]) -> dict[str, int]:
        """With a last server, let all arrive; those that were lost, and doubled."""
        with self.server() as server:
            there(server)
            with suppress(TimeoutError):  # then some are lost
                await_true("all messages", lambda: self._lost(sent) == 0, ARRIVED)
        counts = self._counts()
        doubled = sum(counts[each] - 1 for each in sent if each in counts)
        return {"messages": len(sent), "lost": self._lost(sent), "doubled": doubled}

    def _lost(self, sent: Sequence[str]) -> int:
        counts = self._counts()
        return sum(each not in counts for each in sent)

    def _counts(self) -> Counter[str]:
        """The count of each message; behind some is the time that was burnt."""
        counts: Counter[str] = Counter()
        for text, count in self._listener.last_counts().items():
            counts[text.partition(" ")[0]] += count
        return counts

    def _composition(self, where: Mapping[str, Any], mode: str) -> bytes:
        job = {"engine": "flink", "job_path": JAR.name, **where}
        forward = {
            "job_name": "forward",
            "entry_class": "io.speck.flink.jobs.Forward",
            "source_broker": "A",
            "source_topic": "adapt/in",
            "sink_broker": "A",
            "sink_topic": "adapt/middle",
        }
        if self._burning is not None:
            forward |= {"entry_class": "streets.Burning", "job_path": self._burning.name}
        arguments = {"arguments": {"micros": self._burnt}} if self._burnt else {}
        count = {
            "job_name": "count",
            "entry_class": "io.speck.flink.jobs.CountByKey",
            "source_broker": "A",
            "source_topic": "adapt/middle",
            "sink_broker": "B",
            "sink_topic": "adapt/out",
        }
        jobs = [{**job, **forward, **arguments}, {**job, **count}]
        return yaml.safe_dump({"name": NAME, "placement": {"mode": mode}, "jobs": jobs}).encode()

    def remembered(self) -> dict[str, Any]:
        """The outcomes of the steps, and the number of bans; no server may run."""
        with Store(self._store) as store:
            memory = store.adaptation(NAME)
        return {"outcomes": [each.outcome.value for each in memory.steps], "bans": len(memory.bans)}


def there(server: Served) -> Client:
    """The client of a server that answers."""
    found = server.client()
    if found is None:
        raise RuntimeError("speck serve did not start")
    return found


def sites(served: Client) -> dict[str, str]:
    """The site of each job."""
    return {each["job_name"]: each["job"]["site"] for each in served.jobs()}


def seconds_to(what: str, fulfilled: Callable[[], bool], patience: float) -> float:
    """Wait for a condition; how long (s) that took."""
    begun = time.monotonic()
    await_true(what, fulfilled, patience)
    return round(time.monotonic() - begun, 1)


def has_happened(served: Client, kind: str) -> bool:
    """True if there was an event of the kind."""
    try:
        return any(each["kind"] == kind for each in served.events(200))
    except ServerError:
        return False


def _apply(served: Client, text: bytes) -> None:
    operation = served.apply(text, NAME, wait=120.0)
    if operation["state"] != "succeeded":
        raise RuntimeError(f"the apply failed: {operation}")
