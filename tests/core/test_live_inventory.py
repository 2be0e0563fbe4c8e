"""An inventory whose sites change while it is in use."""

from __future__ import annotations

from speck.core.inventory import Broker, Engine, Inventory
from speck.core.live_inventory import LiveInventory, live
from testbed.benches.examples import one_site

A, B = one_site("A", "sc://a:1", "tcp://a:1"), one_site("B", "sc://b:1", "tcp://b:1", pool="p")


def test_all_look_ups_see_the_change() -> None:
    inventory = live(Inventory({"A": A}, {"C": Broker(broker_address="tcp://c:1")}))
    assert inventory.site_of_engine("sc://b:1") is None
    inventory.replace(Inventory({"A": A, "B": B}))
    assert inventory.sites == {"A": A, "B": B}
    assert inventory.site_of_engine("sc://b:1") == B
    assert inventory.site_of_broker("tcp://b:1") == B
    assert inventory.broker("tcp://b:1") == B
    assert inventory.engine("sc://b:1") == Engine(spe_address="sc://b:1", pool="p")
    assert [each.name for each in inventory.pools] == ["p"]
    assert inventory.brokers == {}
    assert inventory.own_broker_address("tcp://c:1") == "tcp://c:1"


def test_no_index_is_made_later() -> None:
    """A thread would make it of the former sites, after they were replaced."""
    inventory = live(Inventory({"A": A}))
    made = set(vars(inventory))
    assert made > {"sites", "brokers", "links", "_engines", "_brokers", "_pools"}
    for ask in (inventory.pool_of, inventory.site_of_engine, inventory.site_of_broker, inventory.broker):
        ask("tcp://a:1")
    assert set(vars(inventory)) == made


def test_a_snapshot_stays_as_it_was() -> None:
    inventory = live(Inventory({"A": A, "B": B}))
    before = inventory.snapshot
    inventory.replace(Inventory({"A": A}))
    assert before == Inventory({"A": A, "B": B})
    assert before.site_of_engine("sc://b:1") == B
    assert inventory.snapshot == Inventory({"A": A})
    assert inventory.snapshot.snapshot is inventory.snapshot


def test_a_live_inventory_stays_the_same() -> None:
    inventory = live(Inventory({"A": A}))
    assert isinstance(inventory, LiveInventory)
    assert live(inventory) is inventory
