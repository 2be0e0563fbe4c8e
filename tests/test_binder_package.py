"""A binder in a package of its own is found by its entry point."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from speck.binder import EngineBinder, installed
from speck.core.inventory import Inventory

PACKAGE = """
from speck.binder import EngineKind
from speck.errors import Unreachable

class AbacusEngine:
    def __init__(self, address, inventory):
        self.address = address

    def capacity(self):
        raise Unreachable(f"{self.address}: there is no abacus", address=self.address)

def check_code(path, entry_class):
    return None if path.suffix == ".beads" else f"job_path {path.name!r} has no beads"

ABACUS = EngineKind("abacus", "abacus", ("abacus",), check_code, AbacusEngine)
"""


def install(folder: Path, module: str, text: str, entry_point: str) -> None:
    """Lay a package into a folder as pip does."""
    (folder / f"{module}.py").write_text(text)
    record = folder / f"{module}-1.0.dist-info"
    record.mkdir()
    (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (record / "entry_points.txt").write_text(f"[speck.binders]\n{entry_point}\n")


def test_a_binder_of_another_package_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert installed().engine_kind("abacus", "abacus://desk") is None
    install(tmp_path, "speck_abacus", PACKAGE, "abacus = speck_abacus:ABACUS")
    monkeypatch.syspath_prepend(tmp_path)
    kind = installed().engine_kind("abacus", "abacus://desk")
    assert kind is not None
    assert kind.name == "abacus"
    assert kind.check_code(tmp_path / "a.py", "a") == "job_path 'a.py' has no beads"
    engine: EngineBinder = kind.connect("abacus://desk", Inventory())
    with pytest.raises(Exception, match="there is no abacus"):
        engine.capacity()
    sys.modules.pop("speck_abacus")


def test_the_binders_of_speck_itself() -> None:
    found = installed()
    assert {"spark-connect", "flink"} <= {kind.name for kind in found.engines}
    assert found.engine_kind("flink", "https://edge:8081") is found.engine_kind("flink", "http://edge:8081")
