"""Accepts compositions, has them applied, and answers queries; the one place where the parts are wired."""

from __future__ import annotations

from speck.coordinator.coordinator import Coordinator

__all__ = ["Coordinator"]
