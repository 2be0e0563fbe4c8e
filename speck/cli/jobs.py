"""The commands that show jobs."""

from __future__ import annotations

import click

from speck.cli import render
from speck.cli.completion import job_argument
from speck.cli.options import json_option, unfold_option
from speck.cli.output import hint_at_nothing, show_data
from speck.cli.terminal import out
from speck.cli.waiting import waiting
from speck.client import Client


@click.command()
@unfold_option
@json_option
@click.pass_obj
def jobs(client: Client, unfold: bool, as_json: bool) -> None:
    """List the jobs with their desired and observed state.

    The jobs of one for_each entry share one line, followed by those that need attention. On a terminal,
    long messages are shortened; `speck show JOB` prints them in full.
    """
    data = client.jobs()
    rows = data if unfold else render.folded_jobs(data)
    show_data(data, [render.jobs_table(rows, whole=not out.is_terminal)], as_json)
    hint_at_nothing(data, as_json)


@click.command()
@job_argument
@json_option
@click.pass_obj
def show(client: Client, job: str, as_json: bool) -> None:
    """Show one job in full, as its engine reports it now.  --json gives exact values."""
    with waiting("asking the engine"):
        data = client.job(job)
    show_data(data, render.facts(data), as_json)
