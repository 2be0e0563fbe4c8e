"""The results of a split are the reference's, whatever the routing, the batches and the repetitions."""

from __future__ import annotations

import pytest
from hypothesis import given

from testbed.key_split.reference import reference
from tests.key_split.examples import fault_test, protocol_test
from tests.key_split.scenarios import Scenario, pipeline_of, run, scenarios


@pytest.mark.slow("runs whole pipelines, many times")
@protocol_test
@given(scenario=scenarios())
def test_any_routing_gives_the_results_of_the_reference(scenario: Scenario) -> None:
    """Rows late and bad, batches again, owners moved, workers added, work measured: windows come once."""
    pipeline = pipeline_of(scenario)
    batches = run(scenario, pipeline)
    expected = reference(batches, scenario.windows)
    assert pipeline.found() == expected.windows
    assert pipeline.router.report()["faults"].get("late", 0) == expected.late


@fault_test
@given(scenario=scenarios(("hash",)))
def test_with_hash_the_reducer_has_nothing_to_merge(scenario: Scenario) -> None:
    """The bypass is tight: no window of a key that stays with its owner goes by the reducer."""
    pipeline = pipeline_of(scenario)
    if not scenario.changes:
        run(scenario, pipeline)
        assert [part.report()["states"] for part in pipeline.reducers] == [0] * scenario.reducer_shards
