"""Plans of compositions with a split: what each change of it does to its jobs, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from graphlib import TopologicalSorter
from typing import Any

import pytest

from speck.cli.render.plans import plan_lines
from speck.core.graph import Graph
from speck.core.job import Job, form_fingerprint
from speck.core.plan import Deployed, Start, Stop, make_plan, plan_data
from speck.core.refusals import refused_splits
from speck.core.rewiring import rewirings
from speck.core.schedule import Leftovers, StepKey, StepKind, schedule
from speck.core.split import PARTITIONERS, Place, Split, expand, groups
from testbed.benches.examples import job

MINUTE = 60_000_000
HOT = job("hot", "readings", "out", engine="spark", spe_address="sc://d:1", site="D")


def split(*sites: str, **fields: Any) -> Split:
    places = tuple(Place(spe_address=f"sc://{each.lower()}:1", site=each) for each in sites)
    times = {"partitioner": "balanced", "window_us": 15 * MINUTE, "slide_us": 5 * MINUTE}
    return Split(**{"combiners": places, **times, **fields})


def jobs_of(found: Split, whole: Job = HOT) -> dict[str, Job]:
    return {each.job_name: each for each in expand(whole, found)}


def changes(before: Mapping[str, Job], after: Mapping[str, Job]) -> dict[str, str]:
    """The actions that are no Keep, by job."""
    plan = make_plan("test", 1, after, {name: Deployed(each) for name, each in before.items()})
    return {each.job.job_name: type(each).__name__.lower() for each in plan.changes}


def refused(before: Mapping[str, Job], after: Mapping[str, Job]) -> list[str]:
    stored = {name: Deployed(each) for name, each in before.items()}
    return [f"{each.job}: {each.message}" for each in refused_splits(after, stored)]


THREE = jobs_of(split("A", "B", "D"))
WHOLE = jobs_of(replace(split(), combiners=4, partitioner="shuffle"))


def test_all_parts_have_the_time_zone_of_the_job() -> None:
    parts = jobs_of(split("A", "B", "D"), replace(HOT, timezone="Asia/Tokyo"))
    assert {each.timezone for each in parts.values()} == {"Asia/Tokyo"}


def test_an_unchanged_split_is_kept() -> None:
    assert changes(THREE, jobs_of(split("A", "B", "D"))) == {}
    assert changes({name: Job.from_dict(each.to_dict()) for name, each in THREE.items()}, THREE) == {}


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (split("A", "B", "D", "A"), {"hot.partitioner": "update", "hot.combiner-3": "start"}),
        (split("A", "C", "D"), {"hot.combiner-1": "move"}),
        (split("A", "B", "D", lateness_us=MINUTE), {"hot.partitioner": "update"}),
        (split("A", "B", "D", partitioner="hash"), {"hot.partitioner": "update"}),
        (split("A", "B", "D", options={"tolerance": 0.1}), {"hot.partitioner": "update"}),
        (split("A", "B", "D", measured=True), {"hot.partitioner": "update"}),
        (split("A", "B", "D", metrics_slide_us=5_000_000), {"hot.partitioner": "update"}),
        (split("A", "B", "D", reducer=Place(spe_address="sc://c:1", site="C")), {"hot.reducer": "move"}),
    ],
    ids=[
        "combiner-added",
        "combiner-moved",
        "lateness",
        "partitioner",
        "option",
        "measured",
        "metrics",
        "reducer-moved",
    ],
)
def test_a_change_touches_the_jobs_that_it_concerns(after: Split, expected: dict[str, str]) -> None:
    assert changes(THREE, jobs_of(after)) == expected
    assert refused(THREE, jobs_of(after)) == []


def test_weights_change_the_partitioner_alone() -> None:
    base = split("A", "B", "D")
    assert isinstance(base.combiners, tuple)
    retired = replace(base, combiners=(*base.combiners[:2], replace(base.combiners[2], weight=0.0)))
    assert changes(THREE, jobs_of(retired)) == {"hot.partitioner": "update"}
    assert refused(THREE, jobs_of(retired)) == []


def test_a_renamed_split_and_one_that_is_removed() -> None:
    renamed = jobs_of(split("A", "B", "D"), replace(HOT, job_name="warm"))
    assert sorted(changes(THREE, renamed).values()) == ["start"] * 5 + ["stop"] * 5
    back = changes(THREE, {"hot": HOT})
    assert back == {**dict.fromkeys(THREE, "stop"), "hot": "start"}
    assert refused(THREE, {"hot": HOT}) == []


def test_refused_changes() -> None:
    fewer = jobs_of(split("A", "B"))
    assert refused(THREE, fewer) == [
        "hot: the split has fewer combiners: 2 instead of 3 (expected 'weight: 0' for each that is to "
        "retire, or another job_name, under which the split starts again without its open windows)"
    ]
    longer = refused(THREE, jobs_of(split("A", "B", "D", window_us=20 * MINUTE)))
    assert longer == [
        "hot: the windows change from 900 s by 300 s to 1200 s by 300 s (expected the former ones, or "
        "'upgrade: stateless': the open windows are lost then)"
    ]
    assert len(refused(THREE, jobs_of(split("A", "B", "D", slide_us=MINUTE)))) == 1
    (shards,) = refused(THREE, jobs_of(split("A", "B", "D", reducer=Place(parallelism=3))))
    assert "parallelism changes from 1 to 3 in hot.reducer" in shards
    assert refused(WHOLE, jobs_of(replace(split(), combiners=2, partitioner="shuffle"))) == []
    assert len(refused(WHOLE, jobs_of(replace(split(), combiners=4, slide_us=MINUTE)))) == 1
    assert "loses its key_split" in refused(WHOLE, {"hot": HOT})[0]
    assert "gets a key_split" in refused({"hot": HOT}, WHOLE)[0]


STATELESS = replace(HOT, upgrade="stateless")


def test_what_is_refused_is_done_without_the_state() -> None:
    assert refused(THREE, jobs_of(split("A", "B", "D", window_us=20 * MINUTE), STATELESS)) == []
    for whole in (STATELESS, replace(STATELESS, parallelism=3)):
        fewer = replace(split(), combiners=2, partitioner="shuffle", slide_us=MINUTE)
        assert refused(WHOLE, jobs_of(fewer, whole)) == []
    stored = {name: Deployed(each, started=False) for name, each in THREE.items()}
    assert refused_splits(jobs_of(split("A")), stored) == []


@pytest.mark.parametrize("whole", [HOT, STATELESS], ids=["stateful", "stateless"])
@pytest.mark.parametrize(
    ("after", "change"),
    [
        (split("A", "B"), "the split has fewer combiners: 2 instead of 3"),
        (
            split("A", "B", "D", reducer=Place(parallelism=3)),
            "parallelism changes from 1 to 3 in hot.reducer",
        ),
        (split(combiners=(Place(parallelism=2), Place(), Place())), "from 1 to 2 in hot.combiner-0"),
    ],
    ids=["combiners", "reducer's shards", "combiner's shards"],
)
def test_a_split_keeps_its_shape(after: Split, change: str, whole: Job) -> None:
    """The parts that do not change count on it, also when the others start without their state."""
    (fault,) = refused(THREE, jobs_of(after, whole))
    assert change in fault
    assert "or another job_name, under which the split starts again" in fault
    assert refused(jobs_of(after), jobs_of(after, whole)) == []


def test_a_stopped_split_drains_along_its_edges() -> None:
    found = rewirings({name: Stop(each, "") for name, each in THREE.items()})
    assert found["hot.combiner-1"].writers == {"hot.partitioner"}
    assert found["hot.reducer"].writers == {"hot.combiner-0", "hot.combiner-1", "hot.combiner-2"}


def steps_of(
    before: Mapping[str, Job], after: Mapping[str, Job], *leftovers: Leftovers, **more: Any
) -> dict[StepKey, frozenset[StepKey]]:
    plan = make_plan("test", 1, after, {name: Deployed(each) for name, each in before.items()})
    steps = {each.key: each.needs for each in schedule(plan, *leftovers, **more)}
    TopologicalSorter(steps).prepare()
    return steps


PARTITIONER = (StepKind.AWAIT_RUNNING, "hot.partitioner")


def test_combiners_drain_after_the_partitioner_before_their_class_changes() -> None:
    edited = jobs_of(split("A", "B", "D"), replace(HOT, arguments={"least": 2.0}))
    steps = steps_of(THREE, edited)
    drained = {subject for kind, subject in steps if kind is StepKind.DRAIN}
    assert drained == {f"hot.combiner-{number}" for number in range(3)}
    for name in drained:
        assert steps[StepKind.DRAIN, name] == {PARTITIONER, (StepKind.PREPARE, name)}
        assert (StepKind.DRAIN, name) in steps[StepKind.ACT, name]
    order = [subject for kind, subject in steps if kind is StepKind.ACT]
    assert order.index("hot.partitioner") < min(order.index(name) for name in drained)


def test_combiners_that_do_not_drain() -> None:
    """Those whose own arguments change, that start anew, or whose partitioner is of a later wave."""
    base = split("A", "B")
    assert isinstance(base.combiners, tuple)
    own = replace(base, combiners=(replace(base.combiners[0], arguments={"least": 2.0}), base.combiners[1]))
    edited = replace(HOT, entry_class="Other")
    first = [{"hot.combiner-0", "hot.combiner-1"}, {"hot.partitioner", "hot.reducer"}]
    for steps in (
        steps_of(jobs_of(base), jobs_of(own)),
        steps_of(jobs_of(base), jobs_of(base, replace(edited, upgrade="stateless"))),
        steps_of(jobs_of(base), jobs_of(base, edited), waves=first),
    ):
        assert [key for key in steps if key[0] is StepKind.DRAIN] == []


def test_a_combiner_that_is_behind_its_partitioner_drains_too() -> None:
    edited = jobs_of(split("A"), replace(HOT, entry_class="Other"))
    half = {**jobs_of(split("A")), "hot.partitioner": edited["hot.partitioner"]}
    needs = steps_of(half, edited)[StepKind.DRAIN, "hot.combiner-0"]
    assert needs == {(StepKind.PREPARE, "hot.combiner-0")}


def test_a_combiner_that_is_behind_the_arguments_of_its_partitioner_drains_too() -> None:
    """A crash came between; and the partitioner may yet be put back to its former class."""
    before, edited = jobs_of(split("A")), jobs_of(split("A"), replace(HOT, arguments={"least": 2.0}))
    half = {**before, "hot.partitioner": edited["hot.partitioner"]}
    drain, prepared = (StepKind.DRAIN, "hot.combiner-0"), (StepKind.PREPARE, "hot.combiner-0")
    assert steps_of(half, edited)[drain] == {prepared}
    leftovers = Leftovers(fallbacks={"hot.partitioner": before["hot.partitioner"]})
    assert steps_of(half, edited, leftovers)[drain] == {prepared, PARTITIONER}


def test_a_partitioner_gets_combiners_that_have_been_started() -> None:
    more = jobs_of(split("A", "B", "D", "A", "B"))
    act = StepKind.ACT
    added = {(act, "hot.combiner-3"), (act, "hot.combiner-4")}
    assert steps_of(THREE, more)[act, "hot.partitioner"] >= added
    # One runs since an earlier try, and is to get another class with all others, after the partitioner.
    edited = jobs_of(split("A", "B", "D", "A", "B"), replace(HOT, entry_class="Other"))
    steps = steps_of({**THREE, "hot.combiner-3": more["hot.combiner-3"]}, edited)
    assert (act, "hot.combiner-4") in steps[act, "hot.partitioner"]
    assert PARTITIONER in steps[StepKind.DRAIN, "hot.combiner-3"]
    # A later wave cannot be waited for.
    waves = [{"hot.partitioner"}, more.keys() - {"hot.partitioner"}]
    assert not steps_of(THREE, more, waves=waves)[act, "hot.partitioner"] & added


def test_one_more_combiner_does_not_make_the_others_wait() -> None:
    more = jobs_of(split("A", "B", "D", "A"))
    plan = make_plan("test", 1, more, {name: Deployed(each) for name, each in THREE.items()})
    assert rewirings({each.job.job_name: each for each in plan.actions}) == {}


def test_the_plan_shows_the_split_as_a_group() -> None:
    others = {"hot.clean": job("hot.clean", "raw", "readings")}
    desired = others | jobs_of(split("A", "B", *"D" * 10))
    lines = [each.plain for each in plan_lines(plan_data(make_plan("test", 0, desired, {})))]
    assert lines[1].split() == ["+", "start", "hot.clean", "new", "in", "the", "composition"]
    assert lines[2] == (
        "    hot: split by balanced into partitioner (D), 12 combiners (A, B, D), reducer (D)"
    )
    shown = [line.split()[2] for line in lines[3:]]
    assert shown[:3] == ["hot.partitioner", "hot.combiner-0", "hot.combiner-1"]
    assert shown[-2:] == ["hot.combiner-11", "hot.reducer"]
    assert all(line.startswith("  + start     hot.") for line in lines[3:])


def test_a_split_in_one_job_is_an_ordinary_line_of_the_plan() -> None:
    data = plan_data(make_plan("test", 0, WHOLE, {}))
    assert data["actions"][0]["split"]["role"] == "whole"
    assert [each.plain for each in plan_lines(data)][1] == "  + start   hot  new in the composition"


def test_the_stored_form_of_a_job_without_a_split_stays() -> None:
    assert "split" not in HOT.to_dict()
    assert form_fingerprint(HOT) == form_fingerprint(replace(HOT, split={}))
    assert form_fingerprint(HOT) != form_fingerprint(WHOLE["hot"])


def test_groups_are_in_the_order_of_the_flow() -> None:
    many = jobs_of(split(*"ABD" * 5))
    ((name, members),) = groups([*reversed(many.values()), HOT, WHOLE["hot"]])
    assert name == "hot"
    assert [each.job_name for each in members] == list(many)


def test_a_thousand_combiners_are_one_graph() -> None:
    many = jobs_of(split(*["A"] * 1000))
    assert len(Graph.of(many.values()).order()) == 1002
    plan = make_plan("test", 0, many, {})
    assert all(isinstance(each, Start) for each in plan.actions)


def test_options_have_a_default_within_their_bounds() -> None:
    for name, kind in PARTITIONERS.items():
        for each, option in kind.options.items():
            assert option.low <= option.default <= option.high, (name, each)
            assert not option.whole or float(option.default).is_integer(), (name, each)
