"""The listener for the agents of sites: its address, its tokens, and the binders of their sites."""

from __future__ import annotations

import socket
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from speck.binder import BrokerKind, EngineKind
from speck.binder.pool import Remote
from speck.core.inventory import Inventory, is_loopback
from speck.core.settings import ServerSettings
from speck.errors import Fault, InvalidInput
from speck.server.tls import Certificate
from speck.server.tokens import TokenFile

if TYPE_CHECKING:
    from speck.link.hub import Hub

_LOOPBACK = "127.0.0.1"


def agents_hub(settings: ServerSettings, inventory: Inventory, *, secured: bool) -> Hub | None:
    """The connections of agents, not started yet; ``None`` for a server without ``--agents``.

    Raises :class:`~speck.errors.InvalidInput` for an inventory with agents on a server without, and for an
    address beyond loopback on one without TLS (``secured``).
    """
    sites = {site.name: site for site in inventory.sites.values() if site.agent}
    if settings.agents is None or settings.agent_tokens is None:
        if sites:
            raise _wrong(
                f"site {min(sites)!r} is reached through an agent, and this server accepts none (give "
                "--agents and --agent-tokens, or remove 'agent: true')"
            )
        return None
    host, _ = agents_address(settings.agents)
    if not is_loopback(host) and not secured:
        raise _wrong(
            f"--agents {settings.agents} is open to others without TLS (give --tls-cert and --tls-key)"
        )
    if find_spec("websockets") is None:
        raise _wrong("--agents needs the package websockets (pip install 'speck[agent]')")
    from speck.link.hub import Hub

    return Hub(_site_of(TokenFile(settings.agent_tokens)), sites)


def agents_address(text: str) -> tuple[str, int]:
    """Host and port of ``[HOST:]PORT``.  Raises :class:`~speck.errors.InvalidInput`."""
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise _wrong(f"--agents is {text!r} (expected [HOST:]PORT)")
    return host.strip("[]") or _LOOPBACK, int(port)


def start_hub(hub: Hub, listener: socket.socket, certificate: Certificate | None) -> None:
    """Accept agents at a socket that listens."""
    hub.start(listener, None if certificate is None else certificate.renewing_context())


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


def _site_of(tokens: TokenFile) -> Callable[[bytes], str | None]:
    def site(token: bytes) -> str | None:
        owner = tokens.owner(token)
        return None if owner is None else owner.name

    return site


def _wrong(message: str) -> InvalidInput:
    return InvalidInput([Fault(message)], "agents")
