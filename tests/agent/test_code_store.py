"""The files of jobs at a site, as jobs of one file that start side by side ask for them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from speck.agent.code_store import CodeStore
from speck.errors import BinderError

CONTENT = b"a program"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
NAME = "simple.py"


@pytest.fixture
def code(tmp_path: Path) -> CodeStore:
    found = CodeStore(tmp_path / "code")
    found.put(SHA256, CONTENT)
    return found


def test_a_file_that_another_job_names_at_the_same_time_is_found(
    code: CodeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = Path.hardlink_to

    def second(path: Path, target: Path) -> None:
        link(path, target)  # the other job's
        link(path, target)

    monkeypatch.setattr(Path, "hardlink_to", second)
    assert code.path(SHA256, NAME).read_bytes() == CONTENT


def test_a_file_is_found_again(code: CodeStore) -> None:
    assert code.path(SHA256, NAME) == code.path(SHA256, NAME)


def test_a_disk_that_refuses_a_name_is_an_error_of_the_site(
    code: CodeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    with pytest.raises(BinderError, match=r"'simple\.py': No space left on device"):
        code.path(SHA256, NAME)
