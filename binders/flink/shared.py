"""What the binders of one cluster within this process share, so that they do not work against each other."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from weakref import WeakValueDictionary

from binders.flink.jars import JarShelf
from binders.flink.meter import Meter
from binders.flink.room import Room
from binders.flink.turns import Turns


@dataclass(frozen=True)
class Tag:
    """Whose job a job of the cluster is; what is not told is empty.

    ``job`` is SpecK's name of it, ``code`` the hash of what was uploaded, ``reads`` the fingerprint of its
    session, ``hash`` that of the file which the job names.
    """

    job: str = ""
    code: str = ""
    reads: str = ""
    hash: str = ""


class Shared:
    """What this process knows of one cluster, and has promised there."""

    def __init__(self) -> None:
        self.shelf = JarShelf()
        self.room = Room()
        self.meter = Meter()
        self.tags: dict[str, Tag] = {}
        self.live: set[str] = set()  # of the jobs, those that this process has not stopped
        self.unsettled: dict[str, float] = {}  # until when an attempt's submit may still come to a job
        self.turns = Turns()
        self.python_seen = float("-inf")  # when a Python was found that runs programs


_all: WeakValueDictionary[str, Shared] = WeakValueDictionary()
_guard = threading.Lock()


def shared_of(address: str) -> Shared:
    """The one of this cluster."""
    with _guard:
        return _all.setdefault(address.rstrip("/"), Shared())
