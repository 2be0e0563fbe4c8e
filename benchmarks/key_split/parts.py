"""The reports of the parts of a split, and the processor time of their engines."""

from __future__ import annotations

import contextlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import paho.mqtt.client as paho
import psutil

from speck.core.split import split_topic
from testbed.benches.mqtt_client import subscribe


class Parts:
    """The reports of a split so far, by part, and the bytes of its frames, by topic."""

    def __init__(self, connection: paho.Client, name: str) -> None:
        self.reports: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self.bytes: Counter[str] = Counter()
        self._prefix = split_topic(name, "")
        self._seen: set[tuple[tuple[str, str], ...]] = set()
        subscribe(connection, f"{self._prefix}#", self._take)

    def busy(self, part: str) -> float:
        """The processor seconds of a part's steps."""
        return float(sum(each["busy"] for each in self.reports[part]))

    def combiners(self) -> list[str]:
        """The combiners that reported."""
        return sorted(part for part in self.reports if part.isdigit())

    def faults(self) -> dict[str, dict[str, int]]:
        """The faults that each part counted last, by shard added up."""
        found: dict[str, dict[str, int]] = {}
        for part, reports in list(self.reports.items()):
            last = {each.get("shard", 0): Counter(each["faults"]) for each in reports}
            if total := sum(last.values(), Counter[str]()):
                found[part] = dict(total)
        return found

    def _take(self, client: paho.Client, data: object, message: paho.MQTTMessage) -> None:
        stamp = tuple(sorted(getattr(message.properties, "UserProperty", ())))
        if stamp and stamp in self._seen:
            return
        self._seen.add(stamp)
        topic = message.topic.removeprefix(self._prefix)
        kind, _, part = topic.partition("/")
        if kind == "report":
            self.reports[part].append(json.loads(message.payload[1:]))
        else:
            self.bytes[topic] += len(message.payload)


def critical_path(busy: Sequence[float]) -> float:
    """The busiest one's seconds over the mean."""
    return max(busy) * len(busy) / sum(busy)


def cpu_seconds(servers: Iterable[int]) -> float:
    """Processor seconds (user and system) of these processes so far, with all their children."""
    total = 0.0
    for pid in servers:
        with contextlib.suppress(psutil.NoSuchProcess):
            first = psutil.Process(pid)
            for each in (first, *first.children(recursive=True)):
                with contextlib.suppress(psutil.NoSuchProcess):
                    times = each.cpu_times()
                    total += times.user + times.system + times.children_user + times.children_system
    return total
