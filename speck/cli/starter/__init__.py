"""The files that ``speck init`` writes: a composition with one Spark job, its test, and a site inventory."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath

from speck.errors import SpeckError

# Python files among them are not to be run, checked or imported here.
_SUFFIX = ".txt"


def write(directory: Path) -> list[Path]:
    """Write all files below a directory, which is created if necessary; returns their paths.

    Raises :class:`~speck.errors.SpeckError`, and writes nothing, when one of them exists already.
    """
    written = {directory / name: content for name, content in contents()}
    existing = [path for path in written if path.exists() or path.is_symlink()]
    if existing:
        names = ", ".join(map(str, existing))
        raise SpeckError(f"{names} exists already, so nothing was written (expected another directory)")
    for path, content in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(content)
    return list(written)


def contents() -> Iterator[tuple[PurePosixPath, bytes]]:
    """The files: paths below the directory, and contents."""
    return _below(files(__package__) / "files", PurePosixPath())


def _below(source: Traversable, path: PurePosixPath) -> Iterator[tuple[PurePosixPath, bytes]]:
    for each in sorted(source.iterdir(), key=lambda entry: entry.name):
        if each.is_dir():
            yield from _below(each, path / each.name)
        else:
            yield path / each.name.removesuffix(_SUFFIX), each.read_bytes()
