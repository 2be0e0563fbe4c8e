"""A client waits longer for an answer than the server takes at most."""

from __future__ import annotations

from speck.apply import foreign
from speck.binder import asking
from speck.client import Client
from speck.coordinator.planning import builds
from speck.core.settings import Settings
from speck.observe import healthcheck, observer

_REST = 20.0  # s, for what has no limit of its own, such as the count of messages in sessions


def test_a_client_outwaits_plans_applies_and_checks_of_engines_that_are_late() -> None:
    planned = observer.PLAN_PATIENCE + foreign.PATIENCE + builds.PATIENCE + asking.PATIENCE
    accepted = Settings().heal_patience + foreign.PATIENCE + builds.PATIENCE
    assert max(planned, accepted, healthcheck.TIMEOUT) + _REST <= Client().read_timeout
