"""The commands that plan and change the desired state."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import click
from rich.console import RenderableType

from speck.cli import render
from speck.cli.changing import change
from speck.cli.completion import names
from speck.cli.confirmation import confirm
from speck.cli.options import (
    CHANGES,
    NOTHING_TO_DO,
    author_option,
    change_options,
    give_up_option,
    json_option,
    leave_behind_option,
    unfold_option,
    yes_option,
)
from speck.cli.output import hint_at_nothing, show_data, show_lines, warn
from speck.cli.progress import carry_out, follow
from speck.cli.submission import Submission, Terms, submitted, terms_options
from speck.cli.waiting import waiting
from speck.client import Client, RequestRefused
from speck.errors import NotFound


@click.command()
@submitted
@terms_options
@click.option(
    "--build",
    is_flag=True,
    help="Also build the new code at the engines, as an apply does before it stops jobs.",
)
@click.option(
    "--steps", is_flag=True, help="Show the steps too: their order, and what each of them waits for."
)
@unfold_option
@json_option
@click.pass_obj
def plan(
    client: Client,
    submission: Submission,
    terms: Terms,
    build: bool,
    steps: bool,
    unfold: bool,
    as_json: bool,
) -> None:
    """Show what an apply would change.  Exits 0 without changes, 2 with changes.

    The code of the jobs is read from the directory of FILE or from --root, and sent to the server.
    """
    awaited = "planning, and building the new code" if build else "planning"
    with waiting(awaited), submission.code.sent(client) as code:
        asked = terms.query() | {"build": build or None, "steps": steps or None}
        data = client.plan(submission.text, submission.name, code, **asked)
    warn(data["warnings"])
    order: list[RenderableType] = ["", render.steps_table(data)] if data.get("steps") else []
    show_data(data, [*render.plan_lines(data, unfold), *render.figure_lines(data), *order], as_json)
    raise SystemExit(CHANGES if render.has_changes(data) else NOTHING_TO_DO)


@click.command()
@submitted
@terms_options
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
@yes_option
@unfold_option
@change_options
@json_option
@click.pass_obj
def apply(
    client: Client,
    submission: Submission,
    terms: Terms,
    place: str,
    atomic: bool,
    yes: bool,
    unfold: bool,
    why: dict[str, Any],
    as_json: bool,
) -> None:
    """Deploy a composition: start, stop, update and move its jobs.

    The code of the jobs is read from the directory of FILE or from --root, and sent to the server.
    """
    if place == "all" and not terms.leave_behind:  # a proposal leaves no site behind; a plan does
        _refuse_with_place_all(terms, atomic)
        _place_all(client, submission, {**why, "give_up": terms.give_up or None}, yes, as_json)
        return
    with waiting("planning"), submission.code.sent(client) as code:
        planned = client.plan(submission.text, submission.name, code, place=place, **terms.query())
    warn(planned["warnings"])
    if not as_json:
        show_lines([*render.plan_lines(planned, unfold), *render.figure_lines(planned)])
    confirm(planned, yes, shown=not as_json)
    # The shown plan is the one carried out: an edit in between makes it stale, and it is refused.
    request = {**terms.query(), **why, "place": place, "atomic": atomic or None}
    request |= {"base_revision": planned["base_revision"], "plan": planned, "code": submission.code.hashes}
    carry_out(client, lambda: client.apply(submission.text, submission.name, **request), as_json)


def _refuse_with_place_all(terms: Terms, atomic: bool) -> None:
    """Raise a usage error for the first option that a placement of all jobs does not take."""
    given = {
        "--base-revision": terms.base_revision is not None,
        "--atomic": atomic,
        "--all-code": terms.all_code,
        "--wave": bool(terms.waves),
    }
    for option in (each for each, is_given in given.items() if is_given):
        raise click.UsageError(f"{option} is not available with --place all")


def _place_all(
    client: Client, submission: Submission, request: dict[str, Any], yes: bool, as_json: bool
) -> None:
    """Place all movable jobs again, and accept the proposal that was shown."""
    with waiting("computing a placement"), submission.code.sent(client) as code:
        proposal = client.place(submission.text, submission.name, code)
    warn(proposal["warnings"])
    if not as_json:
        show_lines(render.placement_lines(proposal))
    confirm(proposal["plan"], yes, shown=not as_json)
    carry_out(client, lambda: client.accept(proposal["id"], **request), as_json)


@click.command()
@click.argument("identifier", metavar="ID")
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
    hint_at_nothing(data, as_json)


@click.command()
@click.argument("name", shell_complete=names)
@click.option("--job", is_flag=True, help="NAME is a job, not a composition.")
@click.option("--dry-run", is_flag=True, help="Only show the plan; exits 2 with changes.")
@leave_behind_option
@give_up_option
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
    why: dict[str, Any],
    as_json: bool,
) -> None:
    """Stop and delete a composition with all its jobs, or one job.

    The history of a composition is kept: `speck rollback NAME` restores it, with new jobs.
    """
    if give_up and not job:
        raise click.UsageError(
            "--give-up is for --job (deleting a composition deletes its unprocessed messages anyway)"
        )
    query: dict[str, Any] = {**why, "leave_behind": list(leave_behind)}
    if job:
        query["give_up"] = give_up or None
    ask = partial(client.delete_job if job else client.delete_composition, name)
    try:
        if yes and not dry_run:
            carry_out(client, lambda: ask(**query), as_json)
        else:
            change(client, ask, query, dry_run=dry_run, yes=yes, as_json=as_json)
    except RequestRefused as error:
        if error.status != HTTPStatus.NOT_FOUND or not (hint := _meant(client, name, is_job=job)):
            raise
        raise NotFound(f"{error}; {hint}") from error


def _meant(client: Client, name: str, *, is_job: bool) -> str:
    """The command that deletes what a name is: a job, a composition, or a file of one; empty for neither."""
    if is_job:
        found = any(each["name"] == name for each in client.compositions())
        return f"speck delete {name} deletes the composition with all its jobs" if found else ""
    if any(each["job_name"] == name for each in client.jobs()):
        return f"speck delete {name} --job deletes this job alone"
    stem = Path(name).stem
    found = stem != name and any(each["name"] == stem for each in client.compositions())
    return f"speck delete {stem} deletes the composition of that name" if found else ""


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

    An orphan is a copy at an engine that the store does not name; SpecK terminates, adopts or reports it,
    as its verdict says.  A forgotten copy is never stopped: if its engine returns, it continues to read
    and write.
    """
    data = client.forget_left_behind(forget, author) if forget else client.left_behind()
    show_data(data, [render.abandoned_table(data)], as_json)
