"""Sites on this machine: their engines and brokers as processes that are started, found again and stopped."""

from __future__ import annotations

from speck.local.sites import (
    DEFAULT_HEAP,
    LocalSite,
    LocalSites,
    down,
    prepare,
    restart,
    status,
    stop_one,
    up,
)

__all__ = [
    "DEFAULT_HEAP",
    "LocalSite",
    "LocalSites",
    "down",
    "prepare",
    "restart",
    "status",
    "stop_one",
    "up",
]
