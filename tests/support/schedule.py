"""The order in which ``make test`` runs the files with engines on its workers: the longest first.

A worker takes whole files (``--dist loadfile``), so that a long file that begins late would run alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

# Seconds of a test, roughly, on one of three workers on two cores: by mark, and by folder if it has engines.
SECONDS = {"engine": 3.0, "slow": 2.0}
SECONDS_IN = {"promises": 25.0}  # engines are killed there, and start again

# Seconds of all tests of a file that take far longer than those.
SECONDS_OF = {
    "docs/test_docs_commands.py": 270.0,
    "binders/test_logins.py": 150.0,
    "promises/test_mixed_brokers.py": 110.0,
    "cli/test_demo.py": 90.0,
    "controller/test_reconciler_engines.py": 80.0,
    "promises/test_real_time.py": 80.0,
    "controller/test_workers_engines.py": 75.0,
    "server/test_openapi.py": 75.0,
    "sql/test_engines.py": 75.0,
    "sql/test_other_jobs.py": 65.0,
    "server/test_dashboard_placement.py": 60.0,
    "promises/test_not_reading.py": 60.0,
    "promises/test_sites_check.py": 60.0,
    "promises/test_owners.py": 50.0,
    "local/test_wheel.py": 40.0,
    "binders/spark/test_local.py": 35.0,
    "schema/test_type_errors.py": 30.0,
    "promises/test_standby_site.py": 30.0,
    "promises/test_versions.py": 30.0,
    "docs/test_binders_page.py": 20.0,
    "apps/test_flink_programs.py": 20.0,
    "apps/test_geofencing_page.py": 20.0,
    "cli/test_starter.py": 20.0,
    "agent/test_unit.py": 15.0,
}


def sort_files(items: list[pytest.Item]) -> None:
    """Sort by file: the longest with engines or marked slow first, the others by their number of tests."""
    seconds: defaultdict[Path, float] = defaultdict(float)
    for item in items:
        seconds[item.path] += _seconds(item)
    for path, total in seconds.items():
        if total:
            seconds[path] = next((SECONDS_OF[each] for each in SECONDS_OF if path.match(each)), total)
    every = Counter(item.path for item in items)
    items.sort(key=lambda item: (-seconds[item.path], -every[item.path], item.path))


def _seconds(item: pytest.Item) -> float:
    """The seconds that a test is expected to take; 0 for one of the quick tier and for a skipped one."""
    if any(mark.args and mark.args[0] is True for mark in item.iter_markers("skipif")):
        return 0.0
    mark = next((each for each in SECONDS if item.get_closest_marker(each) is not None), None)
    if mark is None:
        return 0.0
    folders: Iterable[str] = item.path.parts if mark == "engine" else ()
    return next((SECONDS_IN[each] for each in folders if each in SECONDS_IN), SECONDS[mark])


@pytest.hookimpl(optionalhook=True)  # pytest-xdist may be switched off
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> object | None:
    """Give a worker its next file when it is about to begin the last test of the present one.

    By default it gets the next when it begins the last test but two: up to two files of one test each would
    wait behind a long test while other workers have ended.
    """
    if config.getvalue("dist") != "loadfile":
        return None
    # Here, since the workers need none of it.
    from xdist.scheduler import LoadFileScheduling

    class InTime(LoadFileScheduling):
        def _reschedule(self, node: WorkerController) -> None:
            # A worker begins a test when it knows the next, since fixtures of a module end between them.
            if not self.workqueue or self._pending_of(self.assigned_work[node]) < 2:
                super()._reschedule(node)

    return InTime(config, log)
