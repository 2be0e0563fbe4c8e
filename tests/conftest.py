"""The fixtures that several test modules share."""

from __future__ import annotations

pytest_plugins = [
    "tests.chromium",
    "tests.mosquitto_server",
    "tests.rest_server",
    "tests.speck_command",
    "tests.spark_server",
    "tests.flink_server",
    "tests.standalone_server",
    "tests.dashboards",
]
