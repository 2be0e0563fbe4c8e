"""``speck fmt`` and ``speck schema`` as typed."""

from __future__ import annotations

import json
from pathlib import Path

from speck.schema.json_schema import json_schema
from testbed.servers.terminal import piped
from tests.cli.test_starter import NOWHERE

UNTIDY, TIDY = "name:   x  # why\njobs:   []\n", "name: x    # why\njobs: []\n"


def test_a_check_changes_nothing_and_formatting_keeps_comments(tmp_path: Path) -> None:
    (file := tmp_path / "x.yaml").write_text(UNTIDY)
    said = piped(NOWHERE, "fmt", "--check", "x.yaml", cwd=tmp_path)
    assert (said.returncode, said.stdout, said.stderr) == (2, "", "not formatted: x.yaml\n")
    assert file.read_text() == UNTIDY
    said = piped(NOWHERE, "fmt", "x.yaml", cwd=tmp_path)
    assert (said.returncode, said.stderr) == (0, "formatted x.yaml\n")
    assert file.read_text() == TIDY
    assert piped(NOWHERE, "fmt", "--check", "x.yaml", cwd=tmp_path).returncode == 0
    file.write_text("jobs: [\n")
    said = piped(NOWHERE, "fmt", "x.yaml", cwd=tmp_path)
    assert (said.returncode, file.read_text()) == (1, "jobs: [\n")


def test_the_schemas_are_printed(tmp_path: Path) -> None:
    for kind in ("composition", "inventory"):
        said = piped(NOWHERE, "schema", kind, cwd=tmp_path)
        assert json.loads(said.stdout) == json_schema(kind)
