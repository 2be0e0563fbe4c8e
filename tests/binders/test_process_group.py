"""Several programs that live and end as one."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from binders.common import process_group
from speck.testing.waiting import eventually


def start(*scripts: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(process_group.command([["sh", "-c", script] for script in scripts]))


def test_the_end_of_one_is_the_end_of_all(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    process = start(
        f"echo $$ > {note}; exec sleep 600", f"while ! test -s {note}; do sleep 0.05; done; exit 3"
    )
    assert process.wait(60) == 3
    assert not psutil.pid_exists(int(note.read_text()))


@pytest.mark.parametrize(("end", "code", "named"), [("exit 3", 3, 3), ("kill -KILL $$", 137, -9)])
def test_the_program_that_ended_first_is_named(
    end: str, code: int, named: int, capfd: pytest.CaptureFixture[str]
) -> None:
    assert start("exec sleep 600", end).wait(60) == code
    assert capfd.readouterr().err == f"program 2 of 2 ended: {named}\n"


def test_sigterm_ends_all(tmp_path: Path) -> None:
    notes = [tmp_path / name for name in ("first", "second")]
    process = start(*(f"echo $$ > {note}; exec sleep 600" for note in notes))
    pids = eventually(lambda: [note.read_text().strip() if note.exists() else "" for note in notes], all)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    assert not any(psutil.pid_exists(int(pid)) for pid in pids)


def test_sigterm_that_comes_while_the_programs_start_ends_all(tmp_path: Path) -> None:
    """The first program sends it, so that the others begin after it or at the same time."""
    notes = [tmp_path / str(number) for number in range(8)]
    first, *others = (f"echo $$ > {note}; " for note in notes)
    process = start(f"{first}kill -TERM $PPID; exec sleep 600", *(f"{each}exec sleep 600" for each in others))
    assert process.wait(60) == 0
    pids = [int(note.read_text()) for note in notes if note.exists() and note.read_text().strip()]
    assert pids
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_the_command_line_is_plain() -> None:
    command = process_group.command([["a", "b c"], ["d"]])
    assert command[:3] == [sys.executable, "-m", "binders.common.process_group"]
    assert json.loads(command[3]) == [["a", "b c"], ["d"]]
