"""A proposed placement as plain data, for the REST interface."""

from __future__ import annotations

from collections import Counter
from typing import Any

from speck.coordinator.placing.placer import Assignment, PlacementResult
from speck.core.plan import Plan, plan_data
from speck.core.split import shown_job
from speck.placement.advice import Advice, Comparison, finite
from speck.placement.cost import Figures
from speck.placement.explain import Explanation, Load, busiest
from speck.placement.groups import MoveStep
from speck.placement.links import link_known, used_links
from speck.placement.model import Model
from speck.placement.problem import Placement, Problem
from speck.placement.profile import Known


def proposal_data(placed: PlacementResult, plan: Plan, now: float, *, lines: bool) -> dict[str, Any]:
    """A placement with its plan, figures, steps and reasons; ``now`` is Unix time, s.

    With ``lines``, the plan has the lines of code that differ.
    """
    model, advice = placed.model, placed.advice
    problem = model.problem
    return {
        "composition": placed.composition.name,
        "base_revision": placed.base_revision,
        "policy": placed.policy,
        "plan": plan_data(plan, lines=lines),
        "jobs": [shown_job(each.job) for each in plan.actions],
        "figures": figure_pair(model, advice),
        "gap": advice.gap,
        "seconds": advice.seconds,
        "steps": [_step_data(model, each) for each in advice.steps],
        "cost": _cost_data(advice),
        "verdicts": [_verdict_data(model, each) for each in placed.verdicts],
        "homes": _homes_data(model, advice.placement),
        "policies": [_comparison_data(problem, each) for each in placed.comparisons],
        "known_by": _known_data(placed, now),
        "refused": [{"job": each.job, "site": each.site, "why": each.reason} for each in model.draft.refused],
    }


def figure_pair(model: Model, advice: Advice) -> dict[str, Any]:
    """The figures ``now`` (``None``: not all of it runs) and ``after`` as plain data."""
    problem = model.problem
    return {
        "now": None if advice.now is None else figures_data(problem, advice.now),
        "after": figures_data(problem, advice.after),
    }


def assigned_figures(assigned: Assignment) -> dict[str, Any] | None:
    """The figures of a choice of places (``None``: none was made)."""
    if assigned.model is None or assigned.advice is None:
        return None
    return figure_pair(assigned.model, assigned.advice)


def figures_data(problem: Problem, figures: Figures) -> dict[str, Any]:
    """Figures as plain data: s, bytes/s, reference cores; ``None`` for a multiplier without a limit."""
    return {
        "objective": figures.objective,
        "age": figures.age,
        "age_p95": figures.age_p95,
        "wan": figures.wan,
        "cores": figures.cores,
        "multiplier": finite(figures.multiplier),
        "bottleneck": figures.bottleneck,
        "feasible": figures.feasible,
        "busiest": {kind: _load_data(busiest(problem, figures, kind)) for kind in ("site", "link")},
        "sites": [
            {
                "site": site.name,
                "cores": found.cores,
                "memory": found.memory,
                "slots": found.slots,
                "up": found.up,
                "down": found.down,
            }
            for site, found in zip(problem.sites, figures.sites, strict=True)
        ],
        "targets": {"cores": problem.utilisation, "link": problem.link_utilisation},
    }


def _load_data(load: Load) -> dict[str, Any]:
    return {
        "site": load.site,
        "resource": load.resource,
        "share": load.share,
        "target": load.target,
    }


def _step_data(model: Model, step: MoveStep) -> dict[str, Any]:
    moved = bool(step.jobs)
    return {
        "jobs": [model.jobs[job] for job in step.jobs],
        "from": model.table.name(step.source) if moved else None,
        "to": model.table.name(step.target) if moved else None,
        "gain": step.gain,
        "standstill": step.cost.standstill,
        "state": step.cost.state,
        "pays_after": finite(step.pays_after),
    }


def _cost_data(advice: Advice) -> dict[str, Any]:
    cost = advice.cost
    return {
        "jobs": cost.jobs,
        "standstill": cost.standstill,
        "catch_up": finite(cost.catch_up),
        "state": cost.state,
        "pays_after": finite(advice.pays_after),
    }


def _verdict_data(model: Model, verdict: Explanation) -> dict[str, Any]:
    before = model.sites_now[verdict.job]
    return {
        "job": model.jobs[verdict.job],
        "from": None if before is None else model.table.name(before),
        "to": model.table.name(verdict.after),
        "why": verdict.why,
        "fixed": verdict.job in model.fixed,
    }


def _homes_data(model: Model, placement: Placement) -> list[dict[str, Any]]:
    """Each topic without an address: its present home and the new one."""
    now, after = model.homes_by_name(model.homes_now), model.homes_by_name(placement.homes)
    return [
        {"topics": list(channel.topics), "from": now[name], "to": after[name]}
        for name, channel in model.draft.channels.items()
    ]


def _comparison_data(problem: Problem, row: Comparison) -> dict[str, Any]:
    figures = None if row.figures is None else figures_data(problem, row.figures)
    return {
        "policy": row.policy,
        "figures": figures,
        "moves": row.moves,
        "seconds": row.seconds,
        "error": row.error,
    }


# --- how the inputs are known


def _known_data(placed: PlacementResult, now: float) -> dict[str, Any]:
    model, inputs = placed.model, placed.inputs
    sources = model.sources.values()
    counts = Counter(each.known for each in sources)
    measured = [each.until for each in sources if each.known is Known.MEASURED and each.until]
    return {
        "jobs": {known.value: counts[known] for known in Known},
        "oldest": now - min(measured) if measured else None,
        "by_job": [
            {"job": name, "known": each.known.value, "value": each.value}
            for name, each in model.sources.items()
        ],
        "links": [
            {"from": one, "to": other, "known": link_known(model, inputs, one, other).value}
            for one, other in used_links(
                model, (model.before(placed.advice.placement), placed.advice.placement)
            )
        ],
    }
