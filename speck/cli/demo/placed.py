"""The demo of placement: all in the cloud, measured, moved as advised, and then no placement is better."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

from speck.cli import render
from speck.cli.demo.programs import PIPELINES
from speck.cli.demo.stages import (
    CLOUD,
    COMPOSITION,
    MEASURABLE_RATE,
    Demo,
    Scenario,
    by_kind,
    in_the_cloud,
)
from speck.client import RequestRefused

PROPOSALS = 5  # that may be stale in a row
AGAIN = 45.0  # s at least, for which the moved jobs are measured: as long as it takes to know their rates


class PlacedDemo(Demo):
    """The demo of placement: everything begins in the cloud, is measured, and moves as advised."""

    _scenario = Scenario("road_traffic_any.yaml", "road_traffic_any.yaml")
    _malformed = 0.5  # sensors that send as many malformed lines as readings: worth cleaning where they are
    _sensors = 600  # as many as send for six minutes; they end when the moved jobs are measured as well

    def _statistics(self) -> Mapping[str, str]:
        return in_the_cloud(self._brokers)

    def _deploy(self) -> None:
        text = (PIPELINES / self._scenario.first).read_bytes()
        with self._stage("deploy", f"All 17 jobs in the cloud, {CLOUD}"):
            begun = self._accepted(
                lambda: self._client.place(text, COMPOSITION, policy="cloud"), f"all in {CLOUD}"
            )
            self._await_end(begun["id"])

    def _feed_and_edit(self) -> None:
        self._view.phase("Data flows")
        self._fed = time.monotonic()
        with self._view:
            self._feed("feeder", 1.0)
            self._until("data flows", lambda: bool(self._watcher.totals))
            self._measure(self._options.measure)
            self._follow_advice()
            self._measure(max(AGAIN, self._options.measure / 2))
            self._ask_again()
            for feeder in self._feeders:
                feeder.finish()
            self._until("the last lines are sent", self._all_sent)

    def _ask_again(self) -> None:
        """Ask for advice again: the placement that was followed is the best one."""
        self._view.phase("Asked again")
        proposal = self._client.advise(COMPOSITION)
        self._view.placement(proposal)
        changed = [each["job"] for each in proposal["plan"]["actions"] if each["kind"] != "keep"]
        self._counts.changed_again = changed if render.has_changes(proposal["plan"]) else []

    def _measure(self, seconds: float) -> None:
        """Measure the jobs while data flows; after moves little is known of the new copies."""
        self._client.measure(COMPOSITION, seconds)
        end = time.monotonic() + seconds
        self._until("data flows; the jobs are measured", lambda: time.monotonic() > end or self._all_sent())

    def _default_rate(self) -> float:
        return MEASURABLE_RATE

    def _follow_advice(self) -> None:
        with self._stage("advise", "The advice, accepted while data flows"):
            operation = self._follow(self._accepted(lambda: self._client.advise(COMPOSITION))["id"])
        self._counts.actions = by_kind(operation)
        self._counts.engine_calls = operation["engine_calls"]

    def _accepted(self, propose: Callable[[], Mapping[str, Any]], why: str = "") -> Mapping[str, Any]:
        """Accept a proposal; another one when it is stale before that, as on a machine of uneven speed."""
        more = PROPOSALS
        while True:
            proposal, more = propose(), more - 1
            self._view.placement(proposal)
            try:
                return self._client.accept(proposal["id"], message=why)
            except RequestRefused as error:
                if error.status != HTTPStatus.CONFLICT or not more:
                    raise
                self._view.line(f"Another proposal, since {error}")
