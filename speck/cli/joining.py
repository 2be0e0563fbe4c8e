"""Joining at a site: the site's entry is checked before the code is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from speck.binder import installed
from speck.binder.pool import BinderPool
from speck.core.inventory import Inventory, Site
from speck.errors import Fault, InvalidInput, SpeckError
from speck.link.code import JoinCode
from speck.schema.inventory import check_joining, read_entry, with_site, without_logins


@dataclass(frozen=True, slots=True)
class OwnEntry:
    """The entry of a site as the server gets it, and the site with its logins."""

    entry: Mapping[str, Any]
    site: Site


def checked_entry(
    text: str, given: Mapping[str, str], inventory: Path | None, variables: Mapping[str, str]
) -> OwnEntry | None:
    """The entry of a site that the server does not know; ``None`` if nothing is given.

    Raises :class:`~speck.errors.InvalidInput` for one with faults, or whose engine or broker does not answer.
    """
    if not given and inventory is None:
        return None
    name = JoinCode.parse(text).site
    entry = given if inventory is None else read_entry(inventory, name, variables)
    check_joining(name, without_logins(entry))
    described = with_site(Inventory(), name, entry)
    site = described.sites[name]
    pool = BinderPool(installed(), described)
    try:
        for engine in site.engines:
            pool.engine_for(engine.spe_address).capacity()
        pool.broker(site.broker_address).check()
    except SpeckError as error:
        message = f"{error} (expected an engine and a broker that answer here)"
        raise InvalidInput([Fault(message)], "site") from error
    finally:
        pool.close()
    return OwnEntry(without_logins(entry), site)


def joined(text: str, server: str, directory: Path, own: OwnEntry | None, ca_file: Path | None) -> str:
    """Use the code; returns the name of the site.  Raises :class:`~speck.errors.InvalidInput`."""
    if find_spec("websockets") is None:
        raise InvalidInput([Fault("an agent needs websockets (pip install 'speck[agent]')")], "agent")
    from speck.agent.join import join

    ca = None if ca_file is None else str(ca_file.absolute())
    entry, site = (None, None) if own is None else (own.entry, own.site)
    return join(text, server, directory, entry, ca, site).site.name
