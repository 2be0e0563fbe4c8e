"""An inventory that changes while it is in use: sites may join."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from speck.core.inventory import Inventory

_INDEXES = tuple(name for name, value in vars(Inventory).items() if isinstance(value, cached_property))


@dataclass(frozen=True)
class LiveInventory(Inventory):
    """All parts of a coordinator hold the same one.  Safe to use from several threads.

    Its indexes are always made beforehand: one that a thread makes while the sites change would be of the
    former sites, and stay.  Two look-ups may be of different sites: what looks up a site by a name that it
    has from here takes a :attr:`snapshot` first.
    """

    def __post_init__(self) -> None:
        self.replace(Inventory(self.sites, self.brokers, self.links))

    def replace(self, other: Inventory) -> None:
        """Take over the sites, brokers and links of another inventory, all at once."""
        made = Inventory(other.sites, other.brokers, other.links)
        for name in _INDEXES:
            getattr(made, name)
        self.__dict__.update(made.__dict__, _made=made)

    @property
    def snapshot(self) -> Inventory:
        """See :attr:`Inventory.snapshot`."""
        made: Inventory = self.__dict__["_made"]
        return made


def live(inventory: Inventory) -> LiveInventory:
    """The inventory itself if it is live, or else a live one with the same places."""
    if isinstance(inventory, LiveInventory):
        return inventory
    return LiveInventory(inventory.sites, inventory.brokers, inventory.links)
