"""What tests with the rig of :mod:`benchmarks.promises.rig` need on the machine."""

from __future__ import annotations

import pytest

from benchmarks.promises.rig import FLINK_CODE, ROOT
from binders.flink.cluster import CONNECTOR as FLINK_CONNECTOR
from binders.flink.cluster import flink_home
from binders.spark.server import CONNECTOR as SPARK_CONNECTOR
from speck.errors import LocalError
from tests.mosquitto_server import PROGRAM


def lacking() -> str:
    """What is not found; empty when nothing lacks."""
    try:
        flink_home()
    except LocalError as error:
        return str(error)
    if PROGRAM is None:
        return "mosquitto is not installed"
    built = all(path.exists() for path in (SPARK_CONNECTOR, FLINK_CONNECTOR, ROOT / FLINK_CODE))
    return "" if built else "the connectors are not built (make jars)"


NEEDS_RIG = pytest.mark.skipif(bool(lacking()), reason=lacking() or "nothing lacks")
