"""State that all binders of one cluster within this process share."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from weakref import WeakValueDictionary

from binders.common.processor import ProcessorShare
from binders.flink.metrics.collector import MetricsCollector
from binders.flink.submission.jar_cache import JarCache
from binders.flink.submission.labels import Labels
from binders.flink.submission.slots import SlotReservations
from binders.flink.submission.submission_lock import SubmissionLock

# Idle shares and the event loop are estimates, which must not leave a busy job without any cost.
LEAST_WORK = 0.1


@dataclass(frozen=True)
class PendingSubmit:
    """A submit without an answer, which may start a job until ``deadline`` (monotonic, s).

    ``process`` is the JobManager process that received it, as of :meth:`FlinkRest.process`.  If that has
    ended, it may have started the job before.
    """

    deadline: float
    process: str


class ClusterState:
    """Cached answers of one cluster, and reservations there."""

    def __init__(self) -> None:
        self.jars = JarCache()
        self.slots = SlotReservations()
        self.metrics = MetricsCollector()
        self.processor_share = ProcessorShare(LEAST_WORK)
        self.labels: dict[str, Labels] = {}  # by job id
        self.live: set[str] = set()  # ids of running jobs that this process has not stopped, as last listed
        self.stopped: set[str] = set()  # ids of jobs stopped by this process, which may still be listed
        self.pending_submits: dict[str, PendingSubmit] = {}  # by attempt
        self.submission_lock = SubmissionLock()
        self.python_checked_at = float("-inf")  # when a usable Python was last found (monotonic, s)


_all: WeakValueDictionary[str, ClusterState] = WeakValueDictionary()
_guard = threading.Lock()  # two binders of one cluster must share one state


def cluster_state_of(address: str) -> ClusterState:
    """The shared state of the cluster at this address."""
    with _guard:
        return _all.setdefault(address.rstrip("/"), ClusterState())
