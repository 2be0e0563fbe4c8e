"""The fixtures that several test modules share."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

pytest_plugins = [
    "tests.support.chromium",
    "tests.support.mosquitto_server",
    "tests.support.rest_server",
    "tests.support.speck_command",
    "tests.support.spark_server",
    "tests.support.flink_server",
    "tests.support.standalone_server",
    "tests.support.dashboards",
]


@pytest.fixture(autouse=True)
def no_log_left() -> Iterator[None]:
    """Take away a log that a server begun in this process left where the test's standard error was."""
    yield
    root = logging.getLogger()
    for handler in root.handlers.copy():
        if type(handler) is logging.StreamHandler:
            root.removeHandler(handler)
