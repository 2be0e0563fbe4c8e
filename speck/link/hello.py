"""The first messages of a connection: an agent's description of its site, and the refusal of one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import speck
from speck.core.inventory import Site
from speck.link.frames import PROTOCOL

LONGEST = 100  # characters of a machine's id, and of a version
CONFIRMS = "Speck-Confirms"  # a field of the request of an agent that says if it accepts the server
ACCEPTED: Mapping[str, Any] = {"accepted": True}  # the message by which it does
_KNOWN_EPOCH = "known_epoch"
_HIGHEST_EPOCH = 10**15  # that is shown


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


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """The first message of a site that joins: its code, and the computer of its agent.

    ``entry`` is its entry of an inventory; ``None`` for a site that the server's inventory has.
    """

    protocol: int
    version: str
    code: str = field(repr=False)
    machine: str = ""
    entry: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """The answer to a site that has joined: the token of its agent, and its description."""

    token: str = field(repr=False)
    site: Site


@dataclass(frozen=True, slots=True)
class EpochRefusal:
    """An agent refuses its server of epoch ``epoch``: it was connected to one of a higher one, ``known``."""

    epoch: int
    known: int


def is_accepted(message: Mapping[str, Any]) -> bool:
    """True for the message of an agent that accepts its server."""
    return message.get("accepted") is True


def epoch_message(known: int) -> dict[str, Any]:
    """The last message of an agent that refuses its server, as it was connected to one of this epoch."""
    return {_KNOWN_EPOCH: known}


def epoch_refusal(message: Mapping[str, Any], epoch: int) -> EpochRefusal | None:
    """The refusal of a server of an epoch by a message of :func:`epoch_message`; ``None`` for another."""
    known = message.get(_KNOWN_EPOCH)
    is_higher = isinstance(known, int) and epoch < known <= _HIGHEST_EPOCH
    return EpochRefusal(epoch, known) if is_higher and isinstance(known, int) else None


def identity_fault(machine: str, version: str) -> str:
    """The fault of what an agent says of itself, which is shown to users; empty without one."""
    for name, value in (("machine", machine), ("version", version)):
        if len(value) > LONGEST or not value.isprintable():
            return f"{name} is not valid (expected at most {LONGEST} printable characters)"
    return ""


def versions(agent: str) -> str:
    """The versions of both ends, for an error between them; the agent's may be any text."""
    shown = agent[:LONGEST] if agent.isprintable() else "that is not valid"
    return f"the agent has version {shown}, the server {speck.__version__}"


def refusal(hello: Hello, token_of: str, sites: Mapping[str, Site]) -> str:
    """The reason why an agent that has the token of the site ``token_of`` is refused; empty if it is not.

    ``sites`` are those that the coordinator reaches through agents.
    """
    if fault := identity_fault(hello.machine, hello.version):
        return fault
    if hello.protocol != PROTOCOL:
        return (
            f"the agent speaks protocol {hello.protocol} (expected {PROTOCOL}; {versions(hello.version)}: "
            "update the older of the two)"
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
