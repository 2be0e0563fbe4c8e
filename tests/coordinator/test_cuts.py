"""Plans of queries whose cut SpecK chooses, over engines and brokers in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from speck.apply.planned import PlannedChange
from speck.binder import QueryRunner, Registry
from speck.coordinator import Services, build
from speck.core.change import Apply, Request
from speck.core.inventory import Engine, Inventory
from speck.core.job import UNDECIDED, Composition, Job
from speck.core.settings import Settings
from speck.placement.profile import Inputs, JobProfile
from speck.schema.compositions import load_composition
from speck.sql.program import Program
from speck.store import Store
from testbed.benches import user
from testbed.benches.placement import NOW, engine_at, inventory, kinds, measured
from testbed.doubles.binders import World

TEXT = """name: q
topics:
  bid/+:
    as: bids
    at: [A, B]
    schema: {time: timestamp(ms) not null, auction: bigint not null, price: bigint, note: string}
    event_time: time
    watermark: 1 s
jobs:
- job_name: q5
  engine: flink
  cut: auto
  rest: D
  sql: |
    SELECT window_end, auction, COUNT(*) AS n, MAX(note) AS note
    FROM TUMBLE(bids, time, INTERVAL '10' SECOND)
    WHERE price >= 3
    GROUP BY window_start, window_end, auction
  sink_topic: results/q5
"""
# Sessions have no partials: a cut that may change.
SESSIONS = TEXT.replace("TUMBLE", "SESSION")
INPUTS = ("q5.bids-a", "q5.bids-b")


@dataclass
class Bench:
    registry: Registry
    root: Path
    profiles: dict[str, JobProfile] = field(default_factory=dict)
    services: Services | None = None

    def inputs(self) -> Inputs:
        return Inputs(jobs=self.profiles)

    def load(self, text: str) -> Composition:
        loaded = load_composition(
            text, inventory=sites(), registry=self.registry, root=self.root, default_name="q"
        )
        return loaded.composition

    def plan(self, text: str) -> PlannedChange:
        assert self.services is not None
        return self.services.changes.plan(Apply(self.load(text)), Request())

    def apply(self, text: str) -> None:
        assert self.services is not None
        operation, _ = user.apply(self.services.coordinator, self.load(text))
        assert operation.wait(30)
        assert operation.state == "succeeded", operation.to_dict()


@pytest.fixture(name="bench")
def bench_fixture(tmp_path: Path) -> Iterator[Bench]:
    world = World()
    (tmp_path / "runner.jar").write_bytes(b"the program")
    found = kinds(world)
    runner = QueryRunner(tmp_path / "runner.jar", "io.speck.Run", panes=True)
    registry = Registry(tuple(replace(each, queries=runner) for each in found.engines), found.brokers)
    bench = Bench(registry, tmp_path)
    with Store(tmp_path / "store") as store:
        bench.services = build(
            store,
            registry,
            sites(),
            Settings(roots=(tmp_path,), period=0),
            clock=lambda: NOW,
            inputs=bench.inputs,
        )
        bench.services.coordinator.start()
        try:
            yield bench
        finally:
            bench.services.coordinator.close()


def sites() -> Inventory:
    """The sites with the addresses of their engines as a file has them."""
    return Inventory(
        {
            name: replace(site, engines=(Engine(spe_address=f"{engine_at(name)}/"),))
            for name, site in inventory().sites.items()
        }
    )


def cuts(planned: PlannedChange) -> dict[str, str]:
    found = {}
    for name, job in planned.desired.items():
        assert UNDECIDED not in job.query
        sends = Program.from_json(str(job.query["program"])).sends
        if sends is not None:
            found[name] = sends.cut
    return found


def kinds_of(planned: PlannedChange) -> set[str]:
    return {type(each).__name__ for each in planned.plan.actions}


def profile(rate: float, selectivity: float) -> JobProfile:
    return JobProfile(rate_in=measured(rate), bytes_in=measured(110), selectivity=measured(selectivity))


def by_hand(bench: Bench, cut: str, text: str = TEXT) -> dict[str, Job]:
    return dict(bench.load(text.replace("cut: auto", f"cut: {cut}")).jobs)


def test_the_chosen_cut_makes_the_jobs_of_the_same_cut_by_hand(bench: Bench) -> None:
    planned = bench.plan(TEXT)
    found = cuts(planned)
    assert found["q5.bids-a"] == "partials"
    named = {name.removeprefix("q5."): cut for name, cut in found.items()}
    assert dict(planned.desired) == by_hand(bench, str(named))
    note = planned.plan.consequences["q5.bids-a"]
    assert note.startswith("cut at partials, chosen among columns, filter, partials: "), note
    assert "leave the site instead of" in note and "(100 messages/s assumed)" in note
    proposed = bench.services.retained_plans.show(Apply(bench.load(TEXT)), Request())  # type: ignore[union-attr]
    assert proposed.planned.desired == planned.desired


def test_what_runs_is_planned_again_without_a_change(bench: Bench) -> None:
    bench.apply(TEXT)
    assert kinds_of(bench.plan(TEXT)) == {"Keep"}
    bench.profiles = dict.fromkeys(INPUTS, profile(1.0, 1.0))  # partials would not be chosen any longer
    assert kinds_of(bench.plan(TEXT)) == {"Keep"}


def test_what_runs_may_begin_to_merge_and_stays_so(bench: Bench) -> None:
    bench.apply(TEXT.replace("cut: auto", "cut: filter"))
    bench.profiles = dict.fromkeys(INPUTS, profile(5000.0, 0.9))
    planned = bench.plan(TEXT)
    assert cuts(planned) == dict.fromkeys(INPUTS, "partials")
    assert kinds_of(planned) == {"Update", "Keep"}
    bench.apply(TEXT)
    bench.profiles = dict.fromkeys(INPUTS, profile(1.0, 1.0))
    assert kinds_of(bench.plan(TEXT)) == {"Keep"}


def test_a_cut_changes_for_a_gain_that_is_measured(bench: Bench) -> None:
    by_columns = SESSIONS.replace("cut: auto", "cut: columns")
    bench.apply(by_columns)
    assert kinds_of(bench.plan(SESSIONS.replace("name: q\n", "name: q\nplacement: {mode: 'off'}\n"))) == {
        "Keep"
    }
    planned = bench.plan(SESSIONS)
    assert cuts(planned) == dict.fromkeys(INPUTS, "filter")
    assert dict(planned.desired) == by_hand(bench, "filter", SESSIONS)
    bench.apply(SESSIONS)
    bench.profiles = dict.fromkeys(INPUTS, profile(100.0, 0.98))  # nearly all rows fulfil the condition
    assert kinds_of(bench.plan(SESSIONS)) == {"Keep"}


@pytest.mark.parametrize(("cost", "size"), [(0.004, 60), (1e-7, 2000)])
def test_a_cut_is_not_left_because_it_is_measured_and_others_are_not(
    bench: Bench, cost: float, size: float
) -> None:
    bench.apply(SESSIONS.replace("cut: auto", "cut: filter"))
    known = replace(profile(100.0, 1.0), cost=measured(cost), bytes_out=measured(size))
    bench.profiles = dict.fromkeys(INPUTS, known)
    assert kinds_of(bench.plan(SESSIONS)) == {"Keep"}


def test_a_cut_by_hand_is_not_chosen_otherwise(bench: Bench) -> None:
    planned = bench.plan(TEXT.replace("cut: auto", "cut: {bids: auto, bids-b: columns}"))
    assert cuts(planned)["q5.bids-b"] == "columns"
    assert planned.plan.consequences.keys() & set(INPUTS) == {"q5.bids-a"}


def test_a_query_of_one_site_may_stay_whole(bench: Bench) -> None:
    one = TEXT.replace("at: [A, B]", "at: D")  # where the rest is, so that parts gain nothing
    planned = bench.plan(one)
    whole = one.replace("  cut: auto\n  rest: D\n", "  site: D\n")
    assert dict(planned.desired) == dict(bench.load(whole).jobs)
    bench.apply(one)
    assert kinds_of(bench.plan(one)) == {"Keep"}
