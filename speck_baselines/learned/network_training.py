"""Training of the network over graphs of placed jobs (torch, the extra ``speck[gnn]``).

One network has all four targets: the mean logarithmic error of age and rate, and the cross entropy of failure
and back pressure.  The learning rate falls to 0 along half of a cosine.  One thread, and a seed: the same
data make the same weights with the same release of torch on the same kind of processor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from speck_baselines.learned.graphs import Array, Graph, Indices, batch_of
from speck_baselines.learned.network import SHAPES, Weights, forward
from speck_baselines.learned.targets import CLASSES, MAGNITUDES

PARAMETERS: Mapping[str, Any] = {"epochs": 45, "batch": 64, "rate": 2e-3, "decay": 1e-4, "seed": 1}


@dataclass(frozen=True, slots=True)
class Torch:
    """The operations of :class:`~speck_baselines.learned.network.Operations` by torch."""

    module: Any

    def array(self, values: Array) -> Any:
        """The tensor of an array."""
        return self.module.from_numpy(np.ascontiguousarray(values))

    def sums(self, values: Any, groups: Indices, count: int) -> Any:
        """The sums of rows by group."""
        zeros = values.new_zeros((count, *values.shape[1:]))
        return zeros.index_add(0, self.module.from_numpy(groups), values)

    def largest(self, values: Any, groups: Indices, count: int) -> Any:
        """The maxima of rows by group, 0 at least."""
        zeros = values.new_zeros((count, *values.shape[1:]))
        index = self.module.from_numpy(groups)[:, None].expand_as(values)
        return zeros.scatter_reduce(0, index, values, "amax")


def fit(
    torch: Any,
    graphs: Sequence[Graph],
    labels: Sequence[Mapping[str, float]],
    epochs: int = PARAMETERS["epochs"],
) -> Weights:
    """The weights of a network, trained on these graphs and what was measured at each."""
    torch.manual_seed(PARAMETERS["seed"])
    torch.set_num_threads(1)
    chance = np.random.default_rng(PARAMETERS["seed"])
    by, size = Torch(torch), PARAMETERS["batch"]
    weights = _initial(torch, graphs)
    trained = [each.requires_grad_() for name, each in weights.items() if not name.startswith("scale")]
    optimiser = torch.optim.AdamW(trained, lr=PARAMETERS["rate"], weight_decay=PARAMETERS["decay"])
    steps = epochs * math.ceil(len(graphs) / size)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for _ in range(epochs):
        order = chance.permutation(len(graphs))
        for part in (order[at : at + size] for at in range(0, len(order), size)):
            batch = batch_of(graphs[each] for each in part)
            optimiser.zero_grad()
            _loss(by, forward(by, weights, batch), [labels[each] for each in part]).backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimiser.step()
            schedule.step()
    return {name: each.detach().numpy() for name, each in weights.items()}


def _initial(torch: Any, graphs: Sequence[Graph]) -> dict[str, Any]:
    """Random weights (zero for biases), and the means and deviations of the features."""
    found = {}
    for name, shape in SHAPES.items():
        if name.endswith("bias"):
            found[name] = torch.zeros(shape)
        else:
            found[name] = torch.randn(shape) * math.sqrt((0.02 if name == "heads" else 2.0) / shape[-2])
    for name in ("jobs", "sites"):
        rows = np.vstack([getattr(each, name) for each in graphs])
        found[f"scale_{name}"] = torch.from_numpy(np.stack([rows.mean(0), rows.std(0) + np.float32(1e-3)]))
    return found


def _loss(by: Torch, found: Mapping[str, Any], labels: Sequence[Mapping[str, float]]) -> Any:
    """The sum of the mean losses of the targets, of those that were measured."""
    total: Any = 0.0
    for target in (*MAGNITUDES, *CLASSES):
        known = np.array([target in each for each in labels])
        if not known.any():
            continue
        desired = by.array(np.array([each[target] for each in labels if target in each], dtype=np.float32))
        if target in MAGNITUDES:
            total = total + by.module.nn.functional.l1_loss(found[target][known], desired)
        else:
            entropy = by.module.nn.functional.binary_cross_entropy_with_logits(found[target][known], desired)
            total = total + 0.5 * entropy
    return total
