"""Predictors by boosted trees (LightGBM) over the features of a placement, one model a target.

The network (:mod:`speck_baselines.learned.network_predictor`) is the other kind.  Models are LightGBM's text
format, so that none is executed to be loaded.  LightGBM is loaded with the first prediction, as it takes a
second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from speck.errors import Fault, InvalidInput
from speck.placement.problem import Placement, Problem
from speck_baselines.learned.extra import library
from speck_baselines.learned.features import FLAT, GRAPH, Extractor, Floats, flat, graph
from speck_baselines.learned.network_predictor import MODELS, NetworkPredictor
from speck_baselines.learned.targets import MAGNITUDES, TARGETS, Prediction, scale

if TYPE_CHECKING:
    from lightgbm import Booster


class Predicts(Protocol):
    """A predictor, of whatever kind."""

    @property
    def name(self) -> str:
        """Its name."""

    def check(self) -> None:
        """Raise :class:`~speck.errors.InvalidInput` if a package is missing that it needs."""

    def predict(self, problem: Problem, placements: Sequence[Placement]) -> list[Prediction]:
        """The prediction for each placement."""


class Predictor:
    """A predictor by name, with its features, and its models in a directory.

    With ``relative``, rates are predicted as a share of those that are offered.
    """

    def __init__(
        self, name: str, names: Sequence[str], extract: Extractor, *, relative: bool, models: Path = MODELS
    ) -> None:
        self.name, self.names, self.extract, self.relative = name, tuple(names), extract, relative
        self._models = models
        self._loaded: dict[str, Booster] = {}

    def check(self) -> None:
        """Raise :class:`~speck.errors.InvalidInput` without LightGBM."""
        library(self.name)

    def path(self, target: str) -> Path:
        """The file of a target's model."""
        return self._models / f"{self.name}-{target}.txt"

    def features(self, problem: Problem, placements: Iterable[Placement]) -> Floats:
        """The features, one row a placement."""
        return np.array([self.extract(problem, each) for each in placements])

    def predict(self, problem: Problem, placements: Sequence[Placement]) -> list[Prediction]:
        """The prediction for each placement.

        Raises :class:`~speck.errors.InvalidInput` without LightGBM, and for a model that does not fit.
        """
        if not placements:
            return []
        boosters, rows = self._boosters(), self.features(problem, placements)
        found = {target: np.asarray(boosters[target].predict(rows, num_threads=1)) for target in TARGETS}
        for target in MAGNITUDES:
            found[target] = 10.0 ** found[target]
        found["rate"] *= scale(problem, self.relative)
        return [
            Prediction(**{name: float(each[row]) for name, each in found.items()}) for row in range(len(rows))
        ]

    def _boosters(self) -> Mapping[str, Booster]:
        if not self._loaded:
            lightgbm = library(self.name)
            self._loaded = {target: self._booster(lightgbm, target) for target in TARGETS}
        return self._loaded

    def _booster(self, lightgbm: Any, target: str) -> Booster:
        path = self.path(target)
        try:
            found: Booster = lightgbm.Booster(model_str=path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, lightgbm.basic.LightGBMError) as error:
            right = "expected one by speck_baselines.learned.train"
            message = f"model {str(path)!r} cannot be loaded: {error} ({right})"
            raise InvalidInput([Fault(message, field="policy", value=self.name)], "placement") from error
        if found.feature_name() != list(self.names):
            message = (
                f"model {str(path)!r} has {found.num_feature()} features, and {self.name!r} extracts "
                f"{len(self.names)} with other names (expected one by speck_baselines.learned.train of this "
                "version)"
            )
            raise InvalidInput([Fault(message, field="policy", value=self.name)], "placement")
        return found


@cache
def trees() -> Mapping[str, Predictor]:
    """The predictors by trees, with the installed models, by name."""
    return {
        "flatvec": Predictor("flatvec", FLAT, flat, relative=False),
        "costream-trees": Predictor("costream-trees", GRAPH, graph, relative=True),
    }


@cache
def predictors() -> Mapping[str, Predicts]:
    """The predictors of the installed models by name."""
    return {**trees(), "costream": NetworkPredictor("costream")}
