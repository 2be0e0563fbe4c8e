"""The predictor by a network over the graph of placed jobs, from a file of weights (of numpy, no pickle)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from speck.errors import Fault, InvalidInput
from speck.placement.problem import Placement, Problem
from speck_baselines.learned.features import Floats
from speck_baselines.learned.graphs import Graph, batch_of, graph_of
from speck_baselines.learned.network import SHAPES, Numpy, Weights, forward
from speck_baselines.learned.targets import CLASSES, MAGNITUDES, Prediction, scale

MODELS = Path(__file__).parent / "models"


class NetworkPredictor:
    """The network of a policy, with its weights in ``models``; rates are shares of those that are offered."""

    def __init__(self, name: str, models: Path = MODELS) -> None:
        """Prepare a predictor, which reads its weights with the first prediction."""
        self.name, self.path = name, models / f"{name}.npz"
        self._weights: Weights = {}

    def check(self) -> None:
        """Do nothing: numpy is there."""

    def predict(self, problem: Problem, placements: Sequence[Placement]) -> list[Prediction]:
        """The prediction for each placement.

        Raises :class:`~speck.errors.InvalidInput` for a file without these weights.
        """
        if not placements:
            return []
        found = self.answers([graph_of(problem, each) for each in placements])
        for target in MAGNITUDES:
            found[target] = 10.0 ** found[target]
        found["rate"] *= scale(problem, relative=True)
        return [
            Prediction(**{name: float(each[row]) for name, each in found.items()})
            for row in range(len(placements))
        ]

    def answers(self, graphs: Sequence[Graph]) -> dict[str, Floats]:
        """Logarithms (base 10) of age and relative rate, and the probabilities of the others, by target."""
        if not self._weights:
            self._weights = self._read()
        raw: Mapping[str, Floats] = forward(Numpy(), self._weights, batch_of(graphs))
        found = {target: np.asarray(raw[target], dtype=np.float64) for target in MAGNITUDES}
        return found | {target: 1 / (1 + np.exp(-raw[target].astype(np.float64))) for target in CLASSES}

    def _read(self) -> Weights:
        try:
            with np.load(self.path, allow_pickle=False) as stored:
                found = {name: stored[name].astype(np.float32) for name in stored.files}
        except (OSError, ValueError, EOFError, BadZipFile) as error:
            raise self._fault(f"cannot be loaded: {error}") from error
        shapes = {name: each.shape for name, each in found.items()}
        if shapes != SHAPES:
            wrong = sorted(name for name in shapes.keys() | SHAPES if shapes.get(name) != SHAPES.get(name))
            raise self._fault(f"has weights of other shapes: {', '.join(wrong)}")
        return found

    def _fault(self, fault: str) -> InvalidInput:
        right = "expected one by speck_baselines.learned.train of this version"
        message = f"model {str(self.path)!r} {fault} ({right})"
        return InvalidInput([Fault(message, field="policy", value=self.name)], "placement")


def save(weights: Weights, path: Path) -> None:
    """Write weights with 16 bits each (the scales of features with 32)."""
    np.savez_compressed(
        path,
        allow_pickle=False,
        **{
            name: each if name.startswith("scale") else each.astype(np.float16)
            for name, each in weights.items()
        },
    )
