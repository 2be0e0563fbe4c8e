"""The commands for the agent of a site, which run at the site."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from speck.agent import ENVIRONMENT
from speck.cli.options import default_sites, file_path, json_option
from speck.cli.output import show_data
from speck.cli.render.tables import table
from speck.cli.render.values import clock
from speck.cli.terminal import err
from speck.cli.variables import values, variables_options
from speck.errors import Fault, InvalidInput

DIRECTORY = Path("/var/lib/speck-agent")

agent_directory = click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=DIRECTORY,
    show_default=True,
    help="Directory of the agent.",
)


def run_command(directory: Path) -> str:
    """The command that runs the agent of a directory."""
    return "speck agent run" + (
        "" if directory == DIRECTORY else f" --directory {shlex.quote(str(directory))}"
    )


@click.group()
def agent() -> None:
    """Run the agent of a site, at the site."""


@agent.command()
@click.argument("site")
@click.option("--sites", "inventory", type=file_path, help="Site inventory with the site's entry.")
@click.option(
    "--coordinator",
    required=True,
    metavar="URL",
    help="Address of `speck serve --agents`: wss://HOST:PORT, or ws:// on loopback.",
)
@click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    help="File with the token of the site (speck token add).",
)
@click.option(
    "--ca-file", type=file_path, help="PEM file of the authority that signed the server's certificate."
)
@agent_directory
@variables_options
def init(
    site: str,
    inventory: Path | None,
    coordinator: str,
    token_file: Path,
    ca_file: Path | None,
    directory: Path,
    env_files: tuple[Path, ...],
    settings: tuple[str, ...],
) -> None:
    """Write the description of SITE, from its entry in the inventory, for `speck agent run`."""
    from speck.agent.site_file import SiteFile, known_upgrade, write_site_file
    from speck.agent.status import forget_epoch
    from speck.core.inventory import Secret
    from speck.schema.inventory import read_inventory

    path = inventory or default_sites()
    if path is None:
        raise click.UsageError("Missing option '--sites'.")
    sites = read_inventory(path, values(env_files, settings, path)).sites
    if site not in sites:
        message = f"site {site!r} is not in {path} (known: {', '.join(sorted(sites)) or 'none'})"
        raise InvalidInput([Fault(message)], "site")
    described = SiteFile(
        site=sites[site],
        coordinator=coordinator.rstrip("/"),
        token=Secret(f"file:{token_file.absolute()}"),
        ca_file=None if ca_file is None else str(ca_file.absolute()),
        upgrade=known_upgrade(directory),
    )
    written = write_site_file(directory, described)
    forget_epoch(directory)  # of a server that was lost
    err.print(f"{written} is written (start the agent with: {run_command(directory)})", markup=False)


@agent.command()
@agent_directory
def run(directory: Path) -> None:
    """Run the agent until it is interrupted.  Jobs continue when it ends."""
    if find_spec("websockets") is None:
        raise InvalidInput([Fault("the agent needs websockets (pip install 'speck[agent]')")], "agent")
    sys.stdout.flush()
    sys.stderr.flush()
    python = _python()
    os.execve(python, [python, "-m", "speck.agent", str(directory.absolute())], os.environ | ENVIRONMENT)  # noqa: S606


def _python() -> str:
    """The Python of this environment, by the path of this command if it is beside that.

    A link in that path may lead to another environment after an upgrade, which the agent is to start then.
    ``sys.executable`` is the path of the environment itself, in which the command was installed.
    """
    beside = Path(sys.argv[0]).absolute().with_name("python")
    is_same = beside.exists() and beside.parent.resolve() == Path(sys.executable).parent.resolve()
    return str(beside) if is_same else sys.executable


@agent.command()
@agent_directory
@json_option
def status(directory: Path, as_json: bool) -> None:
    """Show the last contact with the server, and the attempts at the site.  Needs no server."""
    from speck.agent.status import status as found_status

    found = found_status(directory)
    show_data(found, [*_contact_lines(found), _attempts_table(found)], as_json)


def _contact_lines(found: Mapping[str, Any]) -> Iterator[str]:
    contact = found["contact"]
    since = f" since {clock(contact['since'])}" if contact["since"] else ""
    text = "connected" if contact["connected"] else f"no contact ({contact['reason']})"
    yield f"site {found['site']}: {text}{since}, server {found['coordinator']}"


def _attempts_table(found: Mapping[str, Any]) -> Any:
    rows = (
        (each["job_name"], each["attempt"], each["engine"], each["phase"], each["starts"], each["reason"])
        for each in found["attempts"]
    )
    return table(("JOB", "ATTEMPT", "ENGINE", "PHASE", "STARTS", "REASON"), rows)
