"""Row by row references of dagreedy and dalton-original, in plain Python, for equal weights."""

from __future__ import annotations

import random
from collections import Counter, defaultdict


class Sequential:
    """Loads of a window, counts of keys, and the workers that hold each key in it."""

    def __init__(self, homes: list[int], workers: int, slides: int, hot: float) -> None:
        self.homes, self.workers, self.slides, self.hot = homes, workers, slides, hot
        self.ring: list[list[int]] = [[0] * workers for _ in range(slides)]
        self.loads = [0] * workers
        self.now: Counter[int] = Counter()
        self.before: Counter[int] = Counter()
        self.slide, self.threshold = 0, float("inf")
        self.seen: dict[int, dict[int, int]] = defaultdict(dict)

    def is_hot(self, key: int) -> bool:
        return max(self.now[key], self.before[key]) > self.threshold

    def holders(self, key: int) -> list[int]:
        return [worker for worker, slide in self.seen[key].items() if slide > self.slide - self.slides]

    def row(self, key: int) -> int:
        """The worker of the next row."""
        raise NotImplementedError

    def assign(self, key: int, worker: int) -> int:
        self.loads[worker] += 1
        self.ring[-1][worker] += 1
        self.seen[key][worker] = self.slide
        return worker

    def advance(self) -> None:
        self.threshold = sum(self.now.values()) / (self.hot * self.workers)
        self.before, self.now = self.now, Counter()
        self.slide += 1
        self.ring = [*self.ring[1:], [0] * self.workers]
        self.loads = [sum(column) for column in zip(*self.ring, strict=True)]


class SequentialDaGreedy(Sequential):
    """A row of a hot key goes where ``alpha * holds - (1 - alpha) * (L - avg) / avg`` is greatest."""

    def __init__(
        self, homes: list[int], workers: int, slides: int, alpha: float = 0.5, hot: float = 100
    ) -> None:
        super().__init__(homes, workers, slides, hot)
        self.alpha = alpha

    def row(self, key: int) -> int:
        self.now[key] += 1
        if not self.is_hot(key):
            return self.assign(key, self.homes[key])
        holding = set(self.holders(key))
        average = max(sum(self.loads) / self.workers, 1)
        scores = [
            self.alpha * (worker in holding) - (1 - self.alpha) * (load - average) / average
            for worker, load in enumerate(self.loads)
        ]
        return self.assign(key, scores.index(max(scores)))


class SequentialDalton(Sequential):
    """Q-learning over the workers of each hot key, its values moved by each row."""

    def __init__(self, homes: list[int], workers: int, slides: int, seed: int, cap: int = 0) -> None:
        super().__init__(homes, workers, slides, 1)
        self.most, self.cap = cap or workers, 2
        self.values: dict[int, list[float]] = {}
        self.random = random.Random(seed)

    def row(self, key: int) -> int:
        self.now[key] += 1
        if not self.is_hot(key):
            return self.assign(key, self.homes[key])
        values = self.values.setdefault(key, [-2.0] * self.workers)
        holding = self.holders(key)
        allowed = holding if len(holding) >= self.cap else range(self.workers)
        if self.random.random() < 0.1:
            worker = self.random.choice(list(allowed))
        else:
            worker = max(allowed, key=lambda each: (values[each], each == self.homes[key], -each))
        self.assign(key, worker)
        average, load = sum(self.loads) / self.workers, self.loads[worker]
        over, fan_out = (load - average) / max(load, average), len(self.holders(key)) / self.workers
        values[worker] += 0.1 * (-(0.5 * over + 0.5 * fan_out) - values[worker])
        if self.slide and sum(self.now.values()) % 1250 == 0:
            crowded = [len(self.holders(each)) >= self.cap for each in self.values]
            self.cap = min(self.cap + (sum(crowded) >= 0.7 * len(crowded)), self.most)
        return worker
