"""The listener for the agents of sites: its address, its tokens, and the binders of their sites."""

from __future__ import annotations

import time
from collections.abc import Collection, Hashable, Iterator, Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from speck.binder import BrokerKind, EngineKind, Registry
from speck.binder.pool import Remote
from speck.coordinator.agents import Enrolment, ListedTokens, NoTokens, with_joined
from speck.core.inventory import Inventory, Site, is_loopback
from speck.core.live_inventory import live
from speck.core.settings import ServerSettings
from speck.errors import Fault, InvalidInput
from speck.server.tls import Certificate
from speck.server.tokens import Owner, TokenFile, digest
from speck.store import Store
from speck.store.leveldb.database import Database
from speck.store.opening import agents_in

if TYPE_CHECKING:
    from speck.link.hub import Hub

_LOOPBACK = "127.0.0.1"


class SiteTokens:
    """The tokens of ``--agent-tokens``, whose names are those of sites."""

    def __init__(self, file: TokenFile) -> None:
        self._file = file
        self._known: tuple[tuple[Owner, ...], Mapping[str, str]] = ((), {})  # and the sites by their hashes

    def site_of(self, token: bytes) -> str | None:
        """See :class:`~speck.coordinator.agents.enrolment.ListedTokens`.

        By the hash of the token, in a table: thousands of agents may connect within seconds.
        """
        owners, sites = self._known
        if (now := self._file.owners()) is not owners:
            sites = {each.sha256: each.name for each in now}
            self._known = now, sites
        return sites.get(digest(token))

    def hashes_of(self, site: str) -> Collection[str]:
        """See :class:`~speck.coordinator.agents.enrolment.ListedTokens`."""
        return [each.sha256 for each in self._file.owners() if each.name == site]

    def mark(self) -> Hashable:
        """See :class:`~speck.coordinator.agents.enrolment.ListedTokens`."""
        return self._file.owners()


class AgentSites(Mapping[str, Site]):
    """The sites of an inventory that are reached through agents, as it is now."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory

    def __getitem__(self, name: str) -> Site:
        site = self._inventory.sites[name]
        if not site.agent:
            raise KeyError(name)
        return site

    def __iter__(self) -> Iterator[str]:
        return (name for name, each in self._inventory.sites.items() if each.agent)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def listed_tokens(settings: ServerSettings) -> ListedTokens:
    """The tokens of ``--agent-tokens``.

    Raises :class:`~speck.errors.InvalidInput` for a file that cannot be used.
    """
    return NoTokens() if settings.agent_tokens is None else SiteTokens(TokenFile(settings.agent_tokens))


def enrolment_of(
    listed: ListedTokens,
    store: Store,
    registry: Registry,
    inventory: Inventory,
    certificate: Certificate | None,
) -> Enrolment:
    """The agents that may connect; sites that have joined are added to the inventory.

    Raises :class:`~speck.errors.InvalidInput` for a site that cannot be used.
    """
    fingerprint = bytes if certificate is None else certificate.fingerprint
    return Enrolment(store, live(inventory), registry, time.time, listed, fingerprint)


def agents_hub(
    settings: ServerSettings, enrolment: Enrolment, *, secured: bool, epoch: int = 0
) -> Hub | None:
    """The connections of agents, not started yet; ``None`` for a server without ``--agents``.

    ``epoch`` is that of a server which has a standby, or had one; 0 for any other.

    Raises :class:`~speck.errors.InvalidInput` for an inventory with agents on a server without, and for an
    address beyond loopback on one without TLS (``secured``).
    """
    check_agents(settings, AgentSites(enrolment.inventory), secured=secured)
    if settings.agents is None:
        return None
    from speck.link.hub import Hub

    return Hub(enrolment.site_of, AgentSites(enrolment.inventory), enrolment.join, enrolment.mark, epoch)


def check_agents(settings: ServerSettings, sites: Mapping[str, Site], *, secured: bool) -> None:
    """Raise what :func:`agents_hub` does for these ``sites``, which are reached through agents."""
    if settings.agents is None:
        if sites:
            raise _wrong(
                f"site {min(sites)!r} is reached through an agent, and this server accepts none (give "
                "--agents, or remove 'agent: true')"
            )
        return
    host, _ = agents_address(settings.agents)
    if not is_loopback(host) and not secured:
        raise _wrong(
            f"--agents {settings.agents} is open to others without TLS (give --tls-cert and --tls-key)"
        )
    if find_spec("websockets") is None:
        raise _wrong("--agents needs the package websockets (pip install 'speck[agent]')")


def check_joined(
    settings: ServerSettings, inventory: Inventory, database: Database, *, secured: bool
) -> None:
    """Raise what :func:`enrolment_of` and :func:`agents_hub` do for a store that is not open."""
    sites = AgentSites(with_joined(inventory, agents_in(database)))
    check_agents(settings, sites, secured=secured)


def agents_address(text: str) -> tuple[str, int]:
    """Host and port of ``--agents``.  Raises :class:`~speck.errors.InvalidInput`."""
    return host_and_port(text, "--agents")


def host_and_port(text: str, option: str) -> tuple[str, int]:
    """Host and port of ``[HOST:]PORT``.  Raises :class:`~speck.errors.InvalidInput`."""
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise _wrong(f"{option} is {text!r} (expected [HOST:]PORT)")
    return host.strip("[]") or _LOOPBACK, int(port)


def remote_binders(hub: Hub, inventory: Inventory) -> Remote:
    """The binders of the places that are reached through agents."""
    from speck.link.remote import remote_broker, remote_engine

    def remote(kind: EngineKind | BrokerKind, address: str) -> object:
        if isinstance(kind, EngineKind):
            site = inventory.site_of_engine(address)
            reached = site is not None and site.agent
            return remote_engine(kind, hub, site.name, address, inventory) if site and reached else None
        place = inventory.site_of_broker(address)
        reached = place is not None and place.agent
        return remote_broker(kind, hub, place.name, address, inventory) if place and reached else None

    return remote


def _wrong(message: str) -> InvalidInput:
    return InvalidInput([Fault(message)], "agents")
