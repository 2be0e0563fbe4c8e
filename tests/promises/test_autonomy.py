"""A site that loses power together with its coordinator: its agent starts the jobs again, without loss."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from binders.flink.local.cluster import CONNECTOR
from testbed import ROOT
from testbed.faults.autonomy import ALONE, CHAINS, Round
from testbed.faults.lone_site import LoneSite
from testbed.faults.rig import FLINK_CODE
from tests.support.requirements import needs

pytestmark = [pytest.mark.engine, needs(CONNECTOR, ROOT / FLINK_CODE)]

BACK = 60.0  # s, from the moment at which the power is back to the first output


def test_a_site_without_power_and_without_a_coordinator_runs_again(tmp_path: Path) -> None:
    with LoneSite(tmp_path) as site:
        found = Round(site, ALONE, random.Random(7)).run("t", 2_000)
    for chain in CHAINS:
        account = found.accounts[chain]
        assert (account.lost, account.doubled) == (0, 0), found
        assert found.first[chain] < BACK, found
