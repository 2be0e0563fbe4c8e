"""The settings of property tests, and the tables of Hypothesis, which workers share."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import settings, strategies

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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Make Hypothesis's table of characters before workers are forked.

    In a clone that has no ``.hypothesis`` yet, each worker would take two seconds of processor time for it.
    """
    if getattr(session.config.option, "parallel_mode", None) == "fork":
        strategies.text().validate()
