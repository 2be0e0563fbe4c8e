"""The command that shows the workers of engines that scale, and the engines of pools."""

from __future__ import annotations

import click

from speck.cli import render
from speck.cli.options import json_option
from speck.cli.output import show_data
from speck.cli.terminal import err
from speck.client import Client


@click.command()
@click.argument("site", required=False)
@json_option
@click.pass_obj
def workers(client: Client, site: str | None, as_json: bool) -> None:
    """Show the workers of engines that scale, and of pools.

    Without SITE, shows those of all sites.
    """
    data = client.workers(site)
    show_data(data, render.workers_lines(data), as_json)
    if not data and not as_json:
        where = f" of site {site}" if site else ""
        err.print(f"no engine{where} has 'scale' or 'pool' in the inventory", markup=False)
