"""The directory of job files."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.benches.examples import make_jar


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("files")
    (base / "outside.py").write_text("def clean(messages): ...\n")
    directory = base / "root"
    make_jar(directory / "jars_and_apps" / "test-1.jar", "package.ExampleJob")
    (directory / "clean.py").write_text("def clean(messages): ...\n")
    (directory / "link.py").symlink_to(base / "outside.py")
    (directory / "loop.py").symlink_to(directory / "loop.py")
    (directory / "directory.py").mkdir()
    return directory
