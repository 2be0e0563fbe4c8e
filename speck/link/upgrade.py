"""The upgrade of an agent over its connection: the coordinator's questions, and the agent's answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Protocol

from speck.errors import BinderError, Rejected
from speck.link.codec import Malformed, decode
from speck.link.methods import UPGRADABLE, UPGRADE

PROGRAM = 900.0  # s, for the program that installs a version
CHECK = 120.0  # s, for the check of what it has installed
LONGEST = 2 * (PROGRAM + CHECK) + 60.0  # s, with the way back

# Those of PEP 440 in their normal form: nothing that a program could take for an option or another package.
VERSION = re.compile(r"[0-9][0-9A-Za-z.+!]{0,99}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgradability:
    """An agent's ability to replace itself.

    ``fault`` is the reason why it cannot; empty: it can.  ``target`` is the version that it is installing
    now, ``failure`` the reason why the last installation failed; both may be empty.
    """

    fault: str = ""
    target: str = ""
    failure: str = ""


class Calling(Protocol):
    """The connections of agents: :class:`speck.link.hub.Hub`."""

    def call(self, site: str, call: dict[str, Any], seconds: float, address: str) -> Any:
        """See :meth:`speck.link.hub.Hub.call`."""


def upgradability(connections: Calling, site: str, seconds: float) -> Upgradability:
    """Ask the agent of a site whether it can replace itself; raises as :meth:`~speck.link.hub.Hub.call`."""
    try:
        found = connections.call(site, {"m": UPGRADABLE, "a": {}}, seconds, f"site {site}")
    except Rejected:  # an earlier agent takes the method for that of an engine
        return Upgradability(fault="its agent cannot be upgraded from here (upgrade it once at the site)")
    try:
        answer: Upgradability = decode(Upgradability, found, "answer")
    except Malformed as error:
        raise BinderError(f"the agent of site {site!r} sent another answer: {error}") from error
    return answer


def upgrade(connections: Calling, site: str, version: str) -> None:
    """Have the agent of a site replaced by another version; raises as :meth:`~speck.link.hub.Hub.call`."""
    call = {"m": UPGRADE, "a": {"version": version}}
    connections.call(site, call, LONGEST, f"site {site}")
