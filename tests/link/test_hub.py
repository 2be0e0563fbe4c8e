"""Connections of agents over real sockets: who is admitted, and what a caller learns when one breaks."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

import speck
from speck.binder.asking import begin
from speck.core.inventory import Inventory, Secret
from speck.core.runtime import Handle, JobState
from speck.errors import BinderError, OutcomeUnknown, Unreachable
from speck.link.codec import encode
from speck.link.dial import Dialler
from speck.link.hello import EpochRefusal, Hello, epoch_refusal
from speck.link.hub import Hub
from speck.link.remote import Remote, RemoteFeed, remote_engine
from speck.link.tls import shared
from speck.server.tls import Certificate
from testbed.benches.double import BROKER, ENGINE
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World
from testbed.servers.base import REFUSING_PORT
from testbed.servers.certificates import Authority
from tests.link.by_hand import HELLO, PATIENCE, RIGHT, SITE, answer, await_that, dial, greet, listening

VERSIONS = f"the agent has version 1, the server {speck.__version__}"


class Admission:
    """The tokens of a hub, which a test changes."""

    def __init__(self) -> None:
        self.sites: dict[bytes, str] = {b"right": "A"}


@pytest.fixture(name="admission")
def admission_fixture() -> Admission:
    return Admission()


@pytest.fixture(name="hub")
def hub_fixture(admission: Admission, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr("speck.link.hub._REVOKING", 0.02)
    hub = Hub(admission.sites.get, {"A": SITE})
    yield hub
    hub.close()


@pytest.fixture(name="url")
def url_fixture(hub: Hub) -> str:
    return listening(hub)


@pytest.mark.parametrize(
    ("token", "path", "status"), [("wrong", "/agent", 401), ("", "/agent", 401), ("right", "/other", 404)]
)
def test_who_has_no_token_is_not_connected(url: str, token: str, path: str, status: int) -> None:
    with pytest.raises(InvalidStatus) as caught:
        dial(url, token, path)
    assert caught.value.response.status_code == status


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"protocol": 0}, "protocol 0 (expected 1"),
        ({"protocol": 2, "new": 1}, f"protocol 2 (expected protocol 1; {VERSIONS}: update the older"),
        ({"new": 1}, "hello has the unknown field 'new'"),
        ({"site": "B"}, "token is that of site 'A' (the agent says 'B')"),
        ({"engines": []}, f"does not serve engine {ENGINE}"),
        ({"broker": "tcp://b:1"}, "serves broker tcp://b:1"),
        ({"engines": 3}, "hello.engines is 3"),
        ({"machine": "m\x1b[2J"}, "machine is not valid"),
        ({"version": "1" * 101}, "version is not valid"),
    ],
)
def test_an_agent_is_told_why_it_is_refused(hub: Hub, url: str, other: dict[str, Any], reason: str) -> None:
    with dial(url) as agent:
        assert reason in greet(agent, **other)["refused"]
    assert hub.presence("A") is None


def _has(reasons: list[str], number: int) -> bool:
    return len(reasons) >= number


def test_the_reason_of_a_refusal_reaches_the_agent(url: str) -> None:
    reasons: list[str] = []
    for token, site in (("wrong", "A"), ("right", "B")):
        hello = Hello(protocol=1, version="1", site=site, engines=(ENGINE,), broker=BROKER)
        dialler = Dialler(
            [url], lambda token=token: token, lambda hello=hello: hello, lambda *_: {}, reasons.append
        )  # type: ignore[misc]
        thread = threading.Thread(target=dialler.run)
        thread.start()
        expected = len(reasons) + 1
        await_that(partial(_has, reasons, expected))
        dialler.close()
        thread.join(PATIENCE)
    assert any("the token is not that of a site" in each for each in reasons)
    assert any("the agent says 'B'" in each for each in reasons)


def test_an_agent_refuses_a_coordinator_whose_epoch_is_over() -> None:
    """The first of two addresses does not answer, the other one is that of a former primary."""
    hub, listener = Hub({b"right": "A"}.get, {"A": SITE}, epoch=3), socket.create_server(("127.0.0.1", 0))
    hub.start(listener)
    reasons, contacts = list[str](), list[str]()
    hub.on_contact.append(contacts.append)
    urls = [f"ws://127.0.0.1:{REFUSING_PORT}", f"ws://127.0.0.1:{listener.getsockname()[1]}"]
    dialler = Dialler(
        urls,
        lambda: "right",
        lambda: HELLO,
        lambda *_: {},
        reasons.append,
        accepts=lambda epoch: f"epoch {epoch} is over",
        known_epoch=lambda: 7,
    )
    thread = threading.Thread(target=dialler.run)
    thread.start()
    await_that(partial(_has, reasons, 2))
    dialler.close()
    thread.join(PATIENCE)
    await_that(lambda: hub.epoch_refusals == {"A": EpochRefusal(epoch=3, known=7)})
    assert contacts == []  # it was not shown as connected for a moment
    with dial(urls[1]) as agent:  # its site has joined again
        greet(agent)
        agent.send(json.dumps({"same": ENGINE}))
        await_that(lambda: not hub.epoch_refusals)
    hub.close()
    assert "" not in reasons
    assert reasons[1].startswith(f"{urls[0]}: ")
    assert reasons[1].endswith(f"; {urls[1]}: epoch 3 is over")


def test_an_agent_of_an_earlier_version_refuses_an_epoch_once_it_is_connected(hub: Hub, url: str) -> None:
    with dial(url) as agent:
        greet(agent)
        await_that(lambda: hub.presence("A") is not None)
        agent.send(json.dumps({"known_epoch": 7}))
        await_that(lambda: hub.presence("A") is None)
    assert hub.epoch_refusals == {"A": EpochRefusal(epoch=0, known=7)}


@pytest.mark.parametrize("known", [3, 0, -1, True, "7", None, 7.5, 10**16])
def test_a_message_that_is_no_refusal_of_an_epoch_is_ignored(known: object) -> None:
    assert epoch_refusal({"known_epoch": known}, 3) is None
    assert epoch_refusal({}, 3) is None


def test_an_agent_that_had_no_memory_for_a_thread_answers_later_calls(
    hub: Hub, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each failure ends a connection; the next one works once there is memory again."""
    failures = iter(range(2))

    def begin_if_possible(call: Callable[[], Any], name: str) -> Any:
        if name == "call" and next(failures, None) is not None:
            raise RuntimeError("can't start new thread")
        return begin(call, name)

    monkeypatch.setattr("speck.link.dial.begin", begin_if_possible)
    monkeypatch.setattr("speck.link.dial.FIRST_PAUSE", 0.01)
    dialler = Dialler([url], lambda: RIGHT, lambda: HELLO, lambda *_: {"r": 7}, lambda _: None)
    dialler._room = threading.Semaphore(2)
    thread = threading.Thread(target=dialler.run, daemon=True)
    thread.start()
    answers: list[Any] = []
    for _ in range(20):
        await_that(lambda: hub.presence("A") is not None)
        with suppress(OutcomeUnknown, Unreachable):
            answers.append(hub.call("A", {"m": "capacity"}, 1.0, ENGINE))
            break
    dialler.close()
    thread.join(PATIENCE)
    assert answers == [7]


def test_a_token_that_cannot_be_read_is_named(url: str, caplog: pytest.LogCaptureFixture) -> None:
    reasons: list[str] = []
    secret = Secret("file:/nowhere/token")
    dialler = Dialler([url], secret.reveal, lambda: HELLO, lambda *_: {}, reasons.append)
    thread = threading.Thread(target=dialler.run)
    thread.start()
    await_that(partial(_has, reasons, 1))
    dialler.close()
    thread.join(PATIENCE)
    assert "secret 'file:/nowhere/token' cannot be read" in reasons[0]
    assert "Traceback" not in caplog.text


def test_a_revoked_token_ends_the_connection(hub: Hub, url: str, admission: Admission) -> None:
    with dial(url) as agent:
        assert "welcome" in greet(agent)
        await_that(lambda: hub.presence("A") is not None)
        admission.sites.clear()
        await_that(lambda: hub.presence("A") is None)
        with pytest.raises(InvalidStatus):
            dial(url)


def test_a_token_that_is_revoked_during_the_greeting_ends_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("speck.link.hub._REVOKING", 0.001)
    answers, looked = iter(["A", "A"]), list[int]()  # before and in the greeting
    hub = Hub(lambda _: next(answers, None), {"A": SITE}, mark=lambda: looked.append(1))
    url = listening(hub)
    await_that(lambda: len(looked) > 1)  # the tokens are not checked again
    with dial(url) as agent:
        greet(agent)
        with pytest.raises(ConnectionClosed):
            agent.recv(PATIENCE)
        assert hub.presence("A") is None
    hub.close()


def test_tokens_are_checked_again_only_when_some_may_have_become_invalid(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With thousands of agents, all tokens each second are a part of a core."""
    monkeypatch.setattr("speck.link.hub._REVOKING", 0.001)
    checked, looked, marks = list[bytes](), list[int](), [1]

    def authenticate(token: bytes) -> str:
        checked.append(token)
        return "A"

    def mark() -> int:
        looked.append(marks[0])
        return marks[0]

    hub = Hub(authenticate, {"A": SITE}, mark=mark)
    with dial(listening(hub)) as agent:
        greet(agent)
        await_that(lambda: hub.presence("A") is not None and len(looked) > 1)
        count, seen = len(checked), len(looked)
        await_that(lambda: len(looked) > seen + 3)
        assert len(checked) == count
        marks[0] = 2
        await_that(lambda: len(checked) > count)
        count = len(checked)
        hub.recheck()
        await_that(lambda: len(checked) > count)
    hub.close()


def test_a_later_connection_takes_the_place_of_the_former(hub: Hub, url: str) -> None:
    with dial(url) as former, dial(url) as later:
        greet(former)
        await_that(lambda: hub.presence("A") is not None)
        first = hub.presence("A")
        greet(later)
        await_that(lambda: hub.presence("A") not in (None, first))
        threading.Thread(
            target=lambda: later.send(json.dumps({"c": json.loads(later.recv())["c"], "r": 5}))
        ).start()
        assert hub.call("A", {"e": ENGINE, "m": "x"}, PATIENCE, ENGINE) == 5


def test_agents_on_machines_with_one_id_do_not_take_turns(hub: Hub, url: str) -> None:
    """As of copied virtual machines: each would start the jobs again that the other one has."""
    second = list[tuple[str, str, str]]()
    hub.on_second.append(lambda *found: second.append(found))
    with dial(url) as former, dial(url) as later:
        greet(former)
        await_that(lambda: hub.presence("A") is not None)
        first = hub.presence("A")
        greet(later)
        await_that(lambda: hub.presence("A") not in (None, first))
        for _ in range(2):
            with dial(url) as again:
                assert "(expected one agent for each site)" in greet(again)["refused"]
        assert second == [("A", "", "")] * 2
        later.close()
        await_that(lambda: hub.presence("A") is None)
        with dial(url) as again:
            assert "welcome" in greet(again)


def test_calls_without_an_agent_are_known_not_to_be_made(hub: Hub, url: str) -> None:
    with pytest.raises(Unreachable, match=rf"{ENGINE}: the agent of site 'A' is not connected"):
        hub.call("A", {}, 1.0, ENGINE)


def test_a_call_whose_connection_breaks_may_have_been_made(hub: Hub, url: str) -> None:
    with dial(url) as agent:
        greet(agent)
        await_that(lambda: hub.presence("A") is not None)
        threading.Thread(target=lambda: (agent.recv(PATIENCE), agent.close())).start()
        with pytest.raises(OutcomeUnknown, match="broke before it answered"):
            hub.call("A", {"e": ENGINE, "m": "submit"}, PATIENCE, ENGINE)


def test_a_call_that_is_not_answered_in_time_may_have_been_made(hub: Hub, url: str) -> None:
    with dial(url) as agent:
        greet(agent)
        await_that(lambda: hub.presence("A") is not None)
        with pytest.raises(OutcomeUnknown, match="has not answered within"):
            hub.call("A", {"e": ENGINE, "m": "submit"}, 0.1, ENGINE)


def test_a_hub_that_is_closed_answers_at_once() -> None:
    hub = Hub(lambda token: None, {"A": SITE})
    with pytest.raises(Unreachable):
        hub.call("A", {}, 60.0, ENGINE)
    hub.close()


def test_an_agent_reaches_a_coordinator_with_tls_and_no_other(
    hub: Hub, tmp_path: Path, admission: Admission
) -> None:
    authority = Authority(tmp_path)
    made = authority.certificate("server", "127.0.0.1")
    listener = socket.create_server(("127.0.0.1", 0))
    hub.start(listener, Certificate(made.file, made.key).renewing_context())
    port = listener.getsockname()[1]
    trusting = shared(ssl.create_default_context(cafile=authority.file))
    with dial(f"wss://127.0.0.1:{port}", ssl=trusting) as agent:
        assert "welcome" in greet(agent)
    with pytest.raises(ssl.SSLCertVerificationError):
        dial(f"wss://127.0.0.1:{port}", ssl=ssl.create_default_context())


@pytest.mark.parametrize(
    ("sent", "message"),
    [({"r": {}}, "has not reported it"), ({"x": {"faults": [{"message": "odd"}]}}, "odd")],
)
def test_a_job_of_which_an_agent_says_nothing_is_unknown(
    hub: Hub, url: str, sent: dict[str, Any], message: str
) -> None:
    """An error would end the plan of all jobs, also of those at other sites."""
    kind = next(each for each in double_kinds(World()).engines if ENGINE.split(":")[0] in each.schemes)
    engine = remote_engine(kind, hub, "A", ENGINE, Inventory())
    with dial(url) as agent, ThreadPoolExecutor(1) as caller:
        greet(agent)
        await_that(lambda: hub.presence("A") is not None)
        asked = caller.submit(engine.status, Handle(ENGINE, "1"))
        agent.send(json.dumps({"c": json.loads(agent.recv(PATIENCE))["c"], **sent}))
        found = asked.result(PATIENCE)
    assert found.state is JobState.UNKNOWN
    assert message in found.message


@pytest.mark.parametrize("other", [7, [3], [["t"]], [["t", None]], [["t", "no base64!"]], [[1, "YQ=="]]])
def test_messages_in_another_form_are_an_error_of_their_broker(hub: Hub, url: str, other: object) -> None:
    """Of a site in wrong hands; the feeds of all other sites are read in the same loop."""
    feed = RemoteFeed(Remote(hub, "A", BROKER, Inventory()), 1)
    with dial(url) as agent, ThreadPoolExecutor(1) as caller:
        greet(agent)
        await_that(lambda: hub.presence("A") is not None)
        asked = caller.submit(feed.receive)
        answer(agent, other)
        with pytest.raises(BinderError, match=f"{BROKER}: the agent of site 'A' sent other messages"):
            asked.result(PATIENCE)
        asked = caller.submit(feed.receive)
        answer(agent, [["t", "YQ=="]])
        assert asked.result(PATIENCE) == [("t", b"a")]


@pytest.mark.parametrize(
    ("dates", "fault"),
    [
        ({"begins": 2, "days": 4}, "its certificate is not valid yet by the clock of this machine (20"),
        ({"days": -1}, "its certificate has expired by the clock of this machine (20"),
    ],
)
def test_a_certificate_that_is_wrong_by_the_clock_is_named_until_it_is_right(
    hub: Hub, tmp_path: Path, dates: dict[str, int], fault: str
) -> None:
    """As at a board without a battery clock, until it has the time from the network."""
    authority = Authority(tmp_path)
    made = authority.certificate("server", "127.0.0.1", **dates)
    listener = socket.create_server(("127.0.0.1", 0))
    hub.start(listener, Certificate(made.file, made.key).renewing_context())
    reasons: list[str] = []
    dialler = Dialler(
        [f"wss://127.0.0.1:{listener.getsockname()[1]}"],
        lambda: RIGHT,
        lambda: HELLO,
        lambda *_: {},
        reasons.append,
        shared(ssl.create_default_context(cafile=authority.file)),
    )
    thread = threading.Thread(target=dialler.run)
    thread.start()
    await_that(partial(_has, reasons, 1))
    assert fault in reasons[0]
    authority.certificate("server", "127.0.0.1")  # for the agent, as if its clock had been set
    await_that(lambda: "" in reasons)
    dialler.close()
    thread.join(PATIENCE)


def test_a_look_from_before_the_answer_to_a_change_is_dropped(hub: Hub, url: str) -> None:
    look = {"look": {"engine": ENGINE, "settled": ["1"]}}
    with dial(url) as agent, ThreadPoolExecutor(1) as caller:
        greet(agent)
        await_that(lambda: hub.presence("A") is not None)
        for method, stays in (("stop", False), ("statuses", True)):
            agent.send(json.dumps(look))
            await_that(lambda: hub.look("A", ENGINE) is not None)
            called = caller.submit(hub.call, "A", {"m": method}, PATIENCE, ENGINE)
            number = json.loads(agent.recv(PATIENCE))["c"]
            agent.send(json.dumps(look))  # of a look that began before
            agent.send(json.dumps({"c": number, "r": None}))
            called.result()
            assert (hub.look("A", ENGINE) is not None) is stays
        agent.send(json.dumps({"look": {"engine": "sc://another:1"}}))
        answered = caller.submit(hub.call, "A", {"m": "statuses"}, PATIENCE, ENGINE)
        answer(agent, None)
        answered.result()
        assert hub.look("A", "sc://another:1") is None


def upgraded(url: str) -> socket.socket:
    """A connection that sends its request, and afterwards only what a test sends; it answers nothing."""
    host, _, port = url.removeprefix("ws://").rpartition(":")
    upgrade = (
        "GET /agent HTTP/1.1\r\nHost: hub\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        "Authorization: Bearer right\r\n\r\n"
    )
    made = socket.create_connection((host, int(port)))
    made.sendall(upgrade.encode())
    assert made.recv(12) == b"HTTP/1.1 101"
    return made


@pytest.mark.parametrize("unsent", [0, 8 << 20])
def test_a_former_connection_that_is_dead_holds_up_no_call(
    hub: Hub, url: str, unsent: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The network lost it: its agent reads nothing, and does not answer the close."""
    monkeypatch.setattr("speck.link.hub._CLOSING", 0.2)
    hello = json.dumps(encode(HELLO) | {"protocol": HELLO.protocol}).encode()
    with closing(upgraded(url)) as dead, ThreadPoolExecutor(2) as callers:
        dead.sendall(struct.pack(">BBHI", 0x81, 0x80 | 126, len(hello), 0) + hello)  # masked with zeros
        await_that(lambda: hub.presence("A") is not None)
        former = hub._connections["A"]
        lost = callers.submit(hub.call, "A", {"m": "x", "a": "x" * unsent}, PATIENCE, ENGINE)
        await_that(lambda: bool(former.waiting) and former.socket.paused == bool(unsent))
        with dial(url) as later:
            greet(later)
            await_that(lambda: hub.presence("A") not in (None, former.presence))
            called = callers.submit(hub.call, "A", {"e": ENGINE, "m": "x"}, 1.0, ENGINE)
            answer(later, 5)
            assert called.result(PATIENCE) == 5
            with pytest.raises(OutcomeUnknown, match="broke before it answered"):
                lost.result(PATIENCE)
            await_that(lambda: len(hub._sockets) == 1 and not hub._closing)
            del lost  # and with it the answer that did not come
            gc.collect()
    assert "never retrieved" not in caplog.text


def test_agents_that_do_not_answer_the_end_hold_up_no_close(
    hub: Hub, url: str, admission: Admission, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speck.link.hub._CLOSING", 0.05)
    silent = [upgraded(url) for _ in range(3)]
    loop = hub._loop
    assert loop is not None
    hub.close()
    assert [each for each in asyncio.all_tasks(loop) if not each.done()] == []
    assert loop.is_closed()
    for each in silent:
        each.close()
