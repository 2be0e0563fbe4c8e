"""The command line on a terminal and in a pipe, and its errors."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from subprocess import PIPE
from typing import Any

import click
import pytest
from rich.cells import cell_len
from rich.console import Console

from docs.generate.commands import tree
from speck import cli
from speck.cli.watch import Observation, view
from speck.client import Client
from speck.errors import Rejected
from speck.testing.waiting import eventually
from testbed.servers.base import REFUSING_PORT
from testbed.servers.rest import RestServer, rest_server, yaml_of
from testbed.servers.served_process import served
from testbed.servers.terminal import COLOUR, command, environment, piped, started, terminal
from tests.fixtures.speck_command import Speck


@pytest.fixture
def two(tmp_path: Path) -> str:
    path = tmp_path / "two.yaml"
    path.write_text(yaml_of("a t0 t1", "b t1 t2"))
    return str(path)


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [({}, False), ({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False)],
    ids=["plain", "forced", "forced and forbidden"],
)
def test_colours_in_a_pipe(rest: RestServer, two: str, variables: dict[str, str], coloured: bool) -> None:
    said = piped(rest.url, "plan", two, **variables)
    assert said.returncode == 2
    assert (COLOUR in said.stdout, COLOUR in said.stderr) == (coloured, coloured)
    assert "two (from revision 0)" in said.stdout


@pytest.mark.parametrize(
    "variables", [{}, {"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=["as it is", "forbidden", "dumb"]
)
def test_colours_on_a_terminal(rest: RestServer, two: str, variables: dict[str, str]) -> None:
    with terminal(rest.url, "plan", two, **variables) as shown:
        assert shown.end() == 2
        assert (COLOUR in shown.text) == (not variables)
        assert "+ start   a  new in the composition" in shown.text


def test_an_apply_shows_the_running_actions_on_a_terminal(rest: RestServer, two: str) -> None:
    hold = rest.world.hold("submit", name="b")
    rest.world.fail("submit", Rejected("sc://e1:15002: no such street", address="sc://e1:15002"), name="a")
    with terminal(rest.url, "apply", two) as shown:
        shown.shows("b …")
        shown.shows("1/2")
        shown.shows("1 failed")
        hold.release()
        assert shown.end() == 1
        assert "start   a: failed" in shown.text
        assert "start   b: done" in shown.text
        assert "no such street" in shown.text


def test_an_apply_in_a_pipe_shows_lines_whatever_is_forced(rest: RestServer, two: str) -> None:
    said = piped(rest.url, "apply", two, FORCE_COLOR="1")
    assert said.returncode == 0
    assert "start   a: done" in said.stderr
    assert not [letter for letter in said.stderr if letter in "━╸\r"]


@pytest.mark.parametrize("arguments", [["jobs"], ["jobs", "--json"], ["watch"]], ids=" ".join)
def test_the_reader_of_a_pipe_may_end(rest: RestServer, two: str, arguments: list[str]) -> None:
    rest.client.apply(Path(two).read_bytes(), "two", wait=60)
    reader, writer = os.pipe()
    os.close(reader)
    with started(rest.url, *arguments, stdout=writer, stderr=PIPE) as process:
        os.close(writer)
        _, errors = process.communicate(timeout=60)
    assert errors == ""


@pytest.mark.slow("starts a new interpreter")
def test_characters_outside_of_the_encoding_are_escaped(rest: RestServer, tmp_path: Path) -> None:
    (tmp_path / "\u20ac.yaml").write_text(
        "sites: {A: {spe_address: 'sc://a:15002', broker_address: 'tcp://a:1883'}}"
    )
    said = subprocess.run(  # a new interpreter, since the encoding is one of its own variables
        command(rest.url, "validate", "\u20ac.yaml"),
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=environment(PYTHONIOENCODING="latin-1"),
    )
    assert (said.returncode, said.stdout, said.stderr) == (0, "\\u20ac.yaml: sites A, no faults\n", "")


def test_a_fault_inside_speck_is_one_line(speck: Speck, monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(client: Client) -> None:
        raise ValueError("this\nand that")

    monkeypatch.setattr(Client, "jobs", fault)
    monkeypatch.delenv("SPECK_DEBUG", raising=False)
    said = speck("jobs")
    assert (said.code, said.out) == (1, "")
    assert said.err == (
        "error: ValueError: this and that (a fault inside SpecK; SPECK_DEBUG=1 shows where)\n"
    )
    monkeypatch.setenv("SPECK_DEBUG", "1")
    with pytest.raises(ValueError, match="and that"):
        speck("jobs")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["job"], "No such command 'job'. Did you mean 'jobs'? (see speck --help)"),
        (["sites", "chek"], "No such command 'chek'. Did you mean 'check'? (see speck sites --help)"),
        (
            ["rollback", "streets", "latest"],
            "Invalid value for '[REVISION]': 'latest' is not a whole number (see speck rollback --help)",
        ),
        (["deploy", "x.yaml"], "No such command 'deploy'. Did you mean 'apply'? (see speck --help)"),
        (["plan"], "Missing argument 'FILE' (see speck plan --help)"),
        (
            ["plan", "x.yaml", "--sites", "sites.yaml"],
            "No such option '--sites': the sites are those of the server: speck serve --sites FILE "
            "(see speck plan --help)",
        ),
        (
            ["apply", "x.yaml", "--dry-run"],
            "No such option '--dry-run': speck plan FILE shows the plan (see speck apply --help)",
        ),
        (["apply", "-f", "x.yaml"], "No such option '-f': speck apply FILE (see speck apply --help)"),
        (
            ["rollback", "streets", "--auto-approve"],
            "No such option '--auto-approve': --yes does not ask (see speck rollback --help)",
        ),
        (
            ["top", "--intervall"],
            "No such option '--intervall'. Did you mean '--interval'? (see speck top --help)",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_mistyped_command_is_reported_in_one_line(speck: Speck, arguments: list[str], words: str) -> None:
    said = speck(*arguments)
    assert (said.code, said.out, said.err) == (1, "", f"error: {words}\n")


def test_a_mistyped_name_is_reported_with_the_closest_one(speck: Speck, tmp_path: Path) -> None:
    path = tmp_path / "streets.yaml"
    path.write_text(yaml_of("clean-a1 t0 t1", "clean-a2 t0 t1"))
    speck("apply", str(path))
    said = speck("show", "clen-a1")
    assert said.err == "error: there is no job 'clen-a1' (did you mean 'clean-a1' or 'clean-a2'?)\n"
    assert speck("history", "street").err == (
        "error: there is no composition 'street' (did you mean 'streets'?)\n"
    )
    assert speck("show", "quite-another").err == "error: there is no job 'quite-another'\n"
    assert speck("history", "clean-a1").err == (
        "error: there is no composition 'clean-a1' (it is a job of composition 'streets')\n"
    )
    assert speck("show", "streets").err == (
        "error: there is no job 'streets' (it is a composition; its jobs: clean-a1, clean-a2)\n"
    )


@pytest.mark.parametrize("options", [(), ("--yes",), ("--dry-run",)])
def test_a_deletion_of_a_name_of_the_other_kind_says_the_right_command(
    speck: Speck, tmp_path: Path, options: tuple[str, ...]
) -> None:
    path = tmp_path / "streets.yaml"
    path.write_text(yaml_of("clean-a1 t0 t1", "clean-a2 t0 t1"))
    speck("apply", str(path))
    said = speck("delete", "clean-a1", *options)
    assert (said.code, said.err) == (
        1,
        "error: there is no composition 'clean-a1' (it is a job of composition 'streets'); "
        "speck delete clean-a1 --job deletes this job alone\n",
    )
    said = speck("delete", "streets", "--job", *options)
    assert said.code == 1
    assert said.err.endswith("; speck delete streets deletes the composition with all its jobs\n")
    assert speck("delete", "clean", *options).err == "error: there is no composition 'clean'\n"
    said = speck("delete", "streets.yaml", *options)
    assert said.err.endswith("; speck delete streets deletes the composition of that name\n")
    assert len(speck("jobs", "--json").data) == 2


def test_a_reason_in_another_encoding_is_named(speck: Speck, tmp_path: Path) -> None:
    """As of a terminal in Latin-1, whose bytes Python passes on as they are."""
    path = tmp_path / "streets.yaml"
    path.write_text(yaml_of("clean-a1 t0 t1"))
    said = speck("apply", str(path), "-m", "caf\udce9")
    assert said.code == 1
    assert said.err.endswith("error: message 'caf\\udce9' is not UTF-8 text (expected a terminal in UTF-8)\n")
    assert speck("compositions", "--json").out == "[]\n"


def test_speck_alone_lists_the_commands(
    speck: Speck, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["speck"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    captured = capsys.readouterr()
    assert (ended.value.code, captured.out) == (1, "")
    lines = captured.err.splitlines()
    assert lines[0] == "Usage: speck [OPTIONS] COMMAND [ARGS]..."
    assert len([line for line in lines if line.startswith("  ")]) > len(cli.cli.commands)
    assert "  backup " in speck("store").err


# Each command that contacts the server, with arguments, and those that do not.
ASKING = (
    "plan FILE",
    "apply FILE",
    "adopt FILE",
    "adopt x",
    "rollback x",
    "delete x",
    "place FILE",
    "advise x",
    "accept x",
    "adapt",
    "pin x",
    "unpin x",
    "compositions",
    "history x",
    "history --deleted",
    "diff x",
    "operation x",
    "operations",
    "events",
    "jobs",
    "show x",
    "split show x",
    "split record x -o FILE",
    "logs x",
    "logs x --follow",
    "watch",
    "watch x",
    "top",
    "profile",
    "doctor",
    "sites",
    "sites check",
    "sites add x",
    "sites revoke x",
    "sites remove x",
    "sites upgrade x",
    "workers",
    "left-behind",
    "store check",
    "store backup x.tgz",
)
NOT_ASKING = frozenset(
    (
        *(
            "serve",
            "witness",
            "graph",
            "init",
            "split advise",
            "sql explain",
            "sql try",
            "sql tail",
            "topics infer",
            "topics check",
            "validate",
            "policies",
            "fmt",
            "schema",
            "completion",
            "demo",
            "store restore",
            "store repair",
        ),
        *("local up", "local down", "local status", "local prepare", "local workers"),
        *("token add", "token list", "token remove"),
        *("agent init", "agent run", "agent status", "sites join"),
    )
)


def test_each_command_is_listed_with_or_without_a_server() -> None:
    known = {name for name, _ in _commands()} | {"sites"}
    asking = {name for name in known if any(f"{line} ".startswith(f"{name} ") for line in ASKING)}
    assert asking | NOT_ASKING == known
    assert asking & NOT_ASKING == set()


@pytest.mark.slow("runs each command against two servers")
def test_without_a_server_or_a_token_each_command_prints_one_line(
    speck: Speck, two: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPECK_TOKEN", raising=False)
    nowhere = f"http://127.0.0.1:{REFUSING_PORT}"
    with rest_server(tmp_path / "guarded", token="t" * 20) as guarded:
        for url, words in ((nowhere, "(start one with `speck serve`,"), (guarded.url, "from SPECK_TOKEN)")):
            for line in ASKING:
                arguments = [two if word == "FILE" else word for word in line.split()]
                said = speck("--server", url, *arguments)
                assert (said.code, said.out, len(said.err.splitlines())) == (1, "", 1), (line, said)
                assert words in said.err, (line, said)
                failed = speck("--server", url, *arguments, "--json")
                assert failed.code == 1
                assert failed.err == f"error: {failed.data['error']}\n", (line, failed)


def test_faults_are_objects_with_json(speck: Speck, tmp_path: Path) -> None:
    (file := tmp_path / "bad.yaml").write_text(yaml_of("a t0 t1 upgrade: maybe; colour: red"))
    said = speck("plan", str(file), "--json")
    assert (said.code, said.data.keys()) == (1, {"error", "faults"})
    found = [(each["job"], each["field"], each["line"]) for each in said.data["faults"]]
    assert found == [("a", "upgrade", 10), ("a", "colour", 11)]
    assert said.data["error"].splitlines() == [line.removeprefix("error: ") for line in said.err.splitlines()]


def many(job: int) -> dict[str, Any]:
    """One of many jobs in the form of the server; a few have a problem."""
    fallen = job % 100 == 70
    return {
        "job_name": f"job-{job:03}",
        "composition": "many",
        "wanted": "running",
        "state": "failed" if fallen else "running",
        "drift": "died" if fallen else None,
        "waits": "",
        "error": "",
        "message": "no such street " * 12 if fallen else "",
    }


@pytest.mark.parametrize(("width", "height"), [(160, 50), (80, 24), (40, 24), (30, 8)])
def test_many_jobs_leave_room_for_changes(width: int, height: int) -> None:
    """A line too many or too long would misplace the next redraw."""
    observation = Observation(Client(), jobs={each["job_name"]: each for each in map(many, range(500))})
    observation.problem = (
        "no SpecK server at http://127.0.0.1:8180 (start one with `speck serve`, or name it)"
    )
    change = {"at": 0, "what": "job", "name": "x" * 100, "composition": "c", "before": None}
    last = [{**change, "after": str(number), "says": "it fell " * 30} for number in range(12)]
    console = Console(file=StringIO(), width=width, height=height, force_terminal=True, soft_wrap=True)
    lines = console.render_lines(
        view(observation, last), console.options.update(no_wrap=True, overflow="ignore")
    )
    shown = ["".join(segment.text for segment in line).rstrip() for line in lines]
    assert len(shown) <= height
    assert max(map(cell_len, shown)) <= width
    jobs = [word for line in shown for word in line.split() if word.startswith("job-")]
    assert jobs[0] == "job-070"
    assert f"and {500 - len(jobs)} more" in shown
    if width > 40:
        assert jobs[:5] == [f"job-{number}70" for number in range(5)]
        assert [line for line in shown if line.startswith("1970-01-01 00:00:00Z  c  job xxx")]


# Commands without data for other programs.
WITHOUT_JSON = frozenset(
    (
        "agent init",
        "agent run",
        "sites join",
        "serve",
        "witness",
        "local down",
        "local prepare",
        "local workers",
        "store backup",
        "store restore",
        "init",
        "fmt",
        "schema",
        "completion",
        "token add",
        "token remove",
    )
)


def _commands() -> Iterator[tuple[str, click.Command]]:
    for path, each in tree():
        if not isinstance(each, click.Group):
            yield " ".join(path[1:]), each


def test_every_command_with_data_has_json() -> None:
    without = {
        name for name, each in _commands() if not any("--json" in parameter.opts for parameter in each.params)
    }
    assert without == WITHOUT_JSON


@pytest.mark.slow("two servers, each a process")
def test_an_apply_outlives_a_server_that_is_killed_and_started_again(tmp_path: Path) -> None:
    (file := tmp_path / "line.yaml").write_text(yaml_of("slow-a t0 t1"))
    with served(tmp_path) as first:
        applied = started(first.url, "apply", str(file), stdout=PIPE, stderr=PIPE)
        try:
            assert applied.stderr is not None
            eventually(
                lambda: [each["state"] for each in Client(first.url).jobs()], lambda all: all == ["starting"]
            )
            first.process.kill()
            first.process.wait()
            while "retrying" not in (line := applied.stderr.readline()):
                assert line, "it ended"
            first.go()
            with served(tmp_path, "--port", first.url.rpartition(":")[2]):
                out, err = applied.communicate(timeout=120)
        finally:
            applied.kill()
    assert applied.returncode == 0
    assert "the server responds again" in err
    assert "apply of line succeeded: 1 done" in out
