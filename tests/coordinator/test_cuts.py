"""Plans of queries whose cut SpecK chooses, over engines and brokers in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from speck.apply.planned import PlannedChange
from speck.coordinator.placing.cut_corrections import CutCorrections
from speck.coordinator.placing.cut_queries import cut_of, queries_with_cuts
from speck.coordinator.placing.request import PlacementRequest
from speck.core.adaptation import Cuts, Entry, Trigger
from speck.core.change import Apply, Recut, Request
from speck.core.job import Job
from speck.core.runtime import Handle, JobState, State
from speck.errors import InvalidInput, NoCapacity
from speck.placement.profile import JobProfile
from speck.sql import joins
from speck.testing.waiting import eventually
from testbed.benches import user
from testbed.benches.placement import NOW, engine_at, measured
from testbed.doubles.engine import InMemoryEngine
from tests.coordinator.cuts_bench import Bench, cuts, kinds_of, running

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
INPUTS = ("q5.bids-a", "q5.bids-b")


@pytest.fixture(name="bench")
def bench_fixture(tmp_path: Path) -> Iterator[Bench]:
    with running(tmp_path, panes=True) as bench:
        yield bench


@pytest.fixture(name="without_panes")
def without_panes_fixture(tmp_path: Path) -> Iterator[Bench]:
    """Its engines do not run the cut ``partials``."""
    with running(tmp_path, panes=False) as bench:
        yield bench


def profile(rate: float, selectivity: float) -> JobProfile:
    return JobProfile(rate_in=measured(rate), bytes_in=measured(110), selectivity=measured(selectivity))


def by_hand(bench: Bench, cut: str, text: str = TEXT) -> dict[str, Job]:
    return dict(bench.load(text.replace("cut: auto", f"cut: {cut}")).jobs)


def without_choice(planned: PlannedChange) -> dict[str, Job]:
    """The jobs as they would be with a cut by hand."""
    return {name: replace(job, cuts=()) for name, job in planned.desired.items()}


def test_the_chosen_cut_makes_the_jobs_of_the_same_cut_by_hand(bench: Bench) -> None:
    planned = bench.plan(TEXT)
    found = cuts(planned)
    assert found["q5.bids-a"] == "partials"
    named = {name.removeprefix("q5."): cut for name, cut in found.items()}
    assert without_choice(planned) == by_hand(bench, str(named))
    note = planned.plan.consequences["q5.bids-a"]
    assert note.startswith("cut at partials, chosen among columns, filter, partials: "), note
    assert "leave the site instead of" in note and "(100 messages/s assumed)" in note
    proposed = bench.services.retained_plans.show(Apply(bench.load(TEXT)), Request())  # type: ignore[union-attr]
    assert proposed.planned.desired == planned.desired


def test_what_runs_is_planned_again_without_a_change(bench: Bench) -> None:
    bench.apply(TEXT)
    assert kinds_of(bench.plan(TEXT)) == {"Keep"}
    bench.profiles = dict.fromkeys(INPUTS, profile(1000.0, 0.005))
    assert kinds_of(bench.plan(TEXT)) == {"Keep"}


def test_what_runs_may_begin_to_merge_and_end_it(bench: Bench) -> None:
    bench.apply(TEXT.replace("cut: auto", "cut: filter"))
    bench.profiles = dict.fromkeys(INPUTS, profile(5000.0, 0.06))  # the rows of 16 messages in one
    planned = bench.plan(TEXT)
    assert cuts(planned) == dict.fromkeys(INPUTS, "partials")
    assert kinds_of(planned) == {"Update", "Keep"}
    bench.apply(TEXT)
    bench.profiles = dict.fromkeys(INPUTS, profile(5000.0, 0.001))
    assert kinds_of(bench.plan(TEXT)) == {"Keep"}
    # Keys hardly occur twice.
    bench.profiles = dict.fromkeys(INPUTS, profile(5000.0, 0.9))
    planned = bench.plan(TEXT)
    assert cuts(planned) == dict.fromkeys(INPUTS, "filter")
    assert "are sent first" in planned.plan.consequences["q5.bids-a"]


def test_an_input_job_that_is_not_measured_now_begins_to_merge_once_it_is(bench: Bench) -> None:
    """It may not run, and the apply of another change would be refused."""
    bench.apply(TEXT.replace("cut: auto", "cut: filter"))
    bench.profiles, bench.stale = dict.fromkeys(INPUTS, profile(5000.0, 0.06)), True
    bench.world.crash("q5.bids-a", state=JobState.FAILED)
    assert cuts(bench.plan(TEXT)) == dict.fromkeys(INPUTS, "filter")
    bench.apply(TEXT)
    bench.stale = False
    assert cuts(bench.plan(TEXT)) == dict.fromkeys(INPUTS, "partials")


def test_a_cut_changes_for_a_gain_that_is_measured(without_panes: Bench) -> None:
    by_columns = TEXT.replace("cut: auto", "cut: columns")
    without_panes.apply(by_columns)
    assert kinds_of(without_panes.plan(TEXT.replace("name: q\n", "name: q\nplacement: {mode: 'off'}\n"))) == {
        "Keep"
    }
    planned = without_panes.plan(TEXT)
    assert cuts(planned) == dict.fromkeys(INPUTS, "filter")
    assert without_choice(planned) == by_hand(without_panes, "filter")
    without_panes.apply(TEXT)
    without_panes.profiles = dict.fromkeys(
        INPUTS, profile(100.0, 0.98)
    )  # nearly all rows fulfil the condition
    assert kinds_of(without_panes.plan(TEXT)) == {"Keep"}


@pytest.mark.parametrize(("cost", "size"), [(0.004, 60), (1e-7, 2000)])
def test_a_cut_is_not_left_because_it_is_measured_and_others_are_not(
    without_panes: Bench, cost: float, size: float
) -> None:
    without_panes.apply(TEXT.replace("cut: auto", "cut: filter"))
    known = replace(profile(100.0, 1.0), cost=measured(cost), bytes_out=measured(size))
    without_panes.profiles = dict.fromkeys(INPUTS, known)
    assert kinds_of(without_panes.plan(TEXT)) == {"Keep"}


@pytest.mark.parametrize("edited", [False, True])
def test_what_is_measured_of_a_query_says_nothing_of_another_condition(
    without_panes: Bench, edited: bool
) -> None:
    without_panes.apply(TEXT.replace("cut: auto", "cut: filter"))
    text = TEXT.replace("price >= 3", "price >= 300") if edited else TEXT
    without_panes.profiles = dict.fromkeys(INPUTS, JobProfile(rate_in=measured(100)))
    estimated = without_panes.plan(text)
    without_panes.profiles = dict.fromkeys(INPUTS, profile(100.0, 0.98))
    planned = without_panes.plan(text)
    assert cuts(planned) == cuts(estimated) == dict.fromkeys(INPUTS, "filter")
    assert (planned.plan.consequences == estimated.plan.consequences) is edited


def test_what_is_assumed_of_an_input_says_nothing_of_its_cut(without_panes: Bench) -> None:
    """As of one that runs with another cut and is not measured there yet."""
    without_panes.apply(TEXT.replace("cut: auto", "cut: filter"))
    without_panes.profiles = dict.fromkeys(INPUTS, JobProfile(rate_in=measured(100)))
    estimated = without_panes.plan(TEXT)
    without_panes.profiles = dict.fromkeys(INPUTS, profile(100.0, 0.98).as_assumed("rate_in"))
    assert without_panes.plan(TEXT).plan.consequences == estimated.plan.consequences


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


ONE = TEXT.replace("at: [A, B]", "at: A")
WHOLE = ONE.replace("  cut: auto\n  rest: D\n", "  site: A\n  upgrade: stateless\n")
CUT = ONE.replace("  cut: auto\n", "  cut: columns\n  upgrade: stateless\n")


@pytest.mark.parametrize(("before", "after"), [(WHOLE, CUT), (CUT, WHOLE)])
def test_the_other_form_of_a_query_starts_once_the_former_one_has_stopped(
    bench: Bench, before: str, after: str
) -> None:
    """Also if the former one cannot be stopped for a while: both would write the results."""
    bench.apply(before)
    former = set(bench.world.where())
    with pytest.raises(InvalidInput, match="'upgrade: stateless': open windows are lost then"):
        bench.plan(after.replace("  upgrade: stateless\n", ""))
    consequences = bench.plan(after).plan.consequences
    (note,) = [each for each in consequences.values() if each.startswith("starts without the state of")]
    assert "some windows are written by both" in note
    assert bench.services is not None
    away = f"{engine_at('D' if before == CUT else 'A')}/"
    bench.world.down(away)
    operation, _ = user.apply(bench.services.coordinator, bench.load(after))
    assert operation.wait(30)
    assert operation.state != "succeeded"
    assert set(bench.world.where()) <= former
    bench.world.up(away)
    bench.apply(after)
    assert not former & set(bench.world.where()) and bench.world.where()
    calls = [(method, name) for method, _, name in bench.world.calls]
    stops = [at for at, (method, name) in enumerate(calls) if method == "stop" and name in former]
    starts = [at for at, (method, name) in enumerate(calls) if method == "submit" and name not in former]
    assert starts and max(stops) < min(starts)


@pytest.mark.parametrize(("before", "after"), [("columns", "partials"), ("partials", "columns")])
@pytest.mark.parametrize("state", [JobState.STARTING, JobState.FAILED])
def test_an_input_job_that_does_not_run_does_not_begin_or_end_to_merge_rows(
    bench: Bench, before: str, after: str, state: JobState
) -> None:
    """It would start from its last checkpoint, and the rest counts the rows since then twice."""
    texts = {cut: TEXT.replace("cut: auto", f"cut: {cut}") for cut in (before, after, "filter")}
    bench.apply(texts[before])
    bench.world.crash("q5.bids-a", state=state)
    for upgrade in ("stateful", "stateless"):
        with pytest.raises(InvalidInput) as raised:
            bench.plan(f"{texts[after]}  upgrade: {upgrade}\n")
        assert (
            f"job 'q5.bids-a': the cut changes from '{before}' to '{after}' while the job is {state.value}: "
            f"rows since its last checkpoint would be counted twice (expected 'cut: {before}' until it runs)"
        ) in str(raised.value)
        assert "q5.bids-b" not in str(raised.value)
    if before == "columns":
        assert "Update" in kinds_of(bench.plan(texts["filter"]))  # whose rows the rest recognises
    bench.world.crash("q5.bids-a", state=JobState.FAILED)
    bench.apply(texts[before])
    bench.apply(texts[after])


@pytest.mark.parametrize(("before", "after"), [("filter", "partials"), ("partials", "filter")])
def test_an_input_job_that_ends_before_it_is_stopped_continues_in_its_former_form(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, before: str, after: str
) -> None:
    """From its last checkpoint; in the new form, the rest would count the rows since then twice."""
    texts = {cut: TEXT.replace("cut: auto", f"cut: {cut}") for cut in (before, after)}
    bench.apply(texts[before])
    stop = InMemoryEngine.stop

    left = ["savepoint-4", "chk-3"]

    def stop_late(engine: InMemoryEngine, handle: Handle, keep_state: bool) -> State | None:
        state = stop(engine, handle, keep_state)
        if state is None or handle.details["job"] != "q5.bids-a":
            return state
        found = replace(state, location=f"{state.location}/{left.pop()}")
        bench.world.states.add(found.location)
        return found

    assert bench.services is not None
    monkeypatch.setattr(InMemoryEngine, "stop", stop_late)
    operation, _ = user.apply(bench.services.coordinator, bench.load(texts[after]))
    assert operation.wait(30) and operation.state != "succeeded"
    error = str(operation.to_dict())
    assert "in its new form, rows since then would be counted twice" in error
    assert "the previous version was restored and runs" in error
    running = {each.job.job_name: cut_of(each.job) for name in INPUTS for each in bench.world.running(name)}
    assert running == {"q5.bids-a": before, "q5.bids-b": after}
    bench.apply(texts[after])
    assert running_cuts(bench) == dict.fromkeys(INPUTS, after)
    assert not bench.world.violations


WIDER = ("'10' SECOND", "'20' SECOND")


@pytest.mark.parametrize(
    ("job", "edit", "fault"),
    [
        ("q5.bids-a", ("cut: columns", "cut: partials"), "while the job is not running"),
        ("q5.rest", WIDER, "the windows change from"),
    ],
)
def test_a_job_that_could_not_be_started_again_has_its_state_nevertheless(
    bench: Bench, job: str, edit: tuple[str, str], fault: str
) -> None:
    """It runs at no engine, and resumes from its last checkpoint as soon as there is room."""
    text = TEXT.replace("cut: auto", "cut: columns")
    bench.apply(text)
    fail_to_restart(bench, job, text)
    with pytest.raises(InvalidInput, match=fault):
        bench.plan(text.replace(*edit))
    bench.world.heal()
    bench.apply(text)


def test_the_state_of_a_job_is_that_of_the_form_that_ran_last(bench: Bench) -> None:
    """Also if a later one was accepted, without the state, and has not come to run."""
    text = TEXT.replace("cut: auto", "cut: columns")
    edited = text.replace(*WIDER)
    bench.apply(text)
    fail_to_restart(bench, "q5.rest", f"{edited}  upgrade: stateless\n")
    with pytest.raises(InvalidInput, match="the windows change from"):
        bench.plan(edited)
    bench.world.heal()
    bench.apply(f"{edited}  upgrade: stateless\n")
    bench.apply(edited)


def fail_to_restart(bench: Bench, job: str, text: str) -> None:
    """Let a job die, and an apply of this text find no room to start it again."""
    assert bench.services is not None
    bench.world.crash(job)
    bench.world.fail("submit", NoCapacity("no slot is free"), name=job, times=None)
    operation, _ = user.apply(bench.services.coordinator, bench.load(text))
    assert operation.wait(30)
    assert bench.services.coordinator.store.attempts(job) == []


JOINED = TEXT.replace(
    "jobs:",
    """  ask/+:
    as: asks
    at: [A]
    schema: {time: timestamp(ms) not null, auction: bigint not null}
    event_time: time
    watermark: 1 s
jobs:""",
).replace(
    TEXT[TEXT.index("    SELECT") : TEXT.index("  sink_topic")],
    """    SELECT b.price AS price FROM bids AS b JOIN asks AS a ON a.auction = b.auction
    AND a.time BETWEEN b.time AND b.time + INTERVAL '1' HOUR
""",
)


def test_the_table_of_an_input_is_known_from_a_site_with_a_hyphen_in_its_name(bench: Bench) -> None:
    (query,) = queries_with_cuts(bench.load(JOINED))
    name = "q5.asks-a"
    job = query.inputs[name]
    at_edge = replace(job, query={**job.query, "input": "asks-edge-1"})
    assert replace(query, inputs={**query.inputs, name: at_edge}).table(name) == query.table(name)


def test_frames_get_other_bounds_only_while_the_input_job_runs(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of another version: what was sent since the last checkpoint would come in other frames."""
    with monkeypatch.context() as former:
        former.setattr(joins, "STEP_MS", 1000)
        bench.apply(JOINED)
        bench.world.crash("q5.asks-a", state=JobState.FAILED)
        assert "Update" not in kinds_of(bench.plan(JOINED))
    with pytest.raises(InvalidInput, match="other bounds while the job is failed") as raised:
        bench.plan(JOINED)
    assert "'q5.asks-a'" in str(raised.value) and "q5.bids" not in str(raised.value)
    bench.plan(f"{JOINED}  upgrade: stateless\n")
    with monkeypatch.context() as former:
        former.setattr(joins, "STEP_MS", 1000)
        bench.apply(JOINED)
    bench.apply(JOINED)


# --- what runs: advice and the adaptation loop

AUTO = TEXT.replace("name: q\n", "name: q\nplacement: {mode: auto}\n")
MERGED = {name: profile(5000.0, 0.001) for name in INPUTS} | {"q5.rest": profile(500.0, 0.1)}
BUSY = {name: profile(5000.0, 0.9) for name in INPUTS} | {"q5.rest": profile(9000.0, 0.01)}


def running_cuts(bench: Bench) -> dict[str, str]:
    assert bench.services is not None
    jobs = bench.services.coordinator.deployments.composition("q").jobs
    return {name: cut_of(jobs[name]) for name in INPUTS}


def decided(bench: Bench, times: int = 1) -> Entry:
    """The entry of the last of some decisions."""
    assert bench.services is not None
    adaptation = bench.services.adaptation
    for _ in range(times):
        adaptation.decide("q", Trigger.PERIOD, adaptation.mover.present("q"))
        eventually(lambda: bench.services.adaptation.operations.is_idle("q"), bool, 30)  # type: ignore[union-attr]
    return bench.services.adaptation.store.adaptation("q").entries[-1]


def test_advice_on_what_runs_has_the_better_cut_and_is_accepted(bench: Bench) -> None:
    bench.profiles = MERGED
    bench.apply(TEXT)
    assert bench.services is not None
    plans = bench.services.retained_plans
    bench.profiles = BUSY
    advice = plans.advise("q", PlacementRequest())
    [action] = [each for each in advice["plan"]["actions"] if each["job"] == "q5.bids-a"]
    assert "cut at filter, chosen among" in action["consequence"]
    assert plans.accept_placement(advice["id"], Request()).wait(30)
    assert running_cuts(bench) == dict.fromkeys(INPUTS, "filter")


@pytest.mark.slow("many rounds of the loop")
def test_the_loop_changes_cuts_and_keeps_what_holds(bench: Bench) -> None:
    bench.profiles = MERGED
    bench.apply(AUTO)
    assert running_cuts(bench) == dict.fromkeys(INPUTS, "partials")
    assert decided(bench, 4).decision == "hold"
    bench.profiles = BUSY
    assert "is the best in 2 of 3 decisions" in decided(bench, 2).reason
    entry = decided(bench)
    assert (entry.decision, entry.jobs) == ("step", INPUTS)
    assert (entry.source, entry.target) == ("cut partials", "cut filter")
    assert running_cuts(bench) == dict.fromkeys(INPUTS, "filter")
    assert bench.services is not None
    last = bench.services.queries.revisions("q")[-1]
    assert last["author"] == "placement"
    assert "q5.bids-a, q5.bids-b from cut partials to cut filter: the objective falls by" in last["message"]
    step = bench.services.adaptation.store.adaptation("q").pending
    assert step is not None and step.predicted < step.objective
    found = bench.services.adaptation.mover.recut_effect(
        "q", step, bench.services.adaptation.mover.present("q"), lag_grows=False
    )
    assert found is not None and found.gain > 0
    # What was measured at the former cut is remembered: by the estimate it would be chosen again.
    bench.profiles = {name: profile(5000.0, 0.33) for name in INPUTS} | {"q5.rest": profile(3300.0, 0.01)}
    targets = [each.target for each in bench.services.adaptation.mover.advise("q", {}, 0.15).candidates]
    assert targets == []
    corrections, store = bench.services.changes.cuts.corrections, bench.services.adaptation.store
    corrections._ratios.clear()
    [candidate] = bench.services.adaptation.mover.advise("q", {}, 0.15).candidates
    assert candidate.target == "cut partials"
    # A server that begins later knows it too, for a week, and as long as there are the jobs.
    corrections._ratios.update(CutCorrections(store, lambda: NOW)._ratios)
    assert bench.services.adaptation.mover.advise("q", {}, 0.15).candidates == []
    job = bench.services.coordinator.deployments.composition("q").jobs["q5.bids-a"]
    modelled = JobProfile(cost=measured(1e-5), selectivity=measured(1.0))
    assert CutCorrections(store, lambda: NOW + 6 * 86_400).corrected(job, modelled) is not None
    assert CutCorrections(store, lambda: NOW + 8 * 86_400).corrected(job, modelled) is None
    assert user.delete_composition(bench.services.coordinator, "q").wait(30)
    assert store.cut_corrections() == {}


def test_a_cut_is_taken_back_as_a_move_is(bench: Bench) -> None:
    bench.profiles = MERGED
    bench.apply(AUTO)
    bench.profiles = BUSY
    decided(bench, 3)
    assert bench.services is not None
    mover, head = bench.services.adaptation.mover, bench.services.adaptation.store.head("q")
    assert head is not None
    operation = mover.move(
        "q", INPUTS, Cuts.of(["partials"] * 2), head.revision, "back: it missed its prediction"
    )
    assert operation.wait(30)
    assert running_cuts(bench) == dict.fromkeys(INPUTS, "partials")
    banned = dict.fromkeys(INPUTS, frozenset({Cuts.of(["filter"])}))
    targets = [each.target for each in mover.advise("q", banned, 0.15).candidates]
    assert "cut filter" not in targets


@pytest.mark.parametrize(
    ("cuts", "reason"),
    [
        (
            {"q5.bids-a": "none"},
            "cut 'none' is not one of its choice (expected one of columns, filter, partials)",
        ),
        ({"q5.rest": "filter"}, "(expected an input job with 'cut: auto')"),
    ],
)
def test_a_step_to_a_cut_that_is_none_of_the_choice_is_refused(
    bench: Bench, cuts: dict[str, str], reason: str
) -> None:
    bench.apply(TEXT)
    assert bench.services is not None
    with pytest.raises(InvalidInput) as caught:
        bench.services.changes.plan(Recut("q", cuts), Request())
    assert reason in str(caught.value)


@pytest.mark.parametrize("text", [TEXT, AUTO.replace("cut: auto", "cut: partials")])
def test_the_loop_leaves_cuts_alone_that_are_not_its_own(bench: Bench, text: str) -> None:
    bench.profiles = MERGED
    bench.apply(text)
    bench.profiles = BUSY
    if text == TEXT:
        assert bench.services is not None
        bench.services.adaptation.round()
        assert bench.services.adaptation.store.adaptation("q").entries == ()
    else:
        assert decided(bench, 5).reason == "no placement is better"
    assert running_cuts(bench) == dict.fromkeys(INPUTS, "partials")
