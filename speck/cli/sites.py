"""The commands for sites: the inventory, and health checks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from speck.cli import render
from speck.cli.agent import agent_directory, run_command
from speck.cli.options import ERROR, file_path, json_option, settle_option
from speck.cli.output import show_data
from speck.cli.render.values import clock
from speck.cli.terminal import err
from speck.cli.variables import values, variables_options
from speck.cli.waiting import waiting
from speck.client import Client


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def sites(context: click.Context, as_json: bool) -> None:
    """List the sites, and whether their servers are reachable."""
    if context.invoked_subcommand is None:
        with waiting("asking all engines and brokers"):
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
    with waiting("checking all engines and brokers"):
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


@sites.command()
@click.argument("name")
@json_option
@click.pass_obj
def add(client: Client, name: str, as_json: bool) -> None:
    """Print a code with which the site NAME joins; it is valid once, for 15 minutes.

    A site that joins is reached through its agent.  An earlier code of the site becomes invalid.
    """
    found = client.invite_site(name)
    show_data(found, [found["code"]], as_json)
    err.print(
        f"at the site: speck sites join CODE --server HOST:PORT (valid until {clock(found['until'])})",
        markup=False,
    )


@sites.command()
@click.argument("code")
@click.option(
    "--server",
    required=True,
    metavar="HOST:PORT",
    help="Address of `speck serve --agents`, or the wss:// URL of a proxy in front of it.",
)
@click.option(
    "--engine", metavar="URL", help="Address of the engine, for a site that the server does not know."
)
@click.option("--broker", metavar="URL", help="Address of the broker, likewise.")
@click.option("--checkpoint-dir", metavar="DIR", help="Directory of the engine's checkpoints, likewise.")
@click.option("--savepoint-dir", metavar="DIR", help="Directory of Flink's savepoints, likewise.")
@click.option("--sites", "inventory", type=file_path, help="Inventory with the entry of the site, instead.")
@click.option(
    "--ca-file", type=file_path, help="PEM file of the authority that signed the server's certificate."
)
@agent_directory
@variables_options
def join(
    code: str,
    server: str,
    engine: str | None,
    broker: str | None,
    checkpoint_dir: str | None,
    savepoint_dir: str | None,
    inventory: Path | None,
    ca_file: Path | None,
    directory: Path,
    env_files: tuple[Path, ...],
    settings: tuple[str, ...],
) -> None:
    """Join with the CODE that `speck sites add` printed, at the site; then run `speck agent run`.

    If the server's inventory does not contain the site, give its engine and broker here; they must answer.
    """
    from speck.cli.joining import checked_entry, joined

    given = {
        "spe_address": engine,
        "broker_address": broker,
        "checkpoint_dir": checkpoint_dir,
        "savepoint_dir": savepoint_dir,
    }
    known = {name: value for name, value in given.items() if value is not None}
    if known and inventory is not None:
        raise click.UsageError("--sites and --engine, --broker, --*-dir exclude each other.")
    if known and not {"spe_address", "broker_address"} <= known.keys():
        raise click.UsageError("--engine and --broker must be given together.")
    with waiting("checking the engine and the broker"):
        entry = checked_entry(code, known, inventory, values(env_files, settings, inventory))
    with waiting(f"joining {server}"):
        site = joined(code, server, directory, entry, ca_file)
    err.print(
        f"site {site} has joined: {directory} is written (start the agent with: {run_command(directory)})",
        markup=False,
    )


@sites.command()
@click.argument("name")
@json_option
@click.pass_obj
def revoke(client: Client, name: str, as_json: bool) -> None:
    """End the connection of the agent of site NAME, and refuse the agent from now on.

    The jobs there continue.  Change the passwords of the brokers that are listed: the site knows them.
    """
    found = client.revoke_site(name)
    lines = [f"site {name}: the agent is refused; the jobs there continue"]
    if found["brokers"]:
        lines.append(f"it may know the logins of its jobs to: {', '.join(found['brokers'])}")
    show_data(found, lines, as_json)


@sites.command()
@click.argument("name")
@json_option
@click.pass_obj
def remove(client: Client, name: str, as_json: bool) -> None:
    """Remove the site NAME from the inventory, and refuse its agent from now on.

    For sites that joined.  Refused while jobs use its engines or its broker.
    """
    found = client.remove_site(name)
    lines = [f"site {name} is removed; stop its agent there, and delete the agent's directory"]
    show_data(found, lines, as_json)


@sites.command()
@click.argument("names", nargs=-1, metavar="[SITE]...")
@click.option("--all", "everywhere", is_flag=True, help="Upgrade all sites whose agent is connected.")
@click.option(
    "--wave",
    "waves",
    multiple=True,
    metavar="SITES",
    help="Upgrade these sites first: SITE,SITE, a number (site/2 is the site named 2), or a share such as "
    "10%. Each further --wave is the next one; the remaining sites are the last [default: one site first].",
)
@settle_option
@click.option(
    "--dry-run", is_flag=True, help="Show the waves and versions only; exit 2 if an agent would change."
)
@click.option(
    "-y", "--yes", is_flag=True, help="Do not ask for confirmation; required when there is no terminal."
)
@json_option
@click.pass_obj
def upgrade(
    client: Client,
    names: tuple[str, ...],
    everywhere: bool,
    waves: tuple[str, ...],
    settle: float,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Upgrade the agents of each SITE, or of all, to the server's version.  Their jobs keep running.

    A wave begins when all agents of the previous one are connected in the new version, and all jobs that ran
    at their sites run without losses.  Otherwise the upgrade stops; repeat the command to continue.
    """
    from speck.cli.upgrading import upgrade_agents

    if bool(names) == everywhere:
        raise click.UsageError("Give the sites, or --all.")
    upgrade_agents(client, names, waves, settle, dry_run=dry_run, yes=yes, as_json=as_json)
