"""The state of the map: movers, fences, events and answers, as the messages of the brokers tell them.

Each item has a kind and a name, and the version of its last change: a browser gets the items that changed
after the last version that it has, each once and as it is now.  Times are milliseconds since 1970 in UTC.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jars_and_apps.geofencing.fences import Unfit, admitted, instant, iso, position_of

LEAD = 5.0  # s from the message about a fence until it holds, as of the job admit
MOST_MOVERS = 20_000  # on the map: more dots than pixels between them
MOST_EVENTS = 100  # that the page lists
MOST_ANSWERS = 20
COMPARED = ("awaited", "missing", "extra", "twice", "wrong")  # events, beside the reference
# Errors of a message that is none of those that are read here.
_UNFIT = (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError)
_PACE_OVER = 5.0  # s over which the pace of the times is measured
_QUICKEST = 1000.0  # times real time: recorded data that is replayed as fast as possible

Data = dict[str, Any]
Key = tuple[str, str]


@dataclass
class World:
    """Safe to use from several threads.  ``clock`` is monotonic, s."""

    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    version: int = 0
    ended: bool = False
    _items: OrderedDict[Key, tuple[int, Any]] = field(default_factory=OrderedDict)
    _visits: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # fences by mover
    _inside: Counter[str] = field(default_factory=Counter)  # movers by fence
    _features: dict[str, Data] = field(default_factory=dict)  # of fences, as they were last drawn
    _counts: Counter[str] = field(default_factory=Counter)
    _times: dict[str, int] = field(default_factory=dict)  # of movers' positions
    _newest: deque[tuple[float, int]] = field(default_factory=deque)  # clock, and the newest time then
    _numbers: int = 0
    _changed: threading.Condition = field(default_factory=threading.Condition)

    # --- messages

    def positions(self, site: str, payload: bytes) -> None:
        """Take the positions of a site; its jobs report the lines that are none."""
        received = round(self.now() * 1000)
        with self._changed:
            for line in filter(None, payload.split(b"\n")):
                try:
                    at = position_of(line, received)
                except Unfit:
                    continue
                if at.mover:
                    self._counts["positions"] += 1
                    self._move(at.mover, at.time, [at.longitude, at.latitude, site])
            self._put("count", "positions", self._counts["positions"])

    def _move(self, mover: str, time_: int, place: list[Any]) -> None:
        known = self._times.get(mover)
        if time_ <= known if known is not None else len(self._times) >= MOST_MOVERS:
            return
        self._times[mover] = time_
        self._put("mover", mover, place)
        if not self._newest or time_ > self._newest[-1][1]:
            self._newest.append((self.clock(), time_))
            while self._newest[-1][0] - self._newest[0][0] > _PACE_OVER:
                self._newest.popleft()

    def drawn(self, topic: str, payload: bytes, *, retained: bool) -> None:
        """Take a fence as a user drew it: it is shown at once, and marked until the job has admitted it.

        ``retained`` is true of one that was drawn before the page began, and so has been admitted.
        """
        received = round(self.now() * 1000)
        record = admitted(topic, payload, received, round(LEAD * 1000))
        with self._changed:
            if "rejected" not in record:
                self._features[record["fence"]] = dict(json.loads(payload)) if payload else {}
                self._fence(record, "admitted" if retained else "drawn")

    def record(self, payload: bytes) -> None:
        """Take a record of the job ``admit``."""
        try:
            record = json.loads(payload)
            name = str(record["fence"])
        except _UNFIT:
            return
        with self._changed:
            if "rejected" in record:
                self._count("refused")
                self._put("refusal", name, str(record["rejected"]))
                return
            self._count("versions")
            self._fence(record, "admitted")

    def _fence(self, record: Mapping[str, Any], state: str) -> None:
        name = record["fence"]
        former = self._items.get(("fence", name), (0, None))[1]
        if state == "drawn" and former and former["state"] == "admitted" and former["time"] == record["time"]:
            return  # a repetition of what the job has admitted
        kept = {each: record.get(each) for each in ("time", "geometry", "movers", "dwell", "confirm")}
        self._put("fence", name, kept | {"state": state})

    def events(self, payload: bytes) -> None:
        """Take the lines of the job ``track`` in the cloud."""
        with self._changed:
            for line in filter(None, payload.split(b"\n")):
                try:
                    event = json.loads(line)
                    self._event(str(event["event"]), event)
                except _UNFIT:
                    self._count("unreadable")

    def comparison(self, payload: bytes) -> None:
        """Take a comparison of the program ``compare``."""
        try:
            found = {name: int(json.loads(payload)[name]) for name in COMPARED}
        except _UNFIT:
            return
        with self._changed:
            for name, count in found.items():
                self._put("count", name, count)

    def _event(self, kind: str, event: Data) -> None:
        if kind == "answer":
            self._answer(event)
            return
        self._count("events" if kind in ("enter", "exit", "dwell") else kind, int(event.get("lines", 1)))
        if self._items.get(("count", "awaited"), (0, None))[1] is not None:
            for name in COMPARED:  # of fewer events than there are now
                self._put("count", name, None)
        if kind in ("enter", "exit"):
            self._visit(event["mover"], event["fence"], begins=kind == "enter")
        self._numbers += 1
        self._put("event", str(self._numbers), event)
        self._items.pop(("event", str(self._numbers - MOST_EVENTS)), None)

    def _visit(self, mover: str, fence: str, *, begins: bool) -> None:
        own = self._visits[mover]
        if (fence in own) == begins:
            return  # a repetition
        own.symmetric_difference_update((fence,))
        self._inside[fence] += 1 if begins else -1
        self._put("inside", fence, self._inside[fence])
        self._put("count", "visits", sum(self._inside.values()))

    def _answer(self, event: Data) -> None:
        """Merge the parts of an answer; each is right for the visits of its movers."""
        name = str(event["question"])
        parts = {(int(event["shard"]), int(event["part"])): event}
        parts |= self._items.get(("parts", name), (0, {}))[1]
        self._items[("parts", name)] = (0, parts)
        for mover in event["movers"]:
            if not {"mover", "in"} <= mover.keys():
                continue  # a function of a user answers as it likes
            for fence in {*mover["in"]} ^ self._visits[mover["mover"]]:
                self._visit(mover["mover"], fence, begins=fence in mover["in"])
        shards = {each["shard"]: each["parts"] for each in parts.values()}
        if len(shards) == event["shards"] and len(parts) == sum(shards.values()):
            movers = [mover for each in parts.values() for mover in each["movers"]]
            movers.sort(key=lambda mover: str(mover.get("mover")))
            reached = min(str(each["reached"]) for each in parts.values())
            self._put("answer", name, {"reached": reached, "movers": movers})
            self._forget_answers()

    def _forget_answers(self) -> None:
        names = [name for kind, name in self._items if kind == "answer"]
        for name in names[:-MOST_ANSWERS]:
            del self._items["answer", name], self._items["parts", name]

    def _count(self, name: str, more: int = 1) -> None:
        self._counts[name] += more
        self._put("count", name, self._counts[name])

    def _put(self, kind: str, name: str, value: Any) -> None:
        self.version += 1
        self._items[kind, name] = (self.version, value)
        self._items.move_to_end((kind, name))
        self._changed.notify_all()

    # --- readers

    def feature(self, fence: str) -> Data:
        """The Feature of a fence as it was last drawn; empty if there is none."""
        with self._changed:
            return dict(self._features.get(fence, {}))

    def soon(self, fence: str) -> str | None:
        """A time of the positions that is ``LEAD`` seconds away at their pace; None if there are none.

        It is after that of the fence's last version.  Recorded positions are replayed faster than they were
        made, and are of another day.
        """
        with self._changed:
            if not self._newest:
                return None
            (begun, first), (ended, last) = self._newest[0], self._newest[-1]
            known = self._items.get(("fence", fence))
        pace = (last - first) / 1000 / (ended - begun) if ended - begun > 0.5 else 1.0
        found = last + round(LEAD * 1000 * min(max(pace, 1.0), _QUICKEST))
        return iso(found if known is None else max(found, instant(known[1]["time"]) + 1))

    def wait(self, since: int, seconds: float) -> bool:
        """Wait until something is newer than a version, or the page ends; False after ``seconds``."""
        with self._changed:
            return self._changed.wait_for(lambda: self.ended or self.version > since, seconds)

    def end(self) -> None:
        """End all waits."""
        with self._changed:
            self.ended = True
            self._changed.notify_all()

    def news(self, since: int) -> tuple[int, list[tuple[str, str, Any]]]:
        """The present version, and the kind, name and value of each item that is newer than ``since``."""
        found = []
        with self._changed:
            for (kind, name), (version, value) in reversed(self._items.items()):
                if kind == "parts":
                    continue
                if version <= since:
                    break
                found.append((kind, name, value))
            return self.version, found[::-1]


def refusal(topic: str, payload: bytes) -> str:
    """The reason why the job ``admit`` would refuse a fence; empty if it would not."""
    return str(admitted(topic, payload, instant("2000-01-01T00:00:00Z"), 0).get("rejected", ""))
