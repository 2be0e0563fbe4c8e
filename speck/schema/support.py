"""The addresses of an inventory against the installed binders."""

from __future__ import annotations

from collections.abc import Iterator

from speck.binder import Registry
from speck.core.inventory import Inventory
from speck.errors import Fault
from speck.schema.address import redacted
from speck.schema.places import Places


def support_faults(inventory: Inventory, registry: Registry) -> Iterator[Fault]:
    """A fault for each address of an engine or a broker that no installed binder supports."""
    places = Places(inventory, registry)
    for site in inventory.sites.values():
        for engine in site.engines:
            if registry.engine_kind_at(engine.spe_address) is None:
                subject = f"site {site.name!r}"
                yield _unknown_kind(subject, "spe_address", engine.spe_address, places.expected_engine)
    sites = ((f"site {site.name!r}", site.broker_address) for site in inventory.sites.values())
    others = ((f"broker {name!r}", broker.broker_address) for name, broker in inventory.brokers.items())
    for subject, address in (*sites, *others):
        if registry.broker_kind(address) is None:
            yield _unknown_kind(subject, "broker_address", address, places.expected_broker)


def _unknown_kind(subject: str, field: str, address: str, expected: str) -> Fault:
    shown = redacted(address)
    message = f"{subject}: no installed binder supports {field} {shown!r} (expected {expected})"
    return Fault(message, field=field, value=shown)
