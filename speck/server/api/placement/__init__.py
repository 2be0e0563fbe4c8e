"""The REST interface of placements: proposals, policies, and the profiles they are computed from."""

from __future__ import annotations

from speck.server.api.placement.routes import blueprint

__all__ = ["blueprint"]
