"""Sites on this machine: their engines and brokers as processes that are started, found again and stopped."""

from __future__ import annotations

from speck.local.preparation import prepare
from speck.local.single import lose_power, restart, restore_power, stop_one
from speck.local.sites import (
    DEFAULT_HEAP,
    LocalSite,
    LocalSites,
    down,
    status,
    up,
)
from speck.local.workers import scale

__all__ = [
    "DEFAULT_HEAP",
    "LocalSite",
    "LocalSites",
    "down",
    "lose_power",
    "prepare",
    "restart",
    "restore_power",
    "scale",
    "status",
    "stop_one",
    "up",
]
