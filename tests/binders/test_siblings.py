"""A job's file that imports a module beside it is refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from binders.flink import FLINK
from binders.spark import CONNECT, STANDALONE
from speck.binder import EngineKind

JOB = "\n\ndef work(messages):\n    return messages\n"


@pytest.fixture(name="folder")
def folder_fixture(tmp_path: Path) -> Path:
    (tmp_path / "units.py").write_text("LIMIT = 30\n")
    (tmp_path / "json.py").write_text("")  # never imported before the module of the standard library
    (tmp_path / "click.py").write_text("")  # as one that is installed
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "rules.py").write_text("")
    (tmp_path / "data").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("line", "module", "beside"),
    [
        ("import units", "units", "units.py"),
        ("import json, units as u", "units", "units.py"),
        ("from units import LIMIT", "units", "units.py"),
        ("from shared.rules import wet", "shared.rules", "shared"),
        ("from . import units", "units", "units.py"),
        ("if True:\n    import units", "units", "units.py"),
    ],
)
@pytest.mark.parametrize("kind", [CONNECT, STANDALONE, FLINK], ids=["connect", "standalone", "flink"])
def test_it_is_named_with_its_line_and_a_form_that_works(
    folder: Path, kind: EngineKind, line: str, module: str, beside: str
) -> None:
    (folder / "job.py").write_text(line + JOB)
    fault = kind.check_code(folder / "job.py", "work")
    assert fault is not None
    number = line.count("\n") + 1
    assert fault.startswith(f"job.py, line {number}: imports {module!r}, which is {beside} beside it")
    spark = f"zip -r jobs.zip job.py {beside}, job_path: jobs.zip, entry_class: job.work)"
    assert (spark if kind is not FLINK else "(expected its functions in job.py)") in fault


@pytest.mark.parametrize(
    "line",
    [
        "import json",
        "import click",
        "import data",
        "import nowhere",
        "try:\n    import units\nexcept ImportError:\n    units = None",
        "if __name__ == '__main__':\n    import units",
        "def debug():\n    import units",
        "import job",
    ],
)
def test_what_may_work_passes(folder: Path, line: str) -> None:
    (folder / "job.py").write_text(line + JOB)
    assert CONNECT.check_code(folder / "job.py", "work") is None
