"""Values of the contract over a connection: each comes back as it was, and other data is refused by name."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any

import pytest

from speck.binder import BrokerBinder, EngineBinder, OwnedSession, StateFiles
from speck.core.engine_plan import EnginePlan
from speck.core.job import Job
from speck.core.profile import AckSample, BatchSample, JobSample, VertexSample
from speck.core.runtime import (
    Attempt,
    Capacity,
    Checkup,
    Complaint,
    Found,
    Handle,
    JobMetrics,
    JobState,
    JobStatus,
    State,
)
from speck.errors import (
    BinderError,
    Fault,
    InvalidInput,
    NoCapacity,
    OutcomeUnknown,
    Rejected,
    SecretUnavailable,
    StateLost,
    Unreachable,
)
from speck.link.codec import Malformed, decode, encode
from speck.link.errors import error_data, error_of
from speck.link.frames import LARGEST_FRAME, Assembly, BadFrame, frames
from speck.link.hello import Hello, refusal
from speck.link.methods import decode_answer, decode_arguments
from speck.link.sending import Outbox
from testbed.benches.examples import job, one_site
from testbed.doubles.engine import PASSING

STATE = State("flink-savepoint", "file:/states/chk-7", "http://127.0.0.1:8081")
SAMPLE = JobSample(
    engine_id="a",
    observed=1.5,
    messages_in=3,
    vertices=(VertexSample(name="map", subtasks=2, busy=0.5),),
    batches=(BatchSample(number=1, rows=2, work=0.25),),
    acks=(AckSample(broker="tcp://127.0.0.1:1883", least=0.001),),
)

VALUES = [
    (Job, job("clean", arguments={"limit": 3, "ratio": 1.0, "name": "1", "whole": True}, apart=("b",))),
    (Attempt, Attempt(id="a" * 32, job_name="clean", number=2, session="speck-clean:1", state=STATE)),
    (Handle, Handle("http://127.0.0.1:8081", "abc", {"job": "clean"})),
    (JobStatus, JobStatus(JobState.LOST, 12.0, "ä gone")),
    (State | None, STATE),
    (State | None, None),
    (Capacity, Capacity(slots=4, memory=1 << 40)),
    (JobMetrics, JobMetrics(1.0, input_rate=2.0, details={"a": 1, "b": 1.0, "c": True, "d": "x"})),
    (JobSample | BinderError, SAMPLE),
    (EnginePlan, PASSING),
    (Checkup, Checkup("1", {"packet": 5}, (-0.5, 1.0), (Complaint("bad", "mend it", remark=True),))),
    (list[Found], [Found("a", "clean", incarnation=0)]),
    (StateFiles, StateFiles("flink-savepoint", {"a/b": b"\x00\xff"})),
    (tuple[OwnedSession, ...], (OwnedSession("s", "o", ("t/#",), 3),)),
    (bool | None, True),
    (int | None, None),
]


@pytest.mark.parametrize(("hint", "value"), VALUES, ids=lambda each: type(each).__name__)
def test_a_value_comes_back_as_it_was(hint: Any, value: Any) -> None:
    found = decode(hint, json.loads(json.dumps(encode(value))))
    assert found == value
    assert repr(found) == repr(value)  # 1 and 1.0 and True are equal in Python


@pytest.mark.parametrize(
    ("hint", "data", "named"),
    [
        (State, {"kind": "a"}, "value: .*location"),
        (State, {"kind": "a", "location": 3}, "value.location is 3 .expected str"),
        (State, {"kind": "a", "location": "b", "size": 1}, "unknown field 'size'"),
        (JobStatus, {"state": "asleep", "observed_at": 1.0}, "value.state is 'asleep' .expected one of"),
        (int, True, "is True .expected int"),
        (bytes, "ä", "expected base64"),
        (list[str], "abc", "expected a list"),
        (tuple[float, float], [1.0], "expected 2 values"),
        (Hello, {"protocol": 1}, "hello|value"),
    ],
)
def test_other_data_is_refused_by_name(hint: Any, data: Any, named: str) -> None:
    with pytest.raises(Malformed, match=named):
        decode(hint, data)


def test_the_observations_of_a_later_version_are_read() -> None:
    later = {"a": {"engine_id": "a", "observed": 1.0, "acks": [{"broker": "b", "later": 1}], "later": 2}}
    (found,) = decode_answer(EngineBinder, "profile", later).values()
    assert found == JobSample(engine_id="a", observed=1.0, acks=(AckSample(broker="b"),))
    assert decode_answer(EngineBinder, "running", [{**encode(Found("a", "clean")), "later": 1}]) == [
        Found("a", "clean")
    ]
    with pytest.raises(Malformed, match="unknown field 'later'"):  # it is given back with the stop
        decode_answer(EngineBinder, "submit", {**encode(Handle("sc://a:1", "x")), "later": 1})


@pytest.mark.parametrize("method", ["close", "take_owner", "_forwarding", "__init__", "no_method"])
def test_methods_that_are_not_of_the_contract_cannot_be_called(method: str) -> None:
    for base in (EngineBinder, BrokerBinder):
        with pytest.raises(Malformed, match="method is"):
            decode_arguments(base, method, {})


def test_arguments_and_answers_are_those_of_the_contract() -> None:
    handle = Handle("sc://a:1", "x")
    arguments = {"handle": encode(handle), "keep_state": True}
    assert decode_arguments(EngineBinder, "stop", arguments) == {"handle": handle, "keep_state": True}
    with pytest.raises(Malformed, match="stop has other arguments"):
        decode_arguments(EngineBinder, "stop", {"handle": encode(handle), "force": True})
    error = Rejected("no job", address="sc://a:1")
    found = decode_answer(EngineBinder, "measure", json.loads(json.dumps(encode({"x": error}))))
    assert (type(found["x"]), str(found["x"]), found["x"].address) == (Rejected, "no job", "sc://a:1")


@pytest.mark.parametrize(
    "kind", [BinderError, NoCapacity, OutcomeUnknown, Rejected, SecretUnavailable, StateLost, Unreachable]
)
def test_an_error_comes_back_with_its_class(kind: type[BinderError]) -> None:
    found = error_of(json.loads(json.dumps(error_data(kind("sc://a:1 is away", address="sc://a:1")))))
    assert type(found) is kind
    assert isinstance(found, BinderError)
    assert (str(found), found.address) == ("sc://a:1 is away", "sc://a:1")


def test_an_error_of_a_binder_s_own_class_comes_back_as_what_it_inherits() -> None:
    class Refused(StateLost):
        pass

    found = error_of(error_data(Refused("no state", address="sc://a:1")))
    assert type(found) is StateLost


def test_faults_and_defects_come_back_too() -> None:
    faults = error_of(error_data(InvalidInput([Fault("bad filter", field="source_topic")], "topic filter")))
    assert isinstance(faults, InvalidInput)
    assert [(each.message, each.field) for each in faults.faults] == [("bad filter", "source_topic")]
    defect = error_of(error_data(ZeroDivisionError("division by zero")))
    assert (type(defect), str(defect)) == (BinderError, "ZeroDivisionError: division by zero")
    assert type(error_of({"class": "SystemExit", "message": "x"})) is BinderError


def test_a_large_message_alternates_with_others() -> None:
    large, small = {"c": 1, "r": "x" * (LARGEST_FRAME + 5)}, {"c": 2}
    pieces, assembly = list(frames(large, 7)), Assembly()
    assert len(pieces) > 4
    assert [assembly.add(each) for each in pieces[:-1]] == [None] * (len(pieces) - 1)
    assert [assembly.add(each) for each in frames(small, 8)] == [small]
    assert assembly.add(pieces[-1]) == large


@pytest.mark.parametrize("frame", ["[1]", "{", b"short", "[" * 100_000])
def test_frames_of_no_message_are_refused(frame: str | bytes) -> None:
    with pytest.raises(BadFrame):
        Assembly().add(frame)


def test_messages_in_pieces_are_bounded() -> None:
    assembly = Assembly()
    with pytest.raises(BadFrame, match="messages in pieces"):
        for number in range(100):
            assembly.add(number.to_bytes(8, "big") + b"\0piece")


def test_the_values_of_a_message_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty lists take 20 times as much memory as on the way, and a hostile site may send 160 MiB of them."""
    many, long = {"r": [[]] * 100_000}, {"r": "x" * 400_000}
    sent = [list(frames(each, number)) for number, each in enumerate((many, long))]
    monkeypatch.setattr("speck.link.frames.MOST_VALUES", 1000)
    assembly = Assembly()
    assert [assembly.add(each) for each in sent[1]][-1] == long
    with pytest.raises(BadFrame, match=r"a message has 200,\d{3} values"):
        list(map(assembly.add, sent[0]))
    with pytest.raises(BadFrame, match="values"):
        list(frames(many, 3))
    assert list(frames(long, 4))


SITE = one_site("A", "http://127.0.0.1:8081", "tcp://127.0.0.1:1883")
GOOD = Hello(
    protocol=1, version="1", site="A", engines=("http://127.0.0.1:8081",), broker="tcp://127.0.0.1:1883"
)


@pytest.mark.parametrize(
    ("hello", "token_of", "reason"),
    [
        (GOOD, "A", ""),
        (GOOD, "B", "token is that of site 'B' .the agent says 'A'"),
        (
            encode(GOOD) | {"protocol": 0},
            "A",
            "protocol 0 .expected 1; the agent has version 1, the server .*: update the older",
        ),
        (encode(GOOD) | {"site": "C"}, "C", "site 'C' is not in the inventory with 'agent: true'"),
        (encode(GOOD) | {"engines": ["sc://a:1"]}, "A", "engine http://127.0.0.1:8081 .*serves sc://a:1"),
        (encode(GOOD) | {"broker": "tcp://a:1"}, "A", "serves broker tcp://a:1 .the inventory has tcp://127"),
    ],
)
def test_an_agent_is_refused_by_name(hello: Any, token_of: str, reason: str) -> None:
    found = hello if isinstance(hello, Hello) else decode(Hello, hello)
    why = refusal(found, token_of, {"A": SITE})
    assert re.search(reason, why)
    assert bool(why) == bool(reason)


class SlowSocket:
    def __init__(self) -> None:
        self.sent: list[str | bytes] = []

    async def send(self, frame: str | bytes) -> None:
        await asyncio.sleep(0)
        self.sent.append(frame)


def test_a_message_is_sent_to_its_end_when_nobody_waits_for_it() -> None:
    """The other end would keep the pieces of half a message, and end the connection after a few of them."""
    socket, message = SlowSocket(), {"content": "a" * LARGEST_FRAME}

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0):
                await Outbox().send_to_the_end(socket, message, 1)  # type: ignore[arg-type]
        await asyncio.gather(*(asyncio.all_tasks() - {asyncio.current_task()}))  # type: ignore[arg-type]

    asyncio.run(give_up())
    assembly = Assembly()
    assert [*filter(None, map(assembly.add, socket.sent))] == [message]
