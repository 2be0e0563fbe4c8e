"""Calls over the connection of an agent: the file of a job, sizes, and versions that differ."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import speck
from speck.agent.calls import Calls
from speck.binder.instrumented import instrumented
from speck.core.inventory import Engine
from speck.core.job import client_id
from speck.core.runtime import Handle, JobState
from speck.errors import OutcomeUnknown, Rejected, Unreachable
from speck.link.codec import encode
from speck.link.methods import STORE
from speck.link.remote import LARGEST_STATE, Remote
from speck.testing.waiting import attempt_of, eventually
from testbed.benches.agents import LinkBench, link_bench
from testbed.benches.double import BROKER, ENGINE
from testbed.benches.examples import job as make_job
from testbed.doubles.engine import InMemoryEngine
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World

PATIENCE = 20.0


@pytest.fixture(name="link")
def link_fixture(tmp_path: Path) -> Iterator[LinkBench]:
    with link_bench(tmp_path, double_kinds(World()), [Engine(spe_address=ENGINE)], BROKER) as bench:
        yield bench


def test_an_agent_calls_only_at_its_own_engines_and_broker(link: LinkBench) -> None:
    call = {"e": "sc://elsewhere:1", "m": "capacity", "a": {}}
    assert "neither an engine nor the broker" in link.agent.calls.answer(call, lambda: True)["x"]["message"]
    odd = {"e": ENGINE, "m": "stop", "a": {"handle": {"address": 3}}}
    assert "update the agent of site 'A'" in link.agent.calls.answer(odd, lambda: True)["x"]["message"]


def test_the_file_of_a_job_is_sent_in_parts(
    link: LinkBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speck.link.remote._PART", 1000)
    monkeypatch.setattr("speck.link.frames.LARGEST", 4000)
    file = tmp_path / "job.py"
    file.write_bytes(b"# a job of 9 kB\n" * 600)
    remote = Remote(link.hub, "A", ENGINE, link.inventory)
    with monkeypatch.context() as broken:  # after three parts
        asked = iter(range(3))
        ask = Remote.ask

        def break_off(remote: Remote, *arguments: Any) -> Any:
            if next(asked, None) is None:
                raise Unreachable("the connection broke")
            return ask(remote, *arguments)

        broken.setattr(Remote, "ask", break_off)
        with pytest.raises(Unreachable):
            remote.code_of(file)
    assert not link.agent.code.hashes()
    found = remote.code_of(file)["f"]
    assert link.agent.code.path(found["hash"], "job.py").read_bytes() == file.read_bytes()
    assert remote.code_of(file)["f"] == found


def take_whole(calls: Calls, arguments: Mapping[str, Any]) -> list[str]:
    """Store a file as agents did that took it in one message."""
    content = base64.b64decode(arguments["content"])
    if hashlib.sha256(content).hexdigest() != arguments["hash"]:
        raise Rejected("the content of a job's file is not that of its hash (it was damaged on the way)")
    calls.code.put(arguments["hash"], content, 0, len(content))
    return list(calls.code.hashes())


@pytest.mark.parametrize("size", [900, 9000])
def test_an_agent_of_an_earlier_version_gets_the_file_of_a_job_whole(
    link: LinkBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr("speck.link.remote._PART", 1000)
    monkeypatch.setattr(Calls, "_store", take_whole)
    file = tmp_path / "job.py"
    file.write_bytes(b"#" * size)
    remote = Remote(link.hub, "A", ENGINE, link.inventory)
    found = remote.code_of(file)["f"]
    assert link.agent.code.path(found["hash"], "job.py").read_bytes() == file.read_bytes()


def test_a_file_too_large_for_an_earlier_agent_is_rejected_with_both_versions(
    link: LinkBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speck.link.remote._PART", 1000)
    monkeypatch.setattr("speck.link.remote.LARGEST_STATE", 5000)
    monkeypatch.setattr(Calls, "_store", take_whole)
    file = tmp_path / "job.py"
    file.write_bytes(b"#" * 9000)
    version = speck.__version__
    with pytest.raises(
        Rejected, match=f"no file of 9,000 bytes .*agent has version {version}, the server {version}"
    ):
        Remote(link.hub, "A", ENGINE, link.inventory).code_of(file)


def test_a_server_of_an_earlier_version_sends_the_file_of_a_job_whole(link: LinkBench) -> None:
    content = b"def work(messages): ..."
    sha256 = hashlib.sha256(content).hexdigest()
    arguments = {"hash": sha256, "content": base64.b64encode(content).decode()}
    assert link.hub.call("A", {"e": ENGINE, "m": STORE, "a": arguments}, PATIENCE, ENGINE) == [sha256]
    assert link.agent.code.path(sha256, "job.py").read_bytes() == content


def test_a_call_that_an_agent_does_not_have_is_rejected_with_both_versions(link: LinkBench) -> None:
    with pytest.raises(Rejected) as caught:
        link.hub.call("A", {"e": ENGINE, "m": "grow", "a": {}}, PATIENCE, ENGINE)
    version = speck.__version__
    assert str(caught.value) == (
        "method is 'grow' (expected one of EngineBinder) (update the agent of site 'A', or the coordinator); "
        f"the agent has version {version}, the server {version}"
    )
    with pytest.raises(Rejected) as other:
        link.engine(ENGINE).log_tail(Handle(ENGINE, "a"), 10)
    assert "version" not in str(other.value)


def test_a_job_that_may_run_is_not_taken_for_a_rejected_one(
    link: LinkBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later agent has started it, and its answer is of another form."""

    def later(value: Any) -> Any:
        found = encode(value)
        return {**found, "later": 1} if isinstance(value, Handle) else found

    monkeypatch.setattr("speck.agent.calls.encode", later)
    job = make_job("clean", spe_address=ENGINE, source_broker=BROKER, sink_broker=BROKER)
    link.broker().ensure_session(client_id("clean"), job.source_topic)
    with pytest.raises(
        OutcomeUnknown, match=r"unknown field 'later' .*\(the agent has version .*, the server"
    ):
        link.engine(ENGINE).submit(job, attempt_of(job))
    assert [each.job_name for each in link.engine(ENGINE).running()] == ["clean"]


def test_a_message_that_is_too_large_is_rejected(link: LinkBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speck.link.frames.LARGEST", 300_000)
    with pytest.raises(Rejected, match=r"write at site 'A' cannot be sent: .* \(expected at most 300,000\)"):
        Remote(link.hub, "A", ENGINE, link.inventory).ask("write", {"content": "a" * 400_000})
    assert link.engine(ENGINE).running() == []


def test_an_answer_that_is_too_large_is_an_error_at_once(
    link: LinkBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speck.link.frames.LARGEST", 300_000)
    monkeypatch.setattr(InMemoryEngine, "log_tail", lambda *_, **__: ["a" * 400_000])
    with pytest.raises(Rejected, match=r"the answer cannot be sent: .* \(expected at most 300,000\)"):
        link.engine(ENGINE).log_tail(Handle(ENGINE, "a"), 10)


def test_the_largest_state_that_an_agent_transfers_is_known_before(link: LinkBench) -> None:
    engine = instrumented(link.engine(ENGINE), "double", ENGINE, lambda _: None)
    assert engine.largest_state == LARGEST_STATE


def test_a_call_that_has_not_begun_when_its_connection_ends_is_dropped(link: LinkBench) -> None:
    handle = encode(Handle(ENGINE, "a"))
    call = {"e": ENGINE, "m": "stop", "a": {"handle": handle, "keep_state": False}}
    assert link.agent.calls.answer(call, lambda: False)["x"]["class"] == "OutcomeUnknown"


def test_a_site_whose_agent_is_away_is_unknown(link: LinkBench) -> None:
    link.end_agent()
    eventually(lambda: link.hub.presence("A"), lambda found: found is None, PATIENCE)
    status = link.engine(ENGINE).status(Handle(ENGINE, "a"))
    assert status.state is JobState.UNKNOWN
    assert "agent of site 'A'" in status.message
    link.agent = link.start_agent()
