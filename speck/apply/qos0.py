"""Remarks on jobs that receive messages at QoS 0, which are not sent again while such a job is replaced."""

from __future__ import annotations

from collections.abc import Mapping

from speck.core.plan import Move, Plan, Update


def qos0_notes(plan: Plan, rates: Mapping[str, float | None]) -> dict[str, str]:
    """A remark on each job that a plan replaces and that receives messages at QoS 0, by job name.

    ``rates`` are the messages/s that such jobs receive, as far as they are known.
    """
    replaced = {each.job.job_name for each in plan.actions if isinstance(each, Update | Move)}
    return {name: _note(rates[name]) for name in sorted(replaced & rates.keys())}


def _note(rate: float | None) -> str:
    now = "" if not rate else f" (it receives {rate:.3g} messages/s now)"
    return (
        f"its source has messages at QoS 0: those that arrive while it is replaced are lost{now}; "
        "docs/mqtt.md, Messages at QoS 0"
    )
