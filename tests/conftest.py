"""The fixtures that several test modules share."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from speck.binder.retry import FIRST_PAUSE
from testbed.benches.sessions import OWNER

pytest_plugins = [
    "testbed.servers.chromium",
    "testbed.servers.mosquitto",
    "testbed.servers.rest",
    "testbed.servers.speck_command",
    "testbed.servers.spark",
    "testbed.servers.flink",
    "testbed.servers.standalone",
    "tests.support.dashboards",
    "tests.support.tiers",
]


@pytest.fixture
def known_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each new store the identity :data:`OWNER`, which the names of its sessions contain."""
    monkeypatch.setattr("speck.store.store.new_identity", lambda: OWNER)


@pytest.fixture(autouse=True)
def short_pauses(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let calls be repeated after a tenth of the usual pause where all engines and brokers are in memory."""
    if request.node.get_closest_marker("engine") is None:
        for module in ("speck.binder.retry", "speck.apply.attempts"):
            monkeypatch.setattr(f"{module}.FIRST_PAUSE", FIRST_PAUSE / 10)


@pytest.fixture(autouse=True)
def no_log_handler() -> Iterator[None]:
    """Remove the log handlers that a server of this process attached to the test's standard error."""
    yield
    root = logging.getLogger()
    for handler in root.handlers.copy():
        if type(handler) is logging.StreamHandler:
            root.removeHandler(handler)
