"""The number of examples of the property tests."""

from __future__ import annotations

import os

from hypothesis import HealthCheck

from tests.support.properties import tries

ROUND_TRIPS = int(os.environ.get("SPECK_ROUND_TRIPS", "1"))

protocol_test = tries(200 * ROUND_TRIPS, suppress_health_check=[HealthCheck.too_slow])
fault_test = tries(40 * ROUND_TRIPS, suppress_health_check=[HealthCheck.too_slow])
"""For each single kind of fault."""
