"""A split in one job: partial states of any partitions of a batch, merged by shard."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from jars_and_apps.key_split.aggregation import Aggregation
from jars_and_apps.key_split.collector import Collector, combine
from jars_and_apps.key_split.settings import ReducerSetting
from testbed.key_split.reference import reference
from tests.key_split.examples import fault_test
from tests.key_split.pipeline import Ids, Part, batch_of, values_of
from tests.key_split.scenarios import Scenario, batches_of, scenarios


def _collect(parts: list[Part], partitions: list[pa.RecordBatch], random: np.random.Generator) -> list[bytes]:
    """The results of a batch, whose frames come from the partitions in any order."""
    setting = parts[0].setting
    made = pa.concat_batches([combine(setting, each, len(parts)) for each in partitions])
    made = made.take(random.permutation(made.num_rows))
    found: list[bytes] = []
    for shard, part in enumerate(parts):
        own = [value for to, value in zip(*map(pa.Array.to_pylist, made.columns), strict=True) if to == shard]
        found += [output.value for output in part.step(values_of(own))]
    return found


@fault_test
@given(scenario=scenarios(), partitions=st.integers(1, 4))
def test_any_partitions_give_the_results_of_the_reference(scenario: Scenario, partitions: int) -> None:
    """The same rule for late rows as among sites, by batch."""
    random = np.random.default_rng(scenario.seed)
    batches = batches_of(scenario, random)
    aggregation = Aggregation(Ids())
    settings = [ReducerSetting(scenario.windows, aggregation, shard) for shard in range(scenario.workers)]
    parts = [Part(Collector, setting) for setting in settings]
    found: dict[tuple[str, int], list[int]] = {}
    for rows in batches:
        of = random.integers(0, partitions, len(rows))
        dealt = [
            batch_of([row for row, to in zip(rows, of, strict=True) if to == each])
            for each in range(partitions)
        ]
        for value in _collect(parts, dealt, random):
            result = json.loads(value)
            end = np.datetime64(result["end"].removesuffix("Z"), "us").astype(np.int64)
            place = result["key"], int(end) // scenario.windows.slide_us
            assert place not in found
            found[place] = result["ids"]
    expected = reference(batches, scenario.windows)
    assert found == expected.windows
    faults: list[dict[str, Any]] = [part.report()["faults"] for part in parts]
    bad = sum(row.key is None or row.time is None or not 0 <= row.time <= row.arrival + 86_400_000_000
              for rows in batches for row in rows)  # fmt: skip
    assert sum(each.get("bad", 0) for each in faults) == bad
    assert sum(each.get("late", 0) for each in faults) == expected.late
