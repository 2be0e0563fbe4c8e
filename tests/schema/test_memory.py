from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import Any

import pytest

from speck.core.inventory import Inventory
from speck.errors import InvalidInput
from speck.schema import compositions
from speck.schema.memory import collector_paused
from testbed.doubles.kinds import double_kinds
from testbed.doubles.world import World


@pytest.fixture(params=[True, False], ids=["enabled", "disabled"])
def enabled(request: pytest.FixtureRequest) -> Iterator[bool]:
    before = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if before else gc.disable)()


def test_the_collector_rests_within_a_pause(enabled: bool) -> None:
    with collector_paused():
        assert not gc.isenabled()
        with collector_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled() is enabled


def test_a_pause_ends_with_an_error(enabled: bool) -> None:
    with pytest.raises(InvalidInput):
        compositions.load_composition(
            "jobs: 7", inventory=Inventory(), registry=double_kinds(World()), root=(), default_name="x"
        )
    assert gc.isenabled() is enabled


def test_pauses_of_several_threads_end_with_the_last(enabled: bool) -> None:
    def pause(number: int) -> bool:
        within.wait()
        with collector_paused():
            within.wait()
            if number:
                within.wait()
                return gc.isenabled()
        within.wait()
        return False

    within = Barrier(2, timeout=10)
    with ThreadPoolExecutor(2) as threads:
        assert not any(threads.map(pause, range(2)))
    assert gc.isenabled() is enabled


def test_the_collector_rests_while_a_composition_is_read(
    enabled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    for name in ("read_document", "lint"):  # the first step and the last one
        step = getattr(compositions, name)
        noted = partial(_noted, seen, step)
        monkeypatch.setattr(compositions, name, noted)
    compositions.load_composition(
        "jobs: []", inventory=Inventory(), registry=double_kinds(World()), root=(), default_name="x"
    )
    assert seen == [False, False]
    assert gc.isenabled() is enabled


def _noted(seen: list[bool], step: Callable[..., Any], *given: Any, **named: Any) -> Any:
    seen.append(gc.isenabled())
    return step(*given, **named)
