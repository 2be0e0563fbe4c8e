"""The kinds of binders whose engines and brokers are in a world in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from binders.common.python_reach import reached_code
from speck.binder import BrokerKind, EngineKind, Registry
from speck.core.inventory import Inventory
from testbed.doubles.broker import InMemoryBroker
from testbed.doubles.engine import InMemoryEngine
from testbed.doubles.world import World

CheckCode = Callable[[Path, str], str | None]


def accept_any_code(path: Path, entry_class: str) -> str | None:
    """The double runs no code, so any will do."""
    return None


def double_kinds(
    world: World, *, check_code: CheckCode = accept_any_code, bound: int = 4, startup: float = 0.0
) -> Registry:
    """A world's kinds: ``spark`` (``sc``), ``flink`` (``http``, ``https``), an MQTT broker (``tcp``)."""

    def spark(address: str, inventory: Inventory) -> InMemoryEngine:
        return _engine(world, address, inventory, "spark")

    def flink(address: str, inventory: Inventory) -> InMemoryEngine:
        return _engine(world, address, inventory, "flink")

    def broker(address: str, inventory: Inventory) -> InMemoryBroker:
        return InMemoryBroker(world, address)

    sparks = EngineKind(
        "spark-connect",
        "spark",
        ("sc",),
        check_code,
        spark,
        bound=bound,
        startup_seconds=startup,
        aggregation=lambda path, entry_class: (),
        reached_code=lambda path, entry_class: reached_code(path.read_bytes(), entry_class, path.name),
    )
    flinks = replace(
        sparks, name="flink", engine="flink", schemes=("http", "https"), connect=flink, aggregation=None
    )
    return Registry.of([sparks, flinks, BrokerKind("mqtt", ("tcp", "mqtt"), broker)])


def _engine(world: World, address: str, inventory: Inventory, kind: str) -> InMemoryEngine:
    slots = inventory.engine(address).slots
    if slots is not None:
        world.engine(address).slots = slots
    return InMemoryEngine(world, address, kind)
