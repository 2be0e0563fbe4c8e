"""The command that shows, pauses and resumes the adaptation of placements."""

from __future__ import annotations

from typing import Any

import click

from speck.cli import render
from speck.cli.completion import composition_names
from speck.cli.options import Duration, json_option, only_composition
from speck.cli.output import show_data
from speck.client import Client

_LONGEST_PAUSE = 720 * 3600.0  # s


@click.command()
@click.argument("composition", required=False, shell_complete=composition_names)
@click.option(
    "--pause",
    type=Duration(1.0, _LONGEST_PAUSE, "1s to 720h"),
    metavar="TIME",
    help="Pause for this long: 1h, '90 minutes'.",
)
@click.option("--resume", is_flag=True, help="End a pause.")
@json_option
@click.pass_obj
def adapt(client: Client, composition: str | None, pause: float | None, resume: bool, as_json: bool) -> None:
    """Show the decisions of the adaptation loop, or pause it.

    Without COMPOSITION, lists one row for each.  With it, lists its last decisions, newest first, the steps
    of the last day with their outcome, and the groups of jobs banned from a site, with the end of each ban.

    --pause and --resume need no COMPOSITION if there is only one.
    """
    if pause is not None and resume:
        raise click.UsageError("--pause and --resume exclude each other (expected one of them)")
    if pause is None and not resume and composition is None:
        data = client.adaptations()
        show_data(data, render.adaptations_lines(data), as_json)
        return
    data = _changed(client, composition or only_composition(client), pause, resume)
    show_data(data, render.adaptation_lines(data), as_json)


def _changed(client: Client, name: str, pause: float | None, resume: bool) -> dict[str, Any]:
    if pause is not None:
        return client.pause_adaptation(name, pause)
    return client.resume_adaptation(name) if resume else client.adaptation(name)
