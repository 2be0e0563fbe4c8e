"""The number of examples of the property tests."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

ROUND_TRIPS = int(os.environ.get("SPECK_ROUND_TRIPS", "1"))

protocol_test = settings(
    deadline=None, max_examples=200 * ROUND_TRIPS, suppress_health_check=[HealthCheck.too_slow]
)
fault_test = settings(protocol_test, max_examples=40 * ROUND_TRIPS)
"""For each single kind of fault."""
