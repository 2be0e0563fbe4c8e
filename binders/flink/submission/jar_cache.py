"""The jars on one cluster: each uploaded once a content hash, and dropped when nothing uses it.

A jar's name there is its hash, so that ``GET /jars`` tells any coordinator what is there.  A job that runs
needs its jar no more (Flink has taken the classes out of it), so to drop a jar too early costs an upload and
nothing else: :meth:`JarShelf.jar` is followed by a run, and a run that finds the jar gone asks again.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from binders.flink.rest.client import FlinkRefused, FlinkRest
from binders.flink.submission.package import Package

FRESH = 2.0  # s, for which the list of jars is taken to be right
HELD = 600.0  # s, for which a jar is kept for a job that was asked about and not started

_NAME = re.compile(r"(?P<hash>[0-9a-f]{64})\.jar\Z")


@dataclass(frozen=True)
class _Hold:
    code: str
    until: float


class JarShelf:
    """What this process knows of the jars of one cluster, for all of its binders there."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._known: dict[str, str] = {}
        self._looked = float("-inf")
        self._uses: Counter[str] = Counter()
        self._holds: dict[str, _Hold] = {}

    @contextmanager
    def in_use(self, job_name: str, code: str) -> Iterator[None]:
        """While the block runs, the job's jar is not dropped.  Ends a :meth:`hold`."""
        with self._guard:
            self._uses[code] += 1
            self._holds.pop(job_name, None)
        try:
            yield
        finally:
            with self._guard:
                self._uses[code] -= 1

    def jar(self, rest: FlinkRest, parcel: Package) -> str:
        """The id of the jar with this hash, uploaded if need be: of many who ask at once, one uploads it."""
        code = parcel.code
        with self._lock(code):
            found = self._find(rest, code)
            if found is None:
                found = rest.upload(parcel.content, f"{code}.jar")
                with self._guard:
                    self._known[code] = found
            return found

    def hold(self, rest: FlinkRest, job_name: str, parcel: Package) -> str:
        """Bring a job's jar, and keep it until the job is started (or :data:`HELD` seconds have passed).

        Answers its id.
        """
        with self._guard:
            self._holds[job_name] = _Hold(parcel.code, time.monotonic() + HELD)
        return self.jar(rest, parcel)

    def let_go(self, job_name: str) -> None:
        """Keep no jar for a job that is not started after all."""
        with self._guard:
            self._holds.pop(job_name, None)

    def gone(self, code: str, jar: str) -> None:
        """Note that the cluster does not have this jar."""
        with self._guard:
            if self._known.get(code) == jar:
                del self._known[code]
            self._looked = float("-inf")

    def drop_unused(self, rest: FlinkRest, used: Set[str]) -> None:
        """Delete the jars of this kind whose hash is not among those ``used`` by jobs of the cluster."""
        for jar, name in rest.jars().items():
            match = _NAME.match(name)
            if match is not None and match["hash"] not in used:
                self._drop(rest, match["hash"], jar)

    def is_wanted(self, code: str) -> bool:
        """Whether a job is about to be started from the jar with this hash."""
        now = time.monotonic()
        with self._guard:
            self._holds = {name: hold for name, hold in self._holds.items() if hold.until > now}
            return self._uses[code] > 0 or any(hold.code == code for hold in self._holds.values())

    def _drop(self, rest: FlinkRest, code: str, jar: str) -> None:
        with self._lock(code):
            if self.is_wanted(code):
                return
            self.gone(code, jar)
            with suppress(FlinkRefused):  # another was quicker
                rest.delete_jar(jar)

    def _find(self, rest: FlinkRest, code: str) -> str | None:
        with self._guard:
            fresh = time.monotonic() < self._looked + FRESH
            if fresh and code in self._known:
                return self._known[code]
        # Asked anew also for one that is not known: another coordinator may have brought it.
        listed = {match["hash"]: jar for jar, name in rest.jars().items() if (match := _NAME.match(name))}
        with self._guard:
            self._known = listed
            self._looked = time.monotonic()
            return self._known.get(code)

    def _lock(self, code: str) -> threading.Lock:
        with self._guard:
            return self._locks[code]
