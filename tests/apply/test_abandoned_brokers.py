"""A job leaves a site that is gone with its broker, and what was left there ends when it comes back.

Over engines and brokers in memory; ``test_faults`` does it to real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from speck.apply.abandon import addresses_of
from speck.apply.operation import Operation
from speck.controller import reaper
from speck.coordinator import Coordinator, Queries, build
from speck.core.inventory import Broker, Engine, Inventory, Site
from speck.core.runtime import JobState
from speck.core.settings import Settings
from speck.errors import InvalidInput, OutcomeUnknown, Rejected, SpeckError
from speck.store import Store
from speck.store.abandoned import AbandonedSession
from testbed.benches import user
from testbed.benches.jobs_by_hand import chain, composition, make_job, write_code
from testbed.benches.sessions import named
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World
from testbed.faults.killed_coordinator import ShortLife
from testbed.servers.rest import rest_server, yaml_of
from tests.apply.test_abandon import carry_out

pytestmark = pytest.mark.usefixtures("known_owner")

ENGINE, OTHER, BROKER, FAR = "sc://e1:1", "sc://e2:1", "tcp://b1:1883", "tcp://b2:1883"
SITE = (ENGINE, BROKER)
A, B = chain("a", "b")
ALONE = make_job("b", "t1", "t2", sink_broker=FAR)
MOVED = replace(ALONE, spe_address=OTHER, source_broker=FAR)
SESSION = AbandonedSession("traffic", "b", BROKER, named("b"), "t1")


def gone(world: World) -> int:
    """The site is gone; answers how many calls there were."""
    for address in SITE:
        world.down(address)
    return len(world.calls)


def back(world: World) -> None:
    for address in SITE:
        world.up(address)


def asked(world: World, since: int) -> list[tuple[str, str, str]]:
    """The calls to the site."""
    return [call for call in world.calls[since:] if call[1] in SITE]


def nothing_left(coordinator: Coordinator) -> bool:
    return not coordinator.store.abandoned_attempts() and not coordinator.store.abandoned_sessions()


def assert_clean(coordinator: Coordinator, world: World) -> None:
    """The job runs where it went, and nothing is left where it was."""
    assert nothing_left(coordinator)
    assert world.where() == {"b": OTHER}
    assert (world.broker(BROKER).sessions, world.broker(BROKER).fences) == ({}, {})
    assert list(world.broker(FAR).sessions.values()) == ["t1"]
    record = coordinator.store.job("b")
    assert record is not None
    assert [each.broker for each in record.sessions] == [FAR]


def leave(coordinator: Coordinator, world: World) -> Operation:
    carry_out(coordinator, composition(ALONE))
    gone(world)
    return carry_out(coordinator, composition(MOVED), *SITE)


# --- leaving


def test_a_job_moves_off_a_site_that_is_gone_with_its_broker(
    coordinator: Coordinator, queries: Queries, world: World
) -> None:
    carry_out(coordinator, composition(ALONE))
    before = gone(world)
    operation = carry_out(coordinator, composition(MOVED), *SITE)
    assert operation.state == "succeeded"
    assert asked(world, before) == []
    assert [each.attempt.number for each in coordinator.store.abandoned_attempts()] == [1]
    assert coordinator.store.abandoned_sessions() == [SESSION]
    (new,) = (each for each in world.running("b") if each.job.spe_address == OTHER)
    assert (new.attempt.number, new.attempt.session) == (2, named("b", 2))
    assert new.attempt.state is not None
    coordinator.reconciler.round()
    assert queries.job("b")["drift"] is None


def test_what_is_lost_is_said(coordinator: Coordinator, queries: Queries, world: World) -> None:
    note = leave(coordinator, world).actions["b"].note
    assert "messages at 't1' of tcp://b1:1883, which was abandoned" in note
    said = [each["message"] for each in queries.events() if each["kind"] == "given up"]
    assert said == [f"job 'b': {note}"]
    assert [(each["count"], each["at_least"]) for each in queries.job("b")["losses"]] == [(1, True)]
    back(world)
    world.broker(BROKER).backlog[named("b")] = 7
    coordinator.reconciler.round()
    last = [each["message"] for each in queries.events() if each["kind"] == "given up"][-1]
    assert "at most 7 messages that waited at 't1' of tcp://b1:1883" in last
    assert [(each["count"], each["at_least"]) for each in queries.job("b")["losses"]] == [(7, False)]


def test_what_is_lost_is_said_though_the_deletion_is_repeated(
    coordinator: Coordinator, queries: Queries, world: World
) -> None:
    """The messages are gone with the first deletion, of which the coordinator has no answer."""
    leave(coordinator, world)
    back(world)
    world.broker(BROKER).backlog[named("b")] = 7
    no_answer = OutcomeUnknown("no answer", address=BROKER)
    world.fail("delete_session", no_answer, address=BROKER, name=named("b"), after=True)
    rounds = 0
    while not nothing_left(coordinator):
        coordinator.reconciler.round()
        rounds += 1
        assert rounds < 10
    assert world.counts()["delete_session"] > 1
    last = [each["message"] for each in queries.events() if each["kind"] == "given up"][-1]
    assert "at most 7 messages that waited at 't1' of tcp://b1:1883" in last


@pytest.mark.parametrize("waiting", [0, 7])
def test_what_its_broker_had_not_saved_is_lost_too(
    coordinator: Coordinator, queries: Queries, world: World, waiting: int
) -> None:
    """The writers of the site, which have it on disk, have moved away, so no one sends it again."""
    leave(coordinator, world)
    back(world)
    world.broker(BROKER).backlog[named("b")], world.broker(BROKER).unsaved["t1"] = waiting, 1233
    coordinator.reconciler.round()
    last = [each["message"] for each in queries.events() if each["kind"] == "given up"][-1]
    text = "lost: at most 1,233 messages to 't1' that the broker had acknowledged and not saved"
    assert text in last
    assert ("at most 7 messages that waited" in last) == bool(waiting)
    (loss,) = queries.job("b")["losses"]
    assert (loss["count"], loss["at_least"]) == (1233 + waiting, False)


@pytest.mark.parametrize("waiting", [0, 7])
@pytest.mark.parametrize("old", [False, True], ids=["no-agent", "older-agent"])
def test_what_cannot_be_counted_makes_the_number_a_lower_bound(
    coordinator: Coordinator, queries: Queries, world: World, waiting: int, old: bool
) -> None:
    leave(coordinator, world)
    back(world)
    world.broker(BROKER).backlog[named("b")], world.broker(BROKER).unsaved["t1"] = waiting, None
    if old:
        world.fail("unsaved", Rejected("method is 'unsaved'", address=BROKER), address=BROKER, times=9)
    coordinator.reconciler.round()
    assert nothing_left(coordinator)
    text = "not counted: messages that the broker had acknowledged and not saved, if it was killed"
    assert any(text in each["message"] for each in queries.events())
    (loss,) = queries.job("b")["losses"]
    assert (loss["count"], loss["at_least"]) == (waiting or 1, True)


def test_what_a_broker_had_not_saved_is_reported_though_the_deletion_is_repeated(
    coordinator: Coordinator, queries: Queries, world: World
) -> None:
    """A process at the site has taken it over after the first deletion."""
    leave(coordinator, world)
    back(world)
    state = world.broker(BROKER)
    state.backlog[named("b")], state.unsaved["t1"] = 7, 233
    no_answer = OutcomeUnknown("no answer", address=BROKER)
    world.fail("delete_session", no_answer, address=BROKER, name=named("b"), after=True)
    coordinator.reconciler.round()
    state.unsaved.clear()
    rounds = 0
    while not nothing_left(coordinator):
        coordinator.reconciler.round()
        rounds += 1
        assert rounds < 10
    assert [(each["count"], each["at_least"]) for each in queries.job("b")["losses"]] == [(240, False)]


def test_a_deleted_session_that_is_back_has_lost_nothing_more(coordinator: Coordinator, world: World) -> None:
    leave(coordinator, world)
    back(world)
    coordinator.reconciler.round()
    assert nothing_left(coordinator)
    with coordinator.store.transaction() as transaction:
        transaction.put_abandoned_session(replace(SESSION, fenced=True, returned=True))
    since = len(world.calls)
    coordinator.reconciler.round()
    assert nothing_left(coordinator)
    assert [method for method, _, _ in asked(world, since)].count("unsaved") == 0


def test_a_record_of_an_older_version_counts_nothing() -> None:
    assert not {"waiting", "unsaved"} & SESSION.to_dict().keys()
    assert AbandonedSession(**SESSION.to_dict()) == SESSION
    counted = replace(SESSION, waiting=7, unsaved=8)
    assert AbandonedSession(**counted.to_dict()) == counted


@pytest.mark.parametrize("whole", [False, True])
def test_a_job_on_it_can_be_deleted(coordinator: Coordinator, world: World, whole: bool) -> None:
    jobs = [ALONE] if whole else [ALONE, make_job("c", source_broker=FAR, spe_address=OTHER, sink_broker=FAR)]
    carry_out(coordinator, composition(*jobs))
    before = gone(world)
    if whole:
        operation = user.delete_composition(coordinator, "traffic", leave_behind=SITE)
    else:
        operation = user.delete_job(coordinator, "b", leave_behind=SITE)
    assert operation.wait(30)
    assert operation.state == "succeeded"
    assert asked(world, before) == []
    assert coordinator.store.job("b") is None
    back(world)
    coordinator.reconciler.round()
    assert nothing_left(coordinator)
    assert "b" not in world.where()
    assert (world.broker(BROKER).sessions, world.broker(BROKER).fences) == ({}, {})


def test_a_whole_composition_moves(coordinator: Coordinator, world: World) -> None:
    carry_out(coordinator, composition(A, B))
    before = gone(world)
    moved = chain("a", "b", spe_address=OTHER, source_broker=FAR, sink_broker=FAR)
    assert carry_out(coordinator, composition(*moved), *SITE).state == "succeeded"
    assert asked(world, before) == []
    back(world)
    coordinator.reconciler.round()
    assert nothing_left(coordinator)
    assert world.where() == {"a": OTHER, "b": OTHER}
    assert (world.broker(BROKER).sessions, world.broker(BROKER).fences) == ({}, {})


def test_an_engine_that_is_there_is_asked_to_stop_the_copy(coordinator: Coordinator, world: World) -> None:
    carry_out(coordinator, composition(ALONE))
    world.down(BROKER)
    elsewhere = replace(ALONE, source_broker=FAR)
    assert carry_out(coordinator, composition(elsewhere), BROKER).state == "succeeded"
    assert ("stop", ENGINE, "b") in world.changes()
    assert coordinator.store.abandoned_attempts() == []
    assert coordinator.store.abandoned_sessions() == [SESSION]
    world.up(BROKER)
    coordinator.reconciler.round()
    assert nothing_left(coordinator)
    assert (world.broker(BROKER).sessions, world.broker(BROKER).fences) == ({}, {})


@pytest.mark.parametrize("abandoned", [(BROKER,), SITE], ids=["broker", "site"])
def test_what_was_left_stays_left_when_the_new_copy_is_refused(
    coordinator: Coordinator, world: World, abandoned: Sequence[str]
) -> None:
    """There is no way back to a broker that is gone; nor need it be named again."""
    carry_out(coordinator, composition(ALONE))
    for address in abandoned:
        world.down(address)
    since, desired = len(world.calls), MOVED if ENGINE in abandoned else replace(ALONE, source_broker=FAR)
    world.fail("submit", Rejected("no such class", address=desired.spe_address), times=2)
    assert (
        carry_out(coordinator, composition(desired), *abandoned).actions["b"].error.endswith("no such class")
    )
    assert [call for call in world.calls[since:] if call[1] == BROKER] == []
    assert carry_out(coordinator, composition(desired)).actions["b"].error.endswith("no such class")
    assert carry_out(coordinator, composition(desired)).state == "succeeded"
    asked_there = {method for method, address, _ in world.calls[since:] if address == BROKER}
    assert asked_there == ({"fence"} if ENGINE in abandoned else {"unsaved"})  # to end what was left


def test_jobs_that_would_use_it_are_refused_before_anything(coordinator: Coordinator, world: World) -> None:
    carry_out(coordinator, composition(A, B))
    since, moved = gone(world), replace(B, spe_address=OTHER, source_broker=FAR)
    with pytest.raises(InvalidInput, match="source_broker tcp://b1:1883 is treated as lost") as refused:
        user.apply(coordinator, composition(A, moved), leave_behind=SITE)
    assert {(each.job, each.field) for each in refused.value.faults} == {
        ("a", "source_broker"),
        ("a", "sink_broker"),
        ("b", "sink_broker"),
    }
    assert asked(world, since) == []
    assert coordinator.deployments.head("traffic").revision == 1
    assert nothing_left(coordinator)


def test_a_site_has_its_engines_and_the_broker_that_is_its_own() -> None:
    def site(name: str, broker: str) -> Site:
        return Site(name=name, engines=(Engine(spe_address=f"sc://{name}:1"),), broker_address=broker)

    sites = {each.name: each for each in (site("x", BROKER), site("y", FAR), site("z", FAR))}
    known = Inventory(sites, {"hub": Broker(broker_address="tcp://b3:1883")})
    assert addresses_of(["x"], known) == {"sc://x:1", BROKER}
    assert addresses_of(["y"], known) == {"sc://y:1"}
    assert addresses_of(["y", "z"], known) == {"sc://y:1", "sc://z:1", FAR}
    assert addresses_of(["hub", "sc://x:1"], known) == {"tcp://b3:1883", "sc://x:1"}
    assert addresses_of(["tcp://b4:1883"], known, ["tcp://b4:1883"]) == {"tcp://b4:1883"}


# --- coming back


def test_the_broker_alone_comes_back(coordinator: Coordinator, world: World) -> None:
    leave(coordinator, world)
    old = next(each for each in world.running("b") if each.attempt.number == 1)
    world.up(BROKER)
    coordinator.reconciler.round()
    assert (old.state, old.message) == (JobState.FAILED, "taken over by attempt 2")
    assert coordinator.store.abandoned_sessions() == [replace(SESSION, fenced=True)]
    assert world.broker(BROKER).sessions == {named("b"): "t1"}  # until the copy has had the time to look
    coordinator.reconciler.round()
    assert coordinator.store.abandoned_sessions() == []
    assert (world.broker(BROKER).sessions, world.broker(BROKER).fences) == ({}, {named("b"): 3})
    world.up(ENGINE)
    coordinator.reconciler.round()
    assert_clean(coordinator, world)


def test_the_engine_alone_comes_back(coordinator: Coordinator, world: World) -> None:
    leave(coordinator, world)
    world.up(ENGINE)
    coordinator.reconciler.round()
    assert coordinator.store.abandoned_attempts() == []
    assert world.where() == {"b": OTHER}
    assert coordinator.store.abandoned_sessions() == [SESSION]
    world.up(BROKER)
    coordinator.reconciler.round()
    assert_clean(coordinator, world)


@pytest.mark.parametrize("empty", [False, True])
def test_both_come_back_and_the_fence_is_first(
    coordinator: Coordinator, queries: Queries, world: World, empty: bool
) -> None:
    leave(coordinator, world)
    if empty:
        world.broker(BROKER).sessions.clear()
        world.broker(BROKER).fences.clear()
    back(world)
    since = len(world.calls)
    coordinator.reconciler.round()
    methods = [method for method, _, _ in asked(world, since) if method not in ("status", "statuses")]
    assert methods == ["fence", "ensure_session", "stop", "unsaved", "waiting", "delete_session"]
    assert_clean(coordinator, world)
    assert [each["kind"] for each in queries.events()].count("drift") == 0


def test_a_copy_that_comes_back_is_no_drift(coordinator: Coordinator, queries: Queries, world: World) -> None:
    other = make_job("c", source_broker=FAR, sink_broker=FAR)  # which keeps its place at that engine
    carry_out(coordinator, composition(ALONE, other))
    gone(world)
    carry_out(coordinator, composition(MOVED, other), *SITE)
    back(world)
    coordinator.reconciler.round()
    coordinator.reconciler.round()
    assert nothing_left(coordinator)
    assert world.where() == {"b": OTHER, "c": ENGINE}
    assert [each["kind"] for each in queries.events()].count("drift") == 0


def test_the_next_apply_ends_it_too(coordinator: Coordinator, world: World) -> None:
    leave(coordinator, world)
    back(world)
    carry_out(coordinator, composition(MOVED))
    assert_clean(coordinator, world)


def test_the_job_comes_back_before_its_former_copy_was_told(coordinator: Coordinator, world: World) -> None:
    """It reads the same topic there, through another session, and only once the old copy is out."""
    leave(coordinator, world)
    back(world)
    carry_out(coordinator, composition(ALONE))
    (running,) = world.running("b")
    assert (running.job.spe_address, running.attempt.number) == (ENGINE, 3)
    assert running.attempt.session != named("b")
    assert nothing_left(coordinator)
    assert world.broker(BROKER).sessions == {running.attempt.session: "t1"}
    coordinator.reconciler.round()
    assert running.state is JobState.RUNNING


@pytest.mark.parametrize("with_broker", [False, True])
def test_a_job_made_anew_is_not_kept_out_by_a_fence_of_before(
    coordinator: Coordinator, world: World, with_broker: bool
) -> None:
    carry_out(coordinator, composition(ALONE))
    abandoned = SITE if with_broker else (ENGINE,)
    for address in abandoned:
        world.down(address)
    assert user.delete_composition(coordinator, "traffic", leave_behind=abandoned).wait(30)
    world.up(BROKER)
    carry_out(coordinator, composition(replace(ALONE, spe_address=OTHER)))
    (running,) = world.running("b")
    coordinator.reconciler.round()
    coordinator.reconciler.round()
    assert running.state is JobState.RUNNING
    world.up(ENGINE)
    coordinator.reconciler.round()
    assert nothing_left(coordinator)
    assert world.broker(BROKER).sessions == {running.attempt.session: "t1"}
    assert world.broker(BROKER).fences == {running.attempt.session: 1}


def test_a_source_that_is_left_later_keeps_the_fence_for_a_copy_of_before(
    coordinator: Coordinator, world: World
) -> None:
    carry_out(coordinator, composition(ALONE))
    world.down(ENGINE)
    carry_out(coordinator, composition(replace(ALONE, spe_address=OTHER)), ENGINE)
    carry_out(coordinator, composition(MOVED))
    assert (world.broker(BROKER).sessions, world.broker(BROKER).fences) == ({}, {named("b"): 3})
    world.up(ENGINE)
    coordinator.reconciler.round()
    assert_clean(coordinator, world)


def test_what_is_silent_for_long_is_asked_less_often(
    coordinator: Coordinator, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaper, "EAGER", 2)
    monkeypatch.setattr(reaper, "SELDOM", 5)
    leave(coordinator, world)
    counts = []
    for _ in range(10):
        since = len(world.calls)
        coordinator.reconciler.round()
        counts.append(len(asked(world, since)))
    assert counts == [2, 2, 0, 0, 2, 0, 0, 0, 0, 2]
    since = len(world.calls)
    carry_out(coordinator, composition(MOVED))
    assert asked(world, since) == []


# --- killed in between

# Each call and each write has a moment before its work and one after it.  A kill before it leaves what one
# after the work before it left: every second moment stands for all.
STEP = 2


class Lives:
    """One coordinator after the other, each on what the one before had left when it was killed."""

    def __init__(self, world: World, directory: Path) -> None:
        self.world, self.directory = world, directory
        self._number = 0
        self._open: Coordinator | None = None
        write_code(directory)

    def begin(self) -> Coordinator:
        if self._open is not None:
            self.close()
            self._number += 1
            (self.life.killed_store if self.life.dead else self.life.store).rename(self._store)
        self.life = ShortLife(self.world, self._store)
        store = Store(self._store)
        self.life.writes(store._database)
        self._open = build(
            store, double_kinds(self.life), settings=Settings(roots=(self.directory,), period=0)
        ).coordinator
        self._open.start()
        for operation in self._open.operations.recent():
            assert operation.wait(30)
        return self._open

    @property
    def _store(self) -> Path:
        return self.directory / f"store-{self._number}"

    def close(self) -> None:
        assert self._open is not None
        self._open.close()
        self._open.store.close()


@pytest.fixture
def lives(tmp_path: Path) -> Iterator[Callable[[], Lives]]:
    made: list[Lives] = []

    def begin() -> Lives:
        directory = tmp_path / str(len(made))
        directory.mkdir()
        made.append(Lives(World(), directory))
        return made[-1]

    yield begin
    for each in made:
        each.close()
        assert each.world.violations == []


@pytest.mark.slow("a coordinator is killed at every moment")
def test_killed_at_any_moment_while_it_leaves(lives: Callable[[], Lives]) -> None:
    moment, died = 0, True
    while died:
        one = lives()
        coordinator = one.begin()
        carry_out(coordinator, composition(ALONE))
        since = gone(one.world)
        one.life.moments = moment
        apply_until_dead(coordinator)
        died = one.life.dead
        coordinator = one.begin()
        if coordinator.deployments.head("traffic").revision == 1:  # killed before it was accepted
            carry_out(coordinator, composition(MOVED), *SITE)
        assert asked(one.world, since) == [], moment
        assert coordinator.store.abandoned_sessions() == [SESSION], moment
        assert [each.attempt.number for each in coordinator.store.abandoned_attempts()] == [1]
        back(one.world)
        coordinator.reconciler.round()
        assert_clean(coordinator, one.world)
        moment += STEP
    assert moment > 20


def apply_until_dead(coordinator: Coordinator) -> None:
    try:
        carry_out(coordinator, composition(MOVED), *SITE)
    except SpeckError:
        return  # it was killed before the operation had begun


@pytest.mark.slow("a coordinator is killed at every moment")
@pytest.mark.parametrize("places", [(BROKER,), SITE], ids=["broker", "both"])
def test_killed_at_any_moment_while_the_site_comes_back(
    lives: Callable[[], Lives], places: Sequence[str]
) -> None:
    moment, died = 0, True
    while died:
        one = lives()
        leave(one.begin(), one.world)
        coordinator = one.begin()
        for address in places:
            one.world.up(address)
        one.life.moments = moment
        for _ in range(2):
            if not one.life.dead:
                coordinator.reconciler.round()
        died = one.life.dead
        coordinator = one.begin()
        back(one.world)
        coordinator.reconciler.round()
        coordinator.reconciler.round()
        assert_clean(coordinator, one.world)
        moment += STEP
    assert moment > 5


# --- for good


def test_what_never_comes_back_is_forgotten(coordinator: Coordinator, queries: Queries, world: World) -> None:
    leave(coordinator, world)
    with pytest.raises(InvalidInput, match="'sc://e2:1' is not a site"):
        coordinator.reaper.forget([OTHER])
    assert coordinator.reaper.forget([ENGINE], "somebody") == 1
    assert coordinator.store.abandoned_sessions() == [SESSION]
    assert coordinator.reaper.forget([BROKER], "somebody") == 1
    assert nothing_left(coordinator)
    reported = [each for each in queries.events() if each["kind"] == "forgotten"]
    assert [each["author"] for each in reported] == ["somebody", "somebody"]
    since = len(world.calls)
    coordinator.reconciler.round()
    assert asked(world, since) == []


def test_a_fence_goes_with_a_copy_that_is_forgotten(coordinator: Coordinator, world: World) -> None:
    carry_out(coordinator, composition(ALONE))
    world.down(ENGINE)
    assert user.delete_composition(coordinator, "traffic", leave_behind=[ENGINE]).wait(30)
    assert world.broker(BROKER).fences == {named("b"): 3}
    coordinator.reaper.forget([ENGINE])
    coordinator.reconciler.round()
    assert nothing_left(coordinator)
    assert world.broker(BROKER).fences == {}


def test_it_is_told_and_forgotten_over_rest(tmp_path: Path) -> None:
    here, there = Engine(spe_address="sc://e1:15002"), Engine(spe_address="sc://e2:15002")
    corner = Site(name="corner", engines=(here,), broker_address=BROKER)
    other = Site(name="other", engines=(there,), broker_address=FAR)
    with rest_server(tmp_path, Inventory({"corner": corner, "other": other})) as rest:
        client, site = rest.client, [here.spe_address, BROKER]
        client.apply(yaml_of("a t0 t1").encode(), "one", wait=30)
        for address in site:
            rest.world.down(address)
        with pytest.raises(SpeckError, match="is treated as lost"):
            client.plan(yaml_of("a t0 t2").encode(), "one", leave_behind=["corner"])
        assert (
            client.delete_composition("one", leave_behind=["corner"], dry_run="true")["counts"]["stop"] == 1
        )
        operation = client.delete_composition("one", wait=30, leave_behind=["corner"])
        assert (operation["state"], operation["left_behind"]) == ("succeeded", site)
        copy, session = client.left_behind()
        assert (copy["kind"], copy["address"], copy["attempt"]) == ("copy", site[0], 1)
        assert (session["kind"], session["address"], session["session"]) == ("session", site[1], named("a"))
        assert [(each["site"], each["fenced"]) for each in (copy, session)] == [("corner", False)] * 2
        with pytest.raises(SpeckError, match="nothing was abandoned at"):
            client.forget_left_behind(["other"])
        assert client.forget_left_behind(site[:1]) == [session]
        assert client.forget_left_behind(["corner"]) == []
