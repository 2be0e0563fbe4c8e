"""What tests with real clusters and brokers need on the machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.promises.rig import FLINK_CODE, ROOT
from binders.flink.local.cluster import CONNECTOR as FLINK_CONNECTOR
from binders.flink.local.cluster import flink_home
from binders.spark.local.commands import CONNECTOR as SPARK_CONNECTOR
from speck.errors import LocalError
from tests.support.mosquitto_server import PROGRAM


def lacking(*built: Path) -> str:
    """What is not found of Flink, Mosquitto and these files that are built; empty when nothing lacks."""
    try:
        flink_home()
    except LocalError as error:
        return str(error)
    if PROGRAM is None:
        return "mosquitto is not installed"
    missing = [path.name for path in built if not path.exists()]
    return f"{', '.join(missing)} not built (make jars)" if missing else ""


def needs(*built: Path) -> pytest.MarkDecorator:
    """The mark of a test that is skipped, with the reason, where something lacks."""
    reason = lacking(*built)
    return pytest.mark.skipif(bool(reason), reason=reason or "nothing lacks")


# The rig of benchmarks.promises.rig.
NEEDS_RIG = needs(SPARK_CONNECTOR, FLINK_CONNECTOR, ROOT / FLINK_CODE)
