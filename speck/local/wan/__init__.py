"""A wide area network on this machine: network namespaces as sites, joined by links of given quality."""

from __future__ import annotations

from speck.local.wan.namespaces import in_own_namespaces
from speck.local.wan.network import EmulatedLink, Network, unavailable

__all__ = ["EmulatedLink", "Network", "in_own_namespaces", "unavailable"]
