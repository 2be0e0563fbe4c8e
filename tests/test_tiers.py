"""A test that starts an engine is of the tier ``engine``, or fails."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from speck.local import processes
from testbed import ROOT
from tests.support.tiers import OTHERS, QUICK, pytest_collection_modifyitems, pytest_ignore_collect


@pytest.mark.parametrize(
    "command", [["java", "-version"], ["env", "--default-signal=INT", "A=b", "/usr/sbin/mosquitto"], [b"mvn"]]
)
def test_a_process_of_an_engine_is_refused(command: Sequence[str | bytes]) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"starts (java|mosquitto|mvn), and is not marked for it"):
        subprocess.run(command, check=False)


def test_a_local_site_is_refused(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="starts mosquitto"):
        processes.start(["mosquitto", "-p", "1883"], {}, tmp_path, tmp_path / "log", "mark")


def test_other_programs_start() -> None:
    assert subprocess.run(["sh", "-c", "exec true mosquitto"], check=False).returncode == 0


@pytest.mark.usefixtures("mosquitto")
def test_a_fixture_marks_its_tests(request: pytest.FixtureRequest) -> None:
    assert request.node.get_closest_marker("engine") is not None


def item(file: str, *marks: pytest.Mark, text: str = "# pytest.mark.engine\n") -> Any:
    """A test of a file with this text in the current directory, as far as the tiers look at it."""
    Path(file).write_text(text)
    named = {mark.name: mark for mark in marks}
    return SimpleNamespace(
        nodeid=f"{file}::test",
        path=Path(file),
        get_closest_marker=named.get,
        iter_markers=lambda name: [named[name]] if name in named else [],
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory for the files of items."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("folder")
def test_a_slow_test_names_its_reason() -> None:
    pytest_collection_modifyitems([item("a.py", pytest.mark.slow("a thousand clients").mark)])
    with pytest.raises(pytest.UsageError, match=r"a\.py::test is marked slow without a reason"):
        pytest_collection_modifyitems([item("a.py", pytest.mark.slow.mark)])


@pytest.mark.usefixtures("folder")
def test_a_module_says_that_it_has_tests_of_the_other_tiers() -> None:
    """Otherwise the run of these would leave it out."""
    with pytest.raises(pytest.UsageError, match=r"a\.py::test gets its mark from elsewhere"):
        pytest_collection_modifyitems([item("a.py", pytest.mark.engine.mark, text="NEEDS_ENGINES\n")])


@pytest.mark.parametrize(
    ("marks", "chosen", "ignored"),
    [
        ("pytest.mark.engine", QUICK, True),
        ("[\n    pytest.mark.engine,\n    NEEDS_RIG,\n]", QUICK, True),
        ("pytest.mark.slow('chance')", QUICK, True),
        ("pytest.mark.usefixtures('known_owner')", QUICK, None),
        ("pytest.mark.engine", "engine", None),
        ("pytest.mark.engine", "", None),
    ],
)
def test_a_module_without_quick_tests_is_not_imported_for_them(
    tmp_path: Path, marks: str, chosen: str, ignored: bool | None
) -> None:
    path = tmp_path / "test_it.py"
    path.write_text(f"import pytest\n\npytestmark = {marks}\n\n\n@pytest.mark.engine\ndef test_it(): ...\n")
    config: Any = SimpleNamespace(option=SimpleNamespace(markexpr=chosen))
    assert pytest_ignore_collect(path, config) is ignored


@pytest.mark.parametrize(
    ("text", "ignored"),
    [
        ("def test_it(): ...\n", True),
        ("from binders.spark import CONNECT\n", True),
        ("@pytest.mark.slow('chance')\ndef test_it(): ...\n", None),
        ("def test_it(spark_server: SparkServer) -> None: ...\n", None),
        ("@pytest.mark.usefixtures('known_owner', \"mosquitto\")\ndef test_it(): ...\n", None),
    ],
)
def test_a_module_of_quick_tests_is_not_imported_for_the_others(
    tmp_path: Path, text: str, ignored: bool | None
) -> None:
    path = tmp_path / "test_it.py"
    path.write_text(text)
    config: Any = SimpleNamespace(option=SimpleNamespace(markexpr=OTHERS))
    assert pytest_ignore_collect(path, config) is ignored


def test_the_tiers_are_those_of_the_makefile() -> None:
    text = (ROOT / "Makefile").read_text()
    assert f'-m "{QUICK}"' in text
    assert f'-m "{OTHERS}"' in text
