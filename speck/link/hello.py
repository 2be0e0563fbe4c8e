"""The first messages of a connection: an agent's description of its site, and the refusal of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from speck.core.inventory import Site
from speck.link.frames import PROTOCOL


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """An agent's description of its site.

    ``engines`` and ``broker`` are addresses, ``machine`` identifies the computer, ``code`` are the hashes of
    the files of jobs that it has.
    """

    protocol: int
    version: str
    site: str
    engines: tuple[str, ...]
    broker: str
    machine: str = ""
    code: tuple[str, ...] = ()


def refusal(hello: Hello, token_of: str, sites: Mapping[str, Site]) -> str:
    """The reason why an agent that has the token of the site ``token_of`` is refused; empty if it is not.

    ``sites`` are those that the coordinator reaches through agents.
    """
    if hello.protocol != PROTOCOL:
        return (
            f"the agent speaks protocol {hello.protocol} (expected {PROTOCOL}: update the older of the two)"
        )
    if hello.site != token_of:
        return f"the token is that of site {token_of!r} (the agent says {hello.site!r})"
    site = sites.get(hello.site)
    if site is None:
        return f"site {hello.site!r} is not in the inventory with 'agent: true'"
    engines = {each.spe_address for each in site.engines}
    if missing := engines - set(hello.engines):
        served = _list(hello.engines)
        return f"the agent does not serve engine {min(missing)} of the inventory (it serves {served})"
    if hello.broker != site.broker_address:
        return f"the agent serves broker {hello.broker} (the inventory has {site.broker_address})"
    return ""


def _list(addresses: tuple[str, ...]) -> str:
    return ", ".join(addresses) or "none"
