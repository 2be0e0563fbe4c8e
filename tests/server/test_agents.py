"""A server that is reached by the agents of sites: its options, and its inventory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from speck.core.inventory import Inventory
from speck.core.live_inventory import live
from speck.core.settings import ServerSettings
from speck.errors import InvalidInput, StoreDamaged
from speck.link.hub import Hub
from speck.schema.inventory import load_inventory
from speck.server.agents import (
    AgentSites,
    agents_address,
    agents_hub,
    check_joined,
    enrolment_of,
    listed_tokens,
    remote_binders,
)
from speck.server.tokens import Owner, Role, add_owner, digest
from speck.store import Store
from speck.store.agents import AgentRecord
from speck.store.leveldb.database import Database
from testbed.benches.examples import one_site
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

SITE = replace(one_site("A", "sc://a:15002", "tcp://a:1883"), agent=True)
INVENTORY = Inventory({"A": SITE, "B": one_site("B", "sc://b:15002", "tcp://b:1883")})


@pytest.fixture(name="tokens")
def tokens_fixture(tmp_path: Path) -> Path:
    add_owner(tmp_path / "tokens", Owner("A", Role.READ, digest(b"secret")))
    return tmp_path / "tokens"


@pytest.fixture(name="store")
def store_fixture(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "store") as store:
        yield store


def hub_of(
    settings: ServerSettings, store: Store, inventory: Inventory = INVENTORY, *, secured: bool = False
) -> Hub | None:
    enrolment = enrolment_of(listed_tokens(settings), store, double_kinds(World()), inventory, None)
    return agents_hub(settings, enrolment, secured=secured)


def test_a_site_with_an_agent_needs_a_listener(store: Store) -> None:
    with pytest.raises(InvalidInput, match=r"site 'A' is reached through an agent.*--agents"):
        hub_of(ServerSettings(), store)
    assert hub_of(ServerSettings(), store, Inventory()) is None


def test_tokens_need_a_listener(tokens: Path, store: Store) -> None:
    with pytest.raises(InvalidInput, match="--agent-tokens requires --agents"):
        ServerSettings(agent_tokens=tokens)
    assert hub_of(ServerSettings(agents="8181"), store) is not None  # sites join by codes


def test_the_sites_with_agents_are_those_of_the_inventory_now() -> None:
    inventory = live(INVENTORY)
    sites = AgentSites(inventory)
    assert dict(sites) == {"A": SITE}
    assert len(sites) == 1
    inventory.replace(Inventory())
    assert dict(sites) == {}


@pytest.mark.parametrize("address", ["0.0.0.0:8181", "example.org:8181", "[::]:8181", ":::8181"])
def test_no_agents_come_from_elsewhere_without_tls(tokens: Path, store: Store, address: str) -> None:
    settings = ServerSettings(agents=address, agent_tokens=tokens)
    with pytest.raises(InvalidInput, match="open to others without TLS"):
        hub_of(settings, store)
    assert hub_of(settings, store, secured=True) is not None


@pytest.mark.parametrize(
    ("text", "address"),
    [("8181", ("127.0.0.1", 8181)), (":0", ("127.0.0.1", 0)), ("[::1]:5", ("::1", 5)), ("a:1", ("a", 1))],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert agents_address(text) == address


@pytest.mark.parametrize("text", ["", "a", "a:", "a:b", "a:70000", "a:-1", "a:²"])
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"expected \[HOST:\]PORT"):
        agents_address(text)


def test_only_places_of_sites_with_agents_are_reached_through_them(tokens: Path, store: Store) -> None:
    hub = hub_of(ServerSettings(agents="0", agent_tokens=tokens), store)
    assert hub is not None
    kinds, remote = double_kinds(World()), remote_binders(hub, INVENTORY)
    spark, mqtt = kinds.engine_kind("spark", "sc://a:1"), kinds.broker_kind("tcp://a:1")
    assert spark is not None
    assert mqtt is not None
    assert [bool(remote(spark, f"sc://{each}:15002")) for each in "abc"] == [True, False, False]
    assert [bool(remote(mqtt, f"tcp://{each}:1883")) for each in "abc"] == [True, False, False]
    hub.close()


ENTRY = "{spe_address: 'sc://%s:15002', broker_address: 'tcp://%s:1883', agent: %s}"


def test_an_inventory_names_the_sites_with_agents() -> None:
    text = f"sites:\n  A: {ENTRY % ('a', 'a', 'true')}\n  B: {ENTRY % ('b', 'b', 'false')}\n"
    assert {name: site.agent for name, site in load_inventory(text).sites.items()} == {"A": True, "B": False}
    with pytest.raises(InvalidInput, match=r"agent.*expected true"):
        load_inventory(text.replace("true", "yes please"))


@pytest.mark.parametrize(("engine", "broker"), [("a", "b"), ("b", "a")])
def test_an_address_behind_an_agent_is_that_of_one_site(engine: str, broker: str) -> None:
    text = f"sites:\n  A: {ENTRY % ('a', 'a', 'true')}\n  B: {ENTRY % (engine, broker, 'false')}\n"
    with pytest.raises(InvalidInput, match=r"site 'A': .* through its agent, and 'B' has the same"):
        load_inventory(text)
    elsewhere = (
        f"sites:\n  A: {ENTRY % ('a', 'a', 'true')}\nbrokers:\n  C: {{broker_address: 'tcp://a:1883'}}\n"
    )
    with pytest.raises(InvalidInput, match="and 'C' has the same"):
        load_inventory(elsewhere)


def test_a_store_is_checked_for_joined_sites_before_it_is_served(tmp_path: Path) -> None:
    """A standby asks for no epoch if one of them could not be reached then."""
    entry = {"spe_address": "sc://street:15002", "broker_address": "tcp://street:1883"}
    with Store(tmp_path / "joined") as store, store.transaction() as transaction:
        transaction.put_agent(AgentRecord(site="street", entry=entry))
    with closing(Database(tmp_path / "joined")) as database:
        check_joined(ServerSettings(agents="8181"), Inventory(), database, secured=False)
        with pytest.raises(InvalidInput, match="site 'street' is reached through an agent"):
            check_joined(ServerSettings(), Inventory(), database, secured=False)
        other = Inventory({"B": one_site("B", "sc://street:15002", "tcp://b:1883")})
        with pytest.raises(InvalidInput, match="sc://street:15002"):
            check_joined(ServerSettings(agents="8181"), other, database, secured=False)
        database.write([(b"agent/street", b"?")])
        with pytest.raises(StoreDamaged, match="the agents of sites cannot be read"):
            check_joined(ServerSettings(agents="8181"), Inventory(), database, secured=False)
