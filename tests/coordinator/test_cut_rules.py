"""Rules of other jobs, `with` and `apart`, that name the jobs of a query whose cut SpecK chooses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from speck.errors import InvalidInput
from tests.coordinator.cuts_bench import Bench, kinds_of, running
from tests.coordinator.test_cuts import TEXT


@pytest.fixture(name="bench")
def bench_fixture(tmp_path: Path) -> Iterator[Bench]:
    with running(tmp_path, panes=True) as bench:
        yield bench


BEST = """- job_name: best
  engine: flink
  site: any
  with: q5.rest
  source_broker: D
  sink_broker: D
  sql: SELECT auction FROM q5 WHERE n > 5
  sink_topic: results/best
"""


@pytest.mark.parametrize(("rule", "at_d"), [("with", True), ("apart", False)])
def test_a_rule_about_the_rest_holds_for_a_query_that_stays_whole(
    bench: Bench, rule: str, at_d: bool
) -> None:
    text = TEXT.replace("at: [A, B]", "at: D") + BEST.replace("with:", f"{rule}:")
    planned = bench.plan(text)
    best = planned.desired["best"]
    assert planned.desired.keys() == {"q5", "best"}
    assert (best.with_job, best.apart) == (("q5", ()) if at_d else (None, ("q5",)))
    assert (best.site == "D") is at_d
    bench.apply(text)
    assert kinds_of(bench.plan(text)) == {"Keep"}


@pytest.mark.parametrize("rule", ["with", "apart"])
def test_a_rule_about_an_input_job_is_refused_for_a_query_that_stays_whole(bench: Bench, rule: str) -> None:
    text = TEXT + BEST.replace("with: q5.rest", f"{rule}: q5.bids-a")
    assert bench.plan(text).desired["best"].site == ("A" if rule == "with" else "D")
    with pytest.raises(InvalidInput) as caught:
        bench.plan(text.replace("at: [A, B]", "at: D").replace("bids-a", "bids-d"))
    assert [str(each) for each in caught.value.faults] == [
        f"job 'best': {rule} 'q5.bids-d' names no job, as 'q5' runs without a cut (expected 'q5.rest', which "
        "stands for the whole query, or a fixed 'cut' of 'q5')"
    ]
