"""Trials: tests of half a minute on engines that prove more of what a shorter test shows already."""

from __future__ import annotations

import os

import pytest


def trial(shorter: str) -> pytest.MarkDecorator:
    """The mark of a trial, which runs if the variable ``SPECK_TRIALS`` is set; ``shorter`` runs always."""
    return pytest.mark.skipif(not trials_run(), reason=_reason(shorter))


def skip_trial(shorter: str) -> None:
    """Skip the test that calls this, a trial, unless ``SPECK_TRIALS`` is set; ``shorter`` runs always."""
    if not trials_run():
        pytest.skip(_reason(shorter))


def trials_run() -> bool:
    """True if the variable ``SPECK_TRIALS`` is set."""
    return bool(os.environ.get("SPECK_TRIALS"))


def _reason(shorter: str) -> str:
    return f"a trial of half a minute beside {shorter} (SPECK_TRIALS)"
