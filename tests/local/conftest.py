"""The directory of sites on this machine, which are stopped after each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from speck import local


@pytest.fixture(name="directory")
def directory_fixture(tmp_path: Path) -> Iterator[Path]:
    """A directory for sites; whatever a test leaves running there is stopped."""
    place = tmp_path / "local"
    yield place
    local.down(place)
