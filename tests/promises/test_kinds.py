"""Nothing is lost or doubled in a composition that filters, multiplies, joins and counts: short trials.

``python -m benchmarks.promises faults`` does the same, and more kinds, at length.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from testbed.faults.kinds import kinds, run
from testbed.faults.servers import Layout, Testbed
from tests.support.requirements import NEEDS_RIG

MESSAGES, RATE = 400, 100.0
SHORT = kinds(0.1)

pytestmark = [
    pytest.mark.engine,
    NEEDS_RIG,
    pytest.mark.skipif(
        not os.environ.get("SPECK_KINDS"),
        reason="trials of minutes, as benchmarks.promises faults (SPECK_KINDS)",
    ),
]


@pytest.fixture(name="bed", scope="module")
def bed_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    with Testbed(tmp_path_factory.mktemp("bed") / "bed", Layout(workers=2)) as bed:
        yield bed


@pytest.mark.parametrize("name", ["update_rolled_back", "broker_away_45s"])
def test_nothing_is_lost_or_doubled(bed: Testbed, name: str) -> None:
    result = run(bed, SHORT[name], MESSAGES, RATE)
    assert (result.account.lost, result.account.doubled, result.error) == (0, 0, "")
