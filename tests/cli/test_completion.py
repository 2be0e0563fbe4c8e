"""The candidates of completion, and the scripts of the shells."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from speck.cli import cli
from speck.cli.completion import PROGRAM, VARIABLE
from testbed.servers.base import REFUSING_PORT
from testbed.servers.rest import RestServer, yaml_of
from testbed.servers.terminal import Terminal, environment
from tests.fixtures.speck_command import Speck

SPECK = Path(sys.executable).with_name(PROGRAM)
SCRIPTS = {"bash": "speck.bash", "zsh": "_speck", "fish": "fish/completions/speck.fish"}
DELETE_LINE = "\x05\x15"  # to its end, and all before it deleted


@pytest.fixture
def served(rest: RestServer) -> RestServer:
    rest.client.apply(yaml_of("clean-a t0 t1", "clean-b t0 t1", "count t1 t2").encode(), "streets", wait=60)
    return rest


def candidates(url: str, *words: str) -> list[str]:
    """The candidates for the last of these words."""
    *before, last = words
    complete = ShellComplete(cli, {}, PROGRAM, VARIABLE)
    return [each.value for each in complete.get_completions(["--server", url, *before], last)]


def test_names_come_from_the_server(served: RestServer) -> None:
    assert candidates(served.url, "logs", "clean") == ["clean-a", "clean-b"]
    assert candidates(served.url, "show", "cou") == ["count"]
    assert candidates(served.url, "history", "") == ["streets"]
    assert candidates(served.url, "watch", "s") == ["streets"]
    assert candidates(served.url, "delete", "") == ["streets"]
    assert candidates(served.url, "delete", "--job", "c") == ["clean-a", "clean-b", "count"]


def test_commands_and_options() -> None:
    assert candidates("http://127.0.0.1:1", "pla") == ["place", "plan"]
    assert candidates("http://127.0.0.1:1", "sites", "c") == ["check"]
    assert "--tail" in candidates("http://127.0.0.1:1", "logs", "--")


def test_no_candidates_without_a_server() -> None:
    assert candidates(f"http://127.0.0.1:{REFUSING_PORT}", "logs", "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(speck: Speck, shell: str) -> None:
    said = speck("completion", shell)
    assert (said.code, said.err) == (0, "")
    assert f"{VARIABLE}={shell}_complete" in said.out


# -- real shells on a terminal


@pytest.fixture
def home(tmp_path: Path, speck: Speck) -> Path:
    """A home directory with the script of each shell at its place, and nothing else."""
    for shell, place in SCRIPTS.items():
        (path := tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        path.write_text(speck("completion", shell).out)
    return tmp_path


def variables(home: Path) -> dict[str, str]:
    """The environment of a user with that home; ``speck`` is that of these tests."""
    path = f"{SPECK.parent}{os.pathsep}{os.environ['PATH']}"
    places = {
        "HOME": str(home),
        "ZDOTDIR": str(home),
        "XDG_CONFIG_HOME": str(home),
        "XDG_DATA_HOME": str(home),
    }
    return environment(PATH=path, PS1="> ", **places)


def needs(shell: str) -> pytest.MarkDecorator:
    missing = shutil.which(shell) is None or not SPECK.exists()
    return pytest.mark.skipif(missing, reason=f"needs {shell} (make shells), and speck installed")


@pytest.mark.slow("a shell that starts speck for each completion")
@pytest.mark.parametrize(
    ("shell", "begin"),
    [
        pytest.param(("bash", "--norc", "-i"), "source speck.bash; echo be''gun", marks=needs("bash")),
        pytest.param(
            ("zsh", "-f", "-i"),
            "fpath=($HOME $fpath); autoload -Uz compinit; compinit -u -D; echo be''gun",
            marks=[pytest.mark.engine, needs("zsh")],
        ),
    ],
)
def test_a_line_is_completed_as_it_is_typed(
    served: RestServer, home: Path, shell: tuple[str, ...], begin: str
) -> None:
    (home / "streets.yaml").touch()
    shown = Terminal(partial(subprocess.Popen, list(shell), env=variables(home), cwd=home))
    try:
        shown.type(f"{begin}\r")
        shown.shows("begun")
        for typed, completed in (
            ("speck completi", "speck completion "),
            (f"speck --server {served.url} show cou", "show count "),
            (f"speck --server={served.url} watch --int", "watch --interval "),
            ("speck plan --env=str", "--env=streets.yaml "),
        ):
            shown.type(f"{typed}\t")
            shown.shows(completed)
            shown.type(DELETE_LINE)
    finally:
        shown.close()


@needs("fish")
@pytest.mark.engine
def test_fish_completes(served: RestServer, home: Path) -> None:
    lines = (
        "speck completi",
        f"speck --server={served.url} logs clean",
        "speck logs --ta",
        "speck serve --log-level=w",
        "speck plan --env=spe",
    )
    done = subprocess.run(
        ["fish", "-c", "; ".join(f"complete -C '{each}'" for each in lines)],
        capture_output=True,
        text=True,
        check=False,
        cwd=home,
        env=variables(home),
        timeout=120,
    )
    assert [line.partition("\t")[0] for line in done.stdout.splitlines()] == [
        *("completion", "clean-a", "clean-b", "--tail", "--log-level=warning", "--env=speck.bash")
    ], done.stderr


def test_a_silent_server_delays_completion_for_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("speck.cli.completion._REQUEST_TIME", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert candidates(f"http://127.0.0.1:{silent.getsockname()[1]}", "logs", "") == []
