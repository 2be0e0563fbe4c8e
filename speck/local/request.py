"""The sites that a user requests of this machine: their names, and the kinds of their engines and brokers."""

from __future__ import annotations

import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from speck.core.names import JOB_NAME
from speck.errors import LocalError

DEFAULT_ENGINE = "spark-connect"
DEFAULT_BROKER = "mqtt"
DEFAULT_SITES = 2  # with an engine and a broker each: the fewest between which a job can move


@dataclass(frozen=True)
class RequestedSites:
    """The kinds of engines and the kind of broker by site; ``with_agents``: each site has an agent too."""

    engines: Mapping[str, tuple[str, ...]]
    brokers: Mapping[str, str]
    with_agents: bool

    @classmethod
    def of(
        cls,
        sites: int | Sequence[str],
        engines: Mapping[str, Sequence[str]],
        brokers: Mapping[str, str],
        *,
        with_agents: bool,
    ) -> RequestedSites:
        """These sites, of default kinds where none are given.  Raises :class:`~speck.errors.LocalError`."""
        names = _site_names(sites)
        return cls(_kinds_of_engines(names, engines), _kinds_of_brokers(names, brokers), with_agents)


def _site_names(sites: int | Sequence[str]) -> list[str]:
    """The names of the sites, ``A``, ``B`` … for a number.  Raises :class:`~speck.errors.LocalError`."""
    if isinstance(sites, int):
        if not 1 <= sites <= len(string.ascii_uppercase):
            raise LocalError(f"{sites} sites (expected a number from 1 to {len(string.ascii_uppercase)})")
        return list(string.ascii_uppercase[:sites])
    names = list(sites)
    for name in names:
        if not JOB_NAME.match(name):
            raise LocalError(f"{name!r} is not the name of a site (expected letters, digits, '.', '_', '-')")
    if not names or len(set(names)) < len(names):
        raise LocalError(f"sites {names} are not valid (expected one or more names, each once)")
    return names


def number_of_sites(named: Iterable[str]) -> int:
    """The number of new sites, if none is given, of which some are ``named``: up to the last of those."""
    numbers = (string.ascii_uppercase.find(name) + 1 for name in named if len(name) == 1)
    return max((DEFAULT_SITES, *numbers))


def _kinds_of_engines(
    names: Sequence[str], engines: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """The kinds of engines by site.  Raises :class:`~speck.errors.LocalError` for another site."""
    for site, kinds in engines.items():
        if site not in names:
            raise LocalError(f"engines are given for site {site!r} (expected one of {', '.join(names)})")
        if not kinds or len(set(kinds)) < len(kinds):
            raise LocalError(
                f"site {site}: engines {list(kinds)} are not valid (expected one or more kinds, each once)"
            )
    return {name: tuple(engines.get(name, (DEFAULT_ENGINE,))) for name in names}


def _kinds_of_brokers(sites: Iterable[str], brokers: Mapping[str, str]) -> dict[str, str]:
    """The kind of broker of each site.  Raises :class:`~speck.errors.LocalError` for another one."""
    names = list(sites)
    for site in brokers:
        if site not in names:
            raise LocalError(f"a broker is given for site {site!r} (expected one of {', '.join(names)})")
    return {site: brokers.get(site, DEFAULT_BROKER) for site in names}
