"""The fixture of tests that need the wide area rig."""

from __future__ import annotations

import pytest

from speck.local.wan import unavailable


@pytest.fixture(scope="session")
def needs_network() -> None:
    """Skip the test if no network can be made here.

    The check makes one, by dozens of processes: a mark would run it in each worker of each run of tests.
    """
    if reason := unavailable():
        pytest.skip(reason)
