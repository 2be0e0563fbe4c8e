"""Job files as they are loaded."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from binders.spark.query import user_code
from binders.spark.query.spec import QuerySpec


@pytest.fixture(autouse=True)
def with_bytecode_fixture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)


def loaded(path: Path, text: str) -> object:
    """The result of the function ``job`` of a file with this text; all files are of one second."""
    path.write_text(text)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    spec = QuerySpec(
        job_name="j",
        path=str(path),
        entry="job",
        checkpoint="",
        source_format="speck-mqtt",
        sink_format="speck-mqtt",
        source_options={},
        sink_options={},
    )
    return user_code.call(user_code.load(spec), None, spec)


def test_a_file_that_is_edited_within_a_second_is_loaded_anew(tmp_path: Path) -> None:
    path = tmp_path / "jobs.py"
    assert loaded(path, "def job(messages):\n    return 1\n") == 1
    assert loaded(path, "def job(messages):\n    return 2\n") == 2


def test_nothing_is_written_beside_the_file(tmp_path: Path) -> None:
    loaded(tmp_path / "jobs.py", "def job(messages):\n    return 1\n")
    assert [each.name for each in tmp_path.iterdir()] == ["jobs.py"]


def test_an_error_is_located_in_the_file(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        loaded(tmp_path / "jobs.py", "def job(messages):\n    return 1 / 0\n")
    assert "jobs.py, line 2" in user_code.explain(caught.value, str(tmp_path / "jobs.py"))
