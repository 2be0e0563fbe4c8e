"""Binders in the former form of the contract: classes without its base, with optional parts by methods."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from speck import binder as contract
from speck.binder import (
    BrokerBinder,
    Capability,
    EngineBinder,
    OwnedSession,
    StateFiles,
    former,
    installed,
)
from speck.binder.former import adapted
from speck.core.inventory import Inventory
from speck.errors import Rejected
from speck.testing import EngineContract
from testbed.benches.double import ENGINE, DoubleBench
from testbed.doubles.broker import InMemoryBroker
from testbed.doubles.engine import InMemoryEngine
from testbed.doubles.world import World
from tests.binder.test_contract_double import TestBrokerDouble
from tests.test_binder_package import install


def without_base(double: type, **changed: Any) -> type:
    """A class with a double's own members and without its base class, as a binder was written before."""
    own = {name: each for name, each in vars(double).items() if name not in ("__dict__", "__weakref__")}
    own.pop("capabilities")
    own.pop("__abstractmethods__")
    own.pop("_abc_impl")
    return type(f"Former{double.__name__}", (), own | changed)


FormerEngine, FormerBroker = without_base(InMemoryEngine), without_base(InMemoryBroker)


def former_engine(world: World, address: str) -> EngineBinder:
    found: EngineBinder = adapted(FormerEngine(world, address), EngineBinder)
    return found


def former_broker(world: World, address: str) -> BrokerBinder:
    found: BrokerBinder = adapted(FormerBroker(world, address), BrokerBinder)
    return found


class FormerBench(DoubleBench):
    connect = former_engine


class TestFormerEngine(EngineContract):
    @pytest.fixture
    def bench(self) -> FormerBench:
        return FormerBench()


class TestFormerBroker(TestBrokerDouble):
    connect = former_broker


del TestBrokerDouble  # it has run in its own module


def test_a_former_binder_has_the_capabilities_of_its_methods() -> None:
    assert FormerEngine.__mro__ == (FormerEngine, object)
    assert former_engine(World(), ENGINE).capabilities == InMemoryEngine.capabilities
    assert former_broker(World(), "tcp://a").capabilities == InMemoryBroker.capabilities


def test_a_part_of_a_protocol_counted_for_nothing() -> None:
    partly = without_base(InMemoryEngine, probe_link=lambda self, broker: None, running=None)
    engine: EngineBinder = adapted(partly(World(), ENGINE), EngineBinder)
    assert Capability.PROBES not in engine.capabilities
    assert engine.state_of.__func__ is EngineBinder.state_of  # type: ignore[attr-defined]
    with pytest.raises(Rejected, match="does not list the jobs"):
        engine.running()


def test_other_attributes_are_those_of_the_former_binder() -> None:
    world = World()
    assert former_engine(world, ENGINE).world is world  # type: ignore[attr-defined]
    assert former_engine(world, ENGINE).log_about == "from memory"


PACKAGE = """
from speck.binder import EngineKind
from speck.errors import Unreachable

class AbacusEngine:
    def __init__(self, address, inventory):
        self.address = address

    def capacity(self):
        raise Unreachable(f"{self.address}: there is no abacus", address=self.address)

def connect(address, inventory):
    return AbacusEngine(address, inventory)

ABACUS = EngineKind("abacus", "abacus", ("abacus",), lambda path, entry_class: None, %s)
"""


@pytest.fixture(autouse=True)
def unreported() -> Iterator[None]:
    yield
    former._reported.clear()
    sys.modules.pop("speck_abacus", None)


@pytest.mark.parametrize("connect", ["AbacusEngine", "connect"])
def test_a_former_binder_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, connect: str
) -> None:
    caplog.set_level(logging.WARNING)
    install(tmp_path, "speck_abacus", PACKAGE % connect, "abacus = speck_abacus:ABACUS")
    monkeypatch.syspath_prepend(tmp_path)
    kinds = [installed().engine_kind("abacus", "abacus://desk") for _ in range(2)]
    assert len(caplog.messages) == (connect == "AbacusEngine")  # a function shows its class when it is called
    for kind in kinds:
        assert kind is not None
        engine = kind.connect("abacus://desk", Inventory())
        assert isinstance(engine, EngineBinder)
        with pytest.raises(Exception, match="there is no abacus"):
            engine.capacity()
    assert caplog.messages == [
        "binder 'abacus' of package speck_abacus 1.0: class speck_abacus.AbacusEngine is in the former form "
        "of the contract, which the next version does not accept (let it inherit speck.binder.EngineBinder; "
        "see docs/binders.md)"
    ]


def test_binders_of_this_package_are_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    for kind in installed().brokers:
        assert isinstance(kind.connect(f"{kind.schemes[0]}://127.0.0.1:1", Inventory()), BrokerBinder)
    assert caplog.messages == []


@pytest.mark.parametrize("name", sorted(former.PROTOCOLS))
@pytest.mark.parametrize("module", ["speck.binder", "speck.binder.contract"])
def test_a_former_name_is_found_with_a_warning(module: str, name: str) -> None:
    with pytest.warns(FutureWarning, match=f"{module}.{name} is a former name"):
        protocol = getattr(sys.modules[module], name)
    members = former.PROTOCOLS[name]
    assert any(all(hasattr(base, each) for each in members) for base in (EngineBinder, BrokerBinder))
    assert type("Heir", (InMemoryEngine, protocol), {}).capabilities == InMemoryEngine.capabilities


@pytest.mark.parametrize(("name", "record"), [("ForeignSession", OwnedSession), ("Snapshot", StateFiles)])
def test_the_former_name_of_a_record_is_the_present_one(name: str, record: type) -> None:
    with pytest.warns(FutureWarning, match=f"use {record.__name__}"):
        assert getattr(contract, name) is record


def test_a_name_that_never_was_is_an_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'CountsBeads'"):
        _ = contract.CountsBeads  # type: ignore[attr-defined]
