"""Trials: tests of half a minute on engines that prove more of what a shorter test shows already."""

from __future__ import annotations

import os

import pytest


def trial(shorter: str) -> pytest.MarkDecorator:
    """The mark of a trial, which runs if the variable ``SPECK_TRIALS`` is set; ``shorter`` runs always."""
    return pytest.mark.skipif(
        not os.environ.get("SPECK_TRIALS"), reason=f"a trial of half a minute beside {shorter} (SPECK_TRIALS)"
    )
