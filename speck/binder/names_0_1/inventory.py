"""The names of ``speck.inventory`` as binders of other packages import them since version 0.1."""

from __future__ import annotations

from speck.core.inventory import Broker, Engine, Inventory, JobLogin, Login, Secret, Site, Uplink

__all__ = [
    "Broker",
    "Engine",
    "Inventory",
    "JobLogin",
    "Login",
    "Secret",
    "Site",
    "Uplink",
]
