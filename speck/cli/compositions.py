"""The commands that plan and change what is wanted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from speck.cli import render
from speck.cli.completion import names
from speck.cli.options import (
    CHANGES,
    NOTHING_TO_DO,
    author_option,
    carry_out,
    file_argument,
    follow,
    json_option,
    leave_behind_option,
    show_data,
    warn,
    why_options,
)
from speck.cli.variables import read_composition, values, variables_options
from speck.client import Client


@click.command()
@file_argument
@variables_options
@click.option("--base-revision", type=int, help="Refuse when this is not the last revision.")
@leave_behind_option
@json_option
@click.pass_obj
def plan(
    client: Client,
    file: Path,
    env_files: tuple[Path, ...],
    settings: tuple[str, ...],
    base_revision: int | None,
    leave_behind: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show what an apply would do.  Exits 0 when that is nothing, 2 when there are changes."""
    text = read_composition(file, values(env_files, settings, file))
    data = client.plan(text, file.stem, base_revision, leave_behind)
    warn(data["warnings"])
    show_data(data, render.plan_lines(data), as_json)
    raise SystemExit(CHANGES if render.has_changes(data) else NOTHING_TO_DO)


@click.command()
@file_argument
@variables_options
@click.option("--base-revision", type=int, help="Refuse when this is not the last revision.")
@leave_behind_option
@why_options
@json_option
@click.pass_obj
def apply(
    client: Client,
    file: Path,
    env_files: tuple[Path, ...],
    settings: tuple[str, ...],
    base_revision: int | None,
    leave_behind: tuple[str, ...],
    message: str,
    author: str,
    as_json: bool,
) -> None:
    """Make what runs what the file says."""
    text = read_composition(file, values(env_files, settings, file))
    planned = client.plan(text, file.stem, base_revision, leave_behind)
    warn(planned["warnings"])
    if not as_json:
        show_data(planned, render.plan_lines(planned), False)
    # What was shown is what is done: an edit in between makes the plan stale, and is refused.
    base = planned["base_revision"]
    why: dict[str, Any] = {"message": message, "author": author, "leave_behind": list(leave_behind)}
    carry_out(client, lambda: client.apply(text, file.stem, base_revision=base, **why), as_json)


@click.command("operation")
@click.argument("identifier")
@click.option("--follow", "until_end", is_flag=True, help="Stay until it ends.")
@json_option
@click.pass_obj
def show_operation(client: Client, identifier: str, until_end: bool, as_json: bool) -> None:
    """Show the progress of one apply."""
    operation = follow(client, identifier, quiet=as_json) if until_end else client.operation(identifier)
    lines = [*map(render.action_line, operation["actions"]), render.operation_summary(operation)]
    show_data(operation, lines, as_json)


@click.command()
@json_option
@click.pass_obj
def compositions(client: Client, as_json: bool) -> None:
    """List the compositions."""
    data = client.compositions()
    show_data(data, [render.compositions_table(data)], as_json)


@click.command()
@click.argument("name", shell_complete=names)
@click.option("--job", is_flag=True, help="NAME is a job, not a composition.")
@click.option("--dry-run", is_flag=True, help="Show what would stop, of a composition; exits 2 if anything.")
@leave_behind_option
@why_options
@json_option
@click.pass_obj
def delete(
    client: Client,
    name: str,
    job: bool,
    dry_run: bool,
    leave_behind: tuple[str, ...],
    message: str,
    author: str,
    as_json: bool,
) -> None:
    """Stop and forget a composition with all of its jobs (or one job)."""
    if dry_run and job:
        raise click.UsageError("--dry-run is for compositions (expected it without --job)")
    if dry_run:
        planned = client.plan_deletion(name, leave_behind)
        show_data(planned, render.plan_lines(planned), as_json)
        raise SystemExit(CHANGES if render.has_changes(planned) else NOTHING_TO_DO)
    call = client.delete_job if job else client.delete_composition
    why: dict[str, Any] = {"message": message, "author": author, "leave_behind": list(leave_behind)}
    carry_out(client, lambda: call(name, **why), as_json)


@click.command("left-behind")
@click.option(
    "--forget",
    multiple=True,
    metavar="SITE_OR_ADDRESS",
    help="It never comes back: forget what was left there (may be repeated).",
)
@author_option
@json_option
@click.pass_obj
def left_behind(client: Client, forget: tuple[str, ...], author: str, as_json: bool) -> None:
    """List what was left behind at engines and brokers, and is ended when they answer again.

    What is forgotten is never ended: a copy that comes back all the same reads and writes on.
    """
    data = client.forget_left_behind(forget, author) if forget else client.left_behind()
    show_data(data, [render.leftovers_table(data)], as_json)
