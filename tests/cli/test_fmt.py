"""``speck fmt`` and ``speck schema`` as typed."""

from __future__ import annotations

import errno
import json
import os
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from speck import cli
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


def test_a_file_that_cannot_be_written_is_left_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (file := tmp_path / "x.yaml").write_text(UNTIDY)
    file.chmod(0o600)
    (link := tmp_path / "link.yaml").symlink_to(file)
    fail = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", Mock(side_effect=fail))
        patched.setattr(sys, "argv", ["speck", "fmt", str(link)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
    assert (ended.value.code, capsys.readouterr().err) == (1, f"error: {link}: No space left on device\n")
    assert (file.read_text(), link.is_symlink()) == (UNTIDY, True)
    assert piped(NOWHERE, "fmt", "link.yaml", cwd=tmp_path).returncode == 0
    assert (file.read_text(), link.is_symlink(), file.stat().st_mode & 0o777) == (TIDY, True, 0o600)


def test_the_schemas_are_printed(tmp_path: Path) -> None:
    for kind in ("composition", "inventory"):
        said = piped(NOWHERE, "schema", kind, cwd=tmp_path)
        assert json.loads(said.stdout) == json_schema(kind)
