"""What ``speck init`` writes: a composition with one Spark job, the job's test, and a site inventory."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath

from speck.errors import SpeckError

# What is Python there is not to be run, checked or imported here.
_SUFFIX = ".txt"


def write(directory: Path) -> list[Path]:
    """Write all files below a directory, which is made if need be; answers their paths.

    Raises :class:`~speck.errors.SpeckError`, and writes nothing, when one of them is there already.
    """
    wanted = {directory / name: content for name, content in contents()}
    there = [path for path in wanted if path.exists() or path.is_symlink()]
    if there:
        named = ", ".join(map(str, there))
        raise SpeckError(f"{named} exists already, so nothing was written (expected another directory)")
    for path, content in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("xb") as file:
            file.write(content)
    return list(wanted)


def contents() -> Iterator[tuple[PurePosixPath, bytes]]:
    """The files that are written: paths below the directory, and contents."""
    return _below(files(__package__) / "files", PurePosixPath())


def _below(place: Traversable, at: PurePosixPath) -> Iterator[tuple[PurePosixPath, bytes]]:
    for each in sorted(place.iterdir(), key=lambda found: found.name):
        if each.is_dir():
            yield from _below(each, at / each.name)
        else:
            yield at / each.name.removesuffix(_SUFFIX), each.read_bytes()
