"""Calls of the coordinator, carried out at the engines and the broker of the site."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from speck.agent.code_store import CodeStore
from speck.agent.durable_engine import DurableEngine
from speck.agent.journal import Journal
from speck.agent.looks import Looks
from speck.agent.places import SiteInventory
from speck.agent.turns import Turns
from speck.agent.upgrader import Upgrader
from speck.binder import BrokerBinder, EngineBinder, Feed
from speck.binder.deadline import within
from speck.core.runtime import JobMetrics
from speck.errors import BinderError, OutcomeUnknown, Rejected, SpeckError
from speck.link.codec import Malformed, decode, encode
from speck.link.errors import error_data, other_version
from speck.link.methods import (
    END_FEED,
    JOURNAL,
    ORDERED,
    RECEIVE,
    STORE,
    UPGRADABLE,
    UPGRADE,
    decode_arguments,
)
from speck.link.places import PlaceOfJobs

MOST_FEEDS = 64
_LONGEST = 900.0  # s, for a call that names no limit

_log = logging.getLogger(__name__)


@dataclass
class Calls:
    """Carries out the calls of the coordinator at the engines and the broker of the site.

    ``broker(address, owner)`` is the binder of a broker that acts for this owner.
    """

    site: str
    engines: Mapping[str, DurableEngine]
    broker_address: str
    broker: Callable[[str, str], BrokerBinder]
    inventory: SiteInventory
    code: CodeStore
    turns: Turns
    looks: Looks
    journal: Journal
    upgrader: Upgrader
    _feeds: dict[int, Feed] = field(default_factory=dict, init=False)
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1), init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def answer(self, call: dict[str, Any], is_open: Callable[[], bool]) -> dict[str, Any]:
        """The answer to a call; a call that has not begun when its connection ends is dropped."""
        try:
            seconds = decode(float, call.get("t", _LONGEST), "t")
            with within(min(_LONGEST, seconds)):
                return {"r": self._answer(call, is_open)}
        except Malformed as error:
            return {"x": error_data(other_version(error, self.site, str(call.get("e", ""))))}
        except SpeckError as error:
            return {"x": error_data(error)}
        except Exception as error:  # a defect in one call must not end the agent
            _log.exception("call %r failed", call.get("m"))
            return {"x": error_data(error)}

    def note_answered(self, call: Mapping[str, Any]) -> None:
        """Have the jobs of an engine reported again once a call was answered that may have changed them.

        The coordinator drops what was reported before the answer came.  After a stop, forget the brokers that
        no job uses any more.  After an upgrade, end this process.
        """
        if call.get("m") in ORDERED:
            self.looks.repeat(str(call.get("e")))
        if call.get("m") == "stop":
            self._forget_brokers()
        if call.get("m") == UPGRADE:
            self.upgrader.note_answered()

    def _forget_brokers(self) -> None:
        used = set[str]().union(*(each.attempts.brokers() for each in self.engines.values()))
        try:
            self.inventory.retain(used)
        except OSError as error:
            _log.warning("passwords that no job uses are left on the disk: %s", error.strerror)

    def close_feeds(self) -> None:
        """End all subscriptions, whose reader is gone."""
        with self._lock:
            ending, self._feeds = list(self._feeds.values()), {}
        for each in ending:
            each.close()

    def _answer(self, call: dict[str, Any], is_open: Callable[[], bool]) -> Any:
        method, address = str(call.get("m")), str(call.get("e"))
        given = call.get("a")
        arguments: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
        if method == STORE:
            return self._store(arguments)
        if method == JOURNAL:
            return encode(self.journal.after(decode(int, arguments.get("after"), "after")))
        if method == UPGRADABLE:
            return encode(self.upgrader.upgradable())
        if method == UPGRADE:
            return self.upgrader.upgrade(decode(str, arguments.get("version"), "version"))
        if method in (RECEIVE, END_FEED):
            return self._of_feed(method, arguments, address)
        if address in self.engines:
            return self._of_engine(
                self.engines[address], method, self._arguments(call, method, arguments), is_open
            )
        if address == self.broker_address:
            return self._of_broker(
                method, decode_arguments(BrokerBinder, method, arguments), str(call.get("o", ""))
            )
        raise Rejected(
            f"{address} is neither an engine nor the broker of site {self.site!r}", address=address
        )

    def _store(self, arguments: Mapping[str, Any]) -> list[str] | int:
        """Store a part of a file of jobs.

        Returns the place of the next part in the file, or after the last one the hashes of all files.
        """
        content = decode(bytes, arguments.get("content"), "content")
        whole = {"at": 0, "size": len(content)}  # as a server of an earlier version sends a file
        at, size = (decode(int, {**whole, **arguments}[name], name) for name in ("at", "size"))
        there = self.code.put(str(arguments.get("hash")), content, at, size)
        if there < size:
            return there
        records = (each for engine in self.engines.values() for each in engine.attempts.all())
        self.code.prune([each.job.job_path for each in records])
        return list(self.code.hashes())

    def _arguments(self, call: dict[str, Any], method: str, data: Mapping[str, Any]) -> dict[str, Any]:
        arguments = decode_arguments(EngineBinder, method, data)
        if "job" in arguments:
            self.inventory.learn(decode(list[PlaceOfJobs], call.get("b", []), "b"))
            if (file := call.get("f")) is not None:
                path = self.code.path(str(file["hash"]), str(file["name"]))
                arguments["job"] = replace(arguments["job"], job_path=str(path))
        return arguments

    def _of_engine(
        self, engine: DurableEngine, method: str, arguments: dict[str, Any], is_open: Callable[[], bool]
    ) -> Any:
        key = engine.key(method, arguments)
        if key is None:
            found = engine.call(method, arguments)
            return encode(_to_milliseconds(found) if method == "measure" else found)
        with self.turns.take(key):
            if not is_open():
                raise OutcomeUnknown(f"{engine.address}: the connection ended before the call began")
            self.looks.change(engine.address)
            try:
                return encode(engine.call(method, arguments))
            finally:
                self.looks.change(engine.address)

    # --- the broker

    def _of_broker(self, method: str, arguments: dict[str, Any], owner: str) -> Any:
        binder = self.broker(self.broker_address, owner)
        if method == "subscribe":
            return self._begin_feed(binder, arguments)
        return encode(getattr(binder, method)(**arguments))

    def _begin_feed(self, binder: BrokerBinder, arguments: dict[str, Any]) -> int:
        if len(self._feeds) >= MOST_FEEDS:
            raise BinderError(
                f"{self.broker_address}: {MOST_FEEDS} subscriptions are open", address=self.broker_address
            )
        feed, number = binder.subscribe(**arguments), next(self._numbers)
        with self._lock:
            self._feeds[number] = feed
        return number

    def _of_feed(self, method: str, arguments: Mapping[str, Any], address: str) -> Any:
        number = arguments.get("feed")
        with self._lock:
            feed = self._feeds.get(number) if isinstance(number, int) else None
            if feed is not None and method == END_FEED:
                del self._feeds[number]  # type: ignore[arg-type]
        if feed is None:
            raise OutcomeUnknown(f"{address}: the subscription has ended", address=address)
        if method == RECEIVE:
            return [[topic, encode(payload)] for topic, payload in feed.receive()]
        return feed.close()


def _to_milliseconds(found: Mapping[str, JobMetrics | BinderError]) -> Mapping[str, JobMetrics | BinderError]:
    """The metrics with shorter times, which are often all that changes."""
    return {
        key: replace(each, observed_at=round(each.observed_at, 3)) if isinstance(each, JobMetrics) else each
        for key, each in found.items()
    }
