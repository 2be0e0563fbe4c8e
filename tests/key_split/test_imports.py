"""The imports of the operators: they travel to the sites by value, where only numpy and PyArrow are."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from testbed import ROOT

PACKAGE = "jars_and_apps.key_split"
JOBS = {"aggregations.py"}  # files of jobs, which import PySpark and libraries of the sites
MODULES = sorted(
    path for path in (ROOT / "jars_and_apps" / "key_split").rglob("*.py") if path.name not in JOBS
)


def _name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_a_module_imports_numpy_pyarrow_and_the_package_alone(path: Path) -> None:
    """And Python's own library; from the package names, as a module would be imported again at the site."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            assert {each.name.split(".")[0] for each in node.names} <= {
                *sys.stdlib_module_names,
                "numpy",
                "pyarrow",
            }
        elif isinstance(node, ast.ImportFrom):
            module = str(node.module)
            assert module.startswith(PACKAGE) or module.split(".")[0] in {*sys.stdlib_module_names, "numpy"}
    assert [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)] == [
        node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    bound = vars(importlib.import_module(_name(path))).items()
    own = [
        name for name, value in bound if isinstance(value, ModuleType) and value.__name__.startswith(PACKAGE)
    ]
    assert path.name == "__init__.py" or own == []
