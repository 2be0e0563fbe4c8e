"""The tiers of tests: ``engine`` for those that start a program of others, ``slow``, and the quick tier.

A test is marked ``engine`` automatically if it uses one of :data:`FIXTURES`, directly or through others.
A test or fixture that starts such a program by hand needs ``@pytest.mark.engine``, or in its module
``pytestmark = pytest.mark.engine``.  Any other test that starts one of :data:`PROGRAMS` fails, in either
tier: ``make quick`` (``-m "not engine and not slow"``) runs on machines that have none of them.

A module with such a mark in ``pytestmark`` is not even imported by ``make quick``, nor one by the run of the
other tests (:data:`OTHERS`) whose text names neither such a mark nor one of the fixtures.

``pytest.mark.slow(REASON)`` is for a test that needs seconds of processor time for what it proves: load,
chance, a whole site.  It runs in ``make test`` only.

``make test`` runs a test with engines that failed once more, and reports it as RERUN: on a busy machine,
engines fail now and then.  Tests of :data:`NEVER_AGAIN` are not repeated: what is lost or doubled once in a
while is a fault.
"""

from __future__ import annotations

import gc
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from os import fsdecode
from pathlib import Path, PurePath

import pytest

from tests.support.schedule import sort_files

FIXTURES = frozenset(
    (
        *("chrome", "mosquitto", "site_brokers", "spark", "spark_server", "standalone_server"),
        *("flink_jobs", "flink_server"),
    )
)
PROGRAMS = frozenset(
    (
        *("java", "javac", "mosquitto", "mosquitto_passwd", "nginx", "spark-class", "spark-submit"),
        *("chromedriver", "chromium", "chromium-browser", "google-chrome"),
        *("apt-get", "dnf", "mvn", "fish", "zsh"),
    )
)

# The tests of ``make quick``, and those that ``make test`` runs before them.
QUICK = "not engine and not slow"
OTHERS = "engine or slow"

# The folder of the tests whose failure counts at once.
NEVER_AGAIN = "promises"

_MARKS = ("engine", "slow")

# The statement of a module that marks all of its tests; a blank line follows it.
_MARKS_OF_MODULE = re.compile(r"^pytestmark = (.+?)\n(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_OTHER_TIERS = re.compile(r"\bmark\.(?:engine|slow)\b")
# A mark, or a fixture as an argument or in quotes.
_MAY_BE_OTHERS = re.compile(rf"{_OTHER_TIERS.pattern}|\b(?:{'|'.join(sorted(FIXTURES))})\b\"?\s*[,:)]")

# The audit events by which a process starts another; the second argument is the command line.
_STARTS = frozenset(("subprocess.Popen", "os.posix_spawn"))

# Programs that run another one.
_WRAPPERS = frozenset(("env", "nice", "setsid"))

_running: list[pytest.Item] = []  # at most one: the test of this process


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out a module of which no test is chosen: its imports take a part of a second in each worker."""
    chosen = config.option.markexpr
    if chosen not in (QUICK, OTHERS) or not collection_path.match("test_*.py"):
        return None
    text = collection_path.read_text()
    if chosen == OTHERS:
        return _MAY_BE_OTHERS.search(text) is None or None
    marks = _MARKS_OF_MODULE.search(text)
    return bool(marks and _OTHER_TIERS.search(marks[1])) or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that use a real engine, broker or browser, and sort the files: the longest first."""
    for item in items:
        if isinstance(item, pytest.Function) and not FIXTURES.isdisjoint(item.fixturenames):
            item.add_marker(pytest.mark.engine)
        if NEVER_AGAIN in item.path.parts:
            item.add_marker(pytest.mark.flaky(reruns=0))
    _check_reasons(items)
    _check_modules(items)
    sort_files(items)


def _check_reasons(items: Iterable[pytest.Item]) -> None:
    bare = [item.nodeid for item in items for mark in item.iter_markers("slow") if not mark.args]
    if bare:
        raise pytest.UsageError(f"{bare[0]} is marked slow without a reason (expected slow(REASON))")


def _check_modules(items: Iterable[pytest.Item]) -> None:
    """Refuse a test of :data:`OTHERS` in a module that the run of these leaves out."""
    marked = {item.path: item.nodeid for item in items if any(map(item.get_closest_marker, _MARKS))}
    for path, test in marked.items():
        if _MAY_BE_OTHERS.search(path.read_text()) is None:
            raise pytest.UsageError(
                f"{test} gets its mark from elsewhere (expected pytest.mark.engine or slow in its module)"
            )


def pytest_configure() -> None:
    """Collect no garbage while tests are collected: a tenth of the time, for almost nothing to free."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Exempt the collected tests and imported modules from garbage collection: they live to the end.

    Afterwards it runs rarely: its default, every 700 objects, takes a twentieth of the time of the tests.
    """
    gc.freeze()  # with the little garbage there is: to find it takes most of a second
    gc.set_threshold(100_000, 50, 50)
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note the test that runs, for the check of the processes that it starts."""
    _running.append(item)
    try:
        return (yield)
    finally:
        _running.clear()


def _check_process(event: str, arguments: tuple[object, ...]) -> None:
    if event in _STARTS and _running and _running[0].get_closest_marker("engine") is None:
        program = _program(arguments[1])
        if program in PROGRAMS:
            pytest.fail(
                f"{_running[0].nodeid} starts {program}, and is not marked for it "
                f"(expected one of the fixtures {', '.join(sorted(FIXTURES))}, or pytest.mark.engine)",
                pytrace=False,
            )


def _program(command: object) -> str:
    """The name of the program that a command line starts, behind wrappers such as ``env`` and ``sh -c``."""
    words = [fsdecode(word) for word in command] if isinstance(command, list | tuple) else [str(command)]
    if PurePath(words[0]).name == "sh" and "exec " in words[-1]:
        words = shlex.split(words[-1].partition("exec ")[2])
    names = (PurePath(word).name for word in words if not word.startswith("-") and "=" not in word)
    return next((name for name in names if name not in _WRAPPERS), "")


sys.addaudithook(_check_process)
