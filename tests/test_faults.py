"""Nothing is lost and nothing doubled between jobs, whatever fails under load.

``SPECK_FAULT_MESSAGES`` sets how many messages a trial sends, ``SPECK_FAULT_CUT`` for how many seconds the
link is cut.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from benchmarks.promises.faults import FAULTS, cut_link
from benchmarks.promises.rig import FLINK_CODE, ROOT, Account, Rig
from binders.flink.cluster import flink_home
from binders.spark.server import CONNECTOR
from speck.errors import LocalError
from tests.mosquitto_server import PROGRAM

MESSAGES = int(os.environ.get("SPECK_FAULT_MESSAGES", "1500"))
CUT = float(os.environ.get("SPECK_FAULT_CUT", "3"))


def lacking() -> str:
    """What the tests need and do not find."""
    try:
        flink_home()
    except LocalError as error:
        return str(error)
    if PROGRAM is None:
        return "mosquitto is not installed"
    built = CONNECTOR.exists() and (ROOT / FLINK_CODE).exists()
    return "" if built else "the connectors are not built (make jars)"


pytestmark = pytest.mark.skipif(bool(lacking()), reason=lacking() or "nothing lacks")


@pytest.fixture(name="rig", scope="module")
def rig_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    with Rig(tmp_path_factory.mktemp("rig")) as rig:
        yield rig


@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_is_lost_or_doubled(rig: Rig, fault: str) -> None:
    harm = cut_link(CUT) if fault == "link_cut" else FAULTS[fault]
    assert rig.trial(harm, MESSAGES) == Account(MESSAGES, lost=0, doubled=0)
