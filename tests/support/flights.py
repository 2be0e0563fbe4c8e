"""The real flights and municipalities of docs/geofencing.md, which are not part of the project."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DATA = Path(os.environ.get("SPECK_FENCES_DATA", "/nonexistent"))
FLIGHTS, MAPS = (next(iter(sorted(DATA.glob(name))), None) for name in ("traffic-*.whl", "swiss-maps-*.tgz"))
NEEDS_FLIGHTS = pytest.mark.skipif(
    FLIGHTS is None or MAPS is None,
    reason="needs the packages traffic and swiss-maps in the folder SPECK_FENCES_DATA (docs/geofencing.md)",
)
