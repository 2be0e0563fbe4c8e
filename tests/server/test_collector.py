"""The collector of reference cycles in the server's process: it does not visit all values in each round."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from speck.core.settings import ServerSettings
from speck.errors import StoreLocked
from speck.server import process
from speck.server.collector import NEW, collected_seldom


@pytest.fixture(autouse=True)
def _as_python_begins() -> Iterator[None]:
    """The thresholds of a new process; those of the tests are higher."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def young_collections(values: int) -> int:
    """The number of collections while this number of values is made, which live until the end."""
    seen: list[int] = []

    def note(phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            seen.append(info["generation"])

    gc.collect()
    gc.callbacks.append(note)
    try:
        held = [[number] for number in range(values)]
    finally:
        gc.callbacks.remove(note)
    return len(seen) if len(held) == values else -1


@pytest.mark.slow("makes as many values as a round of many jobs")
def test_a_round_of_many_jobs_begins_few_collections_and_the_thresholds_return() -> None:
    before = gc.get_threshold()
    with collected_seldom():
        assert young_collections(NEW // 2) == 0
        assert young_collections(2 * NEW) <= 3
    assert gc.get_threshold() == before
    assert young_collections(NEW // 2) > 3


def test_the_server_has_its_collector_look_seldom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, before = [], gc.get_threshold()

    def locked(*_: object) -> None:
        seen.append(gc.get_threshold())
        raise StoreLocked("another process has opened it")

    monkeypatch.setattr(process, "Store", locked)
    with pytest.raises(StoreLocked):
        process.serve(ServerSettings(data_dir=tmp_path / "store", port=0), ready=lambda *_: None)
    assert seen == [(NEW, *before[1:])]
    assert gc.get_threshold() == before
