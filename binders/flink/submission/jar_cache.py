"""The jars on one cluster: each content hash is uploaded once, and deleted when it is unused.

A jar's name there is its hash, so that ``GET /jars`` lists the jars for any coordinator.  A running job does
not need its jar (Flink has loaded its classes), so deleting a jar too early costs only an upload:
:meth:`JarCache.jar` is followed by a run, and a run whose jar is missing uploads it again.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from binders.flink.rest.client import FlinkRest
from binders.flink.rest.requests import FlinkRefused
from binders.flink.submission.package import Package

FRESH = 2.0  # s, for which the list of jars is cached
RESERVED = 600.0  # s, for which a jar is retained for a job that was checked and not started

_NAME = re.compile(r"(?P<hash>[0-9a-f]{64})\.jar\Z")


@dataclass(frozen=True)
class _Reservation:
    code: str
    deadline: float


class JarCache:
    """The jars of one cluster as known to this process, for all of its binders there."""

    def __init__(self) -> None:
        self._guard = threading.Lock()  # of all values below; an upload holds the lock of its jar instead
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._known: dict[str, str] = {}
        self._listed_at = float("-inf")
        self._uses: Counter[str] = Counter()
        self._reservations: dict[str, _Reservation] = {}

    @contextmanager
    def in_use(self, job_name: str, code: str) -> Iterator[None]:
        """While the block runs, the job's jar is not deleted.  Replaces the job's reservation."""
        with self._guard:
            self._uses[code] += 1
            self._reservations.pop(job_name, None)
        try:
            yield
        finally:
            with self._guard:
                self._uses[code] -= 1

    def jar(self, rest: FlinkRest, package: Package) -> str:
        """The id of the jar with this hash; if missing, one of all concurrent calls uploads it."""
        code = package.code
        with self._lock(code):
            found = self._find(rest, code)
            if found is None:
                found = rest.upload(package.content, f"{code}.jar")
                with self._guard:
                    self._known[code] = found
            return found

    def reserve(self, rest: FlinkRest, job_name: str, package: Package) -> str:
        """Upload a job's jar and retain it until the job is started, or for :data:`RESERVED` seconds.

        Returns its id.
        """
        with self._guard:
            self._reservations[job_name] = _Reservation(package.code, time.monotonic() + RESERVED)
        return self.jar(rest, package)

    def release(self, job_name: str) -> None:
        """Drop the reservation of a job that is not started after all."""
        with self._guard:
            self._reservations.pop(job_name, None)

    def invalidate(self, code: str, jar: str) -> None:
        """Record that the cluster does not have this jar."""
        with self._guard:
            if self._known.get(code) == jar:
                del self._known[code]
            self._listed_at = float("-inf")

    def delete_unused(self, rest: FlinkRest, used: Set[str]) -> None:
        """Delete SpecK's jars whose hash is not among those ``used`` by jobs of the cluster."""
        for jar, name in rest.jars().items():
            match = _NAME.match(name)
            if match is not None and match["hash"] not in used:
                self._delete(rest, match["hash"], jar)

    def is_needed(self, code: str) -> bool:
        """True if a job is about to be started from the jar with this hash."""
        now = time.monotonic()
        with self._guard:
            self._reservations = {
                name: each for name, each in self._reservations.items() if each.deadline > now
            }
            return self._uses[code] > 0 or any(each.code == code for each in self._reservations.values())

    def _delete(self, rest: FlinkRest, code: str, jar: str) -> None:
        with self._lock(code):
            if self.is_needed(code):
                return
            self.invalidate(code, jar)
            with suppress(FlinkRefused):  # another coordinator has deleted it
                rest.delete_jar(jar)

    def _find(self, rest: FlinkRest, code: str) -> str | None:
        with self._guard:
            fresh = time.monotonic() < self._listed_at + FRESH
            if fresh and code in self._known:
                return self._known[code]
        # An unknown jar is looked up even if the list is fresh: another coordinator may have uploaded it.
        listed = {match["hash"]: jar for jar, name in rest.jars().items() if (match := _NAME.match(name))}
        with self._guard:
            self._known = listed
            self._listed_at = time.monotonic()
            return self._known.get(code)

    def _lock(self, code: str) -> threading.Lock:
        with self._guard:
            return self._locks[code]
