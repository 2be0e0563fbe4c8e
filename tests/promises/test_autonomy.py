"""A site that loses power together with its coordinator: its agent starts the jobs again, without loss."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from binders.flink.local.cluster import CONNECTOR
from binders.flink.local.small import JAR
from testbed import ROOT
from testbed.benches.job_text import FLINK_CODE
from testbed.faults.autonomy import ALONE, CHAINS, SMALL, Cell, CutRound
from testbed.faults.lone_site import LoneSite
from tests.support.requirements import needs
from tests.support.trials import trial

pytestmark = [pytest.mark.engine, needs(CONNECTOR, JAR, ROOT / FLINK_CODE)]

BACK = 60.0  # s, from the moment at which the power is back to the first output


@pytest.mark.parametrize(
    "cell",
    [
        pytest.param(SMALL, id="flink-small"),
        pytest.param(ALONE, id="flink", marks=trial("[flink-small]")),
    ],
)
def test_a_site_without_power_and_without_a_coordinator_runs_again(cell: Cell, tmp_path: Path) -> None:
    with LoneSite(tmp_path, cell.engine) as site:
        found = CutRound(site, cell, random.Random(7)).run("t", 2_000)
    for chain in CHAINS:
        account = found.accounts[chain]
        assert (account.lost, account.doubled) == (0, 0), found
    assert found.first, "all messages had arrived before the power was back"
    assert max(found.first.values()) < BACK, found
