"""The command line: a client of the REST interface, with data on stdout and diagnostics on stderr."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import click

import speck
from speck.cli import (
    adaptation,
    completion,
    compositions,
    doctor,
    history,
    init,
    jobs,
    local,
    logs,
    placement,
    profile,
    serve,
    sites,
    split,
    store,
    token,
    top,
    validate,
    watch,
)
from speck.cli.completion import PROGRAM
from speck.cli.errors import report
from speck.cli.options import INTERRUPTED
from speck.cli.terminal import err, escape_unencodable
from speck.client import DEFAULT_URL, Client
from speck.server.tokens import token_of


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(speck.__version__, prog_name="speck")
@click.option(
    "--server",
    envvar=["SPECK_URL", "SPECK_SERVER"],
    metavar="URL",
    default=DEFAULT_URL,
    show_default=True,
    help="Address of the server [or SPECK_URL].",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="File with the token that the server requires [or SPECK_TOKEN_FILE, or the token in SPECK_TOKEN].",
)
@click.option(
    "--ca",
    envvar="SPECK_CA",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="PEM file of the authority that signed the server's certificate [or SPECK_CA].",
)
@click.pass_context
def cli(context: click.Context, server: str, token_file: Path | None, ca: Path | None) -> None:
    """Compose one streaming application out of jobs on different engines at different sites."""
    context.obj = Client(server, partial(token_of, os.environ, token_file), ca)


for command in (
    serve.serve,
    compositions.plan,
    compositions.apply,
    compositions.show_operation,
    compositions.compositions,
    compositions.delete,
    compositions.left_behind,
    placement.place,
    placement.advise,
    placement.accept,
    adaptation.adapt,
    placement.policies,
    placement.pin,
    placement.unpin,
    history.history,
    history.diff,
    history.rollback,
    history.operations,
    history.events,
    jobs.jobs,
    jobs.show,
    jobs.graph,
    watch.watch,
    top.top,
    logs.logs,
    profile.profile,
    sites.sites,
    split.split,
    doctor.doctor,
    init.init,
    validate.validate,
    completion.completion,
    store.store,
    token.token,
    local.local,
    local.demo,
):
    cli.add_command(command)


def main() -> None:
    """The console script."""
    escape_unencodable()
    code = _run()
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the pipe has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _run() -> int:
    try:
        return cli.main(prog_name=PROGRAM, standalone_mode=False) or 0
    except SystemExit as ended:
        return int(ended.code or 0)
    except Exception as error:
        if os.environ.get("SPECK_DEBUG"):
            raise
        return report(error, as_json="--json" in sys.argv)
    except KeyboardInterrupt:
        err.print("interrupted")
        return INTERRUPTED
