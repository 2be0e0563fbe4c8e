"""Put a class with functions of a user, and the jobs that call them, into an archive.

    python -m jars_and_apps.geofencing.bundle fleet.py Fleet --out fleet.zip

The archive is the ``job_path`` of the jobs with ``entry_class`` ``geofencing.jobs.admit``,
``geofencing.jobs.locate`` and ``geofencing.jobs.track``, whose arguments are those of the jobs without
functions.  The same files make the same archive, byte by byte.
"""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import sys
import zipfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from jars_and_apps.geofencing.functions import METHODS

PACKAGE = "geofencing"
MODULES = ("fences", "functions", "visits")
_HERE = Path(__file__).parent
_DATE = (1980, 1, 1, 0, 0, 0)  # of all files: the archive changes with their contents alone

_JOBS = '''"""The jobs of geofencing with the functions of {name}."""

from {module} import {name}

from .functions import admit as _admit
from .functions import locate as _locate
from .functions import track as _track


def admit(messages, lead: float = 5.0):
    return _admit({name}, messages, lead)


def locate(messages, site: str, lateness: float = 10.0):
    return _locate({name}, messages, site, lateness)


def track(messages, sites: str, shards: int = 4, forget: float = 3600.0):
    return _track({name}, messages, sites, shards, forget)


admit.value_type = "binary"
locate.value_type = "binary"
'''


class BundleError(Exception):
    """A class or file that cannot be used; the message names it."""


def bundle(path: Path, name: str) -> bytes:
    """An archive with the class ``name`` of a Python file.  Raises :class:`BundleError`."""
    if path.suffix != ".py" or not path.stem.isidentifier() or path.stem == PACKAGE:
        raise BundleError(
            f"{path.name!r} cannot be used (expected a file such as fleet.py, not {PACKAGE}.py)"
        )
    try:
        source = path.read_bytes()
    except OSError as error:
        raise BundleError(f"{path} cannot be read: {error.strerror}") from error
    _check(_class_of(path, name), name)
    content = BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        _add(archive, f"{path.stem}.py", source)
        _add(archive, f"{PACKAGE}/__init__.py", b"")
        _add(archive, f"{PACKAGE}/jobs.py", _JOBS.format(module=path.stem, name=name).encode())
        for module in MODULES:
            _add(archive, f"{PACKAGE}/{module}.py", (_HERE / f"{module}.py").read_bytes())
    return content.getvalue()


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name, _DATE), content, zipfile.ZIP_DEFLATED)


def _class_of(path: Path, name: str) -> Any:
    found = importlib.util.spec_from_file_location(f"speck_bundle_{path.stem}", path)
    if found is None or found.loader is None:
        raise BundleError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(found)
    try:
        found.loader.exec_module(module)
    # The file may raise anything.
    except Exception as error:
        raise BundleError(f"{path} cannot be imported: {type(error).__name__}: {error}") from error
    if not inspect.isclass(getattr(module, name, None)):
        raise BundleError(f"{path} defines no class {name!r}")
    return getattr(module, name)


def _check(found: Any, name: str) -> None:
    """Check the methods of a class.  Raises :class:`BundleError`."""
    try:
        made = found()
    # The class may raise anything.
    except Exception as error:
        raise BundleError(f"{name}() fails: {type(error).__name__}: {error}") from error
    methods = {each: number for each, number in METHODS.items() if hasattr(made, each)}
    if not methods:
        raise BundleError(f"the class {name!r} has no function (expected some of {', '.join(METHODS)})")
    for method, number in methods.items():
        try:
            inspect.signature(getattr(made, method)).bind(*range(number))
        except TypeError as error:
            right = f"expected a method with {number} argument{'s' * (number > 1)} besides self"
            raise BundleError(f"{name}.{method} cannot be called: {error} ({right})") from error


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; returns its exit code."""
    parser = argparse.ArgumentParser(description="Put a class with functions of a user into an archive.")
    parser.add_argument("file", type=Path, help="the Python file of the class, which stands alone")
    parser.add_argument("name", metavar="CLASS", help=f"the class, with some of {', '.join(METHODS)}")
    parser.add_argument("--out", type=Path, required=True, metavar="ZIP", help="the archive, for job_path")
    options = parser.parse_args(arguments)
    try:
        if options.out.suffix != ".zip":
            raise BundleError(
                f"--out {str(options.out)!r} is not an archive (expected a name such as fleet.zip)"
            )
        options.out.write_bytes(bundle(options.file, options.name))
    except (BundleError, OSError) as error:
        print(f"bundle: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
