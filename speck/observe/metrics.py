"""Counters and histograms of a coordinator's work, for Prometheus.

Values that are read at each scrape are in ``speck/server/api/exposition.py``; ``docs/metrics.md`` lists all.
Labels have few values: kinds, methods, states, never a message.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics

from speck.binder.instrumented import Call
from speck.core.adaptation import Decision, StepOutcome
from speck.core.lifecycle import ActionKind, ActionState, OperationKind, OperationState
from speck.core.runtime import Drift
from speck.observe.profile.screening import Oddity

# The series of creation times would double the number of scraped series.
disable_created_metrics()  # type: ignore[no-untyped-call]

OPERATIONS = tuple(kind.value for kind in OperationKind)
ENDS = tuple(state.value for state in OperationState if state is not OperationState.RUNNING)
ACTIONS = tuple(kind.value for kind in ActionKind if kind is not ActionKind.KEEP)
_UNCOUNTED = (ActionState.PENDING, ActionState.RUNNING, ActionState.KEPT)
OUTCOMES = tuple(state.value for state in ActionState if state not in _UNCOUNTED)

HOOK_ENDS = ("done", "failed")

_CALLS = (0.005, 0.02, 0.1, 0.5, 2, 10, 60)  # s
_ACTIONS = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 300)  # s
_ROUNDS = (0.01, 0.05, 0.2, 1, 5, 20)  # s


class Metrics:
    """Counters and histograms of one coordinator; safe to use from several threads.

    ``clock`` returns Unix time, s.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.registry = CollectorRegistry()
        self._clock = clock
        self._seen: dict[str, float] = {}
        self._make_instruments(self.registry)
        self._begin_at_zero()

    def _make_instruments(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        histogram = partial(Histogram, registry=registry)
        self._calls = histogram(
            "speck_call_duration_seconds",
            "Duration of calls to engines and brokers, including failed ones",
            ("binder", "call"),
            buckets=_CALLS,
        )
        self._call_errors = counter(
            "speck_call_errors",
            "Calls to engines and brokers that failed or had no answer",
            ("binder", "call", "error"),
        )
        self._actions = counter(
            "speck_actions", "Actions of operations that have ended, by outcome", ("action", "outcome")
        )
        self._durations = histogram(
            "speck_action_duration_seconds",
            "Duration of actions, including their waits for other actions",
            ("action",),
            buckets=_ACTIONS,
        )
        self._operations = counter("speck_operations", "Ended operations", ("kind", "outcome"))
        self._drifts = counter("speck_drifts", "Drifts detected by the reconciler", ("drift",))
        self._rounds = histogram(
            "speck_round_duration_seconds", "Duration of the reconciler's rounds", buckets=_ROUNDS
        )
        self._failures = counter(
            "speck_round_failures", "Rounds of the reconciler that failed, as a whole or for a composition"
        )
        self._requests = counter(
            "speck_http_requests", "Answered requests, by class of status", ("route", "method", "status")
        )
        self._answers = histogram(
            "speck_http_request_duration_seconds",
            "Time until the answer to a request began, including waits",
            ("route", "method"),
            buckets=_CALLS,
        )
        self._rejected = counter(
            "speck_profile_rejected",
            "Values reported by engines that profiles ignore, by reason",
            ("reason",),
        )
        self._decisions = counter(
            "speck_placement_decisions", "Decisions of the adaptation loop", ("decision",)
        )
        self._steps = counter("speck_placement_steps", "Judged steps of the adaptation loop", ("outcome",))
        self._hooks = counter(
            "speck_worker_hooks",
            "Calls of the hooks that start and stop workers, by outcome of the call",
            ("outcome",),
        )
        self._last_round = Gauge(
            "speck_round_timestamp_seconds",
            "Unix time at the end of the reconciler's last successful round (0: none yet)",
            registry=registry,
        )

    def _begin_at_zero(self) -> None:
        """Create all series at zero: ``increase()`` misses the first event of a series that it begins."""
        for action in ACTIONS:
            self._durations.labels(action)
            for outcome in OUTCOMES:
                self._actions.labels(action, outcome)
        for kind in OPERATIONS:
            for outcome in ENDS:
                self._operations.labels(kind, outcome)
        for drift in Drift:
            self._drifts.labels(drift.value)
        for decision in Decision:
            self._decisions.labels(decision.value)
        for outcome in StepOutcome:
            if outcome is not StepOutcome.PENDING:
                self._steps.labels(outcome.value)
        for oddity in Oddity:
            self._rejected.labels(oddity.value)
        for end in HOOK_ENDS:
            self._hooks.labels(end)

    def hook_ended(self, failed: bool) -> None:
        """Count a call of a hook of workers."""
        self._hooks.labels(HOOK_ENDS[failed]).inc()

    def decided(self, decision: Decision) -> None:
        """Count a decision of the adaptation loop."""
        self._decisions.labels(decision.value).inc()

    def step_ended(self, outcome: StepOutcome) -> None:
        """Count a step of the adaptation loop that is judged."""
        self._steps.labels(outcome.value).inc()

    def seen(self) -> Mapping[str, float]:
        """The time (Unix time, s) of each engine's and broker's last answer, by address."""
        return dict(self._seen)

    def forget(self, addresses: Iterable[str]) -> None:
        """Forget when these engines and brokers answered."""
        for address in addresses:
            self._seen.pop(address, None)

    def called(self, call: Call) -> None:
        """Count a call to an engine or a broker."""
        self._calls.labels(call.kind, call.method).observe(call.seconds)
        if call.error:
            self._call_errors.labels(call.kind, call.method, call.error).inc()
        if call.answered:
            self._seen[call.address] = self._clock()

    def operation_ended(self, operation: Mapping[str, Any], outcome: str) -> None:
        """Count an operation (as plain data) that has ended, and its actions except kept jobs."""
        self._operations.labels(operation["kind"], outcome).inc()
        for each in operation["actions"]:
            if each["state"] == ActionState.KEPT:
                continue
            self._actions.labels(each["kind"], each["state"]).inc()
            if each["started"] is not None and each["ended"] is not None:
                # Negative if the clock was set back: a sum that falls is taken for a counter that restarted.
                self._durations.labels(each["kind"]).observe(max(0.0, each["ended"] - each["started"]))

    def requested(self, route: str, method: str, status: str, seconds: float) -> None:
        """Count an answered request; ``route`` is the application's pattern, not the requested path."""
        self._requests.labels(route, method, status).inc()
        self._answers.labels(route, method).observe(seconds)

    def drifted(self, drift: Drift) -> None:
        """Count a drift of a job."""
        self._drifts.labels(drift.value).inc()

    def rejected(self, oddities: Mapping[Oddity, int]) -> None:
        """Count values that profiles leave out."""
        for oddity, count in oddities.items():
            self._rejected.labels(oddity.value).inc(count)

    @contextmanager
    def round(self) -> Iterator[None]:
        """Measure a round of the reconciler, which runs inside of this context."""
        with self._rounds.time(), self._failures.count_exceptions():
            yield
        self._last_round.set(self._clock())

    def round_failed(self) -> None:
        """Count a composition with which a round of the reconciler failed; the others were reconciled."""
        self._failures.inc()
