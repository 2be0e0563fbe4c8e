"""Follow the events of the geofencing jobs, and compare them with the reference.

    python -m jars_and_apps.geofencing.compare DIRECTORY --broker tcp://127.0.0.1:1893

DIRECTORY has the files of the generator; the broker is that of the merged events (D).  Prints
``{"ready": true}`` once all subscriptions exist; then, after each change, the numbers of ``fences`` and
``refused`` ones, of ``events``, ``late`` positions, ``late_fences``, ``rejected`` lines and ``answers``.
After a pause the object has the comparison as well: events ``awaited``, ``missing``, ``extra``, ``twice`` and
``wrong``; with ``--publish`` it is a message on the topic ``compared`` too, which the map shows.  The program
ends when its standard input does.
"""

from __future__ import annotations

import argparse
import json
import select
import sys
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jars_and_apps.geofencing.feeder import messages_of
from jars_and_apps.geofencing.reference import Point, Reference, differences, points_of
from jars_and_apps.road_traffic.publisher import Publisher, PublishError
from jars_and_apps.road_traffic.watch import Subscription, show

FENCES, EVENTS, COMPARED = "admitted", "events", "compared"
_INTERVAL = 0.2  # s between two objects
_PAUSE = 2.0  # s without another message, after which a comparison is worth its time
_COUNTS = {
    "late": "late",
    "late fence": "late_fences",
    "rejected": "rejected",
    "answer": "answers",
    "failed": "failed",
}


class Account:
    """All fences and events so far; may be used from several threads."""

    def __init__(self, points: Sequence[Point]) -> None:
        self._points = points
        self._records: dict[str, Any] = {}  # by text: a repetition is no other record
        self._events: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self.changed = threading.Event()

    def add(self, topic: str, payload: bytes | bytearray) -> None:
        """Add a message of a topic."""
        with self._lock:
            for line in payload.decode().split("\n"):
                if topic == FENCES:
                    self._records[line] = json.loads(line)
                else:
                    self._events.append(json.loads(line))
        self.changed.set()

    def counts(self) -> dict[str, int]:
        """The numbers of messages so far."""
        kinds = Counter[str]()
        with self._lock:
            for event in self._events:
                kinds[_COUNTS.get(event["event"], "events")] += event.get("lines", 1)
            refused = sum("rejected" in record for record in self._records.values())
            fences = len(self._records) - refused
        found = {"fences": fences, "refused": refused, "events": kinds["events"]}
        return found | {name: kinds[name] for name in _COUNTS.values()}

    def compared(self) -> dict[str, int]:
        """The numbers, and those of the comparison with the reference."""
        with self._lock:
            records = [record for record in self._records.values() if "rejected" not in record]
            events = list(self._events)
        found = [event for event in events if event["event"] not in _COUNTS]
        expected = Reference(self._points, records, events).events()
        return self.counts() | differences(found, expected)


def follow(account: Account, broker: str | None = None) -> None:
    """Print the numbers after each change, until standard input ends.

    With ``broker``, publish comparisons there.  Raises :class:`PublishError`.
    """
    compared, changed = True, 0.0
    while not select.select([sys.stdin], [], [], _INTERVAL)[0]:
        if account.changed.is_set():
            account.changed.clear()
            compared, changed = False, time.monotonic()
            show(account.counts())
        elif not compared and time.monotonic() - changed > _PAUSE:
            compared = True
            show(found := account.compared())
            if broker is not None:
                _publish(broker, found)


def _publish(broker: str, found: dict[str, int]) -> None:
    publisher = Publisher(broker)
    try:
        publisher.publish(COMPARED, json.dumps(found).encode())
        publisher.flush()
    finally:
        publisher.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code."""
    parser = argparse.ArgumentParser(
        description="Compare the events of the geofencing jobs with a reference."
    )
    parser.add_argument("directory", type=Path, help="the files of the generator")
    parser.add_argument("--broker", required=True, metavar="ADDRESS", help="the broker of the merged events")
    help_ = f"publish comparisons on the topic {COMPARED!r}, for the map"
    parser.add_argument("--publish", action="store_true", help=help_)
    options = parser.parse_args(arguments)
    subscriptions = []
    try:
        account = Account(points_of(messages_of(options.directory / "stream.jsonl")))
        for topic in (FENCES, EVENTS):
            subscriptions.append(Subscription(options.broker, topic, topic, account))
        if not all(subscription.ready.wait(30) for subscription in subscriptions):
            raise TimeoutError("the broker did not answer the subscriptions in 30 s")
        show({"ready": True})
        follow(account, options.broker if options.publish else None)
    except (OSError, ValueError, PublishError) as error:
        print(f"compare: {error}", file=sys.stderr)
        return 1
    finally:
        for subscription in subscriptions:
            subscription.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
