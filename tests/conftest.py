"""The fixtures that several test modules share."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.support.sessions import OWNER

pytest_plugins = [
    "tests.support.chromium",
    "tests.support.mosquitto_server",
    "tests.support.rest_server",
    "tests.support.speck_command",
    "tests.support.spark_server",
    "tests.support.flink_server",
    "tests.support.standalone_server",
    "tests.support.dashboards",
    "tests.support.tiers",
]


@pytest.fixture
def known_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each new store the identity :data:`OWNER`, which the names of its sessions contain."""
    monkeypatch.setattr("speck.store.store.new_identity", lambda: OWNER)


@pytest.fixture(autouse=True)
def no_log_handler() -> Iterator[None]:
    """Remove the log handlers that a server of this process attached to the test's standard error."""
    yield
    root = logging.getLogger()
    for handler in root.handlers.copy():
        if type(handler) is logging.StreamHandler:
            root.removeHandler(handler)
