"""The command that writes a first composition: one Spark job, its test, and a site inventory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath

import click

from speck.cli.terminal import err
from speck.core.durable_files import create_file
from speck.errors import SpeckError

# Python files among the starter's are not to be run, checked or imported here.
_SUFFIX = ".txt"


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path), default=Path())
def init(directory: Path) -> None:
    """Create a working composition in DIRECTORY.  It has a Spark job, its test, and a site inventory.

    Nothing is written if one of the files already exists.
    """
    for path in write_starter(directory):
        err.print(f"wrote {path}", markup=False)
    err.print(f"next: read {directory / 'README.md'}", markup=False)


def write_starter(directory: Path) -> list[Path]:
    """Write all files below a directory, which is created if necessary; returns their paths.

    Raises :class:`~speck.errors.SpeckError`, and writes nothing, when one of them exists already.
    """
    written = {directory / name: content for name, content in starter_files()}
    existing = [path for path in written if path.exists() or path.is_symlink()]
    if existing:
        names = ", ".join(map(str, existing))
        exist = "exists" if len(existing) == 1 else "exist"
        raise SpeckError(f"{names} already {exist}; nothing was written (choose another directory)")
    for path, content in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        create_file(path, content)
    return list(written)


def starter_files() -> Iterator[tuple[PurePosixPath, bytes]]:
    """The files: paths below the directory, and contents."""
    from speck.schema.json_schema import schema_files

    yield from _below(files("speck.cli") / "starter", PurePosixPath())
    for name, schema in schema_files():
        yield PurePosixPath("schemas", name), json.dumps(schema, indent=2).encode() + b"\n"


def _below(source: Traversable, path: PurePosixPath) -> Iterator[tuple[PurePosixPath, bytes]]:
    for each in sorted(source.iterdir(), key=lambda entry: entry.name):
        if each.is_dir():
            yield from _below(each, path / each.name)
        else:
            yield path / each.name.removesuffix(_SUFFIX), each.read_bytes()
