"""The commands for sites on this machine."""

from __future__ import annotations

import shlex
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from speck.cli import render
from speck.cli.options import DEFAULT_DIRECTORY, json_option
from speck.cli.output import show_data
from speck.cli.terminal import err
from speck.cli.waiting import waiting
from speck.errors import LocalError

if TYPE_CHECKING:
    from speck.local.sites import LocalSites


_PATIENCE = 120.0  # s, until workers are registered
_POLL = 0.5  # s


@click.group()
def local() -> None:
    """Run engines and brokers of several sites on this machine."""


def _engine_choices(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, list[str]]:
    chosen = {}
    for value in values:
        site, equals, kinds = value.partition("=")
        if not (site and equals and kinds) or site in chosen:
            raise click.BadParameter(f"{value!r} (expected SITE=KIND or SITE=KIND,KIND, each site once)")
        chosen[site] = [kind.strip() for kind in kinds.split(",")]
    return chosen


def _broker_choices(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    chosen = {}
    for value in values:
        site, equals, kind = value.partition("=")
        if not (site and equals and kind) or site in chosen:
            raise click.BadParameter(f"{value!r} (expected SITE=KIND, each site once)")
        chosen[site] = kind
    return chosen


def _worker_bounds(
    _: click.Context, __: click.Parameter, values: tuple[str, ...]
) -> dict[str, tuple[int, int]]:
    chosen = {}
    for value in values:
        site, bounds = value.split("=", 1) if "=" in value else (value, "")
        least, most = bounds.split("-", 1) if "-" in bounds else ("", "")
        if not (site and least.isascii() and least.isdigit() and most.isascii() and most.isdigit()):
            raise click.BadParameter(f"{value!r} (expected SITE=MIN-MAX, such as A=1-4)")
        chosen[site] = (int(least), int(most))
    return chosen


_directory = click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_DIRECTORY / "local",
    show_default=True,
    help="Directory for all files.",
)


@local.command()
@click.option(
    "--sites",
    type=int,
    help="Number of sites; they are named A, B, C, ... [default: those already in the directory; in a new "
    "one 2, or up to the last one that --engine, --broker or --workers names].",
)
@click.option(
    "--engine",
    "engines",
    metavar="SITE=KIND[,KIND]",
    multiple=True,
    callback=_engine_choices,
    help=(
        "A site's engines, each spark-connect, spark-standalone, flink or flink-small (one process) "
        "[default: spark-connect]."
    ),
)
@click.option(
    "--workers",
    metavar="SITE=MIN-MAX",
    multiple=True,
    callback=_worker_bounds,
    help="Workers of a site's engine (flink or spark-standalone), whose number follows its jobs.",
)
@click.option(
    "--broker",
    "brokers",
    metavar="SITE=KIND",
    multiple=True,
    callback=_broker_choices,
    help="A site's broker, mqtt or kafka [default: mqtt].",
)
@click.option("--heap", default="600m", show_default=True, help="Java heap of each engine.")
@click.option(
    "--agents", is_flag=True, help="Run an agent at each site, which restarts its jobs without a server."
)
@_directory
@json_option
def up(
    sites: int | None,
    engines: dict[str, list[str]],
    workers: dict[str, tuple[int, int]],
    brokers: dict[str, str],
    heap: str,
    agents: bool,
    directory: Path,
    as_json: bool,
) -> None:
    """Start engines and a broker for each site, and write the site inventory.

    Two sites with Spark need 2 GB of free memory.
    """
    from speck import local as machine
    from speck.local.request import number_of_sites

    def progress(text: str) -> None:
        err.print(text, markup=False)

    found = machine.status(directory)
    names: int | list[str] = number_of_sites((*engines, *brokers, *workers)) if sites is None else sites
    if sites is None and found.sites:
        names = [each.name for each in found.sites]
        engines = {each.name: [server.kind for server in each.engines] for each in found.sites} | engines
        brokers = {each.name: each.broker.kind for each in found.sites} | brokers
        agents |= bool(found.agents)
    with _ended_in_order(), waiting("starting engines and brokers"):
        started = machine.up(
            directory,
            names,
            engines=engines,
            brokers=brokers,
            heap=heap,
            workers=workers,
            with_agents=agents,
            progress=progress,
        )
    _show_local(started, as_json)
    if not as_json:
        serve = shlex.join(("speck", "serve", "--sites", str(started.inventory), *started.agent_options))
        err.print(f"site inventory: {started.inventory}\nnext: {serve}", markup=False)


@local.command()
@_directory
def down(directory: Path) -> None:
    """Stop all processes that `speck local up` started, even after a crash."""
    from speck import local as machine

    found = machine.status(directory)
    # Not the processes: an engine has as many children as its jobs happened to need.
    running = sum(each.pid is not None for each in (*found.servers, *found.workers, *found.agents))
    with waiting("stopping engines and brokers"):
        stopped = machine.down(directory, progress=lambda text: err.print(text, markup=False))
    if running:
        err.print(f"{running} server{'s' * (running != 1)} stopped")
    elif stopped:  # children of servers that ended by themselves
        err.print(f"{len(stopped)} remaining process{'es' * (len(stopped) != 1)} stopped")
    else:
        err.print(f"nothing runs in {directory}", markup=False)


@local.command()
@_directory
@json_option
def status(directory: Path, as_json: bool) -> None:
    """Show the sites of this machine."""
    from speck import local as machine

    found = machine.status(directory)
    _show_local(found, as_json)
    if not found.sites and not as_json:
        err.print(f"no sites in {directory} (speck local up starts some)", markup=False)


@local.command()
@click.argument("site")
@click.argument("count", type=click.IntRange(0))
@click.option(
    "--engine", default="", metavar="ADDRESS", help="The engine, if several of the site have workers."
)
@click.option("--stop", multiple=True, metavar="ID", help="Worker to stop first; may be repeated.")
@click.option("--no-wait", is_flag=True, help="Do not wait until the engine has registered them.")
@_directory
def workers(
    site: str, count: int, engine: str, stop: tuple[str, ...], no_wait: bool, directory: Path
) -> None:
    """Start or stop workers of a site until COUNT run; dead workers are replaced.

    The site must have been started with `speck local up --workers`.
    """
    from speck import local as machine

    def progress(text: str) -> None:
        err.print(text, markup=False)

    with waiting(f"starting or stopping workers of site {site}"):
        changed = machine.scale(directory, site, count, engine=engine, stop=stop, progress=progress)
        if not no_wait:
            _await_workers(directory, site, engine, count)
    workers_text = f"{count} worker{'s' * (count != 1)} of site {site}"
    err.print(f"{workers_text}, {len(changed)} started or stopped", markup=False)


def _await_workers(directory: Path, site: str, engine: str, count: int) -> None:
    """Wait until the engine lists COUNT workers."""
    from speck.binder import Capability, installed
    from speck.binder.pool import BinderPool
    from speck.local.workers import address_of
    from speck.schema.inventory import read_inventory

    address = address_of(directory, site, engine)
    pool = BinderPool(installed(), read_inventory(directory / "sites.yaml"))
    try:
        binder = pool.engine_for(address)
        deadline = time.monotonic() + _PATIENCE
        lists = Capability.WORKERS in binder.capabilities
        while lists and (found := len(binder.workers())) != count:
            if time.monotonic() > deadline:
                raise LocalError(f"{address} lists {found} workers after {_PATIENCE:g} s (expected {count})")
            time.sleep(_POLL)
    finally:
        pool.close()


@local.command()
def prepare() -> None:
    """Archive the engines' Java classes once (a minute), to halve the CPU time of each start."""
    from speck.local import prepare as prepare_all

    with _ended_in_order(), waiting("archiving classes"):
        prepared = prepare_all(progress=lambda text: err.print(text, markup=False))
    err.print(f"prepared: {', '.join(prepared)}")


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Let SIGTERM, and SIGHUP of a terminal that is closed, interrupt as Ctrl-C does.

    The servers that have been started are stopped then: the end of this process alone would leave them.  A
    signal that is ignored, as SIGHUP under nohup, stays ignored.
    """
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP)}
    handled = [number for number, handler in before.items() if handler is not signal.SIG_IGN]

    def interrupt(*_: object) -> None:
        # A closed terminal sends one, and its shell another: that must not cut the stop short.
        for each in handled:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    try:
        for number in handled:
            signal.signal(number, interrupt)
        yield
    finally:
        for number in handled:
            signal.signal(number, before[number])


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
        for each in (*sites.servers, *sites.workers, *sites.agents)
    ]
    show_data(servers, [render.servers_table(servers)], as_json)
