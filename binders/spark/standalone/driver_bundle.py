"""The modules of SpecK that run in a driver of a Spark standalone cluster, as files to be fetched there."""

from __future__ import annotations

import functools
import importlib.util
import io
import zipfile
from collections.abc import Iterator
from pathlib import Path

BUNDLE_NAME = "speck-driver.zip"
SCRIPT_NAME = "speck_driver.py"

# All modules that binders.spark.standalone.driver imports; none of them needs more than PySpark, but those of
# key splitting: numpy, pandas and pyarrow.
_QUERY = ("builder", "code_check", "local_time", "progress", "real_time", "spec", "text", "user_code")
_MODULES = (
    "speck.core.job",
    "speck.core.placement",
    "speck.core.runtime",
    "speck.core.start",
    "speck.core.timezone",
    "speck.core.trigger",
    "speck.core.units",
    "speck.core.split.partitioners",
    "speck.core.split.parts",
    "binders.common.python_source",
    *(f"binders.spark.query.{name}" for name in _QUERY),
    *(
        f"binders.spark.query.split.{name}"
        for name in ("groups", "query", "rerouting", "steps", "user_class")
    ),
    *(f"binders.spark.standalone.{name}" for name in ("driver", "driver_control", "lease")),
)
_PACKAGES = (
    *("speck", "speck.core", "speck.core.split", "binders", "binders.common"),
    *("binders.spark", "binders.spark.query", "binders.spark.query.split", "binders.spark.standalone"),
    "jars_and_apps",
)
_WITH_ALL_MODULES = "jars_and_apps.key_split"  # as it is: a package of the sites, with its own imports
_FIXED_DATE = (1980, 1, 1, 0, 0, 0)


def script() -> bytes:
    """The script that ``spark-submit`` runs (:mod:`binders.spark.standalone.driver_bootstrap`)."""
    return _source("binders.spark.standalone.driver_bootstrap")


@functools.cache
def bundle() -> bytes:
    """The modules as a zip to import from; reproducible byte by byte from the same sources."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in _PACKAGES:  # empty: their imports here are for the coordinator only
            archive.writestr(_entry(f"{package.replace('.', '/')}/__init__.py"), b"")
        for module in _MODULES:
            archive.writestr(_entry(f"{module.replace('.', '/')}.py"), _source(module))
        for name, source in _sources(_WITH_ALL_MODULES):
            archive.writestr(_entry(name), source)
    return content.getvalue()


def _entry(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(name, _FIXED_DATE)


def _sources(package: str) -> Iterator[tuple[str, bytes]]:
    """All modules and policies of a package: their paths in an archive, and their contents."""
    specification = importlib.util.find_spec(package)
    if specification is None or specification.origin is None:
        raise ModuleNotFoundError(f"{package} is not installed with its source")
    folder = Path(specification.origin).parent
    for path in sorted((*folder.rglob("*.py"), *folder.rglob("*.npz"))):
        yield f"{package.replace('.', '/')}/{path.relative_to(folder)}", path.read_bytes()


def _source(module: str) -> bytes:
    specification = importlib.util.find_spec(module)
    if specification is None or specification.origin is None:
        raise ModuleNotFoundError(f"{module} is not installed with its source")
    return Path(specification.origin).read_bytes()
