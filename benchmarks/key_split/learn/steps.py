"""Training data: steps as ``speck split record`` writes them, from files and from the simulator."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.key_split.learn.simulator import PROFILES, Episode, Simulated, Steered
from jars_and_apps.key_split.baselines.dalton_offline import DaltonOffline
from jars_and_apps.key_split.baselines.policy import by_mean, features
from jars_and_apps.key_split.partitioners.balanced import Balanced
from speck.core.split.metrics import transition

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Step = Mapping[str, Any]
FIELDS = ("obs", "action", "reward", "next_obs")
LEAST_SHARE = 0.01  # of an action's share over the mean, where its logarithm is taken


class Steps(NamedTuple):
    """Steps of splits of one number of workers (float32).

    ``features`` and ``following``: (steps, workers, 4), see
    :func:`~jars_and_apps.key_split.baselines.policy.features`; ``shares``: (steps, workers), logarithms of
    the action's shares over their mean; ``rewards``: (steps).
    """

    features: Singles
    shares: Singles
    rewards: Singles
    following: Singles


def simulated(
    z: float, sizes: Iterable[int], episodes: int, seed: int, length: int = 50
) -> Iterator[dict[str, Any]]:
    """The steps of ``episodes`` for each number of workers, profile and behaviour.

    Behaviours: ``dalton-offline``; ``balanced`` by measured weights; random shares through saspartitioner.
    """
    for number, (workers, profile) in enumerate(product(sizes, PROFILES)):
        for each in range(episodes):
            episode = Episode(workers, z, profile, seed * 1_000_003 + number * 1_009 + each, length)
            yield from _recorded(Simulated(episode, DaltonOffline, hot_keys=10), length)
            yield from _recorded(Simulated(episode, Balanced), length)
            yield from _random(episode)


def _recorded(split: Simulated, length: int) -> Iterator[dict[str, Any]]:
    windows = (split.step() for _ in range(length + 1))
    for before, after in pairwise(windows):
        yield transition(before, after)


def _random(episode: Episode) -> Iterator[dict[str, Any]]:
    """Shares that are drawn again after some slides, of any unevenness."""
    random, split = np.random.default_rng([episode.seed, 3]), Steered(episode)
    before = split.step()
    for _ in range(episode.steps):
        if random.random() < 0.5:
            logits = random.standard_normal(episode.workers) * random.choice([0.1, 0.4, 1.0])
            split.aim(np.exp(logits) / np.exp(logits).sum())
        after = split.step()
        yield transition(before, after)
        before = after


def write(steps: Iterable[Step], path: Path) -> int:
    """Write steps to a file, one a line; returns their number."""
    count = 0
    with path.open("w", encoding="utf-8") as file:
        for step in steps:
            file.write(json.dumps(step) + "\n")
            count += 1
    return count


def read(path: Path) -> Iterator[Step]:
    """The steps in a file; ValueError, with file and line, for a line that is none."""
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                yield checked(json.loads(line))
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: {error}") from error


def checked(step: Any) -> Step:
    """The step, if it is one; else ValueError."""
    if not isinstance(step, dict) or any(name not in step for name in FIELDS):
        raise ValueError(f"no step (expected an object with {', '.join(FIELDS)})")
    try:
        lists = [np.array(step[name], np.float64) for name in ("action", "obs", "next_obs")]
        reward = float(step["reward"])
    except (TypeError, ValueError) as error:
        raise ValueError(f"no step: {error}") from error
    workers = lists[0].size
    if [each.shape for each in lists] != [(workers,), (2 * workers,), (2 * workers,)] or not workers:
        shapes = [each.shape for each in lists]
        raise ValueError(f"no step: action, obs, next_obs of {shapes} numbers (expected n, 2n, 2n)")
    if not all(np.isfinite(each).all() for each in (*lists, np.array([reward]))):
        raise ValueError("no step: a number is not finite")
    return step


def by_workers(steps: Iterable[Step]) -> dict[int, Steps]:
    """The steps as arrays, by the number of workers."""
    found: dict[int, list[Step]] = defaultdict(list)
    for step in steps:
        found[len(step["action"])].append(step)
    return {workers: arrays(each) for workers, each in sorted(found.items())}


def arrays(steps: Iterable[Step]) -> Steps:
    """Steps of one number of workers, as the networks take them."""
    found = list(steps)
    return Steps(
        np.array([inputs(each["obs"]) for each in found], np.float32),
        np.array([logs(each["action"]) for each in found], np.float32),
        np.array([each["reward"] for each in found], np.float32),
        np.array([inputs(each["next_obs"]) for each in found], np.float32),
    )


def inputs(observation: Iterable[float]) -> Floats:
    """The features of an observation."""
    values = np.array(observation, np.float64)
    rows, busy = np.split(values, 2)
    return features(rows, by_mean(busy))


def logs(action: Iterable[float]) -> Floats:
    """The logarithms of the shares over their mean."""
    return np.asarray(np.log(np.maximum(by_mean(np.array(action, np.float64)), LEAST_SHARE)))
