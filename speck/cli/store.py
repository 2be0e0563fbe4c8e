"""The commands that maintain the store."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

import speck
from speck.cli import render
from speck.cli.options import DEFAULT_DIRECTORY, ERROR, json_option
from speck.cli.output import show_data
from speck.cli.terminal import err, out
from speck.cli.waiting import waiting
from speck.client import Client
from speck.core.durable_files import put_in_new_place
from speck.errors import SpeckError

_DEFAULT = DEFAULT_DIRECTORY / "store"

_directory = click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=_DEFAULT,
    show_default=True,
    help="Directory of the store, which must not be in use by a server.",
)
_server_or_directory = click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of the store, if no server is running [default: ask the server].",
)


@click.group()
def store() -> None:
    """Back up, restore, check and repair the server's store."""


@store.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@_server_or_directory
@click.pass_obj
def backup(client: Client, file: Path, data_dir: Path | None) -> None:
    """Write a backup of the store, with the code of its jobs, to FILE (.tar.gz).

    The server keeps running during a backup.  A backup contains no secrets.
    """
    if file.exists():
        raise _taken(file)
    # Of this run alone: another one may write a backup to the same file.
    part = file.with_name(f".speck-{secrets.token_hex(8)}.part")
    try:
        with part.open("xb") as target, waiting(f"writing {file}"):
            for piece in _pieces(client, data_dir):
                target.write(piece)
        size = part.stat().st_size
        put_in_new_place(part, file)
    except FileExistsError as error:
        raise _taken(file) from error
    finally:
        part.unlink(missing_ok=True)
    err.print(f"{file}: {size:,} bytes", markup=False)


def _taken(file: Path) -> SpeckError:
    return SpeckError(f"{file} already exists (expected a new file)")


def _pieces(client: Client, data_dir: Path | None) -> Iterable[bytes]:
    if data_dir is None:
        yield from client.back_up()
        return
    from speck.store.maintenance.backup import archive
    from speck.store.maintenance.repair import records_of

    yield from archive(records_of(data_dir), data_dir, time.time(), speck.__version__)


@store.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@_directory
def restore(file: Path, data_dir: Path) -> None:
    """Create a store from the backup in FILE, in an empty directory."""
    from speck.store.maintenance.backup import restore as restore_backup

    with file.open("rb") as source, waiting(f"restoring {data_dir}"):
        restored = restore_backup(source, str(file), data_dir)
    err.print(
        f"{data_dir}: {restored.records} records and {restored.artifacts} files of code, "
        f"as of {render.clock(restored.at)}",
        markup=False,
    )


@store.command()
@_server_or_directory
@json_option
@click.pass_obj
def check(client: Client, data_dir: Path | None, as_json: bool) -> None:
    """List the faults of the store.  Exits 1 if there are any."""
    with waiting("checking the store"):
        if data_dir is None:
            found = client.check_store()
        else:
            from speck.store.maintenance.repair import check_directory

            found = [{"what": each.what, "message": each.message} for each in check_directory(data_dir)]
    show_data(found, render.finding_lines(found), as_json)
    raise SystemExit(ERROR if found else 0)


@store.command()
@_directory
@json_option
def repair(data_dir: Path, as_json: bool) -> None:
    """Recover the readable part of a damaged store, and list what was lost.

    The database files are first copied to before-repair-1 in the store's directory.
    """
    from speck.store.maintenance.repair import repair as repair_store

    with waiting(f"repairing {data_dir}"):
        copy, found = repair_store(data_dir)
    data: list[dict[str, Any]] = [
        {"what": each.what, "message": each.message, "remedy": each.remedy} for each in found
    ]
    show_data(data, render.finding_lines(data), as_json)
    if not as_json:
        out.print(f"copy of the damaged store: {copy}", markup=False)
