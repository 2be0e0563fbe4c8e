"""Counts of the messages that a broker may have lost, by the spools of the processes at its site."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

from paho.mqtt.client import topic_matches_sub

from binders.mqtt.address import BrokerAddress
from binders.mqtt.connection_cache import ConnectionCache
from binders.mqtt.spools import Spool, Stamp, marked, spools
from speck.core.inventory import Inventory
from speck.errors import Rejected, one_line

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class UnsavedMessages:
    """Counts at the site itself; elsewhere nothing is known.  ``cache`` has connections to the broker."""

    address: str
    inventory: Inventory
    cache: ConnectionCache

    def matching(self, topic: str, waiting: Callable[[], Set[Stamp]]) -> int | None:
        """The number for a topic filter; ``waiting`` gives the stamps of messages that are not lost.

        Unknown if a writer has dropped messages that the broker had not saved yet: it came back empty, or
        saves too seldom.
        """
        found = self._spools()
        if not found:
            return None if found is None else 0
        stamps = waiting() - {("", "")}

        def missing(saved: Sequence[tuple[Spool, int]]) -> int | None:
            if not all(spool.covers(number) for spool, number in saved):
                return None
            held = (each for spool, number in saved for each in spool.after(number))
            return sum(topic_matches_sub(topic, name) and stamp not in stamps for name, stamp in held)

        return self._counted(found, missing)

    def stranded(self) -> int | None:
        """The number that no process holds any more."""
        now, found = time.time(), self._spools()
        if found is None:
            return None
        left = [each for each in found if each.is_stranded(now)]
        return self._counted(left, lambda saved: sum(len(list(each.after(number))) for each, number in saved))

    def _counted(
        self, found: Sequence[Spool], count: Callable[[Sequence[tuple[Spool, int]]], int | None]
    ) -> int | None:
        """Return the count of spools, each given with its last number at the broker; ``None`` if unknown."""
        if not found:
            return 0
        try:
            numbers = self.cache.run(lambda control: marked(control, found))
            return None if numbers is None else count(list(zip(found, numbers, strict=True)))
        except (OSError, ValueError, Rejected) as error:
            _log.warning("broker %s: what it had not saved is unknown: %s", self.address, one_line(error))
            return None

    def _spools(self) -> list[Spool] | None:
        """The spools for the broker of the engines at its site; ``None`` if they cannot be seen here."""
        inventory, own = self.inventory, self.address
        if not inventory.on_site:
            return None
        address = BrokerAddress.parse(inventory.job_broker_address(own))
        sites = (each for each in inventory.sites.values() if each.broker_address == own)
        folders = {engine.checkpoint_dir for site in sites for engine in site.engines}
        try:
            found = [spools(each, address) for each in folders]
        except OSError as error:
            _log.warning("broker %s: the spools of its writers cannot be read: %s", own, one_line(error))
            return None
        return None if None in found else [spool for each in found for spool in each or ()]
