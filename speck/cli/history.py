"""The commands for the history: revisions and their differences, rollback, operations, the audit log."""

from __future__ import annotations

import time
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

import click

from speck.cli import render
from speck.cli.changing import change
from speck.cli.completion import composition_argument, composition_names
from speck.cli.options import change_options, give_up_option, json_option, limit_option, yes_option
from speck.cli.output import show_data
from speck.client import Client
from speck.core.units import SECONDS


class TimeParameter(click.ParamType[float]):
    """A Unix time (s), given as an age or as a date and time of day (UTC without an offset)."""

    name = "time"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> float:
        """See :class:`click.ParamType`."""
        text = str(value)
        with suppress(ValueError):
            return time.time() - float(SECONDS.parse(text))
        try:
            found = datetime.fromisoformat(text)
            return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            self.fail(f"{text!r} is not a time (expected 90s, 15m, 2h, 3d, or 2026-01-31T12:00)")


@click.command()
@click.argument("name", required=False, shell_complete=composition_names)
@click.option("--deleted", is_flag=True, help="List the deleted compositions instead.")
@json_option
@click.pass_obj
def history(client: Client, name: str | None, deleted: bool, as_json: bool) -> None:
    """List the revisions of a composition.  Each has its author, changes and message.

    Revisions of a deleted composition are kept; `speck rollback NAME` restores it, with new jobs.
    """
    if deleted is (name is not None):
        raise click.UsageError("expected the name of a composition, or --deleted")
    if name is None:
        data = client.deleted_compositions()
        show_data(data, [render.deletions_table(data)], as_json)
        return
    data = client.revisions(name)
    show_data(data, [render.revisions_table(data)], as_json)


@click.command()
@composition_argument
@click.argument("before", type=click.IntRange(0), required=False)
@click.argument("after", type=click.IntRange(1), required=False)
@click.option("--code", is_flag=True, help="Also show the changed lines of code (role write).")
@json_option
@click.pass_obj
def diff(client: Client, name: str, before: int | None, after: int | None, code: bool, as_json: bool) -> None:
    """Show the differences between two revisions, field by field.

    With one revision, compares it with the latest; with none, compares the latest two.
    """
    data = (client.code_difference if code else client.difference)(name, before, after)
    show_data(data, render.difference_lines(data), as_json)


@click.command()
@composition_argument
@click.argument("revision", type=click.IntRange(1), required=False)
@click.option("--dry-run", is_flag=True, help="Only show the plan; exits 0 without changes, 2 with changes.")
@click.option("--base-revision", type=int, help="Fail unless this is the latest revision.")
@give_up_option
@yes_option
@change_options
@json_option
@click.pass_obj
def rollback(
    client: Client,
    name: str,
    revision: int | None,
    dry_run: bool,
    base_revision: int | None,
    give_up: bool,
    yes: bool,
    why: dict[str, Any],
    as_json: bool,
) -> None:
    """Roll back a composition to an earlier revision.  The default is the previous one.

    A rollback creates a new revision, which is planned and applied like any other.  A deleted
    composition is restored to its latest revision by default, with new jobs.
    """
    query = {**why, "revision": revision, "base_revision": base_revision, "give_up": give_up or None}
    change(client, partial(client.rollback, name), query, dry_run=dry_run, yes=yes, as_json=as_json)


@click.command()
@click.argument("composition", default="", shell_complete=composition_names)
@limit_option(1000, 20)
@json_option
@click.pass_obj
def operations(client: Client, composition: str, limit: int, as_json: bool) -> None:
    """List the operations, newest first."""
    data = client.operations(limit, composition=composition)
    if not data and composition:
        client.composition(composition)  # raises for an unknown name
    show_data(data, [render.operations_table(data)], as_json)


@click.command()
@limit_option(10_000, 100)
@click.option("--composition", metavar="NAME", help="Only events of this composition.")
@click.option("--job", metavar="NAME", help="Only events of this job.")
@click.option("--operation", metavar="ID", help="Only events of this operation.")
@click.option(
    "--since", type=TimeParameter(), help="Oldest time: 90s, 15m, 2h or 3d ago, or 2026-01-31T12:00 (UTC)."
)
@json_option
@click.pass_obj
def events(
    client: Client,
    limit: int,
    composition: str | None,
    job: str | None,
    operation: str | None,
    since: float | None,
    as_json: bool,
) -> None:
    """Show the audit log.  Each intent and its outcome has its author and reason."""
    data = client.events(limit, composition=composition, job=job, operation=operation, since=since)
    if not data:
        _refuse_unknown(client, composition, job, operation)
    show_data(data, [render.events_table(data)], as_json)


def _refuse_unknown(client: Client, composition: str | None, job: str | None, operation: str | None) -> None:
    """Raise the server's error for a name that it does not know, such as a mistyped one."""
    if composition:
        client.composition(composition)
    if operation:
        client.operation(operation)
    if job and job not in [each["job_name"] for each in client.jobs()]:
        client.job(job)  # of a known job, this would ask its engine
