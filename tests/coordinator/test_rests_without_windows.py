"""Plans of queries without windows that have a rest, over engines and brokers in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from speck.coordinator.placing.cut_queries import cut_of
from speck.core.change import Recut, Request
from speck.core.runtime import JobState
from speck.errors import InvalidInput
from speck.placement.profile import JobProfile
from testbed.benches.placement import measured
from tests.coordinator.cuts_bench import Bench, cuts, kinds_of, running

TEXT = """name: q
topics:
  bid/+:
    as: bids
    at: [A, B]
    schema: {time: timestamp(ms) not null, auction: bigint not null, price: bigint, note: string}
    event_time: time
jobs:
- job_name: q1
  engine: flink
  cut: auto
  rest: D
  sql: SELECT auction, price * 908 / 1000 AS euros, note FROM bids
  sink_topic: results/q1
"""
INPUTS = ("q1.bids-a", "q1.bids-b")


@pytest.fixture(name="bench")
def bench_fixture(tmp_path: Path) -> Iterator[Bench]:
    with running(tmp_path, panes=True) as bench:
        yield bench


def running_cuts(bench: Bench) -> list[str]:
    assert bench.services is not None
    jobs = bench.services.coordinator.deployments.composition("q").jobs
    return [cut_of(jobs[name]) for name in INPUTS]


def test_the_cut_is_the_one_that_sends_less(bench: Bench) -> None:
    planned = bench.plan(TEXT)
    assert cuts(planned) == dict.fromkeys(INPUTS, "columns")
    note = planned.plan.consequences["q1.bids-a"]
    assert note.startswith("cut at columns, chosen among columns, rows: "), note
    # Two columns become one.
    both = TEXT.replace("price * 908 / 1000 AS euros, note", "price + LENGTH(note) AS sum")
    assert cuts(bench.plan(both)) == dict.fromkeys(INPUTS, "rows")
    some = TEXT.replace("FROM bids", "FROM bids WHERE price > 100")
    assert bench.plan(some).plan.consequences["q1.bids-a"].startswith("cut at filter, chosen among filter, r")


def test_what_runs_is_planned_again_without_a_change(bench: Bench) -> None:
    bench.apply(TEXT)
    assert running_cuts(bench) == ["columns", "columns"]
    assert kinds_of(bench.plan(TEXT)) == {"Keep"}
    known = JobProfile(rate_in=measured(1000), bytes_in=measured(110), selectivity=measured(0.03))
    bench.profiles = dict.fromkeys(INPUTS, known)
    assert kinds_of(bench.plan(TEXT)) == {"Keep"}
    bench.profiles = dict.fromkeys(INPUTS, replace(known, selectivity=measured(0.0), bytes_out=measured(0)))
    assert kinds_of(bench.plan(TEXT)) == {"Keep"}


def test_a_recut_changes_the_input_jobs_alone(bench: Bench) -> None:
    bench.apply(TEXT)
    assert bench.services is not None
    planned = bench.services.changes.plan(Recut("q", dict.fromkeys(INPUTS, "rows")), Request())
    assert cuts(planned) == dict.fromkeys(INPUTS, "rows")
    kinds = {each.job.job_name: type(each).__name__ for each in planned.plan.actions}
    assert kinds == {**dict.fromkeys(INPUTS, "Update"), "q1.rest": "Keep"}
    # An input job that does not run starts from its last checkpoint: its frames end as before.
    bench.world.crash("q1.bids-a", state=JobState.FAILED)
    bench.apply(TEXT.replace("cut: auto", "cut: rows"))
    assert running_cuts(bench) == ["rows", "rows"]


WHOLE = TEXT.replace("  cut: auto\n  rest: D\n", "  sink_broker: D\n  upgrade: stateless\n")
CUT = TEXT.replace("  cut: auto\n", "  cut: columns\n  upgrade: stateless\n")


@pytest.mark.parametrize("at", ["A", "[A, B]"])
@pytest.mark.parametrize(("before", "after"), [(WHOLE, CUT), (CUT, WHOLE)])
def test_a_query_gets_and_loses_its_rest(bench: Bench, before: str, after: str, at: str) -> None:
    place = "  site: A\n  sink_broker" if at == "A" else "  sink_broker"
    before, after = (
        each.replace("at: [A, B]", f"at: {at}").replace("  sink_broker", place) for each in (before, after)
    )
    bench.apply(before)
    with pytest.raises(InvalidInput, match=r"the query (gets|loses) its rest \(expected as before"):
        bench.plan(after.replace("  upgrade: stateless\n", ""))
    assert any("come twice; none are lost" in each for each in bench.plan(after).plan.consequences.values())
    bench.apply(after)
    assert set(bench.world.where()) == set(bench.load(after).jobs)
    assert not bench.world.violations
