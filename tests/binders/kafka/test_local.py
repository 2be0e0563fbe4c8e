"""The files of a Kafka of this machine."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from binders.kafka.local import _format


def test_a_full_disk_leaves_no_half_of_an_identity(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            _format(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not path.exists()
    _format(path)
    names = [line.partition("=")[0] for line in path.read_text("ascii").splitlines()]
    assert names == ["version", "cluster.id", "node.id", "directory.id"]
