"""An upgrade of the agents of many sites: its waves and its progress, and the decision about one agent."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class RollOutState(StrEnum):
    """The progress of an upgrade; the last two are outcomes."""

    PLANNED = "planned"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


class SiteState(StrEnum):
    """The progress at one site; all but the first two are outcomes."""

    PENDING = "pending"
    UPGRADING = "upgrading"
    UPGRADED = "upgraded"  # its agent is connected in the new version
    FAILED = "failed"
    UNTOUCHED = "untouched"  # an earlier wave failed


class Arrival(StrEnum):
    """The state of an agent's upgrade, as its connection shows it."""

    AWAITED = "awaited"
    ARRIVED = "arrived"  # in the new version
    RETURNED = "returned"  # in another one
    UNCLEAR = "unclear"  # in another one; it may still be installing


def arrival(connected: str | None, version: str, *, reconnected: bool, answered: bool) -> Arrival:
    """The state of an agent that was asked to change to ``version``.

    ``connected`` is the version of the one that is connected now, ``None`` if none is; ``reconnected``: by
    another connection than before.  ``answered``: the agent has said that the version is installed.
    """
    if connected is None:
        return Arrival.AWAITED
    if connected == version:
        return Arrival.ARRIVED
    if not reconnected:
        return Arrival.AWAITED
    return Arrival.RETURNED if answered else Arrival.UNCLEAR


def grown(before: Mapping[tuple[str, str], int], now: Mapping[tuple[str, str], int]) -> str:
    """The first job and reason with more messages lost than before, as text; empty if there is none."""
    more = sorted(key for key, count in now.items() if count > before.get(key, 0))
    if not more:
        return ""
    job, reason = more[0]
    return f"job {job!r} counted losses since: {now[more[0]] - before.get(more[0], 0)} ({reason})"


@dataclass
class SiteUpgrade:
    """One site of an upgrade; ``version`` is that of its agent before."""

    site: str
    wave: int
    version: str
    state: SiteState = SiteState.PENDING
    error: str = ""


@dataclass
class RollOut:
    """The upgrade of the agents of some sites to a version.  Times are Unix times, s.

    ``current`` are sites whose agents have the version already, ``away`` those that are left out since their
    agents are not connected.  ``wave`` is the number of the one that is upgraded or settles, from 1, and
    ``waits`` what the next one waits for.  Safe to use from several threads.
    """

    version: str
    waves: Sequence[tuple[str, ...]]
    settle: float
    current: Sequence[str] = ()
    away: Sequence[str] = ()
    sites: dict[str, SiteUpgrade] = field(default_factory=dict)
    state: RollOutState = RollOutState.PLANNED
    author: str = ""
    started: float | None = None
    ended: float | None = None
    wave: int = 0
    waits: str = ""
    error: str = ""
    _lock: threading.RLock = field(default_factory=threading.RLock, init=False, repr=False)

    @classmethod
    def of(
        cls,
        version: str,
        waves: Sequence[tuple[str, ...]],
        versions: Mapping[str, str],
        settle: float,
        current: Iterable[str] = (),
        away: Iterable[str] = (),
    ) -> RollOut:
        """An upgrade that has not begun; ``versions`` are those of the agents now."""
        sites = {
            site: SiteUpgrade(site, wave, versions[site])
            for wave, names in enumerate(waves, 1)
            for site in names
        }
        return cls(version, waves, settle, sorted(current), sorted(away), sites)

    def begin(self, author: str, now: float) -> None:
        """Begin at a time (Unix, s), at the request of a user."""
        with self._lock:
            self.state, self.author, self.started = RollOutState.RUNNING, author, now

    def note_wave(self, wave: int, waits: str = "") -> None:
        """Note the wave that is upgraded or settles, and what the next one waits for."""
        with self._lock:
            self.wave, self.waits = wave, waits

    def note(self, site: str, state: SiteState, error: str = "") -> None:
        """Note the progress at a site."""
        with self._lock:
            self.sites[site].state, self.sites[site].error = state, error

    def end(self, now: float, error: str = "") -> None:
        """End, with the reason why it stopped or an empty text."""
        with self._lock:
            self.state = RollOutState.FAILED if error else RollOutState.SUCCEEDED
            self.error, self.ended, self.waits = error, now, ""
            for each in self.sites.values():
                if each.state is SiteState.PENDING:
                    each.state = SiteState.UNTOUCHED

    def untouched(self) -> list[str]:
        """The sites that were not touched so far."""
        untouched = (SiteState.PENDING, SiteState.UNTOUCHED)
        with self._lock:
            return [each.site for each in self.sites.values() if each.state in untouched]

    def to_dict(self) -> dict[str, Any]:
        """The upgrade as plain data."""
        with self._lock:
            return {
                "version": self.version,
                "state": self.state,
                "author": self.author,
                "started": self.started,
                "ended": self.ended,
                "wave": self.wave,
                "waits": self.waits,
                "error": self.error,
                "settle": self.settle,
                "waves": [list(each) for each in self.waves],
                "sites": [
                    {
                        "site": each.site,
                        "wave": each.wave,
                        "version": each.version,
                        "state": each.state,
                        "error": each.error,
                    }
                    for each in self.sites.values()
                ],
                "current": list(self.current),
                "away": list(self.away),
            }
