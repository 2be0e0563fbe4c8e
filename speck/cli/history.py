"""The commands about the past: revisions, what differs between them, the way back, and the audit log."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime
from typing import Any

import click

from speck.cli import render
from speck.cli.completion import composition_argument, composition_names
from speck.cli.options import (
    CHANGES,
    NOTHING_TO_DO,
    carry_out,
    json_option,
    limit_option,
    show_data,
    why_options,
)
from speck.client import Client

_AGO = re.compile(r"(\d+)([smhd])\Z")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Moment(click.ParamType[float]):
    """A moment: how long ago, or a date and time of day (UTC, if it does not say); Unix time, s."""

    name = "time"

    def convert(self, value: Any, parameter: click.Parameter | None, context: click.Context | None) -> float:
        """See :class:`click.ParamType`."""
        text = str(value)
        if ago := _AGO.match(text):
            return time.time() - int(ago[1]) * _SECONDS[ago[2]]
        try:
            found = datetime.fromisoformat(text)
            return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            self.fail(f"{text!r} is no time (expected 90s, 15m, 2h, 3d, or 2026-01-31T12:00)")


@click.command()
@composition_argument
@json_option
@click.pass_obj
def history(client: Client, name: str, as_json: bool) -> None:
    """List a composition's revisions: when, who, why, and what changed."""
    data = client.revisions(name)
    show_data(data, [render.revisions_table(data)], as_json)


@click.command()
@composition_argument
@click.argument("before", type=click.IntRange(0), required=False)
@click.argument("after", type=click.IntRange(1), required=False)
@json_option
@click.pass_obj
def diff(client: Client, name: str, before: int | None, after: int | None, as_json: bool) -> None:
    """Show what differs between two revisions of a composition, field by field.

    With one revision, from that one to the last; with none, from the one before the last.
    """
    data = client.difference(name, before, after)
    show_data(data, render.difference_lines(data), as_json)


@click.command()
@composition_argument
@click.argument("revision", type=click.IntRange(1), required=False)
@click.option("--dry-run", is_flag=True, help="Show what it would do: exits 0 for nothing, 2 for changes.")
@click.option("--base-revision", type=int, help="Refuse when this is not the last revision.")
@why_options
@json_option
@click.pass_obj
def rollback(
    client: Client,
    name: str,
    revision: int | None,
    dry_run: bool,
    base_revision: int | None,
    message: str,
    author: str,
    as_json: bool,
) -> None:
    """Go back to an earlier revision of a composition, by default the one before the last.

    That makes a new revision, which is planned and carried out like any other.
    """
    planned = client.plan_rollback(name, revision, base_revision)
    if dry_run or not as_json:
        show_data(planned, render.plan_lines(planned), as_json)
    if dry_run:
        raise SystemExit(CHANGES if render.has_changes(planned) else NOTHING_TO_DO)
    # What was shown is what is done, as for an apply.
    base, target = planned["base_revision"], planned["restored"]
    carry_out(
        client,
        lambda: client.rollback(name, target, base_revision=base, message=message, author=author),
        as_json,
    )


@click.command()
@click.argument("composition", default="", shell_complete=composition_names)
@limit_option(1000, 20)
@json_option
@click.pass_obj
def operations(client: Client, composition: str, limit: int, as_json: bool) -> None:
    """List the operations that are kept (of a composition), newest first: what was done, for whom and why."""
    data = client.operations(limit, composition=composition)
    if not data and composition:
        client.composition(composition)  # a name that is mistyped is told
    show_data(data, [render.operations_table(data)], as_json)


@click.command()
@limit_option(10_000, 100)
@click.option("--composition", metavar="NAME", help="Of this composition only.")
@click.option("--job", metavar="NAME", help="Of this job only.")
@click.option("--operation", metavar="ID", help="Of this operation only.")
@click.option("--since", type=Moment(), help="No older: 90s, 15m, 2h, 3d ago, or 2026-01-31T12:00 (UTC).")
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
    """Show the audit log: what was to be done, for whom and why, and what came of it."""
    data = client.events(limit, composition=composition, job=job, operation=operation, since=since)
    if not data:
        _refuse_unknown(client, composition, job, operation)
    show_data(data, [render.events_table(data)], as_json)


def _refuse_unknown(client: Client, composition: str | None, job: str | None, operation: str | None) -> None:
    """Raise the server's word on names that it does not know, so that one that is mistyped is told."""
    if composition:
        client.composition(composition)
    if operation:
        client.operation(operation)
    if job and job not in [each["job_name"] for each in client.jobs()]:
        client.job(job)  # of one that is there, its engine would be asked
