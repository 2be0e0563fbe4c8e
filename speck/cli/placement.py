"""The commands for placements: propose, compare, accept, pin."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

import click

from speck.cli import render
from speck.cli.changing import change
from speck.cli.completion import composition_names, job_argument, job_names
from speck.cli.confirmation import confirm
from speck.cli.options import (
    CHANGES,
    NOTHING_TO_DO,
    change_options,
    give_up_option,
    json_option,
    only_composition,
    yes_option,
)
from speck.cli.output import show_data, warn
from speck.cli.progress import carry_out
from speck.cli.submission import Submission, submitted
from speck.cli.terminal import err
from speck.cli.waiting import waiting
from speck.client import Client, NoServer

_policy_option = click.option(
    "--policy", default="", metavar="NAME", help="The placement policy (speck policies)."
)
_compare_option = click.option("--compare", is_flag=True, help="Add a row with the figures of each policy.")


@click.command()
@submitted
@_policy_option
@click.option(
    "--site-constraints",
    multiple=True,
    metavar="JOB=SITE,...",
    help="The only sites that may run this job (may be repeated).",
)
@click.option(
    "--pin",
    multiple=True,
    metavar="JOB",
    help="A job to keep at its site (may be repeated).",
    shell_complete=job_names,
)
@click.option(
    "--explain",
    multiple=True,
    metavar="JOB",
    help="Always explain this job, even if there are too many to explain all (may be repeated).",
)
@_compare_option
@json_option
@click.pass_obj
def place(
    client: Client,
    submission: Submission,
    policy: str,
    site_constraints: tuple[str, ...],
    pin: tuple[str, ...],
    explain: tuple[str, ...],
    compare: bool,
    as_json: bool,
) -> None:
    """Propose sites for all movable jobs of FILE.  Exits 0 without changes, 2 with changes.

    Nothing is changed; `speck accept` applies the proposal.
    """
    with waiting("computing a placement"), submission.code.sent(client) as code:
        data = client.place(
            submission.text,
            submission.name,
            code,
            policy=policy,
            site_constraints=list(site_constraints),
            pin=list(pin),
            explain=list(explain),
            compare=compare or None,
        )
    _show(data, explain, as_json)


@click.command()
@click.argument("name", required=False, metavar="[COMPOSITION]", shell_complete=composition_names)
@_policy_option
@_compare_option
@json_option
@click.pass_obj
def advise(client: Client, name: str | None, policy: str, compare: bool, as_json: bool) -> None:
    """Propose better sites for running jobs.  Exits 0 without changes, 2 with changes.

    COMPOSITION is optional if there is only one.
    """
    with waiting("computing a placement"):
        data = client.advise(name or only_composition(client), policy=policy, compare=compare or None)
    _show(data, (), as_json)


def _show(data: dict[str, Any], explained: tuple[str, ...], as_json: bool) -> None:
    warn(data["warnings"])
    lines = [*render.placement_lines(data, explained)]
    rows = [render.comparison_table(data)] if data["policies"] else []
    changes = render.has_changes(data["plan"])
    offered = [render.offer(data)] if changes else []
    show_data(data, [*lines, *rows, *offered], as_json)
    raise SystemExit(CHANGES if changes else NOTHING_TO_DO)


@click.command()
@click.argument("identifier", metavar="ID")
@give_up_option
@yes_option
@change_options
@json_option
@click.pass_obj
def accept(
    client: Client, identifier: str, give_up: bool, yes: bool, why: dict[str, Any], as_json: bool
) -> None:
    """Apply a proposed placement, as a new revision."""
    if not yes:
        confirm(client.placement(identifier)["plan"], yes, shown=False)
    carry_out(client, lambda: client.accept(identifier, **why, give_up=give_up or None), as_json)


@click.command()
@json_option
@click.pass_obj
def policies(client: Client, as_json: bool) -> None:
    """List the placement policies.  Without a server, those of this installation."""
    try:
        data = client.policies()
    except NoServer as error:
        from speck.placement.policies import catalogue  # takes a while to import

        err.print(f"{error}; the policies of this installation:", markup=False)
        data = [asdict(each) for each in catalogue()]
    show_data(data, render.policies_tables(data), as_json)


_dry_run_option = click.option("--dry-run", is_flag=True, help="Only show the plan; exits 2 with changes.")


@click.command()
@job_argument
@click.option("--site", default="", metavar="SITE", help="Move the job to this site first.")
@_dry_run_option
@yes_option
@change_options
@json_option
@click.pass_obj
def pin(
    client: Client,
    job: str,
    site: str,
    dry_run: bool,
    yes: bool,
    why: dict[str, Any],
    as_json: bool,
) -> None:
    """Keep a movable job at its site.  Creates a new revision with `pin: true`."""
    _pin(client, job, {**why, "site": site}, dry_run, yes, as_json)


@click.command()
@job_argument
@_dry_run_option
@yes_option
@change_options
@json_option
@click.pass_obj
def unpin(client: Client, job: str, dry_run: bool, yes: bool, why: dict[str, Any], as_json: bool) -> None:
    """Allow a pinned job to move again.  Creates a new revision with `pin: false`."""
    _pin(client, job, {**why, "pin": "false"}, dry_run, yes, as_json)


def _pin(client: Client, job: str, query: dict[str, Any], dry_run: bool, yes: bool, as_json: bool) -> None:
    ask = partial(client.pin, job)
    change(client, ask, query, dry_run=dry_run, yes=yes, as_json=as_json, show=False)
