"""The command that looks for what may lose messages."""

from __future__ import annotations

import click

from speck.cli import render
from speck.cli.options import ERROR, json_option, show_data
from speck.client import Client


@click.command()
@json_option
@click.pass_obj
def doctor(client: Client, as_json: bool) -> None:
    """Look for what may lose messages or keep a job from going on, and say what to do.

    Sessions near their bound, sessions of another SpecK, jobs whose state cannot be read, sinks that keep
    more than they may, lost messages, and the faults of `speck sites check`. Exits 1 when there is a finding.
    """
    found = client.doctor()
    show_data(found, render.doctor_report(found), as_json)
    raise SystemExit(ERROR if found else 0)
