"""The coordinator's own counters, beside those of the scraped page (tests/server/test_metrics.py)."""

from __future__ import annotations

from speck.observe.metrics import Metrics


def test_a_clock_that_is_set_back_lowers_no_sum() -> None:
    """Prometheus takes a sum that falls for a counter that restarted."""
    metrics = Metrics()
    for started, ended in ((100.0, 103.0), (104.0, 44.0)):
        action = {"kind": "start", "state": "succeeded", "started": started, "ended": ended}
        metrics.operation_ended({"kind": "apply", "actions": [action]}, "succeeded")
    sampled = (
        metrics.registry.get_sample_value(f"speck_action_duration_seconds_{each}", {"action": "start"})
        for each in ("sum", "count")
    )
    assert list(sampled) == [3.0, 2.0]
