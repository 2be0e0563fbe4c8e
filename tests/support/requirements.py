"""The programs and files that tests with real clusters and brokers need."""

from __future__ import annotations

from pathlib import Path

import pytest

from binders.flink.local.cluster import CONNECTOR as FLINK_CONNECTOR
from binders.flink.local.cluster import flink_home
from binders.spark.local.commands import CONNECTOR as SPARK_CONNECTOR
from speck.errors import LocalError
from testbed import ROOT
from testbed.benches.job_text import FLINK_CODE
from testbed.servers.mosquitto import PROGRAM


def missing(*built: Path) -> str:
    """The missing ones of Flink, Mosquitto and these built files, as a reason; empty if none is missing."""
    try:
        flink_home()
    except LocalError as error:
        return str(error)
    if PROGRAM is None:
        return "mosquitto is not installed"
    absent = [path.name for path in built if not path.exists()]
    return f"{', '.join(absent)} not built (make jars)" if absent else ""


def needs(*built: Path) -> pytest.MarkDecorator:
    """The mark of a test that is skipped, with the reason, if one of these is missing."""
    reason = missing(*built)
    return pytest.mark.skipif(bool(reason), reason=reason or "nothing is missing")


# The rig of testbed.faults.rig.
NEEDS_RIG = needs(SPARK_CONNECTOR, FLINK_CONNECTOR, ROOT / FLINK_CODE)
