"""The command that shows what flows: rates and lag by job."""

from __future__ import annotations

import time
from typing import Any

import click
from rich.console import RenderableType
from rich.live import Live
from rich.text import Text

from speck.cli import render
from speck.cli.completion import composition_names
from speck.cli.options import json_option, out, show_data
from speck.cli.progress import passing
from speck.cli.screen import Screen
from speck.cli.terminal import moves
from speck.cli.watch import interval_option
from speck.client import Client
from speck.errors import ServerError

_PATIENCE = 3.0  # s, for engines that nobody has asked for their rates lately
_PAUSE = 0.1


@click.command()
@click.argument("composition", required=False, shell_complete=composition_names)
@click.option(
    "--sort",
    type=click.Choice(tuple(render.SORTS)),
    default="waiting",
    show_default=True,
    help="The column to sort by, the largest first.",
)
@click.option("--once", is_flag=True, help="Print and end; so it is where the output is no terminal.")
@interval_option
@json_option
@click.pass_obj
def top(
    client: Client, composition: str | None, sort: str, once: bool, interval: float, as_json: bool
) -> None:
    """Show what each job takes in and gives out, what waits for it, and how long its work takes.

    IN/S and OUT/S are messages/s, WAITING messages that were not worked off yet, WORK S the duration of the
    last batch (Spark) or checkpoint (Flink).  "-" is what the engine does not tell.
    """
    if composition is not None:
        client.composition(composition)  # a name that is mistyped is told at once
    if once or as_json or not moves(out):
        data = _told(client, composition, sort)
        show_data(data, [render.rates_table(data["jobs"])], as_json)
        return
    try:
        data = _rates(client, composition, sort)
        with Live(_picture(data), console=out, auto_refresh=False) as live:
            while True:
                time.sleep(interval)
                trouble = ""
                try:
                    data = _rates(client, composition, sort)
                except ServerError as error:
                    trouble = passing(error)
                live.update(_picture(data, trouble), refresh=True)
    except KeyboardInterrupt:
        return


def _rates(client: Client, composition: str | None, sort: str) -> dict[str, Any]:
    data = client.rates()
    jobs = [each for each in data["jobs"] if composition in (None, each["composition"])]
    return data | {"jobs": render.sorted_rates(jobs, sort)}


def _told(client: Client, composition: str | None, sort: str) -> dict[str, Any]:
    """The rates, asked for again while the engines, which nobody asked before, have not answered yet."""
    until = time.monotonic() + _PATIENCE
    while True:
        data = _rates(client, composition, sort)
        missing = [each for each in data["jobs"] if each["observed"] is None and each["error"] is None]
        if not missing or time.monotonic() > until:
            return data
        time.sleep(_PAUSE)


def _picture(data: dict[str, Any], trouble: str = "") -> RenderableType:
    at = render.clock(data["observed"]) if data["observed"] else "nothing observed yet"
    head = Text(at, style="dim")
    if trouble:
        head.append(f"  {trouble}", style="yellow")
    return Screen([head], data["jobs"], render.rates_table)
