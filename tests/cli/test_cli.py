"""The command line, against the real application."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import flask
import pytest

from docs.generate.commands import tree
from speck import cli
from speck.testing.waiting import eventually
from testbed.servers.rest import RestServer, yaml_of
from tests.fixtures.speck_command import Speck

TWO = yaml_of("a t0 t1", "b t1 t2")


@pytest.fixture
def two(tmp_path: Path) -> str:
    path = tmp_path / "two.yaml"
    path.write_text(TWO)
    return str(path)


def test_plan_lists_every_action_and_exits_2_for_changes(speck: Speck, two: str) -> None:
    said = speck("plan", two)
    assert said.code == 2
    assert said.out.splitlines() == [
        "two (from revision 0): 2 to start, 0 to stop, 0 to update, 0 to move, 0 to keep",
        "  + start   a  new in the composition",
        "  + start   b  new in the composition",
    ]
    assert "warning: " in said.err


def test_plan_exits_0_when_there_is_nothing_to_do(speck: Speck, two: str) -> None:
    assert speck("apply", two).code == 0
    said = speck("plan", two)
    assert said.code == 0
    assert "    keep    a  unchanged" in said.out


def test_plan_shows_each_changed_field(speck: Speck, two: str) -> None:
    speck("apply", two)
    Path(two).write_text(yaml_of("a t0 t1 trigger: 2 seconds", "b t1 t3"))
    lines = speck("plan", two).out.splitlines()
    new_incarnation = "messages written since its last state may be delivered twice; none are lost"
    assert lines[1:] == [
        "  ~ update  a  trigger changed",
        "      trigger: (none) -> 2 seconds",
        f"      {new_incarnation}",
        "  ~ update  b  sink_topic changed",
        "      sink_topic: t2 -> t3",
        f"      {new_incarnation}",
    ]


def test_variables_are_replaced_or_all_reported(speck: Speck, tmp_path: Path) -> None:
    (file := tmp_path / "two.yaml").write_text(yaml_of("a in-${REGION} t1", "b t1 ${SINK:-t2} site: ${EDGE}"))
    said = speck("plan", str(file))
    assert said.code == 1
    assert "error: line 3: variable 'REGION' has no value (expected --set REGION=VALUE" in said.err
    assert "error: line 18: variable 'EDGE' has no value" in said.err
    Path(tmp_path / "x.env").write_text("REGION=north\nEDGE=\n")
    said = speck("plan", str(file), "--env", str(tmp_path / "x.env"), "--set", "SINK=t3")
    assert said.code == 1
    assert "site '' is empty (expected a site's name)" in said.err
    Path(file).write_text(yaml_of("a in-${REGION} t1", "b t1 ${SINK:-t2}"))
    said = speck("apply", str(file), "--env", str(tmp_path / "x.env"), "--set", "SINK=t3")
    assert said.code == 0
    assert speck("show", "a", "--json").data["job"]["source_topic"] == "in-north"
    assert speck("show", "b", "--json").data["job"]["sink_topic"] == "t3"


def test_apply_shows_how_each_action_ended(speck: Speck, two: str, rest: RestServer) -> None:
    said = speck("apply", two)
    assert said.code == 0
    assert "apply of two succeeded: 2 done" in said.out
    assert "start   a: done" in said.err
    assert sorted(rest.world.where()) == ["a", "b"]


def test_apply_that_fails_names_job_engine_and_reason(speck: Speck, two: str, rest: RestServer) -> None:
    from speck.errors import Rejected

    rest.world.fail("submit", Rejected("NameError: name 'x' (work.py:3)"), name="a")
    said = speck("apply", two)
    assert said.code == 1
    assert "job 'a' at sc://e1:15002: NameError: name 'x' (work.py:3)" in said.err
    assert "1 failed, 1 done" in said.out


def test_apply_that_waits_for_a_site_exits_3_and_is_done_on_its_return(
    speck: Speck, two: str, rest: RestServer
) -> None:
    rest.world.down("sc://e1:15002")
    said = speck("apply", two)
    assert said.code == 3
    assert "apply of two waiting: 2 waiting" in said.out
    assert "speck jobs" in said.err
    rest.coordinator.reconciler.round()
    (line,) = [line for line in speck("jobs").out.splitlines() if line.startswith("a ")]
    assert "not started" in line
    assert "waits for sc://e1:15002: " in line
    shown = speck("show", "a").out.splitlines()
    assert "drift: not started" in shown
    assert "next try: -" in shown
    rest.world.up("sc://e1:15002")
    rest.coordinator.reconciler.round()
    eventually(lambda: sorted(rest.world.where()), lambda names: names == ["a", "b"])


def test_jobs_show_drift_and_the_next_try(speck: Speck, two: str, rest: RestServer) -> None:
    speck("apply", two)
    for _ in range(2):
        rest.world.crash("a", "no such street")
        rest.coordinator.reconciler.round()
        eventually(lambda: rest.coordinator.operations.is_idle("two"), bool)
    job = next(each for each in speck("jobs", "--json").data if each["job_name"] == "a")
    assert (job["wanted"], job["state"], job["drift"]) == ("running", "failed", "died")
    assert job["next_try"] > job["drift_since"]
    (line,) = [line for line in speck("jobs").out.splitlines() if line.startswith("a ")]
    assert "waits for its next attempt; no such street" in line
    assert "drift" in speck("events").out


def test_json_prints_one_object_and_nothing_else(speck: Speck, two: str) -> None:
    assert speck("plan", two, "--json").data["counts"]["start"] == 2
    assert speck("apply", two, "--json").data["state"] == "succeeded"
    assert [each["job_name"] for each in speck("jobs", "--json").data] == ["a", "b"]
    assert speck("show", "a", "--json").data["state"] == "running"
    assert speck("compositions", "--json").data[0]["name"] == "two"
    assert speck("history", "two", "--json").data[0]["number"] == 1
    assert speck("sites", "--json").data == []
    assert speck("events", "--json").data[-1]["kind"] == "succeeded"
    assert speck("delete", "two", "--yes", "--json").data["state"] == "succeeded"


def test_history_diff_and_rollback(speck: Speck, two: str, rest: RestServer) -> None:
    speck("apply", two, "-m", "the first", "--author", "ann")
    Path(two).write_text(yaml_of("a t0 t1 trigger: 2 seconds", "c t1 t3"))
    speck("apply", two, "--yes", "-m", "faster\nin two lines")
    lines = [each.rstrip() for each in speck("history", "two").out.splitlines()]
    assert lines[0].split() == ["REVISION", "TIME", "BY", "JOBS", "CHANGES", "OUTCOME", "MESSAGE"]
    assert (lines[1].split()[3], lines[1].endswith("the first")) == ("ann", True)
    assert " +1 -1 ~1 " in lines[2]
    assert lines[2].endswith("faster ...")
    assert f"@{socket.gethostname()} " in lines[2]
    said = speck("diff", "two", "1", "2").out.splitlines()
    assert said[0] == "two, revision 1 to 2: +1 -1 ~1"
    assert said[1:3] == ["  ~ a", "      + trigger: 2 seconds"]
    assert "      - sink_topic: t2" in said
    assert speck("diff", "two", "--json").data["counts"] == {"added": 1, "removed": 1, "changed": 1}
    said = speck("rollback", "two", "--dry-run")
    assert said.code == 2
    assert "1 to start, 1 to stop, 1 to update" in said.out
    assert len(speck("history", "two", "--json").data) == 2
    said = speck("rollback", "two", "--yes", "-m", "too fast")
    assert said.code == 0
    assert "rollback of two succeeded" in said.out
    assert sorted(rest.world.where()) == ["a", "b"]
    last = speck("history", "two", "--json").data[-1]
    assert (last["number"], last["restored"], last["message"]) == (3, 1, "too fast")
    assert speck("rollback", "two", "3", "--dry-run").code == 0
    assert speck("rollback", "two", "7").err == "error: composition 'two' has no revision 7\n"


def test_events_are_filtered(speck: Speck, two: str) -> None:
    speck("apply", two, "-m", "the first")
    said = speck("events", "--job", "a", "--composition", "two", "--since", "1h", "--json").data
    assert [(each["kind"], each["cause"]) for each in said] == [
        ("intended", "the first"),
        ("started", "the first"),
    ]
    assert speck("events", "--job", "a", "--operation", said[0]["operation"], "--json").data == said
    assert speck("events", "--since", "2999-01-01", "--json").data == []
    said_wrong = speck("events", "--since", "yesterday")
    assert said_wrong.code == 1
    assert "'yesterday' is not a time (expected 90s, 15m" in said_wrong.err


def test_operations_are_listed_newest_first(
    speck: Speck, two: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speck.client.client._PAGE", 2)  # so that three need two requests
    other = tmp_path / "other.yaml"
    other.write_text(yaml_of("c t5 t6"))
    speck("apply", two, "-m", "the first")
    speck("apply", str(other))
    speck("delete", "two", "--yes", "-m", "enough")
    listed = speck("operations", "--json").data
    assert [(each["kind"], each["composition"], each["counts"]) for each in listed] == [
        ("delete", "two", {"done": 2}),
        ("apply", "other", {"done": 1}),
        ("apply", "two", {"done": 2}),
    ]
    assert speck("operations", "two", "-n", "1", "--json").data == listed[:1]
    shown = speck("operations", "two").out
    assert [line.split()[-1] for line in shown.splitlines()] == ["MESSAGE", "enough", "first"]
    assert shown.splitlines()[1].startswith(listed[0]["id"])


def test_a_deletion_is_shown_before_it_is_done(speck: Speck, rest: RestServer, two: str) -> None:
    speck("apply", two)
    said = speck("delete", "two", "--dry-run")
    assert (said.code, sorted(rest.world.where())) == (2, ["a", "b"])
    assert "2 to stop" in said.out
    said = speck("delete", "a", "--job", "--dry-run")
    assert (said.code, "1 to stop" in said.out) == (2, True)
    assert sorted(rest.world.where()) == ["a", "b"]


def test_abandoned_attempts_and_sessions_are_listed_and_forgotten(
    speck: Speck, rest: RestServer, two: str
) -> None:
    speck("apply", two)
    site = ["sc://e1:15002", "tcp://b1:1883"]
    for address in site:
        rest.world.down(address)
    options = [word for address in site for word in ("--leave-behind", address)]
    said = speck("apply", two, *options)
    assert said.code == 1
    assert "source_broker tcp://b1:1883 is treated as lost (choose another broker" in said.err
    assert speck("delete", "two", "--yes", *options).code == 0
    lines = speck("left-behind").out.splitlines()
    head = ["JOB", "COMPOSITION", "KIND", "VERDICT", "SITE", "ADDRESS", "SESSION", "FENCED"]
    assert lines[0].split() == head
    *words, session, fenced = lines[1].split()
    assert words == ["a", "two", "copy,", "attempt", "1", "terminate", site[0], site[0]]
    assert (session.partition(":")[0], fenced) == ("speck-a", "no")
    assert len(lines) == 5
    forgotten = speck("left-behind", "--forget", site[0], "--forget", site[1], "--json")
    assert (forgotten.code, forgotten.data) == (0, [])
    assert speck("left-behind", "--forget", site[0]).code == 1


def test_orphans_are_listed_beside_abandoned_work(speck: Speck, rest: RestServer, two: str) -> None:
    speck("apply", two)
    (copy,) = rest.world.running("a")
    orphan = replace(copy.attempt, id="f" * 32, number=9, owner="another")
    rest.world.intrude("sc://e1:15002", copy.job, orphan)
    rest.coordinator.reconciler.round()
    _, line = speck("left-behind").out.splitlines()
    address = "sc://e1:15002"
    words = ["a", "two", "orphan,", "attempt", "9", "report", address, address, orphan.session, "no"]
    assert line.split() == words
    (shown,) = speck("left-behind", "--json").data
    assert shown["message"] == f"attempt {orphan.id} of it runs at {address}, which another SpecK has started"
    assert speck("left-behind", "--forget", address).code == 1  # an orphan has no record
    rest.world.violations.clear()  # two copies of a job run


def test_tables_name_what_is_there(speck: Speck, two: str) -> None:
    speck("apply", two, "-m", "the first one")
    speck("show", "a")
    assert "a    two          sc://e1:15002  running  running" in speck("jobs").out
    assert "source topic: t0" in speck("show", "a").out
    assert "two          1         2" in speck("compositions").out
    assert "the first one" in speck("history", "two").out
    assert "job 'a' runs at sc://e1:15002 (attempt 1)" in speck("events").out
    assert speck("delete", "a", "--yes", "--job").code == 0
    assert "a" not in [each["job_name"] for each in speck("jobs", "--json").data]


def test_faults_are_listed_without_a_stack_trace(speck: Speck, tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(yaml_of("a t0 t1 upgrade: maybe; colour: red"))
    said = speck("plan", str(path))
    assert (said.code, said.out) == (1, "")
    errors = said.err.splitlines()
    assert len(errors) == 2
    assert errors[0].startswith("error: line 10: job 'a': upgrade 'maybe'")


ERRORS: list[list[str]] = [
    ["show", "none"],
    ["delete", "none"],
    ["history", "none"],
    ["plan", "missing.yaml"],
    ["fly"],
]


def test_errors_exit_1_and_go_to_standard_error(speck: Speck) -> None:
    for arguments in ERRORS:
        said = speck(*arguments)
        assert (said.code, said.out) == (1, ""), arguments
        assert said.err


def test_an_unreachable_server_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr(sys, "argv", ["speck", "--server", "http://127.0.0.1:1", "jobs"])
        cli.main()
    assert ended.value.code == 1
    assert "no SpecK server at http://127.0.0.1:1 (start one with `speck serve`" in capsys.readouterr().err


MALFORMED_ADDRESSES: list[tuple[str, str]] = [
    ("nohost", "'nohost' is not the address of a server (expected http://HOST:PORT)"),
    ("ftp://127.0.0.1:1", "is not the address of a server"),
    ("http://", "is not the address of a server"),
    ("http://a..b:1", "is not the address of a server"),
    ("http://[::1", "is not the address of a server"),
]


def test_malformed_server_addresses(speck: Speck) -> None:
    for address, words in MALFORMED_ADDRESSES:
        said = speck("--server", address, "jobs")
        assert (said.code, said.out) == (1, "")
        assert words in said.err
        assert len(said.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "is not a SpecK server"),
        (b'HTTP/1.1 404 X\r\nContent-Length: 4\r\n\r\n"no"', "is not a SpecK server"),
        (b"", "does not respond (waited 0.2 s)"),
    ],
    ids=["text", "other JSON", "nothing"],
)
def test_a_server_of_another_kind(
    speck: Speck, monkeypatch: pytest.MonkeyPatch, answer: bytes, words: str
) -> None:
    monkeypatch.setattr("speck.client.transport._READ", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        answering = threading.Thread(target=_answer, args=(listener, answer))
        answering.start()
        said = speck("--server", f"http://127.0.0.1:{listener.getsockname()[1]}", "jobs")
        answering.join(30)
        assert not answering.is_alive()
    assert (said.code, said.out) == (1, "")
    assert words in said.err


def _answer(listener: socket.socket, answer: bytes) -> None:
    peer, _ = listener.accept()
    with peer, suppress(OSError):  # the client may hang up before it has read all
        peer.recv(65536)
        peer.sendall(answer)
        if not answer:
            peer.recv(65536)  # until the client gives up; after an answer it may keep the connection


def test_a_malformed_token_is_not_shown(speck: Speck, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECK_TOKEN", "s3cret\nline")
    said = speck("jobs")
    assert said.code == 1
    assert "the token (SPECK_TOKEN) is not valid" in said.err
    assert "s3cret" not in said.err


NAME_COMMANDS = ("show", "delete", "history", "operation", "diff", "rollback")


def test_malformed_names(speck: Speck) -> None:
    for command in NAME_COMMANDS:
        said = speck(command, "../a")
        assert said.code == 1
        assert said.err == "error: '../a' is not a name (expected letters, digits, '.', '_', '-')\n"


WRONG_INPUT: list[tuple[list[str], str]] = [
    (["serve", "--port", "65536"], "65536 is not in the range 0<=x<=65535"),
    (["serve", "--port", "0", "--sites", "rubbish"], "not UTF-8 text (invalid start byte) (rubbish)"),
    (["graph", "two.yaml", "--sites", "rubbish"], "not UTF-8 text (invalid start byte) (rubbish)"),
    (["local", "up", "--directory", "rubbish/below"], "rubbish/below: Not a directory"),
    (["local", "up", "--heap", "300m", "--directory", "sites"], "heap '300m' is too small for Spark"),
    (["events", "--limit", "0"], "0 is not in the range"),
    (["events", "--composition", "twoo"], "there is no composition 'twoo'"),
    (["events", "--job", "x"], "there is no job 'x'"),
    (["events", "--operation", "x"], "there is no operation 'x'"),
    (["operations", "x"], "there is no composition 'x'"),
    (["validate", "."], "File '.' is a directory"),
    (["validate", "rubbish"], "not UTF-8 text"),
    (["validate", "huge"], "the document has 10,485,760 bytes (at most 5,242,880 are accepted)"),
    (["validate", "two.yaml", "two.yaml"], "unexpected extra argument"),
    (["demo", "--data", "rubbish"], "rubbish holds no well-formed reading (expected lines of status,"),
    (["demo", "--sensors", "two.yaml"], "two.yaml has no columns REPORT_ID and site"),
]


@pytest.mark.slow("two of the commands start the feeder of the demo")
def test_wrong_input_is_reported_at_once(
    speck: Speck, two: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rubbish").write_bytes(b"\xff\xfe\n")
    (tmp_path / "huge").write_bytes(b"#" * (10 << 20))
    for arguments, words in WRONG_INPUT:
        said = speck(*arguments)
        assert said.code == 1
        assert words in said.err
        assert "Traceback" not in said.err
        assert "is up" not in said.err + said.out


def test_a_port_that_is_taken(speck: Speck, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        said = speck("serve", "--port", port, "--data-dir", str(tmp_path / "another"))
    assert said.code == 1
    message = f"cannot listen on 127.0.0.1:{port}: another program listens there (choose a port with --port)"
    assert said.err == f"error: {message}\n"


def test_every_command_has_help() -> None:
    for path, command in tree():
        assert command.help, path
        for parameter in command.params:
            if parameter.param_type_name == "option":
                assert getattr(parameter, "help", None), f"{path} --{parameter.name}"


def test_interrupt_leaves_the_operation_running(
    rest: RestServer, two: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    operations = rest.coordinator.operations
    hold, followed, data_of = rest.world.hold("submit"), threading.Event(), operations.data

    def data(name: str) -> dict[str, Any]:
        if flask.request.method == "GET":  # the command has the answer to its POST
            followed.set()
        return data_of(name)

    monkeypatch.setattr(operations, "data", data)
    apply = [sys.executable, "-m", "speck.cli", "--server", rest.url, "apply", two]
    command = ["env", "--default-signal=INT", *apply]  # it may be ignored where the tests run
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert hold.reached.wait(30)
        assert followed.wait(30)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        said = process.stderr.read()
    assert process.returncode == 130
    (operation,) = rest.queries.compositions()
    assert f"speck operation {operation['operation']} --follow" in said
    hold.release()


@pytest.mark.slow("starts a new interpreter")
def test_serve_announces_itself_and_ends_on_a_signal(speck: Speck, tmp_path: Path) -> None:
    data = tmp_path / "another"
    command = [sys.executable, "-m", "speck.cli", "serve", "--port", "0", "--data-dir", str(data)]
    environment = {key: value for key, value in os.environ.items() if key != "SPECK_TOKEN"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment
    ) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline().startswith("SpecK serves http://127.0.0.1:")
            assert server.stdout.readline().startswith(
                "  sites  no inventory: jobs must name addresses (--sites FILE"
            )
            assert server.stdout.readline() == f"  code   {tmp_path}\n"
            assert server.stdout.readline() == f"  store  {data}\n"
            second = speck("serve", "--port", "0", "--data-dir", str(data))
            assert second.code == 1
            assert f"is held by process {server.pid}" in second.err
            server.terminate()
            assert server.wait(60) == 0
        finally:
            server.kill()


def test_listening_beyond_loopback_needs_a_token(
    speck: Speck, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPECK_TOKEN", raising=False)
    said = speck("serve", "--host", "192.0.2.1", "--data-dir", str(tmp_path / "another"))
    assert said.code == 1
    assert "set SPECK_TOKEN first" in said.err


def test_doctor_lists_findings_with_what_to_do_and_exits_1(speck: Speck, two: str, rest: RestServer) -> None:
    assert speck("apply", two).code == 0
    said = speck("doctor")
    assert (said.code, said.out.strip()) == (0, "no findings")
    losses = rest.queries.losses
    losses.record_sample("two", "a", "copy", {"lostMessages": 390, "redeliveryGivenUp": 390})
    said = speck("doctor")
    assert said.code == 1
    assert "390 discarded: the broker did not deliver them again" in said.out
    assert "1 finding" in said.out
    assert speck("doctor", "--json").data[0]["finding"] == "messages lost"
    assert "390 discarded" in speck("jobs").out
