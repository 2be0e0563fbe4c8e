"""Files of users are replaced as a whole: a crash or a full disk leaves the old content or the new."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Any, NoReturn

import pytest

from speck.core.durable_files import create_file, rewrite_file, scratch_beside

OLD, NEW = b"old\n", b"new\n"


@pytest.fixture(name="file")
def file_fixture(tmp_path: Path) -> Path:
    (path := tmp_path / "x.yaml").write_bytes(OLD)
    path.chmod(0o640)
    return path


def names_beside(file: Path) -> list[str]:
    return [each.name for each in file.parent.iterdir()]


def full(*_: Any) -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_file_keeps_its_permissions(file: Path) -> None:
    rewrite_file(file, NEW)
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (NEW, 0o640)
    assert names_beside(file) == ["x.yaml"]


def test_a_new_file_has_the_permissions_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        rewrite_file(tmp_path / "a", NEW)
        rewrite_file(tmp_path / "b", NEW, mode=0o600)
        create_file(tmp_path / "c", NEW)
    finally:
        os.umask(before)
    assert [stat.S_IMODE((tmp_path / each).stat().st_mode) for each in "abc"] == [0o640, 0o600, 0o640]


def test_a_link_stays_a_link(file: Path, tmp_path: Path) -> None:
    (elsewhere := tmp_path / "elsewhere").mkdir()
    (link := elsewhere / "link.yaml").symlink_to(Path("..") / "x.yaml")
    rewrite_file(link, NEW)
    assert link.is_symlink() and file.read_bytes() == NEW
    (dangling := elsewhere / "dangling").symlink_to("target")
    rewrite_file(dangling, NEW)
    assert dangling.is_symlink() and (elsewhere / "target").read_bytes() == NEW


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_or_a_crash_leaves_the_old_content(
    file: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if step == "fsync":
        monkeypatch.setattr(os, "fsync", full)
    else:
        monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left") as failed:
        rewrite_file(file, NEW)
    assert failed.value.filename == str(file)
    assert file.read_bytes() == OLD
    assert names_beside(file) == ["x.yaml"]


def test_what_is_no_file_is_written_in_place(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        rewrite_file(pipe, NEW)
        assert os.read(reader, 100) == NEW
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EBUSY, errno.EROFS])
def test_a_file_in_a_directory_that_takes_no_other_is_written_in_place(
    file: Path, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> NoReturn:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(Path, "replace", refuse)
    rewrite_file(file, NEW)
    assert file.read_bytes() == NEW
    assert names_beside(file) == ["x.yaml"]
    with pytest.raises(OSError, match=os.strerror(code)):
        rewrite_file(file.with_name("none"), NEW)


def test_a_file_that_is_there_is_not_made_anew(file: Path) -> None:
    with pytest.raises(FileExistsError) as refused:
        create_file(file, NEW)
    assert refused.value.filename == str(file)
    assert (file.read_bytes(), names_beside(file)) == (OLD, ["x.yaml"])


def test_two_writers_of_one_file_have_two_names(file: Path) -> None:
    with scratch_beside(file) as one, scratch_beside(file) as other:
        assert one != other and one.parent == other.parent == file.parent
        one.replace(file)
    assert names_beside(file) == ["x.yaml"]


def test_the_longest_name_has_a_writer(tmp_path: Path) -> None:
    rewrite_file(path := tmp_path / ("x" * 255), NEW)
    assert path.read_bytes() == NEW
