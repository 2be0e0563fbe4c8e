"""Settings of engines that benchmarks undo: the command lines are those of the engines, changed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.load.settings import SETTINGS, Change, changed, filled, optimised
from binders.common import process_group
from binders.flink.local import small
from speck.binder import Registry, installed
from tests.support.requirements import needs

_COMMAND = ["java", "-Xss1m", "-XX:SharedArchiveFile=/a.jsa", "-cp", "a.jar", "Main", "--conf", "a=1"]


@pytest.mark.parametrize(
    ("change", "command", "expected"),
    [
        (Change(), _COMMAND, _COMMAND),
        (
            Change(remove=("-Xss", "-XX:Shared"), jvm=("-Xss2m",), arguments=("-Da=2",)),
            _COMMAND,
            ["java", "-Xss2m", "-cp", "a.jar", "Main", "--conf", "a=1", "-Da=2"],
        ),
        (
            Change(arguments=("--conf", "a=2")),
            [*_COMMAND, "spark-internal"],
            [*_COMMAND, "--conf", "a=2", "spark-internal"],
        ),
    ],
)
def test_a_change_of_a_command_line(change: Change, command: Sequence[str], expected: Sequence[str]) -> None:
    assert change.applied(command) == expected


def test_the_heap_of_each_process_is_full() -> None:
    manager = ["java", "-Xms32m", "-Xmx1g", "-cp", "a.jar", "Manager", "-Xmx2m"]
    full = ["java", "-Xms32m", "-Xmx1g", "-Xms1g", "-XX:+AlwaysPreTouch", "-cp", "a.jar", "Manager", "-Xmx2m"]
    assert filled(manager) == full
    worker = ["java", "-Xmx64m", "-Xmx2m", "-cp", "b.jar", "Worker"]
    assert filled(process_group.command([manager, worker])) == process_group.command(
        [full, ["java", "-Xmx64m", "-Xmx2m", "-Xms2m", "-XX:+AlwaysPreTouch", "-cp", "b.jar", "Worker"]]
    )


@pytest.mark.parametrize("engine", ["flink", "spark-connect"])
def test_a_local_engine_has_the_optimising_compiler_when_it_is_asked_for(engine: str, tmp_path: Path) -> None:
    server = installed().local_engines()[engine]
    command = server.command(range(1, server.ports + 1), tmp_path, "600m")[0]
    found = optimised(command)
    assert "TieredStopAtLevel" in str(command) and "TieredStopAtLevel" not in str(found)
    assert len(str(command).split("-XX:")) > len(str(found).split("-XX:")) > 2


@needs(small.JAR)
@pytest.mark.parametrize("engine", SETTINGS)
def test_each_setting_is_one_that_its_engine_has(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def command(registry: Registry) -> Sequence[str]:
        server = registry.local_engines()[engine]
        return server.command(range(1, server.ports + 1), tmp_path, "600m")[0]

    monkeypatch.setattr(
        "binders.common.class_archive.options", lambda name: ("-XX:SharedArchiveFile=/a.jsa",)
    )
    usual = command(installed())
    for undone, change in SETTINGS[engine].items():
        assert command(changed(installed(), engine, change.applied)) != usual, undone
