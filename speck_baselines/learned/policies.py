"""The policies ``flatvec``, ``costream`` and ``costream-trees``: Costream's search with three predictors.

Of 25 random placements, those that are predicted to fail or to be back-pressured are dropped; of the others
the one at the 10th percentile of the predicted age is taken, as the least prediction is often an error of the
predictor.  The incumbent stays where the prediction for it is as good.  R. Heinrich, C. Binnig, H. Kornmayer
and M. Luthra, "Costream: Learned Cost Models for Operator Placement in Edge-Cloud Environments", ICDE 2024.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from speck.placement.policies import Budget
from speck.placement.problem import Placement, Problem
from speck_baselines.learned.candidates import candidates
from speck_baselines.learned.extra import INSTALL, installed
from speck_baselines.learned.targets import Prediction

PERCENTILE = 0.1


@dataclass(frozen=True, slots=True)
class LearnedPolicy:
    """The search with the predictor of the policy's name."""

    name: str
    summary: str
    by_trees: bool = True

    @property
    def about(self) -> str:
        """A description in one line, with what to install where something is missing."""
        return self.summary if installed() or not self.by_trees else f"{self.summary}; needs {INSTALL}"

    def place(self, problem: Problem, incumbent: Placement, budget: Budget) -> Placement:
        """The placement at the 10th percentile of the predicted age, or the incumbent.

        Raises :class:`~speck.errors.InvalidInput` without LightGBM, if the predictor needs it.
        """
        # With numpy, which takes a tenth of a second to load: names of policies are asked for more often.
        from speck_baselines.learned.predictor import predictors

        predictor, end = predictors()[self.name], budget.clock() + budget.seconds
        permitted = not problem.faults(incumbent.sites)
        tried = [incumbent] if permitted else []
        for each in candidates(problem, budget.seed):
            tried.append(each)
            if budget.clock() > end:
                break
        predictions = predictor.predict(problem, tried or [problem.all_in_cloud])
        return choose(tried, predictions, permitted) if tried else problem.all_in_cloud


def choose(tried: Sequence[Placement], predictions: Sequence[Prediction], incumbent: bool) -> Placement:
    """The placement to take; with ``incumbent`` the first is that one, and wins ties."""
    found = list(zip(tried, predictions, strict=True))
    others = sorted((each for each in found[incumbent:] if each[1].sustained), key=lambda each: each[1].age)
    if not others:  # none is likely to be sustained
        return tried[0] if incumbent else min(found, key=lambda each: each[1].age)[0]
    placement, prediction = others[math.ceil(PERCENTILE * (len(others) - 1))]
    if incumbent and predictions[0].sustained and predictions[0].age <= prediction.age:
        return tried[0]
    return placement


FLATVEC = LearnedPolicy("flatvec", "Costream's search, by LightGBM on 11 counts and selectivities")
COSTREAM = LearnedPolicy(
    "costream", "Costream's search, by a network over the graph of placed jobs", by_trees=False
)
TREES = LearnedPolicy("costream-trees", "Costream's search, by LightGBM on the graph of placed jobs")
