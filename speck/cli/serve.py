"""The command that runs the server."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from speck.apply.state_transfer import STATE_LIMIT
from speck.cli.options import DEFAULT_DIRECTORY, default_sites
from speck.cli.variables import values, variables_options
from speck.core.quotas import Quotas
from speck.server.tls import Certificate
from speck.server.tokens import TokenFile, Tokens, token_of
from speck.store import Bounds

_FILE = click.Path(dir_okay=False, path_type=Path)


def _most(name: str, default: int, text: str) -> Callable[[Any], Any]:
    return click.option(name, type=click.IntRange(1), default=default, show_default=True, help=text)


def _keep(name: str, default: int, text: str) -> Callable[[Any], Any]:
    return click.option(
        name, type=click.IntRange(1, 1_000_000), default=default, show_default=True, help=text
    )


@click.command()
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
@variables_options
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
@_keep("--keep-revisions", Bounds().revisions, "Revisions to keep of each composition.")
@_keep("--keep-operations", Bounds().operations, "Operations of users to keep.")
@_keep("--keep-events", Bounds().events, "Entries of the audit log to keep, of what users did.")
@_keep("--keep-loop-operations", Bounds().healings, "Operations of the loop by itself to keep, besides.")
@_keep("--keep-loop-events", Bounds().loop_events, "Entries of the audit log to keep, of what the loop did.")
@click.option(
    "--drain",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    default=30.0,
    show_default=True,
    help="How long a job that is to read elsewhere may take to work off what waits for it; 0 gives that up.",
)
@click.option(
    "--period",
    type=click.FloatRange(min=0, max=3600),
    metavar="SECONDS",
    help="Time between two rounds that look at all jobs and heal them; 0: none [default: 9.5].",
)
@click.option(
    "--state-limit",
    type=click.IntRange(0, 1024),
    metavar="MIB",
    default=STATE_LIMIT >> 20,
    show_default=True,
    help="Largest state that is carried between sites that share no storage.",
)
@click.option(
    "--token-file", type=_FILE, help="File with a token, which lets in [or SPECK_TOKEN_FILE, or SPECK_TOKEN]."
)
@click.option("--tokens", type=_FILE, help="File of several tokens with names and roles (speck token add).")
@click.option("--tls-cert", type=_FILE, help="Certificate (PEM, its chain included), to speak HTTPS.")
@click.option("--tls-key", type=_FILE, help="The key of that certificate (PEM, without a password).")
@click.option(
    "--allow-host",
    "allowed_hosts",
    metavar="NAME",
    multiple=True,
    help="A name under which the server is reached, besides its own; may be given again.",
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0),
    metavar="REQUESTS",
    help="Requests/s that one client may make; 0: any number [default: any on loopback, 100 beyond].",
)
@_most("--max-operations", Quotas().operations, "Operations of users at work at once.")
@_most("--max-jobs", Quotas().jobs, "Jobs in all.")
@_most("--max-compositions", Quotas().compositions, "Compositions in all.")
@click.option("-v", "--verbose", is_flag=True, help="Log from level info on.")
@click.option(
    "--log-level",
    type=click.Choice(("debug", "info", "warning", "error")),
    help="Log from this level on [default: warning].",
)
@click.option(
    "--log-format",
    type=click.Choice(("text", "json")),
    default="text",
    show_default=True,
    help="Log lines for people, or JSON objects for machines; both on standard error.",
)
def serve(
    host: str,
    port: int,
    data_dir: Path,
    sites: Path | None,
    env_files: tuple[Path, ...],
    settings: tuple[str, ...],
    roots: tuple[Path, ...],
    advertise: str | None,
    state_limit: int,
    keep_revisions: int,
    keep_operations: int,
    keep_events: int,
    keep_loop_operations: int,
    keep_loop_events: int,
    drain: float,
    period: float | None,
    token_file: Path | None,
    tokens: Path | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    allowed_hosts: tuple[str, ...],
    rate: float | None,
    max_operations: int,
    max_jobs: int,
    max_compositions: int,
    verbose: bool,
    log_level: str | None,
    log_format: str,
) -> None:
    """Run the server."""
    from speck.logs import configure
    from speck.server.process import serve as run

    sites = sites or default_sites()
    configure(log_format, log_level or ("info" if verbose else "warning"))
    run(
        data_dir=data_dir,
        sites=sites,
        variables=values(env_files, settings, sites),
        roots=roots,
        host=host,
        port=port,
        tokens=_tokens(tokens, token_file),
        certificate=_certificate(tls_cert, tls_key),
        allowed_hosts=allowed_hosts,
        rate=rate,
        limits=Quotas(max_operations, max_jobs, max_compositions),
        advertise=advertise,
        state_limit=state_limit << 20,
        bounds=Bounds(keep_revisions, keep_operations, keep_events, keep_loop_operations, keep_loop_events),
        drain=drain,
        period=period,
        ready=lambda url: click.echo(f"SpecK serves {url}"),
    )


def _tokens(named: Path | None, file: Path | None) -> Tokens | None:
    """Those of a file with names; or else the one that is given in another way, if any."""
    if named is not None and file is not None:
        raise click.UsageError("--tokens and --token-file cannot be given both.")
    if named is not None:
        return TokenFile(named)
    token = token_of(os.environ, file)
    return Tokens.single(token) if token else None


def _certificate(certificate: Path | None, key: Path | None) -> Certificate | None:
    if (certificate is None) != (key is None):
        raise click.UsageError("--tls-cert and --tls-key belong together.")
    return Certificate(certificate, key) if certificate is not None and key is not None else None
