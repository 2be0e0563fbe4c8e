"""The file of ``speck split record``: its lines are whole, whatever ends the recording."""

from __future__ import annotations

import errno
import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from speck.cli.split.step_file import StepFile
from speck.errors import InvalidInput

STEP = {"obs": [1.0, 2.0], "action": [0.5, 0.5], "reward": 0.25, "next_obs": [1.0, 1.5]}


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Let this process write no file beyond a size (bytes), as if the disk were full then."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_nothing_stays_of_a_step_that_is_not_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    with StepFile(path) as file:
        file.append(STEP)
        with largest_file(path.stat().st_size + 10), pytest.raises(OSError, match=r"steps\.jsonl") as caught:
            file.append(STEP)
        assert caught.value.errno == errno.EFBIG
        file.append(STEP)
    assert list(map(json.loads, path.read_text().splitlines())) == [STEP, STEP]


def test_a_line_without_its_newline_is_ended_first(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_text(json.dumps(STEP))
    with StepFile(path) as file:
        file.append(STEP)
    assert list(map(json.loads, path.read_text().splitlines())) == [STEP, STEP]


def test_a_file_that_ends_within_a_line_is_refused_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_text(text := json.dumps(STEP) + '\n{"obs": [1.0,')
    with pytest.raises(
        InvalidInput, match=r"steps\.jsonl' ends within line 2 \(expected a step as JSON: remove"
    ):
        StepFile(path)
    assert path.read_text() == text


def test_steps_may_go_to_a_device() -> None:
    with StepFile(Path("/dev/null")) as file:
        file.append(STEP)
