"""Engines and brokers of this machine: sites started, found again and stopped by what they are."""

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
