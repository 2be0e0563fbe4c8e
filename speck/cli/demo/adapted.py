"""The demo of adaptation: a link gets worse while data flows, and the adaptation loop moves a job."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from speck.cli.demo.placed import PlacedDemo
from speck.cli.demo.stages import CLOUD, COMPOSITION, Demo, Scenario, by_kind
from speck.errors import LocalError, SpeckError
from speck.local.wan import EmulatedLink, Network, unavailable

PERIOD = 5.0  # s between two decisions
RATE = 1000.0  # lines/s
SLOWED = "A"
_TRIP = 0.03  # s between two sites
_EDGE, _WORSE = 2.0e6, 0.5e6  # bit/s of the edges' links, and of the one that gets worse
_CLOUD = 100e6  # bit/s
_CALM = 45.0  # s with data at most, in which all jobs are measured
_ASKED = 1.0  # s between two polls of the loop

Data = Mapping[str, Any]


class AdaptedDemo(PlacedDemo):
    """Everything begins in the cloud; then the link of a site gets worse, and the loop acts."""

    _scenario = Scenario(
        "road_traffic_adapt.yaml", "road_traffic_adapt.yaml", dict.fromkeys("ABCD", ("flink",))
    )
    _malformed = Demo._malformed
    # As many as send for ten minutes: four are enough on a quiet machine.  They end with the verdict.
    _sensors = 2000
    _wan: Network
    _shown = (0.0, 0)  # the last decision shown: its first time, and how often in a row
    _asked = 0.0
    _steps: Sequence[Data] = ()
    _latest: Data | None = None  # its last decision

    def _network(self) -> Network:
        if reason := unavailable():
            raise LocalError(f"sites in a wide area network cannot be created on this machine: {reason}")
        links = dict.fromkeys("ABC", EmulatedLink.of(_EDGE, _TRIP)) | {CLOUD: EmulatedLink.of(_CLOUD, _TRIP)}
        self._wan = self._cleanup.enter_context(Network(links))
        self._view.line(
            f"links of A, B, C: {_mbit(_EDGE)}, of {CLOUD}: {_mbit(_CLOUD)}, a round trip of {_TRIP:g} s"
        )
        return self._wan

    def _server_options(self) -> Sequence[object]:
        return ("--adapt", PERIOD)

    def _default_rate(self) -> float:
        return RATE

    def _feed_and_edit(self) -> None:
        self._view.phase("Data flows; the loop watches")
        self._fed = time.monotonic()
        with self._view:
            self._feed("feeder", 1.0)
            calm = time.monotonic() + _CALM
            self._until(
                self._noted("data flows"),
                lambda: self._observe() or self._is_calm() or time.monotonic() > calm,
            )
            self._worsen()
            self._until(
                self._noted(f"the link of {SLOWED} is worse"), lambda: self._observe() or self._all_sent()
            )
            if not self._steps:
                raise SpeckError(f"the loop made no step while data flowed: {self._reason()}")
            self._follow_step(self._steps[0])
            self._until(
                self._noted("the step is being evaluated"), lambda: self._is_judged() or self._all_sent()
            )
            self._view.phase("The verdict")
            for step in reversed(self._steps):
                self._view.step(step)
            for feeder in self._feeders:
                feeder.finish()
            self._until("the last lines are sent", self._all_sent)

    def _worsen(self) -> None:
        self._view.phase(f"The link of {SLOWED} gets worse: {_mbit(_EDGE)} -> {_mbit(_WORSE)}")
        self._wan.set_link(SLOWED, EmulatedLink.of(_WORSE, _TRIP))

    def _observe(self) -> bool:
        """Show the decisions since the last look; True if there was a step."""
        if time.monotonic() - self._asked >= _ASKED:
            self._asked = time.monotonic()
            state = self._client.adaptation(COMPOSITION)
            self._steps, self._latest = state["steps"], next(iter(state["entries"]), None)
            for entry in reversed(state["entries"]):
                if (entry["since"], entry["repeated"]) > self._shown:
                    self._shown = (entry["since"], entry["repeated"])
                    self._view.decision(entry)
        return bool(self._steps)

    def _noted(self, state: str) -> Callable[[], str]:
        """The note of a progress line: a state, and the reason of the loop's last decision."""
        return lambda: f"{state}; the loop: {self._reason()}"

    def _reason(self) -> str:
        """The reason of the loop's last decision."""
        return "no decision yet" if self._latest is None else str(self._latest["reason"])

    def _is_calm(self) -> bool:
        """True if the loop has held on figures of all jobs: no step gains enough."""
        last = self._latest
        return last is not None and last["decision"] == "hold" and last["gain"] is not None

    def _is_judged(self) -> bool:
        return self._observe() and self._steps[0]["outcome"] != "pending"

    def _follow_step(self, step: Data) -> None:
        revision = step["revision"]
        with self._stage("step", f"The loop's step: revision {revision}, while data flows"):
            self._until("the step is begun", lambda: bool(self._operations(revision)))
            operation = self._follow(self._operations(revision)[0]["id"])
        self._counts.actions = by_kind(operation)
        self._counts.engine_calls = operation["engine_calls"]

    def _operations(self, revision: int) -> Sequence[Data]:
        all_of_them = self._client.operations(composition=COMPOSITION)
        return [each for each in all_of_them if each["revision"] == revision]


def _mbit(bandwidth: float) -> str:
    return f"{bandwidth / 1e6:g} Mbit/s"
