"""The settings of property tests."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

# Of the examples of each property: ``make quick`` sets a tenth; more than 1 is for a longer search.
SHARE = float(os.environ.get("SPECK_EXAMPLES", "1"))


# A busy machine must not fail a test: each example may take any time, also of a property without `tries`.
# The suite, which takes a share, takes the same examples each time: the change at hand broke what fails.
settings.register_profile(
    "speck", deadline=None, max_examples=max(1, round(100 * SHARE)), derandomize=SHARE < 1
)
settings.load_profile("speck")


def tries(examples: int, **others: Any) -> settings:
    """Settings for this number of examples, times the environment variable ``SPECK_EXAMPLES`` (1 if unset).

    ``others`` are further settings of Hypothesis.
    """
    return settings(max_examples=max(1, round(examples * SHARE)), **others)


# Of the pure parts.
property_test = tries(60)
