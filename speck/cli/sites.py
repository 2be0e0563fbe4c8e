"""The commands for sites: the inventory, and health checks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from speck.cli import render
from speck.cli.options import ERROR, file_path, json_option, show_data
from speck.cli.terminal import err
from speck.cli.variables import values, variables_options
from speck.client import Client


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def sites(context: click.Context, as_json: bool) -> None:
    """List the sites, and whether their servers are reachable."""
    if context.invoked_subcommand is None:
        data = context.obj.sites()
        show_data(data, [render.sites_table(data)], as_json)
        if not data and not as_json:
            err.print("the server has no site inventory (speck serve --sites FILE)")


@sites.command()
@click.option(
    "--sites",
    "inventory",
    type=file_path,
    help="Check the sites of this inventory from this machine [default: the server checks its own].",
)
@click.option(
    "--from-engines",
    is_flag=True,
    help="Also check that each engine can reach each broker; briefly uses a slot of each engine.",
)
@variables_options
@json_option
@click.pass_obj
def check(
    client: Client,
    inventory: Path | None,
    from_engines: bool,
    env_files: tuple[Path, ...],
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Check each engine and each broker: reachability, version, limits, clock.  Faults have remedies.

    Also compares brokers with each other: bridges, two names for one broker, packet sizes along the edges.

    Exits 1 on faults.  Remarks (for example sessions of another SpecK) are not faults.
    """
    if inventory is None and (env_files or settings):
        raise click.UsageError("--env and --set require --sites (they set the variables of that file).")
    given = values(env_files, settings, inventory)
    if inventory is not None:
        found = _check_from_here(inventory, given, from_engines=from_engines)
    else:
        found = client.check_sites_from_engines() if from_engines else client.check_sites()
    show_data(found, [render.checkup_table(found), *render.checkup_lines(found)], as_json)
    raise SystemExit(ERROR if any(map(render.faults_of, found)) else 0)


def _check_from_here(path: Path, variables: Mapping[str, str], *, from_engines: bool) -> list[dict[str, Any]]:
    from speck.binder import installed
    from speck.binder.pool import BinderPool
    from speck.observe.healthcheck import examine, with_reach
    from speck.schema.inventory import read_inventory

    inventory = read_inventory(path, variables)
    pool = BinderPool(installed(), inventory)
    try:
        found = examine(inventory, pool)
        return [each.to_dict() for each in (with_reach(found, inventory, pool) if from_engines else found)]
    finally:
        pool.close()
