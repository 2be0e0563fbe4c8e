"""Sites on this machine: their engines and brokers as processes that are started, found again and stopped."""

from __future__ import annotations

from speck.local.preparation import prepare
from speck.local.sites import (
    DEFAULT_HEAP,
    LocalSite,
    LocalSites,
    down,
    restart,
    status,
    stop_one,
    up,
)
from speck.local.workers import scale

__all__ = [
    "DEFAULT_HEAP",
    "LocalSite",
    "LocalSites",
    "down",
    "prepare",
    "restart",
    "scale",
    "status",
    "stop_one",
    "up",
]
