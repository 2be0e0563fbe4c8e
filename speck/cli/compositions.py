"""The commands that plan and change the desired state."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import RenderableType

from speck.cli import render
from speck.cli.changing import change
from speck.cli.code import LocalCode, code_roots_option, local_code
from speck.cli.completion import names
from speck.cli.confirmation import confirm
from speck.cli.options import (
    CHANGES,
    NOTHING_TO_DO,
    abandon_option,
    all_code_option,
    author_option,
    change_options,
    file_argument,
    json_option,
    loss_option,
    show_data,
    show_lines,
    unfold_option,
    warn,
    waves_options,
    yes_option,
)
from speck.cli.progress import carry_out, follow
from speck.cli.variables import read_composition, values, variables_options
from speck.client import Client


@click.command()
@file_argument
@code_roots_option
@variables_options
@click.option("--base-revision", type=int, help="Fail unless this is the latest revision.")
@click.option(
    "--build",
    is_flag=True,
    help="Also build the new code at the engines, as an apply does before it stops jobs.",
)
@click.option(
    "--steps", is_flag=True, help="Show the steps too: their order, and what each of them waits for."
)
@all_code_option
@abandon_option
@loss_option
@waves_options
@unfold_option
@json_option
@click.pass_obj
def plan(
    client: Client,
    file: Path,
    roots: tuple[Path, ...],
    env_files: tuple[Path, ...],
    settings: tuple[str, ...],
    base_revision: int | None,
    build: bool,
    steps: bool,
    all_code: bool,
    leave_behind: tuple[str, ...],
    give_up: bool,
    waves: tuple[str, ...],
    settle: float,
    unfold: bool,
    as_json: bool,
) -> None:
    """Show what an apply would change.  Exits 0 without changes, 2 with changes.

    The code of the jobs is read from the directory of FILE or from --root, and sent to the server.
    """
    text = read_composition(file, values(env_files, settings, file))
    with local_code(text, file, roots).sent(client) as code:
        data = client.plan(
            text,
            file.stem,
            base_revision,
            leave_behind,
            give_up,
            code=code,
            build=build,
            all_code=all_code,
            steps=steps,
            waves=waves,
            settle=settle,
        )
    warn(data["warnings"])
    order: list[RenderableType] = ["", render.steps_table(data)] if data.get("steps") else []
    show_data(data, [*render.plan_lines(data, unfold), *render.figure_lines(data), *order], as_json)
    raise SystemExit(CHANGES if render.has_changes(data) else NOTHING_TO_DO)


@click.command()
@file_argument
@code_roots_option
@variables_options
@click.option("--base-revision", type=int, help="Fail unless this is the latest revision.")
@click.option(
    "--place",
    type=click.Choice(("new", "all", "none")),
    default="new",
    show_default=True,
    help="Movable jobs to place: those not running yet, all (as speck place), or none.",
)
@click.option(
    "--atomic",
    is_flag=True,
    help="Roll back to the previous revision if any job fails or has to wait.",
)
@all_code_option
@abandon_option
@loss_option
@waves_options
@yes_option
@unfold_option
@change_options
@json_option
@click.pass_obj
def apply(
    client: Client,
    file: Path,
    roots: tuple[Path, ...],
    env_files: tuple[Path, ...],
    settings: tuple[str, ...],
    base_revision: int | None,
    place: str,
    atomic: bool,
    all_code: bool,
    leave_behind: tuple[str, ...],
    give_up: bool,
    waves: tuple[str, ...],
    settle: float,
    yes: bool,
    unfold: bool,
    message: str,
    author: str,
    as_json: bool,
) -> None:
    """Deploy a composition: start, stop, update and move its jobs.

    The code of the jobs is read from the directory of FILE or from --root, and sent to the server.
    """
    text = read_composition(file, values(env_files, settings, file))
    local = local_code(text, file, roots)
    request: dict[str, Any] = {"message": message, "author": author, "give_up": give_up or None}
    if place == "all":
        _refuse_with_place_all(
            {
                "--base-revision": base_revision is not None,
                "--leave-behind": bool(leave_behind),
                "--atomic": atomic,
                "--all-code": all_code,
                "--wave": bool(waves),
            }
        )
        _place_all(client, text, file.stem, local, request, yes, as_json)
        return
    with local.sent(client) as code:
        planned = client.plan(
            text,
            file.stem,
            base_revision,
            leave_behind,
            give_up,
            place,
            code,
            all_code=all_code,
            waves=waves,
            settle=settle,
        )
    warn(planned["warnings"])
    if not as_json:
        show_lines([*render.plan_lines(planned, unfold), *render.figure_lines(planned)])
    confirm(planned, yes, shown=not as_json)
    # The shown plan is the one carried out: an edit in between makes it stale, and it is refused.
    request |= {"base_revision": planned["base_revision"], "plan": planned, "code": local.hashes}
    request |= {"leave_behind": list(leave_behind), "place": place}
    request |= {"atomic": atomic or None, "all_code": all_code or None}
    if waves:
        request |= {"wave": list(waves), "settle": settle}
    carry_out(client, lambda: client.apply(text, file.stem, **request), as_json)


def _refuse_with_place_all(given: Mapping[str, bool]) -> None:
    """Raise a usage error for the first of these options that is given."""
    for option in (each for each, is_given in given.items() if is_given):
        raise click.UsageError(f"{option} is not available with --place all")


def _place_all(
    client: Client,
    text: bytes,
    name: str,
    local: LocalCode,
    request: dict[str, Any],
    yes: bool,
    as_json: bool,
) -> None:
    """Place all movable jobs again, and accept the proposal that was shown."""
    with local.sent(client) as code:
        proposal = client.place(text, name, code)
    warn(proposal["warnings"])
    if not as_json:
        show_lines(render.placement_lines(proposal))
    confirm(proposal["plan"], yes, shown=not as_json)
    carry_out(client, lambda: client.accept(proposal["id"], **request), as_json)


@click.command()
@click.argument("identifier")
@click.option("--follow", "until_end", is_flag=True, help="Follow the operation until it ends.")
@json_option
@click.pass_obj
def operation(client: Client, identifier: str, until_end: bool, as_json: bool) -> None:
    """Show the progress of one operation."""
    found = follow(client, identifier, quiet=as_json) if until_end else client.operation(identifier)
    lines = [*map(render.action_line, found["actions"]), render.operation_summary(found)]
    show_data(found, lines, as_json)


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
@click.option("--dry-run", is_flag=True, help="Only show the plan; exits 2 with changes.")
@abandon_option
@loss_option
@yes_option
@change_options
@json_option
@click.pass_obj
def delete(
    client: Client,
    name: str,
    job: bool,
    dry_run: bool,
    leave_behind: tuple[str, ...],
    give_up: bool,
    yes: bool,
    message: str,
    author: str,
    as_json: bool,
) -> None:
    """Stop and delete a composition with all its jobs, or one job.

    The history of a composition is kept: `speck rollback NAME` restores it, with new jobs.
    """
    if give_up and not job:
        raise click.UsageError(
            "--give-up is for --job (deleting a composition deletes its unprocessed messages anyway)"
        )
    query: dict[str, Any] = {"leave_behind": list(leave_behind), "message": message, "author": author}
    if job:
        query["give_up"] = give_up or None
    ask = partial(client.delete_job if job else client.delete_composition, name)
    if yes and not dry_run:
        carry_out(client, lambda: ask(**query), as_json)
    else:
        change(client, ask, query, dry_run=dry_run, yes=yes, as_json=as_json)


@click.command("left-behind")
@click.option(
    "--forget",
    multiple=True,
    metavar="SITE_OR_ADDRESS",
    help="Delete the records of abandoned jobs and sessions at a place that never returns (may be repeated).",
)
@author_option
@json_option
@click.pass_obj
def left_behind(client: Client, forget: tuple[str, ...], author: str, as_json: bool) -> None:
    """List orphans, and abandoned jobs and sessions.

    Abandoned jobs and sessions are cleaned up when their engine or broker responds again.

    An orphan is a copy at an engine that the store does not name; its verdict is to terminate, adopt or
    report it.  A forgotten copy is never stopped: if its engine
    returns, it continues to read and write.
    """
    data = client.forget_left_behind(forget, author) if forget else client.left_behind()
    show_data(data, [render.abandoned_table(data)], as_json)
