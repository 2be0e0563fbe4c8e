"""The Flink cluster of the trials, with more TaskManagers than one."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.faults.servers import SmallFlink
from tests.support.requirements import needs
from tests.support.trials import trial


@trial("the clusters of two processes in other tests; the trials of test_kinds.py use it")
@needs()
@pytest.mark.engine
def test_a_task_manager_of_two_is_replaced(tmp_path: Path) -> None:
    with SmallFlink(tmp_path / "flink", 2, tmp_path / "states") as cluster:
        job_manager, first, second = cluster.pids
        with cluster.without_task_manager():
            pass
        assert cluster.pids[:2] == [job_manager, first]
        assert len(cluster.pids) == 3
        assert second not in cluster.pids
        cluster.kill_job_manager()
        assert cluster.pids[1] == first
        assert job_manager not in cluster.pids
