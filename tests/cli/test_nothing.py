"""Commands where nothing is deployed or started yet: they name the next command."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from speck.cli import cli
from tests.fixtures.speck_command import Speck


@pytest.mark.parametrize("command", ["jobs", "compositions"])
def test_an_empty_table_has_a_hint(speck: Speck, command: str) -> None:
    said = speck(command)
    assert (said.code, len(said.out.splitlines())) == (0, 1)
    assert said.err == "nothing is deployed (speck apply FILE deploys a composition)\n"
    said = speck(command, "--json")
    assert (said.data, said.err) == ([], "")


def test_a_directory_without_local_sites_is_named(tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    said = CliRunner().invoke(cli, ["local", "status", "--directory", nowhere])
    assert (said.exit_code, said.stderr) == (0, f"no sites in {nowhere} (speck local up starts some)\n")
    said = CliRunner().invoke(cli, ["local", "down", "--directory", nowhere])
    assert (said.exit_code, said.stderr) == (0, f"nothing runs in {nowhere}\n")
