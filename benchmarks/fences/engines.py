"""The composition on two edges and the cloud: ages of events, and bytes between the sites.

Positions are sent as they are made, one a message, with fences that count at once (``confirm`` 0).
An age is the time from the sending of a position to the receipt of the event that it causes: at the broker
of its site by ``track-x``, and at that of the cloud by ``track``.  A position counts when all sites have
reached its time, so that its age has the ``lateness`` in it, here 1 s (10 s by default).  Bytes are those of
topics and values of the messages that cross between the sites, a position; with the jobs at the edges
(``edge``) and, by ``pipelines/fences_cloud.yaml``, all at the cloud (``cloud``).  With the jobs at the edges
fences cross as well, once to each site, which is counted for each fence.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import yaml

from jars_and_apps.geofencing import generate
from testbed import ROOT
from testbed.faults.flow import client
from testbed.faults.servers import insist
from testbed.faults.splits import PATIENCE, Bed, check

LATENESS = 1.0  # s
FENCES = 400
_QUIET = 5.0  # s for the last events
_SETTLED = 15.0  # s after the deployment, for the first batches
_OF_FENCES = re.compile(r"geo/(\w/)?fences")
# Topics by which positions cross between the sites, and those of fences at the edges.
_CROSSING = {"edge": re.compile(r"tracks/\w"), "cloud": re.compile(r"geo/\w/positions")}
_AT_EDGES = "geo/fences"


def composition(name: str) -> bytes:
    """A composition of ``pipelines`` without the site C, with the lateness of this measurement."""
    text = (ROOT / "pipelines" / f"{name}.yaml").read_text(encoding="utf-8")
    found = yaml.safe_load(text.replace("[A, B, C]", "[A, B]").replace('"A,B,C"', '"A,B"'))
    for section in ("topics", "sinks"):
        found[section] = {topic: about for topic, about in found[section].items() if not topic.endswith("/c")}
    for job in found["jobs"]:
        if job["entry_class"] == "locate":
            job["arguments"] = {**job["arguments"], "lateness": LATENESS}
    return yaml.safe_dump(found).encode()


@dataclass
class Watch:
    """Messages that arrived at the brokers: their ages by broker (s), and bytes by topic."""

    sent: dict[tuple[str, str], float] = field(default_factory=dict)  # by mover and time
    ages: dict[str, list[float]] = field(default_factory=dict)
    bytes: dict[str, int] = field(default_factory=dict)
    fences: int = 0

    def take(self, site: str, message: Any) -> None:
        """Take a message of a broker."""
        now, topic = time.monotonic(), message.topic
        self.bytes[topic] = self.bytes.get(topic, 0) + len(topic) + len(message.payload)
        self.fences += bool(_OF_FENCES.fullmatch(topic))
        if topic == "events" or topic.startswith("events/"):
            place = "cloud" if site == "D" and topic == "events" else "edge"
            for line in message.payload.split(b"\n"):
                event = json.loads(line)
                begun = self.sent.get((event.get("mover"), event.get("time")))
                if event["event"] in ("enter", "exit") and begun is not None:
                    self.ages.setdefault(place, []).append(now - begun)


def _features(movers: int, seconds: float) -> list[tuple[float, str, Mapping[str, Any]]]:
    """The offsets (s), sites and Features of positions, in the order of sending."""
    chance = np.random.default_rng(1)
    centres = generate.Fences(FENCES, chance).centres
    found = []
    for at, site, line in generate.positions(movers, seconds, centres, chance):
        if at < seconds:
            found.append((at, site.replace("C", "B"), json.loads(line)))
    return sorted(found, key=lambda each: each[0])


def _fences() -> list[tuple[str, str]]:
    """The topics and texts of the fences, which hold at once and count at once."""
    found = []
    for message in generate.Fences(FENCES, np.random.default_rng(1)).of_start():
        feature = json.loads(message["text"])
        feature["properties"] |= {"confirm": 0}
        found.append((message["topic"], json.dumps(feature)))
    return found


def _run(bed: Bed, name: str, movers: int, seconds: float) -> tuple[Watch, int]:
    watch = Watch()
    with ExitStack() as stack:
        brokers = {site: stack.enter_context(client(each.address)) for site, each in bed.brokers.items()}
        for site, connection in brokers.items():
            connection.on_message = lambda _, __, message, site=site: watch.take(site, message)
            connection.subscribe("#", 1)
        check(insist(lambda: bed.client.apply(composition(name), "geofencing", wait=PATIENCE)))
        try:
            for topic, text in _fences():
                brokers["D"].publish(topic, text, 1)
            deadline = time.monotonic() + PATIENCE
            while watch.fences < 2 * FENCES and time.monotonic() < deadline:
                time.sleep(0.2)
            time.sleep(_SETTLED)
            count = _send(brokers, watch, movers, seconds)
            time.sleep(_QUIET + LATENESS)
        finally:
            insist(lambda: bed.client.delete_composition("geofencing", wait=PATIENCE))
    return watch, count


def _send(brokers: Mapping[str, Any], watch: Watch, movers: int, seconds: float) -> int:
    features, begun = _features(movers, seconds), time.monotonic()
    for at, site, feature in features:
        time.sleep(max(0.0, begun + at - time.monotonic()))
        moment = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        text = json.dumps({**feature, "properties": {"time": moment}})
        watch.sent[feature["id"], moment] = time.monotonic()
        brokers[site].publish("geo/positions", text, 1)
    return len(features)


def measure(movers: int, seconds: float) -> dict[str, Any]:
    """Ages (s) and bytes of both forms."""
    result: dict[str, Any] = {"movers": movers, "fences": FENCES, "lateness_seconds": LATENESS}
    with TemporaryDirectory(prefix="speck-fences-") as folder, Bed(Path(folder), "ABD") as bed:
        for form, name in (("edge", "fences"), ("cloud", "fences_cloud")):
            print(f"engines: {name}", file=sys.stderr, flush=True)
            watch, count = _run(bed, name, movers, seconds)
            result[form] = {"positions": count, "positions_per_second": round(count / seconds, 1)}
            for place, ages in sorted(watch.ages.items()):
                cuts = statistics.quantiles(ages, n=20)
                result[form][f"age_seconds_at_{place}"] = {
                    "p50": cuts[9],
                    "p95": cuts[18],
                    "events": len(ages),
                }
            crossed = sum(size for topic, size in watch.bytes.items() if _CROSSING[form].fullmatch(topic))
            result[form]["bytes_between_sites_per_position"] = crossed / count
            result[form]["bytes_between_sites_per_fence"] = watch.bytes.get(_AT_EDGES, 0) / FENCES
    return result
