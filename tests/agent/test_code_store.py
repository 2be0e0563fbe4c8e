"""The files of jobs at a site, as jobs of one file that start side by side ask for them."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from speck.agent.code_store import CodeStore
from speck.errors import BinderError, Rejected

CONTENT = b"a program"
SHA256 = hashlib.sha256(CONTENT).hexdigest()
NAME = "simple.py"


@pytest.fixture
def code(tmp_path: Path) -> CodeStore:
    found = CodeStore(tmp_path / "code")
    assert found.put(SHA256, CONTENT, 0, len(CONTENT)) == len(CONTENT)
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


def test_a_file_in_parts_is_there_once_it_is_whole(tmp_path: Path) -> None:
    code, size = CodeStore(tmp_path), len(CONTENT)
    assert code.put(SHA256, CONTENT[:4], 0, size) == 4
    assert code.put(SHA256, CONTENT[:4], 0, size) == 4  # another sender begins: it goes on behind it
    assert code.hashes() == ()
    with pytest.raises(Rejected, match="does not have"):
        code.path(SHA256, NAME)
    assert CodeStore(tmp_path).put(SHA256, CONTENT[4:], 4, size) == size  # after a restart
    assert code.path(SHA256, NAME).read_bytes() == CONTENT
    assert code.put(SHA256, CONTENT[:4], 0, size) == size


def test_a_file_that_is_damaged_on_the_way_is_sent_anew(tmp_path: Path) -> None:
    code, size = CodeStore(tmp_path), len(CONTENT)
    code.put(SHA256, b"bad ", 0, size)
    with pytest.raises(Rejected, match="damaged on the way"):
        code.put(SHA256, CONTENT[4:], 4, size)
    code.put(SHA256, CONTENT + b"more, after a loss of power", 0, 2 * size + 99)
    assert code.put(SHA256, CONTENT, 0, size) == size
    assert code.hashes() == (SHA256,)


def test_a_hash_that_is_none_names_no_folder(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="not the hash"):
        CodeStore(tmp_path).put("../up", CONTENT, 0, len(CONTENT))


def put(code: CodeStore, content: bytes) -> str:
    """Store a content; returns its hash."""
    sha256 = hashlib.sha256(content).hexdigest()
    assert code.put(sha256, content, 0, len(content)) == len(content)
    return sha256


def test_a_name_is_on_the_disk_before_an_attempt_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record of the attempt is synced, and a loss of power may undo what was not."""
    synced = list[tuple[Path, tuple[str, ...]]]()

    def note(directory: Path) -> None:
        synced.append((directory, tuple(sorted(each.name for each in directory.iterdir()))))

    monkeypatch.setattr("speck.agent.code_store.sync_directory", note)
    code = CodeStore(tmp_path)
    put(code, CONTENT)
    assert (tmp_path, (SHA256,)) in synced
    path = code.path(SHA256, NAME)
    assert synced[-1] == (path.parent, ("content", NAME))


def test_the_files_that_were_used_last_are_kept_whatever_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speck.agent.code_store.KEPT", 2)
    former = put(CodeStore(tmp_path), b"from before the start")
    code = CodeStore(tmp_path)
    used, new, last = [put(code, each) for each in (b"used", b"new", b"last")]
    os.utime(tmp_path / former, (2e9, 2e9))  # the clock was set back since
    for each in (used, new, last):
        os.utime(tmp_path / each, (1e9, 1e9))
    code.path(used, NAME)
    code.prune([str(tmp_path / new / NAME)])
    assert set(code.hashes()) == {used, new, last}


def test_files_that_no_attempt_needs_are_bounded_by_their_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("speck.agent.code_store.MOST_BYTES", 250)
    now = [0.0]
    code = CodeStore(tmp_path, lambda: now[0])
    first, *others = [put(code, each * 100) for each in (b"a", b"b", b"c", b"d")]
    for age, each in enumerate(others):
        os.utime(tmp_path / each, (1e9 + age, 1e9 + age))
    needed = [str(tmp_path / first / NAME)]
    code.prune(needed)
    assert set(code.hashes()) == {first, *others}  # they may be those of jobs that are checked now
    now[0] += 3601
    code.path(others[0], NAME)
    code.prune(needed)
    assert set(code.hashes()) == {first, others[0], others[2]}
