"""The deletion of messages that no job needs any more, broker by broker."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from speck.binder.pool import BinderPool
from speck.controller.keeping import PERIOD, Keeping
from speck.errors import Unreachable

BROKERS = {
    "kafka://a:9092": Unreachable("no route"),
    "kafka://b:9092": RuntimeError("a defect"),
    "kafka://c:9092": None,
}


def test_trouble_at_one_broker_keeps_no_other_one_from_deleting() -> None:
    purged: list[str] = []

    def broker(address: str) -> Any:
        def purge() -> None:
            purged.append(address)
            if (error := BROKERS[address]) is not None:
                raise error

        return SimpleNamespace(purge=purge)

    pool = cast("BinderPool", SimpleNamespace(broker=broker))
    assert Keeping(pool, lambda: BROKERS).round() == PERIOD
    assert purged == list(BROKERS)
