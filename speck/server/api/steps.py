"""The steps of a plan, which an answer has on request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import current_app

from speck.coordinator import Services
from speck.core.plan import Plan
from speck.core.schedule import schedule_data


def requested_steps(plan: Plan, query: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a plan's answer with its steps; empty unless the query asks for them."""
    if not query["steps"]:
        return {}
    services: Services = current_app.extensions["services"]
    steps = services.coordinator.planner.steps(plan, query.get("leave_behind", ()))
    return {"steps": schedule_data(steps)}
