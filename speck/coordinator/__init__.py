"""The coordinator: accepts compositions and has them applied; :func:`build` wires it with its queries."""

from __future__ import annotations

from speck.coordinator.build import Services, build
from speck.coordinator.coordinator import Coordinator
from speck.coordinator.queries.compositions import Queries
from speck.coordinator.queries.profiles import ProfileQueries
from speck.coordinator.queries.sites import SiteQueries

__all__ = ["Coordinator", "ProfileQueries", "Queries", "Services", "SiteQueries", "build"]
