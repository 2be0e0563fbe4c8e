"""``speck logs``: a job's lines in the logs of its engine, once and followed."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Sequence
from pathlib import Path
from subprocess import PIPE

import pytest

from speck.cli.logs import new_lines
from speck.errors import OutcomeUnknown
from testbed.servers.rest import RestServer, rest_server, yaml_of
from testbed.servers.terminal import started
from tests.fixtures.speck_command import Speck


@pytest.fixture
def talking(rest: RestServer) -> RestServer:
    """A job ``a`` with ten lines in the log."""
    rest.client.apply(yaml_of("a t0 t1", "b t1 t2").encode(), "two", wait=60)
    rest.world.running("a")[0].said += [f"line {number}" for number in range(10)]
    return rest


def test_the_last_lines_go_to_standard_output(talking: RestServer, speck: Speck) -> None:
    said = speck("logs", "a", "--tail", "3")
    assert said.code == 0
    assert said.out.splitlines() == ["line 8", "line 9", "attempt 1 of a running"]
    assert said.err == "sc://e1:15002: from memory\n"


def test_logs_as_json(talking: RestServer, speck: Speck) -> None:
    data = speck("logs", "a", "-n", "2", "--json").data
    assert data["observed_at"] > 0
    assert {name: data[name] for name in data if name != "observed_at"} == {
        "job_name": "a",
        "address": "sc://e1:15002",
        "attempt": 1,
        "about": "from memory",
        "lines": ["line 9", "attempt 1 of a running"],
    }


def test_a_failed_job_shows_its_error(talking: RestServer, speck: Speck) -> None:
    talking.world.crash("a", "no such street")
    assert speck("logs", "a").out.splitlines()[-1] == "no such street"


def test_a_job_that_no_engine_has(rest: RestServer, speck: Speck) -> None:
    rest.world.down("sc://e1:15002")
    rest.client.apply(yaml_of("a t0 t1").encode(), "one", wait=60)
    said = speck("logs", "a")
    assert (said.code, said.out) == (0, "")
    assert said.err == "sc://e1:15002: the job has no log: it does not run at any engine\n"


def test_unavailable_logs_are_one_line(talking: RestServer, speck: Speck) -> None:
    talking.world.fail("log_tail", OutcomeUnknown("sc://e1:15002 did not answer", address="sc://e1:15002"))
    said = speck("logs", "a")
    assert (said.code, said.out, said.err) == (1, "", "error: sc://e1:15002 did not answer\n")
    assert speck("logs", "c").err.startswith("error: there is no job 'c'")
    assert "20000 is not in the range" in speck("logs", "a", "-n", "20000").err


def test_new_lines_are_followed(talking: RestServer) -> None:
    follow = ("logs", "a", "-f", "-n", "2", "--interval", "0.1")
    with started(talking.url, *follow, stdout=PIPE, stderr=PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "line 9\n"
            assert process.stdout.readline() == "attempt 1 of a running\n"
            talking.world.running("a")[0].said.append("one more")
            assert process.stdout.readline() == "one more\n"
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
        finally:
            process.kill()


def test_a_log_is_followed_over_a_restart_of_the_server(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        with rest_server(tmp_path) as first:
            first.client.apply(yaml_of("a t0 t1").encode(), "one", wait=60)
            first.world.running("a")[0].said.append("line 0")
            followed = stack.enter_context(
                started(first.url, "logs", "a", "-f", "--interval", "0.1", stdout=PIPE, stderr=PIPE)
            )
            stack.callback(followed.kill)
            assert followed.stdout is not None
            assert followed.stderr is not None
            assert followed.stdout.readline() == "line 0\n"
            assert followed.stdout.readline() == "attempt 1 of a running\n"
            assert followed.stderr.readline() == "sc://e1:15002: from memory\n"
        assert "retrying every 0.1 s" in followed.stderr.readline()
        with rest_server(tmp_path, port=first.port, world=first.world) as second:
            assert followed.stderr.readline() == "the log is available again\n"
            second.world.fail("log_tail", OutcomeUnknown("sc://e1:15002 is silent", address="sc://e1:15002"))
            assert followed.stderr.readline() == "sc://e1:15002 is silent; retrying every 0.1 s\n"
            second.world.running("a")[0].said.append("one more")
            assert followed.stdout.readline() == "one more\n"  # and no line from before
            second.client.delete_job("a", wait=60)
            assert followed.stderr.readlines()[-1] == "error: there is no job 'a'\n"
            assert followed.wait(60) == 1


@pytest.mark.parametrize(
    ("known", "lines", "new"),
    [
        ("", "abc", "abc"),
        ("abc", "abc", ""),
        ("abc", "abcd", "d"),
        ("cd", "abcde", "e"),
        ("abc", "bcde", "de"),
        ("abc", "xyz", "xyz"),
        ("abE", "abcE", "c"),
        ("aab", "abab", "ab"),
        ("ab", "", ""),
    ],
)
def test_only_new_lines_are_shown(known: Sequence[str], lines: Sequence[str], new: str) -> None:
    assert "".join(new_lines(list(known), list(lines))) == new
