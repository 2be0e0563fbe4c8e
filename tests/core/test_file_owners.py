"""Files that are replaced in one step: whose they are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from speck.core.durable_files import replace_file
from speck.server.tokens import Owner, Role, add_owner, digest, remove_owner


@pytest.fixture(name="given")
def given_fixture(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The user and the group that root gives files to."""
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "fchown", lambda _, user, group: given.append((user, group)))
    return given


def test_what_root_writes_belongs_to_the_owner_of_the_directory(
    tmp_path: Path, given: list[tuple[int, int]]
) -> None:
    """Otherwise the agent could not read what ``sudo speck sites join`` has written."""
    replace_file(tmp_path / "site.json", b"{}")
    replace_file(tmp_path / "site.json", b"{}")
    owner = (tmp_path.stat().st_uid, tmp_path.stat().st_gid)
    assert given == [owner, owner]


def test_others_give_nothing_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.delattr(os, "fchown")
    replace_file(tmp_path / "site.json", b"{}")
    assert (tmp_path / "site.json").stat().st_mode & 0o777 == 0o600


def test_a_file_of_tokens_keeps_its_owner_and_its_permissions(
    tmp_path: Path, given: list[tuple[int, int]]
) -> None:
    """Otherwise the server could not read it after ``sudo speck token add``."""
    file = tmp_path / "tokens"
    add_owner(file, Owner("anna", Role.WRITE, digest(b"anna")))
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o640)
    add_owner(file, Owner("ben", Role.READ, digest(b"ben")))
    remove_owner(file, "anna")
    assert file.stat().st_mode & 0o777 == 0o640
    assert given == [(file.stat().st_uid, file.stat().st_gid)] * 3
