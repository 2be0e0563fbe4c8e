"""The controller of workers over engines in memory, with real hooks: commands, and a server for PUT."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from binders.flink.healthcheck import checkup_of
from binders.flink.rest.overviews import Overview
from speck.controller.workers import WorkerController, WorkerGroup
from speck.controller.workers.hooked import ARRIVAL
from speck.controller.workers.hooks import HookCall, WorkerRequest, command_of, is_nameable
from speck.controller.workers.loads import JobLoad
from speck.coordinator import Services, build
from speck.core.inventory import Engine, Inventory, Scale, Secret, Site
from speck.core.job import Job
from speck.core.lifecycle import EventKind
from speck.core.runtime import Worker
from speck.core.settings import Settings
from speck.errors import Unreachable
from speck.store import Store
from speck.testing.waiting import eventually
from speck.testing.wire_trouble import BrokenServer, Trouble
from testbed.benches import user
from testbed.benches.jobs_by_hand import composition, make_job, write_code
from testbed.benches.reconciler import Clock
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World
from testbed.servers.http import Handler, http_server

ENGINE = "http://e1:8081/"
SCALE = Scale(least=1, most=4, cores=2, slots=2, url="http://127.0.0.1:1/")


# --- one group, without calls


def worker(number: int, *, free: bool = False, **more: Any) -> Worker:
    return Worker(id=f"worker-{number}", free=free, **more)


def group(**fields: Any) -> WorkerGroup:
    return WorkerGroup("A", Engine(spe_address=ENGINE), replace(SCALE, **fields))


def jobs(number: int, **fields: Any) -> list[JobLoad]:
    return [
        JobLoad(make_job(f"job-{index:02}", engine="flink", spe_address=ENGINE, **fields))
        for index in range(number)
    ]


def decided(found: WorkerGroup, loads: list[JobLoad]) -> int:
    return found.decide(loads).count


def test_slots_and_shares_both_bound_a_worker() -> None:
    assert decided(group(slots=2), jobs(4)) == 3  # two full ones, and a spare one
    assert decided(group(slots=8), jobs(8)) == 2  # eight of an eighth
    assert decided(group(slots=8), jobs(9)) == 3
    assert decided(group(slots=2), jobs(2, parallelism=2)) == 3  # each instance takes a slot
    assert decided(group(slots=2), jobs(40)) == 4  # never above max
    assert decided(group(least=2), []) == 2
    assert decided(group(least=0), []) == 0


def test_a_profile_is_learnt_by_code_over_all_instances() -> None:
    found, (first, second, other) = group(slots=8), jobs(3)
    other = JobLoad(replace(other.job, code_hash="another"))
    found.learn([replace(first, cores=0.5, measured=1.0), replace(second, cores=1.0, measured=1.0)])
    assert found.share(first.job) == found.share(second.job) == pytest.approx(0.375)  # of two cores
    assert found.share(other.job) == 0.125
    found.learn([replace(first, cores=0.5, measured=1.0)])  # the same measurement again
    assert found.share(first.job) == pytest.approx(0.375)


def test_messages_that_wait_ask_for_more() -> None:
    found, (load,) = group(slots=1), jobs(1)
    counts = [(0.0, 0), (2.0, 100), (6.0, 61), (12.0, 61), (18.0, 0)]
    desired = []
    for at, waiting in counts:
        found.learn([replace(load, waiting=waiting, counted=at)])
        desired.append(decided(found, [load]))
    # At 2 s it is too soon; 61 in 6 s are more than 10/s.
    assert desired == [2, 2, 4, 2, 2]


def test_messages_that_are_no_longer_counted_ask_for_no_more_workers() -> None:
    found, (load,) = group(slots=1), jobs(1)
    for at, waiting in ((0.0, 0), (6.0, 500)):
        found.learn([replace(load, waiting=waiting, counted=at)])
    assert decided(found, [load]) == 4
    found.learn([load])  # the job has died
    assert decided(found, [load]) == 2


def test_a_clock_that_is_set_back_keeps_no_prediction() -> None:
    found, (load,) = group(slots=1), jobs(1)
    for at, waiting in ((3600.0, 0), (3606.0, 500)):
        found.learn([replace(load, waiting=waiting, counted=at)])
    assert decided(found, [load]) == 4
    for at in (6.0, 12.0):  # by the clock that was set back by an hour
        found.learn([replace(load, waiting=0, counted=at)])
        assert decided(found, [load]) == 2


def test_workers_keep_their_index_when_others_go() -> None:
    found = group()
    found.observe([worker(10), worker(9), worker(2)], 0)
    assert [each.id for each in found.workers] == ["worker-2", "worker-9", "worker-10"]
    found.observe([worker(10), worker(2)], 1)
    assert found.indexes == {"worker-2": 0, "worker-10": 2}
    found.observe([worker(10), worker(2), worker(1)], 2)
    assert found.indexes == {"worker-2": 0, "worker-10": 2, "worker-1": 1}


def test_only_workers_that_are_free_for_long_go_the_highest_index_first() -> None:
    found = group(least=0)
    found.observe([worker(1), worker(2, free=True), worker(3), worker(4, free=True)], 0)
    decided(found, jobs(1))  # one, and a spare one
    assert found.request(59) is None
    assert found.request(60) == WorkerRequest("A", ENGINE, 2, ("worker-4", "worker-2"))
    found.observe([worker(1), worker(2, free=True), worker(3), worker(4)], 61)  # it got a job
    found.observe([worker(1), worker(2, free=True), worker(3), worker(4, free=True)], 62)
    assert found.request(121) == WorkerRequest("A", ENGINE, 3, ("worker-2",))


HOSTILE = [
    "--all",
    "x; touch /tmp/x",
    "$(reboot)",
    "a\nb",
    "w1,w2",
    "-w",
    "",
    "a b",
    "`id`",
    "w*",
    "ä",
    "a" * 300,
]


@pytest.mark.parametrize("identifier", HOSTILE)
def test_a_worker_with_an_id_that_a_script_may_take_for_more_is_not_named(identifier: str) -> None:
    found = group(least=0)
    known = [worker(1, free=True), Worker(id=identifier, free=True, slots=2, slots_free=2)]
    found.observe(known, 0)
    decided(found, [])
    request = found.request(100)
    assert request is not None
    assert request.stop == ("worker-1",)
    assert request.count == 1
    message = found.data(100)["message"]
    assert repr(identifier[:100]) in message
    assert "expected letters, digits" in message


@pytest.mark.parametrize(
    "identifier", ["10.0.0.4:37023-a1b2c3", "worker-20260101-10.0.0.4-7078", "0:0:0:1:5-a_b"]
)
def test_ids_of_engines_are_named(identifier: str) -> None:
    assert is_nameable(identifier)


def test_a_query_of_a_hook_is_in_no_event() -> None:
    found = group(url="https://hooks.example/scale?x=s3cr3t")
    found.observe([], 0)
    decided(found, jobs(1))
    request = found.request(0)
    assert request is not None
    found.send(request, 0)
    event = found.hook_ended("answered 500", 1)
    assert event is not None
    assert "the hook https://hooks.example/scale answered 500" in event[1]
    assert "s3cr3t" not in f"{event} {found.data(1)}"


def test_a_hook_without_ids_stops_no_worker_before_a_busy_one() -> None:
    found = group(least=0, url=None, command=("run", "{count}"))
    found.observe([worker(1), worker(2, free=True), worker(3), worker(4, free=True)], 0)
    decided(found, jobs(1))
    assert found.request(100) == WorkerRequest("A", ENGINE, 3, ("worker-4",))


def test_a_hook_that_fails_is_reported_once_and_tried_ever_later() -> None:
    found, events, times, now = group(), [], [], 0.0
    found.observe([], now)
    decided(found, jobs(1))
    while len(times) < 6:
        request = found.request(now)
        if request is not None:
            times.append(now)
            events += [found.send(request, now), found.hook_ended("exited with 1", now)]
        now += 1
    pauses = [after - before for before, after in pairwise(times)]
    for pause, least in zip(pauses, (10, 20, 40, 80, 160), strict=True):
        assert least <= pause <= least + 7
    kinds = [each[0] for each in events if each is not None]
    assert kinds == [EventKind.SCALING, EventKind.NOT_SCALED]
    assert found.state() == "failed"
    found.observe([worker(1), worker(2)], now + 200)
    found.sent, found.decision = None, found.decide(jobs(1))
    request = WorkerRequest("A", ENGINE, 2)
    found.send(request, now)
    found.hook_ended("", now)
    assert found.check_arrival(now) == (EventKind.SCALED, f"site A: {ENGINE}: 2 workers, as desired")
    assert (found.fault, found.backoff.next_try(ENGINE)) == ("", None)


def test_a_hook_that_lies() -> None:
    found = group()
    found.observe([worker(1)], 0)
    decided(found, jobs(1))
    request = found.request(0)
    assert request == WorkerRequest("A", ENGINE, 2)
    found.send(request, 0)
    found.hook_ended("", 1)
    assert found.check_arrival(ARRIVAL) is None
    assert found.request(ARRIVAL) is None
    event = found.check_arrival(ARRIVAL + 1)
    assert event is not None
    assert event[0] is EventKind.NOT_SCALED
    assert "reported success, but 120 s later 1 workers are registered (expected 2)" in event[1]
    assert found.request(ARRIVAL + 2) is None  # waits


def test_a_worker_that_dies_is_replaced_at_once_and_one_that_keeps_dying_later() -> None:
    found, now, pauses, last = group(least=2), 0.0, [], 0.0
    found.observe([worker(1), worker(2)], now)
    for _ in range(4):
        found.observe([worker(1)], now)
        decided(found, [])
        while (request := found.request(now)) is None:
            now += 1
        pauses.append(now - last)
        last = now
        found.send(request, now)
        found.hook_ended("", now)
        found.observe([worker(1), worker(2)], now)
        found.check_arrival(now)
    assert pauses[0] == 0
    assert pauses[1] >= 10
    assert pauses[2] >= 20
    assert pauses[3] >= 40
    for _ in range(400):
        now += 1
        found.note_state(now)
    found.observe([worker(1)], now)
    decided(found, [])
    assert found.request(now) is not None


def test_growth_is_not_delayed() -> None:
    found, present = group(least=0, most=9, slots=1), 0
    for number in range(1, 8):
        found.observe([worker(index) for index in range(present)], number)
        decided(found, jobs(number))
        request = found.request(number)
        assert request is not None
        present = request.count
        found.send(request, number)
        found.hook_ended("", number)
        found.observe([worker(index) for index in range(present)], number)
        found.check_arrival(number)
    assert present == 8


# --- hooks


def call(scale: Scale, request: WorkerRequest | None = None, bound: float = 30.0) -> HookCall:
    made = HookCall(scale, request or WorkerRequest("A", ENGINE, 3, ("w-1", "w-2")), bound)
    made.start()
    eventually(made.is_done, bool)
    return made


def of_command(*command: str) -> Scale:
    return replace(SCALE, url=None, command=command)


def test_a_command_gets_its_arguments_and_no_shell(tmp_path: Path) -> None:
    out = tmp_path / "out"
    program = f"import sys, json; json.dump(sys.argv[1:], open({str(out)!r}, 'w'))"
    done = call(
        of_command(sys.executable, "-c", program, "{site}", "--n={count}", "{stop}", "$HOME; {engine}")
    )
    assert done.fault == ""
    assert json.loads(out.read_text()) == ["A", "--n=3", "w-1,w-2", f"$HOME; {ENGINE}"]


def test_commands_that_fail() -> None:
    assert (
        call(of_command("/nowhere/run", "{count}")).fault == "cannot be started (No such file or directory)"
    )
    failed = call(of_command("/bin/sh", "-c", "echo no quota >&2; exit 3"))
    assert failed.fault == "exited with 3: no quota"
    assert call(of_command("/bin/sh", "-c", "kill -9 $$")).fault == "was ended by signal 9"


def test_a_command_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    script = f"trap '' TERM; sleep 600 & echo $! > {pid}; wait; sleep 600"
    begun = time.monotonic()
    hung = call(of_command("/bin/sh", "-c", script), bound=1.0)
    assert hung.fault == "did not end within 1 s"
    assert time.monotonic() - begun < 10
    eventually(lambda: not psutil.pid_exists(int(pid.read_text())), bool)


def test_a_worker_that_a_command_leaves_behind_lives_on(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    done = call(of_command("/bin/sh", "-c", f"sleep 600 & echo $! > {pid}"), bound=5.0)
    assert done.fault == ""
    remaining = int(pid.read_text())
    assert psutil.pid_exists(remaining)
    os.kill(remaining, signal.SIGKILL)


def test_a_command_is_ended_when_the_server_shuts_down(tmp_path: Path) -> None:
    made = HookCall(of_command("/bin/sleep", "600"), WorkerRequest("A", ENGINE, 3))
    made.start()
    made.cancel()
    eventually(made.is_done, bool)
    assert made.fault == "was stopped, since the server shuts down"


def test_the_command_of_local_sites() -> None:
    local = replace(SCALE, url=None, local="/tmp/sites")
    command = command_of(local, WorkerRequest("A", ENGINE, 1, ("worker-3", "worker-2")))
    assert command[1:8] == ["-m", "speck.cli", "local", "workers", "A", "1", "--directory"]
    assert command[8:] == [
        "/tmp/sites",
        "--engine",
        ENGINE,
        "--no-wait",
        "--stop",
        "worker-3",
        "--stop",
        "worker-2",
    ]


@dataclass
class Hook:
    """A server that sets the workers of an engine in memory, or does something else."""

    world: World
    port: int = 0
    asked: list[tuple[Mapping[str, Any], str]] = field(default_factory=list)
    mode: str = "good"
    gate: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    def take(self, body: Mapping[str, Any], login: str) -> int:
        self.asked.append((body, login))
        assert self.gate.wait(60)
        if self.mode == "fails":
            return 503
        if self.mode == "good":
            self.set_workers(body["workers"], body["stop"])
        return 200

    def set_workers(self, count: int, stop: list[str]) -> None:
        with self.world.lock:
            present = {**(self.world.engine(ENGINE).workers or {})}
            for each in stop:
                present.pop(each, None)
            number = 1
            while len(present) < count:
                present.setdefault(f"worker-{number}", 2)
                number += 1
            self.world.engine(ENGINE).workers = present


@pytest.fixture(name="hook")
def hook_fixture(world: World) -> Iterator[Hook]:
    hook = Hook(world)

    class Answers(Handler):
        def do_PUT(self) -> None:  # noqa: N802 - the name of the base class
            login = self.headers.get("Authorization") or ""
            status = hook.take(json.loads(self.body()), login)
            self.answer(status, b"" if status == 200 else b"no machine is left\n")

    with http_server(Answers) as port:
        hook.port = port
        yield hook


def test_a_url_that_fails_or_is_not_there(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_TOKEN", "sesame")
    scale = replace(SCALE, url=f"http://127.0.0.1:{hook.port}/workers", token=Secret("${HOOK_TOKEN}"))
    hook.mode = "fails"
    assert call(scale).fault == "answered 503: no machine is left"
    body = {"site": "A", "engine": ENGINE, "workers": 3, "stop": ["w-1", "w-2"]}
    assert hook.asked == [(body, "Bearer sesame")]
    assert call(replace(scale, url="http://127.0.0.1:1/")).fault == "cannot be reached (NewConnectionError)"
    monkeypatch.delenv("HOOK_TOKEN")
    assert "HOOK_TOKEN" in call(scale).fault
    assert len(hook.asked) == 1


def test_a_url_that_sends_its_answer_byte_by_byte_ends_its_call() -> None:
    with BrokenServer(Trouble.DRIPPING) as server:
        scale = replace(SCALE, url=f"http://127.0.0.1:{server.port}/")
        assert call(scale, bound=0.5).fault == "did not answer within 0.5 s"
    assert "worker-hook" not in {each.name for each in threading.enumerate()}


def test_a_url_that_does_not_answer() -> None:
    released = threading.Event()

    class Silent(Handler):
        def do_PUT(self) -> None:  # noqa: N802 - the name of the base class
            released.wait(60)

    with http_server(Silent) as port:
        scale = replace(SCALE, url=f"http://127.0.0.1:{port}/")
        assert call(scale, bound=0.5).fault == "did not answer within 0.5 s"
        released.set()


# --- the controller over a coordinator


@dataclass
class Bench:
    services: Services
    world: World
    clock: Clock
    root: Path

    @property
    def controller(self) -> WorkerController:
        return self.services.coordinator.workers

    def rounds(self, number: int = 1, seconds: float = 2.0) -> None:
        for _ in range(number):
            self.clock.now += seconds
            self.controller.round()
            self.controller.await_rounds()
            for each in list(self.controller._calls.values()):
                eventually(each.is_done, bool)

    def begin(self, *found: Job) -> Any:
        return user.apply(self.services.coordinator, composition(*found))[0]

    def apply(self, *found: Job) -> Any:
        operation = self.begin(*found)
        assert operation.wait(30)
        return operation

    def events(self) -> list[str]:
        kinds = {"scaling", "scaled", "not scaled"}
        return [each["kind"] for each in self.services.queries.events(1000) if each["kind"] in kinds]

    def data(self) -> dict[str, Any]:
        (found,) = self.services.sites.workers("A")
        return found


@pytest.fixture(name="bench")
def bench_fixture(tmp_path: Path, world: World, hook: Hook) -> Iterator[Bench]:
    scale = replace(SCALE, url=f"http://127.0.0.1:{hook.port}/workers")
    engine = Engine(spe_address=ENGINE, scale=scale)
    site = Site(name="A", engines=(engine,), broker_address="tcp://b1:1883")
    store, clock = Store(tmp_path / "store"), Clock()
    services = build(
        store,
        double_kinds(world),
        Inventory({"A": site}),
        Settings(roots=(write_code(tmp_path),), period=0),
        clock=clock,
    )
    services.coordinator.start()
    services.coordinator.workers.bound = 15.0
    services.coordinator.workers.delay = lambda tries: 10.0 * 2 ** (tries - 1)
    for found in services.coordinator.workers.groups.values():
        found.backoff.wait = services.coordinator.workers.delay
    world.engine(ENGINE).workers = {"worker-1": 2}
    yield Bench(services, world, clock, tmp_path)
    services.coordinator.close()
    store.close()


def two_readers(number: int) -> list[Job]:
    return [
        make_job(f"job-{index}", f"in/{index}", f"out/{index}", engine="flink", spe_address=ENGINE)
        for index in range(number)
    ]


def test_jobs_that_have_no_room_get_workers_and_start(bench: Bench, hook: Hook) -> None:
    operation = bench.apply(*two_readers(4))
    assert len(bench.world.running()) == 2, operation.to_dict()
    bench.rounds(3)
    assert [body["workers"] for body, _ in hook.asked] == [3]  # two full ones, and a spare one
    assert bench.data()["present"] == bench.data()["desired"] == 3
    assert bench.events() == ["scaling", "scaled"]
    bench.clock.now += 20
    bench.services.coordinator.reconciler.round()
    eventually(lambda: len(bench.world.running()), lambda count: count == 4)
    bench.rounds(3)
    assert len(hook.asked) == 1


def test_free_workers_go_and_no_job_is_touched(bench: Bench, hook: Hook) -> None:
    bench.apply(*two_readers(2))
    hook.set_workers(4, [])
    attempts = {each.attempt.id for each in bench.world.running()}
    bench.rounds(1)
    assert hook.asked == []
    bench.rounds(32)
    assert [(body["workers"], body["stop"]) for body, _ in hook.asked] == [(2, ["worker-4", "worker-3"])]
    assert bench.data()["present"] == 2
    assert bench.events() == ["scaling", "scaled"]
    assert {each.attempt.id for each in bench.world.running()} == attempts


def free_workers(bench: Bench, hook: Hook) -> None:
    """Two jobs on the first of four workers; the next round finds two of the others free for long enough."""
    bench.apply(*two_readers(2))
    hook.set_workers(4, [])
    bench.rounds(30)
    bench.clock.now += 60


def test_a_worker_that_gets_a_job_after_it_was_seen_as_free_is_not_stopped(bench: Bench, hook: Hook) -> None:
    free_workers(bench, hook)
    listed = bench.world.calls.count(("workers", ENGINE, ""))
    with bench.controller._lock:  # the workers are listed, and nothing is decided yet
        bench.controller.round()
        eventually(lambda: bench.world.calls.count(("workers", ENGINE, "")), lambda count: count > listed)
        bench.apply(*two_readers(8))
    bench.controller.await_rounds()
    assert len(bench.world.running()) == 8
    bench.rounds(3)
    assert [(body["workers"], body["stop"]) for body, _ in hook.asked] == []
    assert bench.data()["present"] == 4


def test_no_job_starts_while_workers_are_stopped(bench: Bench, hook: Hook) -> None:
    free_workers(bench, hook)
    hook.gate.clear()
    bench.controller.round()
    eventually(lambda: len(hook.asked), bool)
    bench.controller.await_rounds()
    operation = bench.begin(*two_readers(4))
    time.sleep(0.2)  # no event shows that a start is held back: time for a wrong one
    assert {name for method, _, name in bench.world.calls if method == "submit"} == {"job-0", "job-1"}
    hook.gate.set()
    bench.rounds(2)
    assert operation.wait(30)
    assert operation.state == "succeeded"
    assert len(bench.world.running()) == 4
    assert hook.asked[0][0]["stop"] == ["worker-4", "worker-3"]


def test_no_job_starts_either_once_an_engine_was_silent_for_a_moment(bench: Bench, hook: Hook) -> None:
    free_workers(bench, hook)
    hook.gate.clear()
    bench.controller.round()
    eventually(lambda: len(hook.asked), bool)
    bench.controller.await_rounds()
    bench.world.fail("workers", Unreachable("away", address=ENGINE))
    for state in ("silent", "scaling"):
        bench.controller.round()
        bench.controller.await_rounds()
        assert bench.data()["state"] == state
    operation = bench.begin(*two_readers(4))
    time.sleep(0.2)  # no event shows that a start is held back: time for a wrong one
    assert {name for method, _, name in bench.world.calls if method == "submit"} == {"job-0", "job-1"}
    hook.gate.set()
    bench.rounds(2)
    assert operation.wait(30)
    assert operation.state == "succeeded"


@pytest.mark.parametrize("mode", ["fails", "lies"])
def test_a_hook_in_trouble_holds_up_no_start_for_longer(bench: Bench, hook: Hook, mode: str) -> None:
    free_workers(bench, hook)
    hook.mode = mode
    bench.rounds(1)
    assert hook.asked[0][0]["stop"] == ["worker-4", "worker-3"]
    operation = bench.begin(*two_readers(4))
    bench.rounds(8)  # of 2 s each
    assert operation.wait(30)
    assert operation.state == "succeeded"


def test_an_engine_that_falls_silent_while_workers_are_stopped_holds_up_no_operation(
    bench: Bench, hook: Hook
) -> None:
    free_workers(bench, hook)
    hook.mode = "lies"
    bench.rounds(1)
    bench.world.down(ENGINE)
    operation = bench.begin(*two_readers(4))
    bench.rounds(1)
    assert operation.wait(30)
    assert operation.state == "waiting"


@pytest.mark.parametrize("mode", ["fails", "lies"])
def test_a_hook_in_trouble_is_one_event_and_touches_no_job(bench: Bench, hook: Hook, mode: str) -> None:
    bench.apply(*two_readers(2))
    before = {each.attempt.id for each in bench.world.running()}
    changes = len(bench.world.changes())
    hook.mode = mode
    bench.rounds(300)  # ten minutes
    assert 2 <= len(hook.asked) <= 6
    assert bench.events() == ["scaling", "not scaled"]
    assert bench.data()["state"] in ("failed", "scaling")
    assert ({each.attempt.id for each in bench.world.running()}, len(bench.world.changes())) == (
        before,
        changes,
    )
    hook.mode = "good"
    bench.rounds(300)
    assert bench.data()["state"] == "idle"
    assert bench.events() == ["scaling", "not scaled", "scaled"]


def test_an_engine_that_is_silent_gets_no_request(bench: Bench, hook: Hook) -> None:
    bench.apply(*two_readers(4))
    bench.world.fail("workers", Unreachable("away", address=ENGINE), times=None)
    bench.rounds(3)
    assert hook.asked == []
    assert (bench.data()["state"], bench.data()["message"]) == ("silent", "away")


def test_a_worker_that_is_killed_comes_back(bench: Bench, hook: Hook) -> None:
    bench.apply(*two_readers(2))
    bench.rounds(3)
    assert bench.data()["present"] == 2
    hook.set_workers(1, ["worker-2"])
    bench.rounds(2)
    assert bench.data()["present"] == 2
    (message,) = [
        each["message"] for each in bench.services.queries.events(100) if "are left" in each["message"]
    ]
    assert "1 of 2 workers are left" in message


def test_a_hook_that_hangs_delays_no_round(bench: Bench) -> None:
    found = bench.controller.groups[ENGINE]
    found.hook = of_command("/bin/sleep", "600")
    bench.apply(*two_readers(2))
    begun = time.monotonic()
    for _ in range(20):
        bench.clock.now += 2
        bench.controller.round()
        bench.controller.await_rounds()
    assert time.monotonic() - begun < 5
    assert bench.data()["state"] == "scaling"
    (running,) = bench.controller._calls.values()
    running.bound = 0.1
    eventually(running.is_done, bool)
    bench.rounds(1)
    assert bench.data()["state"] == "failed"
    assert "did not end within 0.1 s" in bench.data()["message"]


def test_the_loop_runs_by_itself(bench: Bench, hook: Hook) -> None:
    bench.apply(*two_readers(2))
    bench.controller.start()
    eventually(lambda: len(hook.asked), bool)
    assert bench.controller.loop.fault() == ""


def test_an_inventory_without_scale_starts_nothing(tmp_path: Path, world: World) -> None:
    store = Store(tmp_path / "store")
    services = build(store, double_kinds(world), Inventory(), Settings(roots=(tmp_path,), period=1))
    services.coordinator.workers.start()
    try:
        assert not services.coordinator.workers.loop.is_started
        assert services.sites.workers() == []
    finally:
        services.coordinator.close()
        store.close()


def test_a_fault_ends_when_all_is_as_desired_without_the_hook() -> None:
    found = group()
    found.observe([worker(1)], 0)
    decided(found, jobs(1))
    request = found.request(0)
    assert request is not None
    found.send(request, 0)
    found.hook_ended("exited with 1", 1)
    assert found.note_state(2) is None
    assert found.state() == "failed"
    found.observe([worker(1), worker(2)], 3)
    note = found.note_state(3)
    assert note is not None
    assert note[0] is EventKind.SCALED
    assert (found.state(), found.note_state(4)) == ("idle", None)


def test_a_cluster_whose_workers_are_to_come_has_no_fault() -> None:
    settings = {"execution.checkpointing.savepoint-dir": "file:///s"}
    for known, remark in (
        (Engine(spe_address=ENGINE, scale=SCALE), True),
        (Engine(spe_address=ENGINE), False),
    ):
        checkup = checkup_of(Overview("2.3.0", 0, 0), [], settings, known, (0.0, 1.0))
        (complaint,) = checkup.complaints
        assert "no TaskManager is registered" in complaint.message
        assert complaint.remark is remark
