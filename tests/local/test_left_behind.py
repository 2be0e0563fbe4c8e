"""Starts after the clock was set; servers are shell scripts."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from speck import local
from speck.local import processes
from speck.testing.waiting import eventually
from tests.local.test_starting import Script, registry

SLEEP = "exec sleep 600"
LIGHT = registry(Script(SLEEP))


def test_servers_are_found_after_the_clock_was_set(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system tells the start of a process by the present clock; the record has that of then."""
    before = local.up(directory, 1, registry=LIGHT)
    created = psutil.Process.create_time
    monkeypatch.setattr(psutil.Process, "create_time", lambda self: created(self) - 3600)
    assert local.status(directory) == before
    assert before.running
    assert local.up(directory, 1, registry=LIGHT) == before


def test_a_child_is_not_taken_for_its_server(tmp_path: Path) -> None:
    program = ["sh", "-c", "sleep 600 & wait"]
    process = processes.start(program, {"PATH": os.environ["PATH"]}, tmp_path, tmp_path / "log", "m")
    try:
        (child,) = eventually(process.children, bool)
        eventually(lambda: set(processes.marked({"m"})), lambda found: found == {process, child})
        assert processes.find(process.pid, "m") == process
        assert processes.find(child.pid, "m") is None
    finally:
        processes.stop([process])
