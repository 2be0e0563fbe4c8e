"""Calls that are made again and again: sent whole once, and what their answers cost a site at rest."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.sync.client import ClientConnection

from speck.coordinator import build
from speck.core.inventory import Engine
from speck.core.runtime import Handle, JobMetrics
from speck.core.settings import Settings
from speck.errors import BinderError, Unreachable
from speck.link.codec import Malformed
from speck.link.frames import Assembly
from speck.link.hub import Hub
from speck.link.repeats import LARGEST_KEPT, MOST_KEPT, AnsweredCalls, Forgotten, SentCalls, whole_call
from speck.server.agents import remote_binders
from speck.store import Store
from speck.testing.waiting import eventually
from testbed.benches import user
from testbed.benches.agents import LinkBench, link_bench
from testbed.benches.double import BROKER, ENGINE
from testbed.benches.jobs_by_hand import chain, composition, write_code
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World
from tests.link.by_hand import PATIENCE, RIGHT, SITE, dial, greet, listening
from tests.support.properties import property_test

CALL = {"e": ENGINE, "m": "measure", "o": "", "a": {"handles": []}}
LIMIT = 30.0


@dataclass
class Ends:
    """Both ends of a connection; ``sent`` are the messages, in both directions."""

    calls: SentCalls = field(default_factory=SentCalls)
    answered: AnsweredCalls = field(default_factory=AnsweredCalls)
    number: int = 0
    sent: list[dict[str, Any]] = field(default_factory=list)

    def carry(self, message: object) -> dict[str, Any]:
        carried: dict[str, Any] = json.loads(json.dumps(message))
        self.sent.append(carried)
        return carried

    def ask(
        self, value: object, call: dict[str, Any] = CALL, limit: float = LIMIT, *, whole: bool = False
    ) -> Any:
        """The answer to a call as the coordinator gets it, where the site's is ``value``."""
        return self.begin(call, limit, whole=whole)(value)

    def begin(
        self, call: dict[str, Any] = CALL, limit: float = LIMIT, *, whole: bool = False
    ) -> Callable[[object], Any]:
        """Send a call; the result answers it."""
        prepared = self.calls.prepared(call, whole=whole)
        self.number += 1
        number = self.number
        message = self.carry(prepared.message(limit) | {"c": number})
        last = self.answered.last(message)
        asked = whole_call(message, last)

        def answer(value: object) -> Any:
            found: dict[str, Any] = {"k": False}
            if asked is not None:
                assert {key: asked[key] for key in call} == call
                assert (asked["c"], asked["t"]) == (number, limit)
                found = value if isinstance(value, dict) and "x" in value else {"r": value}
                found = self.answered.answer(message, last, found)
            found = self.carry(found | {"c": number})
            whole_answer = self.calls.answer(prepared, found, number, limit)
            return whole_answer.get("r", whole_answer.get("x"))

        return answer


def metrics(at: float, **jobs: int) -> dict[str, Any]:
    return {name: {"observed_at": at, "input_rows": rows, "details": {}} for name, rows in jobs.items()}


def test_a_call_is_sent_once_and_its_answer_as_changes() -> None:
    ends = Ends()
    for at in (100.5, 120.25, 140.125):
        assert ends.ask(metrics(at, a=1, b=1)) == metrics(at, a=1, b=1)
    assert ends.ask(metrics(160.5, a=1, b=2)) == metrics(160.5, a=1, b=2)
    assert ends.ask(metrics(160.5, a=1, b=2)) == metrics(160.5, a=1, b=2)
    assert ends.sent[2:] == [
        {"k": 1, "c": 2},
        {"d": [[120.25, 5, 6]], "l": True, "c": 2},
        {"k": 2, "c": 3},
        {"d": [[140.125, 5, 6]], "l": True, "c": 3},
        {"k": 3, "c": 4},
        {"d": [[160.5, 5, 6], [2, 9]], "c": 4},
        {"k": 4, "c": 5},
        {"d": [], "l": True, "c": 5},
    ]


def test_a_job_whose_metrics_have_another_form_is_sent_alone() -> None:
    ends = Ends()
    value = metrics(1.5, a=1, b=1, c=1)
    assert ends.ask(value) == value
    value = metrics(2.5, a=1, b=1, c=2)
    value["b"]["details"] = {"lost": 1}
    assert ends.ask(value) == value
    assert ends.sent[-1] == {"d": [[2.5, 5, 14], [2, 17]], "p": {"b": value["b"]}, "c": 2}
    del value["b"]["details"], value["c"]["details"]
    assert ends.ask(value) == value
    assert ends.sent[-1] == {"d": [], "p": {"b": value["b"], "c": value["c"]}, "c": 3}


def test_a_coordinator_that_does_not_know_parts_gets_whole_answers() -> None:
    answered, first = AnsweredCalls(), CALL | {"k": True, "c": 1, "t": LIMIT}
    assert answered.answer(first, None, {"r": metrics(1.0, a=1, b=1)})["k"]
    again = {"k": 1, "c": 2}
    value = metrics(2.0, a=1, b=1)
    assert answered.answer(again, answered.last(again), {"r": value}) == {"d": [[2.0, 5, 6]]}
    again, value["a"] = {"k": 2, "c": 3}, {}
    assert answered.answer(again, answered.last(again), {"r": value}) == {"r": value, "k": True}


def test_a_job_that_is_new_gone_or_another_arrives() -> None:
    ends = Ends()
    for value in (
        metrics(1.0, a=1),
        metrics(2.0, a=1, b=1),
        metrics(3.0, b=1),
        metrics(4.0, c=1),
        {"c": {"$error": {"message": "no"}}},
        {},
        None,
        0,
    ):
        assert ends.ask(value) == value


def test_numbers_are_sent_as_differences_where_that_is_shorter() -> None:
    ends = Ends()
    for at, rows in ((1_800_000_000.125, 1000), (1_800_000_020.375, 1002), (1_800_000_040.625, 1004)):
        value = metrics(at, a=rows, b=rows)
        assert ends.ask(value) == ends.ask(value) == value
    assert ends.sent[-3] == {"d": [[[2], 3, 6], [[20.25], 5, 6]], "c": 5}


@property_test
@given(st.lists(st.floats() | st.integers(), min_size=2, max_size=6))
def test_any_numbers_arrive_as_they_are(numbers: list[float]) -> None:
    ends = Ends()
    for number in numbers:
        assert repr(ends.ask([number])) == repr([number])


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4)
_VALUES = st.recursive(
    _SCALARS, lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=2), each, max_size=3)
)


@property_test
@given(st.lists(_VALUES | st.lists(_SCALARS, min_size=2, max_size=2), max_size=6))
def test_any_answers_arrive_as_they_are(values: list[Any]) -> None:
    ends = Ends()
    for value in values:
        assert json.dumps(ends.ask(value), sort_keys=True) == json.dumps(value, sort_keys=True)


def test_calls_under_way_at_once_get_their_own_answers() -> None:
    ends = Ends()
    ends.ask(metrics(0.0, a=0))
    first, second = ends.begin(), ends.begin()
    assert second(metrics(2.0, a=2)) == metrics(2.0, a=2)
    assert first(metrics(1.0, a=1)) == metrics(1.0, a=1)
    assert ends.ask(metrics(3.0, a=3)) == metrics(3.0, a=3)


def test_a_call_that_the_agent_does_not_keep_is_sent_whole_again() -> None:
    ends = Ends()
    ends.ask(1)
    ends.answered = AnsweredCalls()
    with pytest.raises(Forgotten):
        ends.ask(2)
    assert ends.ask(2, whole=True) == 2
    assert ends.ask(3) == 3
    assert ends.sent[-1] == {"d": [[3, 0]], "c": 4}


def test_an_error_leaves_the_last_answer() -> None:
    ends = Ends()
    ends.ask(1)
    assert ends.ask({"x": "no"}) == "no"
    assert ends.ask(2) == 2
    assert ends.sent[-2] == {"k": 1, "c": 3}


def test_another_limit_is_sent_too() -> None:
    ends = Ends()
    ends.ask(1)
    ends.ask(1, limit=5.0)
    ends.ask(1)
    assert [ends.sent[2], ends.sent[4]] == [{"k": 1, "c": 2, "t": 5.0}, {"k": 2, "c": 3}]


def test_other_calls_are_never_shortened() -> None:
    ends, call = Ends(), CALL | {"m": "stop"}
    for _ in range(2):
        ends.ask(1, call)
    assert ends.sent[2] == call | {"t": LIMIT, "c": 2}
    assert ends.sent[3] == {"r": 1, "c": 2}


def test_what_is_kept_is_bounded() -> None:
    ends = Ends()
    for number in range(MOST_KEPT + 1):
        ends.ask(number, CALL | {"e": str(number)})
    ends.ask(0, CALL | {"e": "0"})
    assert "m" in ends.sent[-2]
    ends.ask(0, CALL | {"e": "0"})
    assert "m" not in ends.sent[-2]
    for _ in range(2):
        ends.ask("a" * LARGEST_KEPT, CALL | {"e": "large"})
        assert "m" in ends.sent[-2]


def test_a_large_answer_is_not_kept_for_an_agent_that_says_so() -> None:
    asked = SentCalls()
    asked.answer(asked.prepared(CALL), {"r": "a" * LARGEST_KEPT, "k": True}, 1, LIMIT)
    assert asked.prepared(CALL).last is None


def test_an_older_coordinator_gets_whole_answers() -> None:
    answered = AnsweredCalls()
    for number in (1, 2):
        message = CALL | {"c": number, "t": LIMIT}
        last = answered.last(message)
        assert (last, whole_call(message, last)) == (None, message)
        assert answered.answer(message, last, {"r": 1}) == {"r": 1}


@pytest.mark.parametrize(
    "changes",
    [
        7,
        [[]],
        [[1, 99]],
        [[1, -1]],
        [[1, True]],
        [[1, 0.5]],
        ["ab"],
        [[1, 0]],  # the name of a field
        [[[1], 0]],
        [[[0.5], 1]],
        [[["1"], 1]],
        [[[1, 2], 1]],
        [[[], 1]],
        [["a" * LARGEST_KEPT, 1]],
        None,
    ],
)
def test_changes_that_do_not_fit_are_refused(changes: object) -> None:
    asked = SentCalls()
    asked.answer(asked.prepared(CALL), {"r": {"a": 1}, "k": True}, 1, LIMIT)
    with pytest.raises(Malformed, match="the changes of an answer do not fit"):
        asked.answer(asked.prepared(CALL), {"d": changes}, 2, LIMIT)


@pytest.mark.parametrize("parts", [7, [], {"b": 1}, {"a": "a" * LARGEST_KEPT}, None])
def test_parts_that_do_not_fit_are_refused(parts: object) -> None:
    asked = SentCalls()
    asked.answer(asked.prepared(CALL), {"r": {"a": 1}, "k": True}, 1, LIMIT)
    with pytest.raises(Malformed, match="the parts of an answer do not fit"):
        asked.answer(asked.prepared(CALL), {"d": [], "p": parts}, 2, LIMIT)


# --- over a socket, with an agent of the test


@pytest.fixture(name="hub")
def hub_fixture() -> Iterator[Hub]:
    hub = Hub({RIGHT.encode(): "A"}.get, {"A": SITE})
    yield hub
    hub.close()


@pytest.fixture(name="url")
def url_fixture(hub: Hub) -> str:
    return listening(hub)


@pytest.fixture(name="ask")
def ask_fixture(hub: Hub) -> Iterator[Callable[[], Any]]:
    with ThreadPoolExecutor() as pool:
        yield lambda: pool.submit(hub.call, "A", dict(CALL), PATIENCE, ENGINE)


@contextmanager
def connected(hub: Hub, url: str) -> Iterator[ClientConnection]:
    before = hub.presence("A")
    with dial(url) as agent:
        greet(agent)
        eventually(lambda: hub.presence("A"), lambda found: found not in (None, before))
        yield agent


def exchanged(ask: Callable[[], Any], agent: ClientConnection, *answers: dict[str, Any]) -> list[Any]:
    """The messages of one call, with these answers, and its result."""
    asked, found = ask(), list[Any]()
    for each in answers:
        found.append(json.loads(agent.recv(PATIENCE)))
        agent.send(json.dumps(each | {"c": found[-1]["c"]}))
    found.append(asked.result(PATIENCE))
    return found


def test_an_older_agent_gets_whole_calls(hub: Hub, url: str, ask: Callable[[], Any]) -> None:
    with connected(hub, url) as agent:
        for value in (1, 2):
            call, found = exchanged(ask, agent, {"r": value})
            assert ({key: call[key] for key in CALL}, found) == (CALL, value)


def test_a_new_connection_begins_with_whole_calls(hub: Hub, url: str, ask: Callable[[], Any]) -> None:
    for _ in range(2):
        with connected(hub, url) as agent:
            first, _ = exchanged(ask, agent, {"r": 1, "k": True})
            again, found = exchanged(ask, agent, {"d": [[2, 0]]})
            assert ("m" in first, again, found) == (True, {"k": first["c"], "c": again["c"]}, 2)


def test_a_call_that_is_not_kept_is_made_whole(hub: Hub, url: str, ask: Callable[[], Any]) -> None:
    with connected(hub, url) as agent:
        exchanged(ask, agent, {"r": 1, "k": True})
        again, whole, found = exchanged(ask, agent, {"k": False}, {"r": 3, "k": True})
        assert ("m" in again, "m" in whole, found) == (False, True, 3)
        with pytest.raises(BinderError, match="the agent of site 'A' sent another answer: the changes"):
            exchanged(ask, agent, {"d": 7})


# --- with an agent, and doubles


@pytest.fixture(name="link")
def link_fixture(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LinkBench]:
    monkeypatch.setattr("speck.link.dial.FIRST_PAUSE", 0.02)
    with link_bench(tmp_path / "link", double_kinds(world), [Engine(spe_address=ENGINE)], BROKER) as bench:
        yield bench


DETAILS = {f"count_{number}": number * 1000 for number in range(20)} | {"stamps": "derived"}


@dataclass
class Rounds:
    """Rounds of the sampler of a coordinator with eight jobs at a site; ``now`` is its clock, s."""

    world: World
    coordinator: Any
    names: list[str]
    carried: list[tuple[int, dict[str, Any]]]
    now: float = 0.0

    def __post_init__(self) -> None:
        self.coordinator.sampler.now = lambda: self.now

    def round(self) -> int:
        """The bytes of a round, in both directions, 20 s after the last one."""
        self.now += 20
        for place, name in enumerate(self.names):  # as of a Flink without messages
            lag = (self.now + 7 * place) % 13
            self.world.metrics[name] = JobMetrics(
                1_800_000_000.1234567 + self.now + place / 64 + lag / 100,
                input_rate=0.0,
                output_rate=0.0,
                batch_duration_ms=9 + lag,
                input_rows=120_000,
                batch_id=412 + 100 * place + int(self.now) // 10,
                details=DETAILS,
            )
        self.carried.clear()
        self.coordinator.sampler.sample()
        self.coordinator.sampler.await_answers()
        return sum(size for size, message in self.carried if "c" in message)


def noting(carried: list[tuple[int, dict[str, Any]]], assembly: Assembly, frame: str | bytes) -> Any:
    message = assembly_add(assembly, frame)
    if message is not None:
        head, mask = 2 if len(frame) < 126 else 4, 4 if message.keys() & {"r", "d", "x"} else 0
        carried.append((head + mask + len(frame), message))
    return message


assembly_add = Assembly.add


@pytest.fixture(name="rounds")
def rounds_fixture(
    link: LinkBench, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Rounds]:
    carried: list[tuple[int, dict[str, Any]]] = []
    monkeypatch.setattr(Assembly, "add", lambda assembly, frame: noting(carried, assembly, frame))
    settings = Settings(roots=(write_code(tmp_path),), period=0)
    names = [f"job-{number}" for number in range(8)]
    with Store(tmp_path / "store") as store:
        remote = remote_binders(link.hub, link.inventory)
        services = build(store, double_kinds(world), link.inventory, settings, remote=remote)
        services.coordinator.start()
        jobs = chain(*names, source_broker=BROKER, sink_broker=BROKER, spe_address=ENGINE)
        operation, _ = user.apply(services.coordinator, composition(*jobs))
        assert operation.wait(PATIENCE)
        yield Rounds(world, services.coordinator, names, carried)
        services.coordinator.close()


def test_a_site_at_rest_with_eight_jobs_costs_few_bytes(rounds: Rounds) -> None:
    first = rounds.round()
    assert first > 4000
    # 15 B/s; looks that have not changed cost nothing, and pings fill the pauses.
    assert sum(rounds.round() for _ in range(6)) <= 6 * 300


def test_counts_arrive_that_have_changed(link: LinkBench, world: World, rounds: Rounds) -> None:
    rounds.round()
    handles = {job.job_name: handle for job, handle in deployed(rounds)}
    engine = link.engine(ENGINE)
    for rows in (5, 6, 7):
        world.metrics["job-3"] = JobMetrics(1.0006, input_rows=rows, details={"lost": rows})
        found = engine.measure(handles.values())
        assert found[handles["job-3"].engine_id] == JobMetrics(1.001, input_rows=rows, details={"lost": rows})
    gone = [handle for name, handle in handles.items() if name != "job-3"]
    assert engine.measure(gone).keys() == {each.engine_id for each in gone}
    link.restart_agent()
    assert engine.measure(gone).keys() == {each.engine_id for each in gone}
    link.end_agent()
    eventually(lambda: link.hub.presence("A"), lambda found: found is None)
    with pytest.raises(Unreachable):
        engine.measure(gone)
    link.agent = link.start_agent()
    link.await_contact()
    assert engine.measure(gone).keys() == {each.engine_id for each in gone}


def deployed(rounds: Rounds) -> list[tuple[Any, Handle]]:
    return [pair for each in rounds.coordinator.deployments.snapshots() for pair in each.deployed()]
