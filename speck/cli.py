"""The command line.  It talks to the server over REST only; data to stdout, diagnostics to stderr."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

import speck
from speck import render
from speck.client import DEFAULT_URL, Client, RequestRefused
from speck.errors import InvalidInput, SpeckError
from speck.model import Inventory

if TYPE_CHECKING:
    from speck.local import LocalSites

NOTHING_TO_DO, ERROR, CHANGES, INTERRUPTED = 0, 1, 2, 130
DEFAULT_DIRECTORY = Path(".speck")
_UNLIMITED = 100_000  # columns: nothing is cut where the output is piped

_Function = TypeVar("_Function", bound=Callable[..., Any])

out = Console(soft_wrap=True, width=None if sys.stdout.isatty() else _UNLIMITED, highlight=False)
err = Console(stderr=True, soft_wrap=True, highlight=False)


def _json_option(function: _Function) -> _Function:
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def _show(data: Any, lines: Iterable[RenderableType], as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(data, indent=2))
        return
    for line in lines:
        out.print(line)


def _default_sites() -> Path | None:
    path = DEFAULT_DIRECTORY / "local" / "sites.yaml"
    return path if path.exists() else None


_file = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(speck.__version__, prog_name="speck")
@click.option("--server", envvar="SPECK_SERVER", default=DEFAULT_URL, show_default=True, help="The server.")
@click.pass_context
def cli(context: click.Context, server: str) -> None:
    """One streaming application out of jobs on different engines at different sites.

    The environment variable SPECK_TOKEN holds the server's token, where it asks for one.
    """
    context.obj = Client(server, os.environ.get("SPECK_TOKEN"))


@cli.command()
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8180,
    show_default=True,
    help="Port to listen on; 0 takes a free one.",
)
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_DIRECTORY / "store",
    show_default=True,
    help="Where the store lies.",
)
@click.option(
    "--sites",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The site inventory [default: that of `speck local up`, if there].",
)
@click.option(
    "--root",
    "roots",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    multiple=True,
    default=(Path(),),
    help="Directory under which job files lie; may be given again [default: this one].",
)
@click.option(
    "--advertise",
    metavar="URL",
    help="Where engines fetch files from this server [default: the address it listens on].",
)
@click.option("-v", "--verbose", is_flag=True, help="Log more.")
def serve(
    host: str,
    port: int,
    data_dir: Path,
    sites: Path | None,
    roots: tuple[Path, ...],
    advertise: str | None,
    verbose: bool,
) -> None:
    """Run the server."""
    from speck.server import serve as run

    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    run(
        data_dir=data_dir,
        sites=sites or _default_sites(),
        roots=roots,
        host=host,
        port=port,
        token=os.environ.get("SPECK_TOKEN"),
        advertise=advertise,
        ready=lambda url: click.echo(f"SpecK serves {url}"),
    )


@cli.command()
@_file
@click.option("--base-revision", type=int, help="Refuse when this is not the last revision.")
@_json_option
@click.pass_obj
def plan(client: Client, file: Path, base_revision: int | None, as_json: bool) -> None:
    """Show what an apply would do.  Exits 0 when that is nothing, 2 when there are changes."""
    data = client.plan(file.read_bytes(), file.stem, base_revision)
    _warn(data["warnings"])
    _show(data, render.plan_lines(data), as_json)
    raise SystemExit(CHANGES if render.has_changes(data) else NOTHING_TO_DO)


@cli.command()
@_file
@click.option("--base-revision", type=int, help="Refuse when this is not the last revision.")
@click.option("-m", "--message", default="", help="Why; kept with the revision.")
@click.option(
    "--leave-behind",
    multiple=True,
    metavar="SITE_OR_ADDRESS",
    help="Do not wait for this site or engine: what runs there and is wanted elsewhere is fenced off and "
    "left, and stopped by a later apply (may be repeated).",
)
@_json_option
@click.pass_obj
def apply(
    client: Client,
    file: Path,
    base_revision: int | None,
    message: str,
    leave_behind: tuple[str, ...],
    as_json: bool,
) -> None:
    """Make what runs what the file says."""
    text = file.read_bytes()
    planned = client.plan(text, file.stem, base_revision)
    _warn(planned["warnings"])
    if not as_json:
        _show(planned, render.plan_lines(planned), False)
    # What was shown is what is done: an edit in between makes the plan stale, and is refused.
    try:
        operation = client.apply(
            text,
            file.stem,
            base_revision=planned["base_revision"],
            message=message,
            author=os.environ.get("USER", ""),
            leave_behind=list(leave_behind),
        )
    except KeyboardInterrupt:
        err.print("\nThe server may have begun already.  Look at it with: speck compositions")
        raise SystemExit(INTERRUPTED) from None
    _end(_follow(client, operation["id"], quiet=as_json), as_json)


@cli.command("operation")
@click.argument("identifier")
@click.option("--follow", is_flag=True, help="Stay until it ends.")
@_json_option
@click.pass_obj
def show_operation(client: Client, identifier: str, follow: bool, as_json: bool) -> None:
    """Show the progress of one apply."""
    operation = _follow(client, identifier, quiet=as_json) if follow else client.operation(identifier)
    lines = [*map(render.action_line, operation["actions"]), render.operation_summary(operation)]
    _show(operation, lines, as_json)


@cli.command()
@_json_option
@click.pass_obj
def jobs(client: Client, as_json: bool) -> None:
    """List the jobs: wanted, and as last observed."""
    data = client.jobs()
    _show(data, [render.jobs_table(data)], as_json)


@cli.command()
@click.argument("job")
@_json_option
@click.pass_obj
def show(client: Client, job: str, as_json: bool) -> None:
    """Show one job in full, asked of its engine now."""
    data = client.job(job)
    _show(data, render.facts(data), as_json)


@cli.command()
@_json_option
@click.pass_obj
def compositions(client: Client, as_json: bool) -> None:
    """List the compositions."""
    data = client.compositions()
    _show(data, [render.compositions_table(data)], as_json)


@cli.command()
@click.argument("name")
@_json_option
@click.pass_obj
def history(client: Client, name: str, as_json: bool) -> None:
    """List a composition's revisions."""
    data = client.revisions(name)
    _show(data, [render.revisions_table(data)], as_json)


@cli.command()
@click.argument("name")
@click.option("--job", is_flag=True, help="NAME is a job, not a composition.")
@_json_option
@click.pass_obj
def delete(client: Client, name: str, job: bool, as_json: bool) -> None:
    """Stop and forget a composition with all of its jobs (or one job)."""
    operation = client.delete_job(name) if job else client.delete_composition(name)
    _end(_follow(client, operation["id"], quiet=as_json), as_json)


@cli.command()
@_json_option
@click.pass_obj
def sites(client: Client, as_json: bool) -> None:
    """List the sites, and whether their engines and brokers can be reached."""
    data = client.sites()
    _show(data, [render.sites_table(data)], as_json)


@cli.command()
@click.option(
    "--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="How many, the last ones."
)
@_json_option
@click.pass_obj
def events(client: Client, limit: int, as_json: bool) -> None:
    """Show the audit log."""
    data = client.events(limit)
    _show(data, [render.events_table(data)], as_json)


@cli.command()
@_file
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="An .svg or .png file.")
@click.option(
    "--sites",
    "inventory",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The site inventory [default: that of `speck local up`, if there].",
)
def graph(file: Path, output: Path | None, inventory: Path | None) -> None:
    """Draw a composition's graph by site, as text or as a picture."""
    from speck.binder import installed
    from speck.draw import draw_image, draw_text
    from speck.schema import load_composition
    from speck.server import read_inventory

    path = inventory or _default_sites()
    sites = read_inventory(path) if path else Inventory()
    loaded = load_composition(
        file.read_bytes(), inventory=sites, registry=installed(), root=Path(), default_name=file.stem
    )
    jobs = loaded.composition.jobs.values()
    if output is None:
        click.echo(draw_text(jobs, sites))
    else:
        draw_image(jobs, sites, output)


@cli.group()
def local() -> None:
    """Engines and brokers of several sites on this machine, for development."""


def _engine_choices(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, list[str]]:
    chosen = {}
    for value in values:
        site, equals, kinds = value.partition("=")
        if not (site and equals and kinds) or site in chosen:
            raise click.BadParameter(f"{value!r} (expected SITE=KIND or SITE=KIND,KIND, each site once)")
        chosen[site] = [kind.strip() for kind in kinds.split(",")]
    return chosen


_directory = click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_DIRECTORY / "local",
    show_default=True,
    help="Where they keep everything.",
)


@local.command()
@click.option("--sites", default=4, show_default=True, help="How many; they are named A, B, C, ...")
@click.option(
    "--engine",
    "engines",
    metavar="SITE=KIND[,KIND]",
    multiple=True,
    callback=_engine_choices,
    help="A site's engines, each spark-connect, spark-standalone or flink [default: spark-connect].",
)
@click.option("--heap", default="600m", show_default=True, help="Java heap of each engine.")
@_directory
@_json_option
def up(sites: int, engines: dict[str, list[str]], heap: str, directory: Path, as_json: bool) -> None:
    """Start engines and a broker for each site, and write the site inventory."""
    from speck import local as machine

    def progress(text: str) -> None:
        err.print(text, markup=False)

    started = machine.up(directory, sites, engines=engines, heap=heap, progress=progress)
    _show_local(started, as_json)
    if not as_json:
        err.print(f"site inventory: {started.inventory}\nnow: speck serve --sites {started.inventory}")


@local.command()
@_directory
def down(directory: Path) -> None:
    """Stop what `speck local up` started, also after a crash."""
    from speck import local as machine

    stopped = machine.down(directory, progress=lambda text: err.print(text, markup=False))
    err.print(f"{len(stopped)} processes stopped")


@local.command()
@_directory
@_json_option
def status(directory: Path, as_json: bool) -> None:
    """Show the sites of this machine."""
    from speck import local as machine

    _show_local(machine.status(directory), as_json)


_readable = click.Path(exists=True, dir_okay=False, path_type=Path)


@cli.command()
@click.option("--data", type=_readable, help="CityPulse readings, plain or gzip [default: a generated day].")
@click.option("--sensors", type=_readable, help="CSV of sensors with the site of each.")
@click.option("--limit", type=click.IntRange(1), help="Only the first so many readings.")
@click.option("--rate", type=click.FloatRange(0), help="Readings a second; 0: as fast as possible.")
@click.option("--speedup", type=click.FloatRange(0), default=0.0, help="Against the time in the data.")
@click.option(
    "--malformed",
    type=click.FloatRange(0, 0.9),
    default=0.02,
    show_default=True,
    help="Share of malformed lines to mix in.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of what is random.")
@click.option("--mixed", is_flag=True, help="Sites on Spark Connect, Spark standalone and Flink.")
@click.option("--keep", is_flag=True, help="Leave everything running, and say where.")
@_json_option
def demo(**options: Any) -> None:
    """Road traffic over four sites: 17 jobs, an edit while data flows, counted to the last vehicle."""
    from speck.demo import DemoOptions, run_demo

    raise SystemExit(run_demo(DemoOptions(**options)))


def _show_local(sites: LocalSites, as_json: bool) -> None:
    servers = [
        {
            "site": each.site,
            "role": each.role,
            "kind": each.kind,
            "address": each.address,
            "state": each.state,
            "pid": each.pid,
        }
        for each in sites.servers
    ]
    _show(servers, [render.servers_table(servers)], as_json)


def _warn(faults: Iterable[dict[str, Any]]) -> None:
    for fault in faults:
        line = f"line {fault['line']}: " if fault.get("line") else ""
        job = f"job {fault['job']!r}: " if fault.get("job") else ""
        err.print(f"warning: {line}{job}{fault['message']}", style="yellow", markup=False)


def _follow(client: Client, identifier: str, *, quiet: bool) -> dict[str, Any]:
    """Show an operation's progress until it ends; Ctrl-C leaves it running."""
    hidden = quiet or not err.is_terminal
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    said: set[str] = set()
    operation: dict[str, Any] = {}
    try:
        with Progress(*columns, TimeElapsedColumn(), console=err, transient=True, disable=hidden) as bar:
            task = bar.add_task("working", total=None)
            for operation in client.follow(identifier):
                actions = [each for each in operation["actions"] if each["state"] != "kept"]
                ended = [each for each in actions if each["ended"] is not None]
                for action in ended:
                    if action["job"] not in said:
                        said.add(action["job"])
                        bar.console.print(render.action_line(action)) if not quiet else None
                bar.update(task, total=len(actions), completed=len(ended))
    except KeyboardInterrupt:
        err.print(f"\nThe operation goes on.  Look at it with: speck operation {identifier} --follow")
        raise SystemExit(INTERRUPTED) from None
    return operation


def _end(operation: dict[str, Any], as_json: bool) -> None:
    _show(operation, [render.operation_summary(operation)], as_json)
    raise SystemExit(0 if operation["state"] == "succeeded" else ERROR)


def main() -> None:
    """The console script."""
    try:
        code = cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()  # exit code 1, since 2 means that a plan has changes
        code = ERROR
    except (click.Abort, KeyboardInterrupt):
        err.print("interrupted")
        code = INTERRUPTED
    except RequestRefused as error:
        _complain(error, [_fault_line(fault) for fault in error.faults])
        code = ERROR
    except InvalidInput as error:
        _complain(error, [str(fault) for fault in error.faults])
        code = ERROR
    except SpeckError as error:
        _complain(error, [])
        code = ERROR
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = ERROR
    except OSError as error:
        # A file or directory that a user named, of which nobody below knows more than the system says.
        _complain(SpeckError(f"{error.filename or 'the system'}: {error.strerror or error}"), [])
        code = ERROR
    sys.exit(code or 0)


def _fault_line(fault: dict[str, Any]) -> str:
    line = f"line {fault['line']}: " if fault.get("line") else ""
    job = f"job {fault['job']!r}: " if fault.get("job") else ""
    return f"{line}{job}{fault['message']}"


def _complain(error: Exception, faults: list[str]) -> None:
    for text in faults or [str(error)]:
        err.print(f"error: {text}", style="red", markup=False)


if __name__ == "__main__":
    main()
