"""A binder has the capabilities whose methods it overrides, and defaults for all that it lacks."""

from __future__ import annotations

import time

import pytest

from speck.binder import BrokerBinder, Capability, EngineBinder
from speck.binder.instrumented import Call, instrumented
from speck.core.job import Job
from speck.core.runtime import Attempt, Capacity, Handle, JobMetrics, JobState, JobStatus, State, Worker
from speck.errors import OutcomeUnknown, Rejected, Unreachable
from testbed.doubles.broker import InMemoryBroker
from testbed.doubles.world import World

ADDRESS = "abacus://desk"
HANDLES = [Handle(ADDRESS, each, {}) for each in ("a", "b", "c")]


class LeastEngine(EngineBinder):
    """The methods that each binder must have, over an engine that knows every job but ``b``."""

    def __init__(self) -> None:
        self.address = ADDRESS
        self.asked: list[str] = []
        self.silent = False

    def check(self, job: Job, state: State | None) -> None: ...

    def submit(self, job: Job, attempt: Attempt) -> Handle:
        return Handle(ADDRESS, attempt.id, {})

    def find(self, attempt: Attempt) -> Handle | None:
        return None

    def status(self, handle: Handle) -> JobStatus:
        self.asked.append(handle.engine_id)
        if self.silent:
            return JobStatus(JobState.UNKNOWN, time.time(), "no answer")
        return JobStatus(JobState.LOST if handle.engine_id == "b" else JobState.RUNNING, time.time(), "")

    def stop(self, handle: Handle, keep_state: bool) -> State | None:
        return None

    def metrics(self, handle: Handle) -> JobMetrics:
        self.asked.append(handle.engine_id)
        if self.silent:
            raise Unreachable(f"{ADDRESS} does not answer", address=ADDRESS)
        if handle.engine_id == "b":
            raise Rejected(f"{ADDRESS} has no such job", address=ADDRESS)
        return JobMetrics(time.time())

    def capacity(self) -> Capacity:
        return Capacity()

    def close(self) -> None: ...


def test_a_binder_without_a_required_method_is_not_made() -> None:
    class Broken(LeastEngine):
        status = EngineBinder.status

    with pytest.raises(TypeError, match="status"):
        Broken()


def test_capabilities_are_those_whose_methods_are_overridden() -> None:
    class Working(LeastEngine):
        def workers(self) -> list[Worker]:
            return []

    assert LeastEngine.capabilities == set()
    assert Working.capabilities == {Capability.WORKERS}


def test_a_class_may_state_fewer() -> None:
    class Working(LeastEngine):
        capabilities = frozenset()

        def workers(self) -> list[Worker]:
            return []

    assert instrumented(Working(), "abacus", ADDRESS, lambda call: None).capabilities == set()


def test_a_part_of_a_capability_is_an_error_that_names_the_rest() -> None:
    with pytest.raises(TypeError, match=r"HalfEngine .*Capability\.PROBES: probe_core missing"):

        class HalfEngine(LeastEngine):
            probe_link = LeastEngine.capacity


def test_a_part_of_a_broker_capability_is_an_error_too() -> None:
    with pytest.raises(TypeError, match=r"Capability\.REPORTS: send_control missing"):

        class HalfBroker(InMemoryBroker):
            send_control = BrokerBinder.send_control


def test_each_method_of_a_capability_is_one_of_a_base_class() -> None:
    for capability in Capability:
        owners = [base for base in (EngineBinder, BrokerBinder) if hasattr(base, capability.value[0])]
        (base,) = owners
        assert all(hasattr(base, each) for each in capability.value), capability


@pytest.mark.parametrize(
    ("capability", "call"),
    [
        (Capability.OFFLINE_STATE, lambda engine: engine.left_state(HANDLES[0])),
        (Capability.PLANS, lambda engine: engine.engine_plan(HANDLES[0])),
        (Capability.WORKERS, lambda engine: engine.workers()),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_a_call_without_the_capability_names_it(capability: Capability, call: object) -> None:
    with pytest.raises(
        Rejected, match=rf"{ADDRESS}: binder LeastEngine has no Capability\.{capability.name}"
    ):
        call(LeastEngine())  # type: ignore[operator]


def test_jobs_are_asked_for_one_by_one_by_default() -> None:
    engine = LeastEngine()
    found = engine.statuses(HANDLES)
    assert {key: each.state.name for key, each in found.items()} == {
        "a": "RUNNING",
        "b": "LOST",
        "c": "RUNNING",
    }
    measured = engine.measure(HANDLES)
    assert [type(measured[each.engine_id]).__name__ for each in HANDLES] == [
        "JobMetrics",
        "Rejected",
        "JobMetrics",
    ]
    assert engine.asked == ["a", "b", "c"] * 2


def test_an_engine_that_does_not_answer_is_asked_once() -> None:
    engine = LeastEngine()
    engine.silent = True
    assert {each.state for each in engine.statuses(HANDLES).values()} == {JobState.UNKNOWN}
    assert {type(each) for each in engine.measure(HANDLES).values()} == {Unreachable}
    assert engine.asked == ["a", "a"]


def test_a_status_that_raises_is_unknown() -> None:
    class Raising(LeastEngine):
        def status(self, handle: Handle) -> JobStatus:
            raise OutcomeUnknown("no answer", address=ADDRESS)

    assert Raising().statuses(HANDLES)["c"].state is JobState.UNKNOWN


def test_the_calls_of_a_default_are_reported_and_the_default_is_not() -> None:
    calls: list[Call] = []
    engine = instrumented(LeastEngine(), "abacus", ADDRESS, calls.append)
    engine.statuses(HANDLES)
    engine.state_of(HANDLES[0])
    with pytest.raises(Rejected, match="does not list the jobs"):
        engine.running()
    assert [(each.method, each.error) for each in calls] == [("status", "")] * 3


def test_a_session_is_restored_by_ensuring_it() -> None:
    class Plain(InMemoryBroker):
        restore_session = BrokerBinder.restore_session

    calls: list[Call] = []
    broker = instrumented(Plain(World(), "tcp://a:1883"), "mqtt", "tcp://a:1883", calls.append)
    broker.restore_session("a", "t")
    assert broker.session_exists("a")
    assert [each.method for each in calls] == ["ensure_session", "session_exists"]
