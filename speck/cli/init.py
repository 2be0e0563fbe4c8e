"""The command that writes a first composition."""

from __future__ import annotations

from pathlib import Path

import click

from speck.cli.options import err


@click.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path), default=Path())
def init(directory: Path) -> None:
    """Write a working composition to DIRECTORY: a Spark job, its test, and a site inventory.

    If one of the files exists already, nothing is written.
    """
    from speck.cli.starter import write

    for path in write(directory):
        err.print(f"wrote {path}", markup=False)
    err.print(f"now: read {directory / 'README.md'}", markup=False)
