"""Files of long tests begin first, and no file waits for a worker while another one is free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from testbed import ROOT
from tests.support.schedule import SECONDS_OF, pytest_xdist_make_scheduler, sort_files

ENGINE = pytest.mark.engine.mark
SLOW = pytest.mark.slow("it takes long").mark
SKIPPED = pytest.mark.skipif(True, reason="a trial").mark


def item(file: str, *marks: pytest.Mark) -> Any:
    """A test of a file, as far as the order looks at it."""
    named = {mark.name: mark for mark in marks}
    return SimpleNamespace(
        path=Path(file),
        get_closest_marker=named.get,
        iter_markers=lambda name: [named[name]] if name in named else [],
    )


def order(*items: Any) -> list[str]:
    """The files in the order of their tests."""
    found = list(items)
    sort_files(found)
    return list(dict.fromkeys(str(each.path) for each in found))


def test_files_with_engines_come_first_and_of_those_the_ones_with_most_tests() -> None:
    quick = [item("a.py")] * 9
    files = [item("b.py"), item("c.py", ENGINE), item("d.py"), item("d.py", ENGINE), item("d.py", ENGINE)]
    assert order(*quick, *files) == ["d.py", "c.py", "a.py", "b.py"]


def test_a_slow_test_takes_less_long_than_one_with_engines() -> None:
    assert order(item("a.py", SLOW), item("b.py", ENGINE)) == ["b.py", "a.py"]


def test_one_promise_on_engines_takes_as_long_as_several_other_tests() -> None:
    others = [item("a.py", ENGINE)] * 5
    in_memory = [item("promises/c.py", SLOW)] * 5
    assert order(*others, *in_memory, item("promises/b.py", ENGINE)) == [
        "promises/b.py",
        "a.py",
        "promises/c.py",
    ]


def test_skipped_tests_take_no_time() -> None:
    skipped = [item("a.py", ENGINE, SKIPPED)] * 9
    assert order(*skipped, item("b.py", ENGINE)) == ["b.py", "a.py"]


def test_files_that_take_longer_than_their_number_of_tests_tells_are_known() -> None:
    many = [item("a.py", ENGINE)] * 9
    path = "server/test_openapi.py"
    assert order(*many, item(path, SLOW)) == [path, "a.py"]
    assert order(*many, item(path)) == ["a.py", path]
    deeper = "binders/spark/test_local.py"
    assert order(*many, item(deeper, ENGINE)) == [deeper, "a.py"]
    for name in SECONDS_OF:
        text = (ROOT / "tests" / name).read_text()
        assert "mark.engine" in text or "mark.slow" in text, name


@dataclass(eq=False)
class Worker:
    """A worker of pytest-xdist, as far as its scheduler looks at it."""

    given: list[int] = field(default_factory=list)
    shutting_down: bool = False
    gateway: Any = field(default_factory=lambda: SimpleNamespace(id="gw"))

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        self.given += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def test_a_worker_gets_its_next_file_before_the_last_test_of_one() -> None:
    options = {"dist": "loadfile", "tx": ["popen"] * 2}
    config: Any = SimpleNamespace(
        getvalue=options.__getitem__, option=SimpleNamespace(loadscopereorder=False, debug=False)
    )
    scheduler: Any = pytest_xdist_make_scheduler(config, None)  # type: ignore[arg-type]
    first, second = Worker(), Worker()
    tests = ["a.py::1", "b.py::1", "b.py::2", "b.py::3", "c.py::1", "d.py::1", "e.py::1"]
    for worker in (first, second):
        scheduler.add_node(worker)
        scheduler.add_node_collection(worker, tests)
    scheduler.schedule()
    assert (first.given, second.given) == ([0, 4], [1, 2, 3])  # a worker begins a test when it has the next
    scheduler.mark_test_complete(second, 1)
    assert second.given == [1, 2, 3]
    scheduler.mark_test_complete(second, 2)
    assert second.given == [1, 2, 3, 5]
    scheduler.mark_test_complete(first, 0)
    assert first.given == [0, 4, 6]
    assert not (first.shutting_down or second.shutting_down)
    scheduler.mark_test_complete(second, 3)
    assert second.given == [1, 2, 3, 5]
    assert second.shutting_down


def test_other_ways_to_distribute_are_left_to_the_plugin() -> None:
    config: Any = SimpleNamespace(getvalue=lambda name: "load")
    assert pytest_xdist_make_scheduler(config, None) is None  # type: ignore[arg-type]


def test_forked_workers_take_single_tests(request: pytest.FixtureRequest) -> None:
    """They take a module whole for a fixture that stays for longer than a test, such as one of all tests."""
    found = request.node._fixtureinfo.name2fixturedefs
    assert {name for name, (*_, last) in found.items() if last.scope not in ("function", "session")} == set()
