"""The command that shows the rates and the lag of each job."""

from __future__ import annotations

import time
from typing import Any

import click
from rich.console import RenderableType
from rich.live import Live
from rich.text import Text

from speck.cli import render
from speck.cli.completion import composition_names
from speck.cli.options import json_option
from speck.cli.output import show_data
from speck.cli.progress import transient
from speck.cli.screen import Screen
from speck.cli.terminal import is_interactive, out
from speck.cli.watch import interval_option
from speck.client import Client
from speck.errors import ServerError

_FIRST_RATES = 3.0  # s, for the first answers of engines whose rates were not requested lately
_PAUSE = 0.1  # s


@click.command()
@click.argument("composition", required=False, shell_complete=composition_names)
@click.option(
    "--sort",
    type=click.Choice(tuple(render.SORTS)),
    default="waiting",
    show_default=True,
    help="Column to sort by, the largest values first (names in alphabetical order); waiting is BACKLOG.",
)
@click.option("--once", is_flag=True, help="Print once and exit; the default without a terminal.")
@interval_option
@json_option
@click.pass_obj
def top(
    client: Client, composition: str | None, sort: str, once: bool, interval: float, as_json: bool
) -> None:
    """Show the rates, backlog and last batch of each job.

    IN/S and OUT/S are messages/s, BACKLOG is the number of unprocessed messages, WORK S the duration (s)
    of the last batch (Spark) or checkpoint (Flink).  "-" marks a value that the engine does not report.
    """
    if composition is not None:
        client.composition(composition)  # raises for an unknown name
    if once or as_json or not is_interactive(out):
        data = _complete_rates(client, composition, sort)
        show_data(data, [render.rates_table(data["jobs"])], as_json)
        return
    try:
        data = _rates(client, composition, sort)
        with Live(_view(data), console=out, auto_refresh=False) as live:
            while True:
                time.sleep(interval)
                problem = ""
                try:
                    data = _rates(client, composition, sort)
                except ServerError as error:
                    problem = transient(error)
                live.update(_view(data, problem), refresh=True)
    except KeyboardInterrupt:
        return


def _rates(client: Client, composition: str | None, sort: str) -> dict[str, Any]:
    data = client.rates()
    jobs = [each for each in data["jobs"] if composition in (None, each["composition"])]
    return data | {"jobs": render.sorted_rates(jobs, sort)}


def _complete_rates(client: Client, composition: str | None, sort: str) -> dict[str, Any]:
    """The rates, requested again until all engines have answered once."""
    until = time.monotonic() + _FIRST_RATES
    while True:
        data = _rates(client, composition, sort)
        missing = [each for each in data["jobs"] if each["observed"] is None and each["error"] is None]
        if not missing or time.monotonic() > until:
            return data
        time.sleep(_PAUSE)


def _view(data: dict[str, Any], problem: str = "") -> RenderableType:
    at = render.clock(data["observed"]) if data["observed"] else "nothing observed yet"
    head = Text(at, style="dim")
    if problem:
        head.append(f"  {problem}", style="yellow")
    return Screen([head], data["jobs"], render.rates_table)
