"""The agents of local sites: a process each, which reaches the coordinator on this machine.

The token of a site is in the directory of its agent; the file ``agents`` beside the sites has their hashes,
as ``speck serve --agent-tokens`` reads them.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from speck.agent import ENVIRONMENT
from speck.agent.site_file import SiteFile, write_site_file
from speck.binder import Registry
from speck.core.durable_files import replace_file
from speck.core.inventory import Engine, Inventory, Secret, Site
from speck.errors import LocalError
from speck.link.methods import is_carried
from speck.local.state import ServerRecord

TOKENS = "agents"


@dataclass(frozen=True, slots=True)
class AgentProcess:
    """An agent as a :class:`~speck.binder.LocalServer`; its port is the coordinator's, which it dials."""

    folder: Path

    ports = 0

    def address(self, ports: Sequence[int]) -> str:
        """The address of the coordinator."""
        return f"ws://{coordinator_of(ports)}"

    def command(
        self, ports: Sequence[int], directory: Path, heap: str
    ) -> tuple[list[str], Mapping[str, str]]:
        """See :class:`~speck.binder.LocalServer`; the mark of a former process is removed."""
        (self.folder / "lock").unlink(missing_ok=True)
        return [sys.executable, "-m", "speck.agent", str(directory)], os.environ | ENVIRONMENT

    def ready(self, ports: Sequence[int]) -> bool:
        """True once it supervises the jobs of its site."""
        return (self.folder / "lock").exists()

    def inventory(self, ports: Sequence[int], directory: Path, heap: str) -> Mapping[str, Any]:
        """Empty: the site says that it has an agent."""
        return {}


def coordinator_of(ports: Sequence[int]) -> str:
    """HOST:PORT of the coordinator, for ``speck serve --agents``."""
    return f"127.0.0.1:{ports[0]}"


def describe(agent: ServerRecord, directory: Path, engines: Sequence[Mapping[str, Any]], broker: str) -> None:
    """Write the description of an agent's site; ``engines`` are its entries of the inventory."""
    folder = agent.folder(directory)
    site = Site(
        name=agent.site,
        broker_address=broker,
        engines=tuple(Engine(**{key: each[key] for key in each if key != "scale"}) for each in engines),
        agent=True,
    )
    token = Secret(f"file:{folder / 'token'}")
    write_site_file(folder, SiteFile(site=site, coordinator=agent.address, token=token))


def write_tokens(agents: Iterable[ServerRecord], directory: Path) -> None:
    """Give each agent a token, unless it has one, and write the file of their hashes."""
    lines = []
    for agent in agents:
        path = agent.folder(directory) / "token"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            replace_file(path, secrets.token_urlsafe(32).encode())
        lines.append(f"{agent.site} read {hashlib.sha256(path.read_bytes()).hexdigest()}\n")
    replace_file(directory / TOKENS, "".join(lines).encode())


def refuse_without(registry: Registry, engines: Mapping[str, Sequence[str]]) -> None:
    """Raise :class:`~speck.errors.LocalError` for an engine that no agent can serve."""
    if find_spec("websockets") is None:
        raise LocalError("agents need the package websockets (pip install 'speck[agent]')")
    for site, kinds in engines.items():
        for name in kinds:
            kind = next((each for each in registry.engines if name == each.name or name in each.forms), None)
            local = registry.local_engines().get(name)
            if kind is None or local is None:
                continue  # the start names it
            binder = kind.connect(local.address([1] * local.ports), Inventory())
            if not is_carried(binder):
                raise LocalError(
                    f"site {site}: engine {name!r} cannot be used through an agent, since it fetches files "
                    "from the coordinator (expected another kind, or no agents)"
                )
