"""Nothing is lost or doubled in a composition that filters, multiplies, joins and counts: short trials.

``python -m benchmarks.promises faults`` does the same, and more kinds, at length.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from benchmarks.promises.kinds import (
    Kind,
    broker,
    broker_away,
    flink_processes,
    paused,
    power_cut,
    run,
    spark,
    update,
    update_put_back,
)
from benchmarks.promises.testbed import Layout, Testbed
from tests.support.requirements import NEEDS_RIG

MESSAGES, RATE = 400, 100.0

pytestmark = [pytest.mark.engine, NEEDS_RIG]

SHORT: Mapping[str, Kind] = {
    "update": Kind(update),
    "update_put_back": Kind(update_put_back),
    "broker_away": Kind(broker_away(5)),
    "power_cut": Kind(power_cut(5)),
    "flink_paused": Kind(paused(flink_processes, 5)),
    "spark_and_broker_paused": Kind(paused(lambda bed: [*spark(bed), *broker(bed)], 5)),
}


@pytest.fixture(name="bed", scope="module")
def bed_fixture(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    with Testbed(tmp_path_factory.mktemp("bed") / "bed", Layout(workers=2, parallelism=2)) as bed:
        yield bed


@pytest.mark.parametrize("name", SHORT)
def test_nothing_is_lost_or_doubled(bed: Testbed, name: str) -> None:
    result = run(bed, SHORT[name], MESSAGES, RATE)
    assert (result.account.lost, result.account.doubled, result.error) == (0, 0, "")
