"""Copies of jobs that an engine runs and the store does not name, over engines and brokers in memory."""

from __future__ import annotations

import io
import threading
from dataclasses import replace

import pytest

from speck.core.job import Job, form_fingerprint
from speck.core.runtime import Attempt
from speck.errors import OutcomeUnknown, StoreFull
from speck.store.maintenance.backup import restore
from speck.store.maintenance.integrity import LEAP
from testbed.benches import user
from testbed.benches.jobs_by_hand import chain
from testbed.benches.reconciler import Bench, copy_of
from testbed.benches.sessions import named
from testbed.doubles.world import World

pytestmark = pytest.mark.usefixtures("known_owner")

ENGINE, BROKER, FAR = "sc://e1:1", "tcp://b1:1883", "tcp://b2:1883"
A, B = chain("a", "b")
FASTER = replace(A, trigger="1 second")


def intrude(bench: Bench, job: Job = A, owner: str | None = None, number: int = 9) -> Attempt:
    """Let the engine run a copy of a job that the store does not name, by default one that it once had."""
    owner = bench.store.identity if owner is None else owner
    attempt = replace(copy_of(job, bench.world, number), owner=owner)
    bench.world.intrude(ENGINE, job, attempt)
    return attempt


def bring_back(bench: Bench, pieces: bytes) -> None:
    """Go on with a backup, as after a crash that took the store with it."""
    bench.close()
    place = bench.store.directory.with_name("restored")
    restore(io.BytesIO(pieces), "backup", place)
    bench.move_to(place)


def numbers(world: World, job: str) -> list[int]:
    return [each.attempt.number for each in world.running(job)]


# --- ended, or told


def test_a_second_copy_of_ours_is_stopped(bench: Bench, world: World) -> None:
    bench.apply(A)
    world.intrude(ENGINE, A, copy_of(A, world, 1))
    bench.round()
    assert numbers(world, "a") == [1]
    events = [(each["kind"], each["message"]) for each in bench.queries.events()]
    assert events[-2][1].startswith("job 'a': running twice: attempt")
    assert events[-1] == ("stopped", f"job 'a': second copy (attempt {1:032x}) stopped at {ENGINE}")
    bench.round()
    assert bench.job("a")["drift"] is None


def test_a_copy_that_reads_another_session_is_told_and_not_touched(bench: Bench, world: World) -> None:
    bench.apply(A)
    world.intrude(ENGINE, replace(A, source_broker=FAR), copy_of(A, world))
    bench.round(3)
    assert len(world.running("a")) == 2
    assert bench.job("a")["drift"] == "running twice"
    assert bench.reported() == [("drift", "a")]


def test_a_copy_that_the_store_does_not_name_keeps_its_job_from_being_doubled(
    bench: Bench, world: World
) -> None:
    bench.apply(A)
    world.restart(ENGINE)
    world.intrude(ENGINE, A, copy_of(A, world))
    bench.round(4)
    assert [each.attempt.number for each in world.running("a")] == [9]
    assert bench.job("a")["drift"] == "running old code"
    assert "which the store does not name" in str(bench.job("a")["waits"])


@pytest.mark.parametrize("owner", ["another", ""], ids=["another store's", "of nobody"])
def test_a_copy_that_may_be_of_another_store_is_told_and_not_taken_up(
    bench: Bench, world: World, owner: str
) -> None:
    bench.apply(A)
    world.restart(ENGINE)
    intrude(bench, owner=owner)
    bench.round(4)
    assert numbers(world, "a") == [9]
    assert bench.job("a")["attempt"] == 1
    reported = "another SpecK has started" if owner else "the store does not name"
    assert reported in str(bench.job("a")["drift_message"])


def test_a_second_copy_of_another_store_is_not_ended(bench: Bench, world: World) -> None:
    bench.apply(A)
    intrude(bench, owner="another", number=1)
    bench.round(3)
    assert sorted(numbers(world, "a")) == [1, 1]
    assert bench.job("a")["drift"] == "running twice"


# --- taken up


def test_a_copy_in_the_wanted_form_is_taken_up_when_no_other_runs(bench: Bench, world: World) -> None:
    bench.apply(A)
    world.restart(ENGINE)
    orphan = intrude(bench)
    before = world.changes()
    bench.round(3)
    assert (world.changes(), numbers(world, "a")) == (before, [9])
    (record,) = bench.store.attempts("a")
    assert (record.attempt.id, record.attempt.session, record.phase) == (orphan.id, named("a"), "running")
    assert (bench.job("a")["state"], bench.job("a")["drift"]) == ("running", None)
    said = [each["message"] for each in bench.queries.events() if each["kind"] == "started"]
    assert said[-1] == f"job 'a': attempt 9 was found at {ENGINE}, and adopted"
    world.crash("a")
    bench.round()
    assert numbers(world, "a") == [10]


def test_a_copy_whose_number_no_store_gives_is_not_taken_up(bench: Bench, world: World) -> None:
    bench.apply(A)
    world.restart(ENGINE)
    intrude(bench, number=10**12)
    bench.round(3)
    (record,) = [each for each in bench.store.jobs() if each.name == "a"]
    assert record.attempts == 1
    assert "as attempt 1000000000000 (expected at most 1000000001)" in str(bench.job("a")["waits"])


def test_a_copy_in_another_form_is_told(bench: Bench, world: World) -> None:
    bench.apply(A)
    world.restart(ENGINE)
    intrude(bench, FASTER)
    bench.round(4)
    assert numbers(world, "a") == [9]
    assert (bench.job("a")["drift"], bench.job("a")["attempt"]) == ("running old code", 1)


def test_a_copy_is_not_taken_up_while_the_other_may_run(bench: Bench, world: World) -> None:
    bench.apply(A)
    world.silent_jobs.add(world.running("a")[0].attempt.id)
    intrude(bench)
    bench.round(3)
    assert [each.attempt.number for each in bench.store.attempts("a")] == [1]


def test_the_older_of_two_copies_ends_whichever_the_store_names(bench: Bench, world: World) -> None:
    """The fence names the newer one: the older copy ends as soon as it looks there."""
    bench.apply(A)
    intrude(bench)
    bench.round(2)
    assert sorted(numbers(world, "a")) == [1, 9]
    world.broker(BROKER).fences[named("a")] = 9
    bench.round(3)
    assert numbers(world, "a") == [9]
    assert [each.attempt.number for each in bench.store.attempts("a")] == [9]
    assert bench.job("a")["drift"] is None


def test_a_user_goes_before_what_was_found_out(bench: Bench, world: World) -> None:
    bench.apply(A)
    world.restart(ENGINE)
    intrude(bench)
    hold = world.hold("find", "a")
    loop = threading.Thread(target=bench.coordinator.reconciler.round)
    loop.start()
    assert hold.reached.wait(30)
    assert bench.apply(A, B).actions["b"].state == "done"
    hold.release()
    loop.join(30)
    assert [each.attempt.number for each in bench.store.attempts("a")] != [9]
    world.violations.clear()  # the user asked for it: what runs there gives way at the fence


# --- an old backup


def test_after_an_old_backup_the_copy_of_later_is_taken_up(bench: Bench, world: World) -> None:
    bench.apply(A, B)
    pieces = b"".join(bench.queries.backup())
    for job in (FASTER, A):
        bench.apply(job, B)
    before = world.changes()
    bring_back(bench, pieces)
    bench.round(3)
    assert world.changes() == before
    assert (numbers(world, "a"), bench.job("a")["drift"]) == ([3], None)
    bench.apply(FASTER, B)
    assert numbers(world, "a") == [LEAP + 2]


def test_after_an_old_backup_a_job_of_later_is_told_and_gives_way(bench: Bench, world: World) -> None:
    bench.apply(A)
    pieces = b"".join(bench.queries.backup())
    bench.apply(A, B)
    (orphan,) = world.running("b")
    bring_back(bench, pieces)
    bench.round(3)
    assert numbers(world, "b") == [1]
    (said,) = [each["message"] for each in bench.queries.events() if each["kind"] == "stray"]
    assert said.startswith(f"job 'b' is in no composition, and attempt {orphan.attempt.id} of it runs at")
    bench.apply(A, B)
    world.take_over(BROKER, named("b"))
    assert numbers(world, "b") == [LEAP + 1]  # above all that there ever were
    world.violations.clear()  # for a moment both ran, and only the newer one may read


def test_many_copies_of_unknown_jobs_cause_a_bounded_number_of_events(bench: Bench, world: World) -> None:
    """The agent of a site in wrong hands may list any copies."""
    bench.apply(A)
    orphans = bench.coordinator.reconciler.orphans
    orphans._limit.most = 3
    for number in range(5):
        intrude(bench, replace(A, job_name=f"x{number}"), number=20 + number)

    def reported() -> list[str]:
        return [each["message"] for each in bench.queries.events(1000) if each["kind"] == "stray"]

    bench.round(3)
    assert len(reported()) == 3
    assert len(orphans.found()) == 5
    bench.round(seconds=3600.0)
    text = "2 further copies of jobs in no composition were found (expected at most 3 an hour)"
    assert reported()[3:] == [f"{ENGINE}: {text}"]


def test_copies_of_known_jobs_are_looked_up_together(
    bench: Bench, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.apply(A, B)
    looked_up: list[str] = []
    find = bench.store.job
    monkeypatch.setattr(bench.store, "job", lambda name: looked_up.append(name) or find(name))
    bench.round(2)
    assert looked_up == []
    assert world.where() == {"a": ENGINE, "b": ENGINE}


def test_what_runs_while_it_is_deleted_is_no_stray(bench: Bench, world: World) -> None:
    bench.apply(A, B)
    bench.round()
    world.fail("stop", OutcomeUnknown("silence", address=ENGINE), name="b", times=None)
    bench.apply(A)
    bench.round(3)
    world.heal()
    bench.round(5)
    assert "stray" not in [each["kind"] for each in bench.queries.events()]
    assert world.where() == {"a": ENGINE}


def test_forms_differ_where_an_engine_would_notice() -> None:
    notes = ({"labels": {"a": "b"}}, {"job_path": "elsewhere.py"}, {"restart": "never"})
    changes = ({"trigger": "1 second"}, {"arguments": {"n": 1}}, {"arguments": {"n": "1"}}, {"job_name": "x"})
    same, others = ([form_fingerprint(replace(A, **each)) for each in group] for group in (notes, changes))
    assert set(same) == {form_fingerprint(A)}
    assert len({form_fingerprint(A), *others}) == 5


# --- in the list of what was left behind


def listed(bench: Bench) -> list[tuple[str, str, int | None, str, str]]:
    found = bench.services.sites.left_behind()
    keys = ("job_name", "composition", "attempt", "session", "verdict")
    assert {each["kind"] for each in found} <= {"orphan"}
    return [tuple(each[key] for key in keys) for each in found]


def test_each_verdict_is_listed_until_the_orphan_is_gone(bench: Bench, world: World) -> None:
    bench.apply(A)
    name = bench.services.queries.compositions()[0]["name"]
    world.intrude(ENGINE, A, copy_of(A, world, 1))
    bench.round()
    assert listed(bench) == [("a", name, 1, named("a"), "terminate")]
    bench.round()
    assert listed(bench) == []
    world.restart(ENGINE)
    intrude(bench)
    bench.round()
    assert listed(bench) == [("a", name, 9, named("a"), "adopt")]
    bench.round()
    assert listed(bench) == []
    world.intrude(ENGINE, replace(A, source_broker=FAR), copy_of(A, world, 10))
    bench.round(2)
    assert listed(bench) == [("a", name, 10, "", "report")]


def test_one_of_no_composition_is_listed_for_as_long_as_it_runs(bench: Bench, world: World) -> None:
    bench.apply(A, B)
    intrude(bench, B)
    world.crash("b")
    bench.apply(A)
    world.intrude(ENGINE, B, replace(copy_of(B, world), owner=bench.store.identity))
    bench.round()
    bench.round(3)
    ((job, composition, *_, verdict),) = listed(bench)
    assert (job, composition, verdict) == ("b", "", "report")
    world.restart(ENGINE)
    bench.round()
    assert [each for each in listed(bench) if each[0] == "b"] == []


def test_one_of_a_composition_that_is_deleted_is_not_listed_any_more(bench: Bench, world: World) -> None:
    bench.apply(A)
    intrude(bench, replace(A, source_broker=FAR), owner="another")
    bench.round()
    assert len(listed(bench)) == 1
    name = bench.services.queries.compositions()[0]["name"]
    assert user.delete_composition(bench.coordinator, name).wait(30)
    bench.round()
    assert listed(bench) == []


def test_one_of_no_composition_is_reported_once_the_store_takes_it(bench: Bench, world: World) -> None:
    bench.apply(A)
    intrude(bench, B)
    bench.round()
    with bench.full_disk(), pytest.raises(StoreFull):
        bench.round()
    bench.round(2)
    assert [each["kind"] for each in bench.queries.events()].count("stray") == 1
