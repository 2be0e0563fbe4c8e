"""The control topic as a map, at a broker that loses the end of its log."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from binders.kafka.client import Connected
from binders.kafka.control_log import ControlLog

pytest.importorskip("kafka")


@dataclass(frozen=True)
class Record:
    """A record of a log."""

    key: bytes
    value: bytes | None


@dataclass
class Log:
    """A connection to a broker with one log, and the consumer of it."""

    records: list[Record] = field(default_factory=list)
    place: int = 0

    @property
    def admin(self) -> Log:
        return self

    @property
    def consumer(self) -> Log:
        return self

    def describe_topics(self, topics: list[str]) -> list[dict[str, Any]]:
        return [{"name": each, "error_code": 0} for each in topics]

    def assign(self, partitions: Any) -> None:
        self.place = 0

    def seek_to_beginning(self, partition: Any) -> None:
        self.place = 0

    def end_offsets(self, partitions: list[Any]) -> dict[Any, int]:
        return dict.fromkeys(partitions, len(self.records))

    def position(self, partition: Any) -> int:
        return self.place

    def poll(self, milliseconds: int) -> dict[Any, list[Record]]:
        from kafka import TopicPartition

        found, self.place = self.records[self.place :], len(self.records)
        return {TopicPartition("speck.control", 0): found}


def refresh(known: ControlLog, log: Log) -> None:
    known.refresh(cast(Connected, log), 1, time.monotonic() + 10)


def test_new_records_take_the_place_of_older_ones() -> None:
    log, known = Log([Record(b"note/a", b'{"owner": "x"}')]), ControlLog("kafka://k")
    refresh(known, log)
    log.records += [Record(b"note/a", None), Record(b"note/b", b"{}")]
    refresh(known, log)
    assert known.below("note/") == {"b": {}}


def test_records_that_the_broker_has_lost_are_forgotten() -> None:
    """The notes of sessions among them, which would be taken for present."""
    kept, lost = Record(b"fence/a", b'{"attempt": 1}'), Record(b"fence/a", b'{"attempt": 2}')
    log, known = Log([kept, lost, Record(b"note/a", b"{}")]), ControlLog("kafka://k")
    refresh(known, log)
    assert known.get("fence/a") == {"attempt": 2}
    del log.records[1:]
    refresh(known, log)
    assert known.get("fence/a") == {"attempt": 1}
    assert known.below("note/") == {}
