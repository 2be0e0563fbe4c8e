"""Skips of tests whose engine or broker is not installed."""

from __future__ import annotations

import pytest

from binders.common.java import java
from binders.flink.local.cluster import flink_home
from binders.kafka.local import server_jars
from speck.errors import LocalError


def skip_without_flink() -> None:
    """Skip the test if Flink, or Java for it, is missing."""
    try:
        java("Flink")
        flink_home()
    except LocalError as error:
        pytest.skip(str(error))


def skip_without_kafka() -> None:
    """Skip the test if Kafka, or Java for it, is missing."""
    try:
        java("Kafka")
        server_jars()
    except LocalError as error:
        pytest.skip(str(error))
