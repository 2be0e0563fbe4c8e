"""The command that finds conditions that can lose messages."""

from __future__ import annotations

import click

from speck.cli import render
from speck.cli.options import ERROR, json_option
from speck.cli.output import show_data
from speck.cli.waiting import waiting
from speck.client import Client


@click.command()
@json_option
@click.pass_obj
def doctor(client: Client, as_json: bool) -> None:
    """Find conditions that can lose messages or block jobs.  Each has a remedy.

    Checks for sessions near their limit, sessions of another SpecK, jobs whose state cannot be read,
    sinks that retain too much, lost messages, and the faults of `speck sites check`.  Exits 1 on
    findings.
    """
    with waiting("asking all engines and brokers"):
        found = client.doctor()
    show_data(found, render.doctor_report(found), as_json)
    raise SystemExit(ERROR if found else 0)
