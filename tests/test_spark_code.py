"""What is wrong with a Spark job's file is told without running it."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from binders.spark import CONNECT
from tests.spark_bench import JOBS

SOURCE = """\
def clean(messages):
    return messages

class Count:
    pass

fast = clean
raise SystemExit
"""


@pytest.fixture(name="job_file")
def job_file_fixture(tmp_path: Path) -> Path:
    path = tmp_path / "clean.py"
    path.write_text(SOURCE, encoding="utf-8")
    return path


@pytest.fixture(name="archive")
def archive_fixture(tmp_path: Path) -> Path:
    path = tmp_path / "streets.whl"
    with zipfile.ZipFile(path, "w") as package:
        package.writestr("streets/__init__.py", "from .cleaning import clean\n")
        package.writestr("streets/cleaning.py", SOURCE)
    return path


@pytest.mark.parametrize("entry", ["clean", "Count", "fast"])
def test_names_of_a_file(job_file: Path, entry: str) -> None:
    assert CONNECT.check_code(job_file, entry) is None


@pytest.mark.parametrize("entry", ["streets.cleaning.clean", "streets.cleaning.Count", "streets.clean"])
def test_names_of_an_archive(archive: Path, entry: str) -> None:
    assert CONNECT.check_code(archive, entry) is None


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("claen", "'clean.py' defines no function or class 'claen' (it has clean)"),
        ("missing", "'clean.py' defines no function or class 'missing' (it has Count, clean)"),
        (
            "not a name",
            "entry_class 'not a name' is no name (expected for example clean or package.module.clean)",
        ),
    ],
)
def test_faults_of_a_file(job_file: Path, entry: str, message: str) -> None:
    assert CONNECT.check_code(job_file, entry) == message


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            "clean",
            "entry_class 'clean' names no module of 'streets.whl' (expected module.clean, its modules are",
        ),
        ("streets.cleaner.clean", "'streets.whl' holds no module 'streets.cleaner' (it has streets.cleaning"),
        ("streets.cleaning.x", "'streets.whl:streets/cleaning.py' defines no function or class 'x'"),
    ],
)
def test_faults_of_an_archive(archive: Path, entry: str, message: str) -> None:
    assert (CONNECT.check_code(archive, entry) or "").startswith(message)


def test_a_file_that_is_no_python(tmp_path: Path) -> None:
    path = tmp_path / "clean.py"
    path.write_text("def clean(:\n", encoding="utf-8")
    assert CONNECT.check_code(path, "clean") == "'clean.py' is not valid Python: invalid syntax (line 1)"


def test_files_of_another_kind(tmp_path: Path) -> None:
    jar, broken = tmp_path / "job.jar", tmp_path / "job.zip"
    broken.write_bytes(b"no archive")
    assert "expected a .py file, a .zip or a .whl" in (CONNECT.check_code(jar, "clean") or "")
    assert "cannot be read" in (CONNECT.check_code(broken, "a.clean") or "")
    assert "cannot be read" in (CONNECT.check_code(tmp_path / "none.py", "clean") or "")


def test_the_jobs_of_these_tests() -> None:
    assert CONNECT.check_code(JOBS / "simple.py", "count") is None
