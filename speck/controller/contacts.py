"""Work at a contact, that is when the agent of a site connects: copies that were abandoned there end first.

Only then a round of the reconciler is made.  Thousands of agents may connect within seconds, as after a
restart of the server: a round is made for many of them together.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from speck.controller.reaper import Reaper
from speck.loop import Loop

GATHERING = 2.0  # s between two passes, in which further contacts are gathered


@dataclass
class Contacts:
    """Ends abandoned work at a site whose agent has connected, and has the site reconciled.

    ``addresses(site)`` are those of the engines and the broker of a site.  ``reconcile()`` begins a round of
    the reconciler, and does not wait for it.  Safe to use from several threads.
    """

    reaper: Reaper
    addresses: Callable[[str], Collection[str]]
    reconcile: Callable[[], object]
    loop: Loop = field(init=False)
    _sites: set[str] = field(default_factory=set, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        self.loop = Loop("contacts", "work at a contact", self.round)

    def note(self, site: str) -> None:
        """Note that the agent of a site has connected."""
        with self._lock:
            self._sites.add(site)
        self.loop.wake()

    def round(self) -> float:
        """Do the work for the sites that were noted; returns the time until the next round, s."""
        with self._lock:
            sites, self._sites = self._sites, set()
        if sites:
            self.reaper.end_at({address for site in sites for address in self.addresses(site)})
            self.reconcile()
            self.loop.rest(GATHERING)
        return math.inf
