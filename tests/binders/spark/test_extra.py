"""Errors name the extra ``speck[spark]`` where it is not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

_WITHOUT = """
import sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "pandas", "grpc", "google", "h2"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
"""


def without_spark(code: str) -> str:
    """The output of a program in an interpreter without Spark's packages."""
    command = [sys.executable, "-c", _WITHOUT + code]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow("starts a new interpreter")
@pytest.mark.parametrize("address", ["sc://127.0.0.1:1", "spark://127.0.0.1:1"])
def test_a_missing_package_is_named_with_its_extra(address: str) -> None:
    said = without_spark(f"""
from speck.binder import installed
from speck.core.inventory import Inventory
from speck.errors import BinderError
try:
    installed().engine_kind("spark", {address!r}).connect({address!r}, Inventory())
except BinderError as error:
    print(error)
""")
    assert said.startswith("a site with Spark needs the package")
    assert said.endswith("(pip install 'speck[spark]')\n")


@pytest.mark.slow("starts a new interpreter")
def test_the_coordinator_the_command_line_and_the_other_binders_need_no_spark() -> None:
    said = without_spark("""
import speck.server.process
from speck.binder import installed
from speck.cli import cli
from speck.core.inventory import Inventory
for name in cli.commands:
    cli.commands[name]
kinds = installed()
kinds.engine_kind("flink", "http://127.0.0.1:1/").connect("http://127.0.0.1:1/", Inventory())
kinds.broker_kind("tcp://127.0.0.1:1").connect("tcp://127.0.0.1:1", Inventory())
print("fine")
""")
    assert said == "fine\n"
