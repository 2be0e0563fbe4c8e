"""What the binders of one cluster within this process share, so that they do not work against each other."""

from __future__ import annotations

import threading
from weakref import WeakValueDictionary

from binders.flink.metrics.collector import Meter
from binders.flink.submission.jar_cache import JarShelf
from binders.flink.submission.labels import Tag
from binders.flink.submission.slots import SlotReservations
from binders.flink.submission.submission_lock import Turns


class Shared:
    """What this process knows of one cluster, and has promised there."""

    def __init__(self) -> None:
        self.shelf = JarShelf()
        self.room = SlotReservations()
        self.meter = Meter()
        self.tags: dict[str, Tag] = {}
        self.live: set[str] = set()  # of the jobs, those that this process has not stopped
        self.stopped: set[str] = set()  # by this process, and listed as if they were at work
        self.unsettled: dict[str, float] = {}  # until when an attempt's submit may still come to a job
        self.turns = Turns()
        self.python_seen = float("-inf")  # when a Python was found that runs programs


_all: WeakValueDictionary[str, Shared] = WeakValueDictionary()
_guard = threading.Lock()


def shared_of(address: str) -> Shared:
    """The one of this cluster."""
    with _guard:
        return _all.setdefault(address.rstrip("/"), Shared())
