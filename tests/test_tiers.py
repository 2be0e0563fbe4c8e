"""A test that starts an engine is of the tier ``engine``, or fails."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from speck.local import processes


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
