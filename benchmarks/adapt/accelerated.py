"""The scenarios of the loop in memory, by a clock that runs fast; see :mod:`benchmarks.adapt.plant`."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Collection
from typing import Any

from benchmarks.adapt.plant import LATENCY_FIRST, Plant, Truth, plant_at
from speck.core.placement import PlacementOptions
from testbed.benches.adaptation import EDGES
from testbed.benches.placement import engine_at

WAN_FIRST = PlacementOptions(mode="auto")
HOUR, CALM = 3600.0, 600.0  # s


SCENARIOS = ("steady", "halved_link", "load_times_3", "noise", "outage", "lied_about_speed", "kills")


def measure(seeds: int, chosen: Collection[str] = SCENARIOS) -> dict[str, Any]:
    """The figures by scenario; those with noise run once for each seed.  Progress goes to standard error."""
    scenarios: dict[str, Callable[[], object]] = {
        "steady": _steady,
        "halved_link": lambda: _worst([_change(seed, 700.0, _halve) for seed in range(seeds)]),
        "load_times_3": lambda: _worst([_change(seed, 500.0, _triple) for seed in range(seeds)]),
        "noise": lambda: {"minutes": 30, "steps": sum(_noise(seed) for seed in range(seeds))},
        "outage": _outage,
        "lied_about_speed": _liar,
        "kills": lambda: _kills(50),
    }
    found: dict[str, Any] = {"seeds": seeds}
    for name in filter(chosen.__contains__, SCENARIOS):
        found[name] = scenarios[name]()
        print(f"{name}: {found[name]}", file=sys.stderr, flush=True)
    return found


def _steady() -> dict[str, Any]:
    with plant_at(Truth(), options=WAN_FIRST) as plant:
        list(plant.run(2 * HOUR))
        last = max((each.at for each in plant.bench.memory.steps), default=0.0)
        return {
            "hours": 2,
            "steps": len(plant.steps),
            "outcomes": plant.steps,
            "near_optimum": plant.is_near_optimum(),
            "seconds_to_last_step": last - plant.bench.conditions.now + plant.seconds if last else None,
        }


def _halve(truth: Truth) -> None:
    truth.bandwidth["A"] /= 2


def _triple(truth: Truth) -> None:
    truth.rate *= 3


def _change(seed: int, rate: float, change: Callable[[Truth], None]) -> dict[str, Any]:
    """A change of the conditions after 10 minutes: seconds until the age is near the new optimum's."""
    with plant_at(Truth(rate=rate, noise=0.06), seed) as plant:
        list(plant.run(CALM))
        before = len(plant.steps)
        change(plant.truth)
        needed = not plant.is_near_optimum()
        recovered = None
        for seconds in plant.run(HOUR / 3):
            if recovered is None and plant.is_near_optimum():
                recovered = seconds - CALM
        return {
            "step_needed": needed,
            "recover_seconds": recovered,
            "steps_before": before,
            "steps": len(plant.steps) - before,
            "backs": plant.steps.count("back"),
        }


def _worst(runs: list[dict[str, Any]]) -> dict[str, Any]:
    times = [each["recover_seconds"] for each in runs]
    return {
        "steps_needed": all(each["step_needed"] for each in runs),
        "recovered": sum(each is not None for each in times),
        "recover_seconds_worst": None if None in times else max(times),
        "steps_most": max(each["steps"] for each in runs),
        "steps_before_most": max(each["steps_before"] for each in runs),
        "backs": sum(each["backs"] for each in runs),
    }


def _noise(seed: int) -> int:
    """The steps in half an hour of noise, from a placement near the optimum."""
    with plant_at(Truth(noise=0.06), seed) as plant:
        list(plant.run(HOUR / 2))
        return len(plant.steps)


def _outage() -> dict[str, Any]:
    """An edge that is silent for 60 s, while the reconciler runs."""
    with plant_at(Truth(), options=WAN_FIRST) as plant:
        list(plant.run(HOUR / 2))
        before, where = len(plant.steps), plant.bench.where
        _silence(plant, 60.0)
        _rounds(plant, HOUR / 6)
        return {"moves": len(plant.steps) - before, "same_sites": plant.bench.where == where}


def _silence(plant: Plant, seconds: float) -> None:
    plant.bench.world.down(engine_at("A"))
    plant.silent = {"A"}
    _rounds(plant, seconds)
    plant.bench.world.up(engine_at("A"))
    plant.silent = set()


def _rounds(plant: Plant, seconds: float) -> None:
    for _ in plant.run(seconds):
        plant.bench.services.coordinator.reconciler.round()
        plant.bench.finish()


def _liar() -> dict[str, Any]:
    """Edge A says that its cores are as fast as the cloud's, and has a fifth of their speed."""
    truth = Truth(cost=6e-4, rate=900.0, speeds={"A": 0.2}, bandwidth=dict.fromkeys(EDGES, 2.5e6))
    with plant_at(truth, options=WAN_FIRST) as plant:
        list(plant.run(2 * HOUR))
        memory = plant.bench.memory
        speed = plant.bench.services.profiles.measures.sites()["A"].speed
        return {
            "hours": 2,
            "backs": plant.steps.count("back"),
            "bans": [each.target for each in memory.bans],
            "outcomes": plant.steps,
            "speed_found": None if speed is None else round(speed.value, 2),
            "jobs_at_the_liar": sum(site == "A" for site in plant.bench.where.values()),
        }


def _kills(count: int) -> dict[str, Any]:
    """The server killed at random calls and writes around a step, over engines in memory."""
    wrong = violations = carried_out = 0
    for seed in range(count):
        with plant_at(Truth(), seed, WAN_FIRST) as plant:
            list(plant.run(120.0))
            plant.bench.life.moments = random.Random(seed).randrange(120)
            list(plant.run(60.0))
            plant.restart()
            plant.bench.finish()
            list(plant.run(HOUR / 6))
            carried_out += len(plant.steps) > 0
            wrong += not plant.is_near_optimum() or len(plant.bench.world.running()) != 4
            violations += len(plant.bench.world.violations)
    return {"kills": count, "wrong": wrong, "doubled_copies": violations, "stepped": carried_out}


__all__ = ["LATENCY_FIRST", "SCENARIOS", "measure"]
