"""The command that formats compositions and site inventories."""

from __future__ import annotations

from pathlib import Path

import click

from speck.cli.options import CHANGES, file_path
from speck.cli.terminal import err
from speck.core.durable_files import rewrite_file


@click.command()
@click.argument("files", nargs=-1, required=True, type=file_path)
@click.option("--check", is_flag=True, help="Do not write; exit 2 if a file is not formatted.")
def fmt(files: tuple[Path, ...], check: bool) -> None:
    """Format compositions and site inventories (YAML).

    Comments, quotes, anchors, the order of fields and the meaning are preserved: a file whose meaning
    would change is rejected.
    """
    from speck.schema.yaml.formatting import formatted

    changed = []
    for file in files:
        before = file.read_bytes()
        after = formatted(before)
        if after == before:
            continue
        changed.append(file)
        if not check:
            rewrite_file(file, after)
        err.print(f"{'not formatted: ' if check else 'formatted '}{file}", markup=False)
    raise SystemExit(CHANGES if check and changed else 0)
