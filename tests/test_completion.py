"""What the shells are offered, and the scripts that ask for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from speck.cli import cli
from speck.cli.completion import PROGRAM, VARIABLE
from tests.mosquitto_server import free_port
from tests.rest_server import RestServer, yaml_of
from tests.speck_command import Speck
from tests.terminal import environment, piped

SPECK = Path(sys.executable).with_name(PROGRAM)


@pytest.fixture
def served(rest: RestServer) -> RestServer:
    rest.client.apply(yaml_of("clean-a t0 t1", "clean-b t0 t1", "count t1 t2").encode(), "streets", wait=60)
    return rest


def offered(url: str, *words: str) -> list[str]:
    """What is offered for the last of these words."""
    *before, last = words
    complete = ShellComplete(cli, {}, PROGRAM, VARIABLE)
    return [each.value for each in complete.get_completions(["--server", url, *before], last)]


def test_names_come_from_the_server(served: RestServer) -> None:
    assert offered(served.url, "logs", "clean") == ["clean-a", "clean-b"]
    assert offered(served.url, "show", "cou") == ["count"]
    assert offered(served.url, "history", "") == ["streets"]
    assert offered(served.url, "watch", "s") == ["streets"]
    assert offered(served.url, "delete", "") == ["streets"]
    assert offered(served.url, "delete", "--job", "c") == ["clean-a", "clean-b", "count"]


def test_commands_and_options() -> None:
    assert offered("http://127.0.0.1:1", "pl") == ["plan"]
    assert offered("http://127.0.0.1:1", "sites", "c") == ["check"]
    assert "--tail" in offered("http://127.0.0.1:1", "logs", "--")


def test_nothing_is_offered_without_a_server() -> None:
    assert offered(f"http://127.0.0.1:{free_port()}", "logs", "") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(speck: Speck, shell: str) -> None:
    said = speck("completion", shell)
    assert (said.code, said.err) == (0, "")
    assert f"{VARIABLE}={shell}_complete" in said.out


@pytest.mark.skipif(not (shutil.which("bash") and SPECK.exists()), reason="needs bash, and speck installed")
def test_bash_completes_with_the_script(served: RestServer) -> None:
    """As the script has it: the words typed so far go in by variables, what is offered comes out."""
    script = piped(served.url, "completion", "bash").stdout
    typed = f'COMP_WORDS=(speck --server "{served.url}" logs clean); COMP_CWORD=4; '
    asked = f'{script}\n{typed}_speck_completion speck; printf "%s\\n" "${{COMPREPLY[@]}}"'
    path = f"{SPECK.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", asked],
        capture_output=True,
        text=True,
        check=False,
        env=environment(PATH=path),
        timeout=60,
    )
    assert done.stdout.split() == ["clean-a", "clean-b"], done.stderr
