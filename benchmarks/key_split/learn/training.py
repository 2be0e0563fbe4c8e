"""Training of one policy: cloning, conservative Q-learning on recorded steps, then SAC in the simulator."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.key_split.learn.agent import Agent, Rates, State
from benchmarks.key_split.learn.losses import Batch
from benchmarks.key_split.learn.simulator import PROFILES, Episode, Steered
from benchmarks.key_split.learn.steps import Steps, by_workers, inputs, logs
from jars_and_apps.key_split.baselines.policy import Policy, packed
from speck.core.split.metrics import reward, transition

Floats = NDArray[np.float64]
LEAST_REWARD = -8.0  # in training: rewards of uneven splits are in the hundreds, and would drown all others


@dataclass(frozen=True)
class Schedule:
    """The steps of each phase, and of an episode in the simulator."""

    cloning: int
    offline: int
    online: int
    episode: int = 50


@dataclass
class Memory:
    """The steps to draw batches from, by the number of workers."""

    steps: dict[int, Steps]
    random: np.random.Generator
    _places: dict[int, int] = field(default_factory=dict, init=False)

    def batch(self, workers: int, size: int) -> Batch:
        """Steps drawn at random, from the recorded ones and those that were added."""
        at = self.random.integers(0, len(self.steps[workers].rewards), size)
        found = Batch(*(each[at] for each in self.steps[workers]))
        return found._replace(rewards=np.maximum(found.rewards, LEAST_REWARD))

    def add(self, step: Mapping[str, Any]) -> None:
        """Put a step in the place of the oldest, so that the number stays."""
        workers = len(step["action"])
        values = inputs(step["obs"]), logs(step["action"]), step["reward"], inputs(step["next_obs"])
        place = self._places[workers] = (self._places.get(workers, -1) + 1) % len(self.steps[workers].rewards)
        for column, value in zip(self.steps[workers], values, strict=True):
            column[place] = value


class Games:
    """Endless episodes of the simulator, one for each number of workers and profile."""

    def __init__(self, z: float, schedule: Schedule, seed: int) -> None:
        self._z, self._schedule, self._seed = z, schedule, seed
        self._games: dict[tuple[int, str], tuple[int, Steered, dict[str, Any]]] = {}
        self._begun = 0

    def play(self, agent: Agent, workers: int, profile: str) -> dict[str, Any]:
        """Let the agent act once; the step."""
        at = (workers, profile)
        number, game, before = self._games.get(at) or self._begin(*at)
        shares = agent.act(inputs(transition(before, before)["obs"])[None].astype(np.float32))[0]
        game.aim(shares)
        after = game.step()
        if number + 1 == self._schedule.episode:
            del self._games[at]
        else:
            self._games[at] = (number + 1, game, after)
        return transition(before, after)

    def _begin(self, workers: int, profile: str) -> tuple[int, Steered, dict[str, Any]]:
        self._begun += 1
        game = Steered(Episode(workers, self._z, profile, self._seed * 2_000_003 + self._begun))
        found = self._games[(workers, profile)] = (0, game, game.step())
        return found


class Trained(NamedTuple):
    """The agent after a phase, and its mean reward."""

    phase: str
    reward: float
    state: State


def judged(agent: Agent, z: float, sizes: list[int], seed: int, slides: int = 16) -> float:
    """The mean reward of the agent's policy, without draws, in episodes of their own; 4 slides left out."""
    policy = Policy.of_bytes(packed({"name": "", "ranks": [1.0]}, agent.layers()))
    rewards = []
    for number, (workers, profile) in enumerate(product(sizes, PROFILES)):
        game = Steered(Episode(workers, z, profile, seed * 3_000_017 + number))
        for slide in range(slides):
            works = game.step()["workers"]
            rows, busy = (np.array([each[name] for each in works], np.float64) for name in ("rows", "busy"))
            game.aim(policy.shares(rows, busy))
            if slide >= slides // 4:
                rewards.append(max(reward(busy.tolist()), LEAST_REWARD))
    return float(np.mean(rewards))


def train(
    recorded: list[Mapping[str, Any]], z: float, schedule: Schedule, seed: int
) -> tuple[Agent, dict[str, float]]:
    """An agent that is trained on recorded steps, then in the simulator at their numbers of workers.

    It is the one after that phase, of cloning, CQL and SAC, which had the greatest mean reward in episodes of
    the simulator that no phase has seen; those rewards, by phase, are the second value.
    """
    agent = Agent(Rates(), seed)
    memory = Memory(by_workers(recorded), np.random.default_rng([seed, 4]))
    sizes, size = sorted(memory.steps), agent.rates.batch
    for number in range(schedule.cloning):
        agent.clone(memory.batch(sizes[number % len(sizes)], size))
    found = [Trained("cloning", judged(agent, z, sizes, seed), agent.state)]
    for number in range(schedule.offline):
        agent.learn(memory.batch(sizes[number % len(sizes)], size), conservative=True)
    found.append(Trained("cql", judged(agent, z, sizes, seed), agent.state))
    games = Games(z, schedule, seed)
    for workers, profile in _plays(sizes, schedule.online):
        memory.add(games.play(agent, workers, profile))
        agent.learn(memory.batch(workers, size), conservative=False)
    found.append(Trained("sac", judged(agent, z, sizes, seed), agent.state))
    agent.state = max(found, key=lambda each: each.reward).state
    return agent, {each.phase: round(each.reward, 3) for each in found}


def _plays(sizes: list[int], steps: int) -> Iterator[tuple[int, str]]:
    plays = list(product(PROFILES, sizes))
    for number in range(steps):
        profile, workers = plays[number % len(plays)]
        yield workers, profile
