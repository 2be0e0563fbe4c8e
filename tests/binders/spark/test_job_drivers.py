"""Starting a driver at a cluster whose master is gone afterwards, over a master in memory."""

from __future__ import annotations

from typing import Any, cast

import pytest

from binders.spark.query.marks import Marks
from binders.spark.standalone.driver_registry import DriverRegistry
from binders.spark.standalone.job_drivers import JobDrivers
from binders.spark.standalone.master import Cluster
from binders.spark.standalone.submission import Submitter
from speck.errors import BinderError, OutcomeUnknown, Rejected, Unreachable
from tests.binders.spark.test_driver_registry import ADDRESS, JOB, RUN, MasterInMemory, busy, driver


class Leaving(MasterInMemory):
    """A master that lists a driver once it was submitted, or fails; it submits itself."""

    def __init__(self, *errors: BinderError) -> None:
        super().__init__([], busy)
        self.errors = list(errors)

    def submit(self, *_: Any) -> str:
        self.drivers = (driver("RUNNING"),)
        return self.drivers[0].id

    def marks(self, *_: Any) -> Marks:
        return Marks.of(JOB, RUN, "/checkpoints/a")

    def cluster(self) -> Cluster:
        if self.drivers and self.errors:
            raise self.errors.pop(0)
        return super().cluster()


@pytest.mark.parametrize(
    "error",
    [
        Unreachable("the web interface (ui_port) cannot be reached", address=ADDRESS),
        Rejected("the web interface (ui_port) answered 404", address=ADDRESS),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("timeout", [30.0, 0.0], ids=["in time", "late"])
def test_a_driver_that_was_submitted_may_run_whatever_the_master_answers_then(
    error: BinderError, timeout: float
) -> None:
    """Otherwise its attempt would be forgotten, and a copy with an older state be started beside it."""
    master = Leaving(error)
    drivers = JobDrivers(master, cast(Submitter, master), DriverRegistry(ADDRESS, master))
    with pytest.raises(OutcomeUnknown, match=r"web interface \(ui_port\)"):
        drivers.start(JOB, RUN, stop_grace=0.0, timeout=timeout)


def test_a_master_that_is_away_before_is_not_asked() -> None:
    master = Leaving(Unreachable("it cannot be reached", address=ADDRESS))
    master.drivers = (driver("SUBMITTED"),)
    drivers = JobDrivers(master, cast(Submitter, master), DriverRegistry(ADDRESS, master))
    with pytest.raises(Unreachable):
        drivers.start(JOB, RUN, stop_grace=0.0, timeout=0.0)
